"""The report over hostile strings and extreme numbers: a page that parses, in which text is text, or an error.

Every place where a user can put a string is a subject; all others are hostile too, now and then. Some pages are opened
in the system's chromium: no script but ours runs, nothing is asked for.
"""

import inspect
import json
import re
import shutil
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import nearcal as nc

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

# places of strings, and the parameter of nc.report that each is in
SUBJECTS = {
    "title": "title",
    "response": "response",
    "unit": "unit",
    "method": "dists",
    "feature": "features",
    "category": "features",
    "column": "space",
    "name": "names",
    "level": "levels",
    "group": "regions",
    "layer": "tuning",
}
NO_STRINGS = {"y", "coverage", "n_cal", "k", "points", "path", "rng", "groups", "time"}  # or none that are shown

STRINGS = [
    "",
    " ",
    "\0",
    "a\r\nb",
    "\x1b[31m",
    "\ud800",
    "\udfff\ud800",
    "\ufeff\ufffe\uffff",
    "\u202eabc\u202c",
    "\u2066\u2028\u2029",
    "a\u0301" * 200,
    "\U0001f3f3\ufe0f\u200d\U0001f308",
    "x" * 20_000,
    "<script>window.hacked = 1</script>",
    "</script><script>window.hacked = 1</script>",
    "</title><img src=x onerror=window.hacked=1>",
    "</style><svg/onload=window.hacked=1>",
    "<!--",
    "-->",
    "]]>",
    "<!--<script>",
    '"><b onmouseover=window.hacked=1 x="',
    "' autofocus onfocus=window.hacked=1 '",
    "&lt;script&gt;",
    "&amp;&#0;&#x110000;",
    "${title} $title $$ $",
    "{0} {x} %s %(x)s",
    "`${window.hacked = 1}`",
    "\\u003cscript\\u003e",
    "javascript:window.hacked=1",
    "__proto__",
    "constructor",
    "all rows",
    "missing",
    "nan",
    "None",
    "1e400",
]


def test_no_place_is_left_out():
    assert set(SUBJECTS.values()) | NO_STRINGS == set(inspect.signature(nc.report).parameters)


class Page(HTMLParser):
    """What stands in a page: elements, attributes, and text outside scripts."""

    VOID = frozenset({"meta", "br", "col"})

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.attributes = [], [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attributes]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attributes]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


TAGS = set(
    re.findall(
        r"\w+",
        """html head meta title style body a header div button main section h1 h2 h3 p dl dt dd table thead tbody tr th
        td ul li b figure figcaption svg rect line text path circle canvas form label select option noscript span
        script""",
    )
)


def check(html):
    """Refuse a page that has elements or attributes of a user's making, or that no file could hold."""
    html.encode()
    page = Page(html)
    assert set(page.tags) <= TAGS, set(page.tags) - TAGS
    assert page.tags.count("script") == 2
    assert page.tags.count("style") == page.tags.count("title") == page.tags.count("h1") == 1
    assert not [name for name in page.attributes if name.startswith("on") or name in ("src", "style", "srcdoc")]
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)[1]
    assert not set("<>&") & set(data)
    json.loads(data, parse_constant=pytest.fail)


@pytest.fixture(scope="module")
def tunings():
    """Choices among layers with hostile names."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=80)
    return [nc.tune(nc.Normal(np.zeros(80), 1.0), x, {name: x}, k=10, scaling="none") for name in STRINGS[13:22:4]]


@pytest.mark.parametrize("subject", SUBJECTS)
def test_strings(subject, fuzz, tunings):
    def attack(rng):
        report = make(rng, subject, tunings)
        if report is not None:
            check(report.html)
            assert report._repr_html_().count("<iframe") == 1
            assert str(report)

    fuzz.run(f"page, {subject}", attack, cases=2)


def make(rng, subject, tunings, n=60):
    """Return a report in which the subject is hostile and other strings sometimes; None where it was refused."""

    def text(place):
        return _choose(rng, STRINGS) if place == subject or rng.integers(4) == 0 else place

    x, y = rng.uniform(size=n), rng.normal(size=n)
    y = np.where(x > 0.5, 4 * y, y)
    dist, better = nc.Normal(np.zeros(n), 1.0), nc.Normal(np.zeros(n), 1 + 3 * (x > 0.5))
    grades = list(dict.fromkeys([text("level"), text("level"), "high"]))
    arguments = {name: text(name) for name in ("title", "response", "unit")}
    arguments["features"] = {
        text("feature"): x,
        text("feature"): np.where(x > 0.5, text("category"), text("category")),
        "grade": np.array(grades)[(x * len(grades)).astype(int)],
    }
    arguments["levels"] = {"grade": grades} if "grade" in arguments["features"] else None
    if subject == "column":
        arguments |= {"features": None, "levels": None, "space": pd.DataFrame({text("column"): x, "y": y})}
    if subject == "name":
        arguments |= {"features": None, "levels": None, "space": np.column_stack([x, y])}
        arguments["names"] = [text("name"), text("name")]
    if subject == "group":
        arguments["regions"] = np.where(x > 0.5, text("group"), text("group"))
    arguments["tuning"] = _choose(rng, tunings) if subject == "layer" else None
    try:
        return nc.report({text("method"): dist, text("method"): better}, y, **arguments)
    except nc.NearcalError:
        return None


def _choose(rng, things):
    return things[int(rng.integers(len(things)))]


SIZES = [0.0, 5e-324, 1e-310, 1e-200, 1e-30, 1.0, 1e16, 1e38, 1e155, 1e200, 1e299, 1e307]


def make_extreme(rng):
    """Return a report over numbers of any size, few rows, ties and gaps; None where it was refused."""
    n = int(_choose(rng, [2, 3, 5, 30, 120]))
    size, offset = _choose(rng, SIZES), _choose(rng, [0.0, 0.0, 1.0, 1e16, -1e300])
    y = rng.normal(size=n) * size + offset
    y[rng.integers(n, size=n // 3)] = y[0]
    scale = max(size, 1e-300) * _choose(rng, [1e-3, 1.0, 10.0])
    feature = rng.normal(size=n) * _choose(rng, SIZES)
    feature[rng.integers(n, size=_choose(rng, [0, 1, n]))] = _choose(rng, [np.nan, 0.0, 1e308, -1e308])
    arguments = {"features": {"f": feature, "g": rng.integers(3, size=n)}}
    if rng.integers(2):
        arguments["space"] = rng.normal(size=(n, int(_choose(rng, [1, 2, 15])))) * _choose(rng, SIZES)
    arguments["coverage"] = _choose(rng, [0.01, 0.5, 0.9, 0.999, 1 - 1e-12, 1e-12])
    arguments["n_cal"] = _choose(rng, [None, 1, 10, 10**9])
    arguments["regions"] = _choose(rng, [None, None, 2, n])
    try:
        dists = {"a": nc.Normal(np.full(n, offset), scale), "b": _other(rng, n, y, offset, scale)}
        return nc.report(dists, y, **arguments)
    except nc.NearcalError:
        return None


def _other(rng, n, y, offset, scale):
    kind = rng.integers(4)
    if kind == 0:
        return nc.StudentT(_choose(rng, [0.3, 1.0, 2.0, 30.0]), np.full(n, offset), scale)
    if kind == 1:
        with np.errstate(over="ignore"):  # infinite draws are refused
            return nc.Samples(offset + scale * rng.normal(size=(n, 8)), tails="empirical")
    if kind == 2:
        return nc.Normal(y, scale)
    return nc.Normal(np.full(n, offset), scale)


def test_numbers(fuzz):
    def attack(rng):
        report = make_extreme(rng)
        if report is not None:
            check(report.html)

    fuzz.run("page, numbers", attack, cases=8)


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine: pages are only parsed")
def test_in_a_browser(fuzz, tunings, tmp_path):
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])

        def attack(rng):
            is_text = rng.integers(2)
            report = make(rng, _choose(rng, list(SUBJECTS)), tunings) if is_text else make_extreme(rng)
            if report is not None:
                look(browser, report.save(tmp_path / "page.html"))

        try:
            fuzz.run("page, browser", attack, cases=1)
        finally:
            browser.close()


def look(browser, path):
    """Open a page, pick points and axes; refuse complaints, requests, and scripts of a user's."""
    page = browser.new_page()
    complaints, requests = [], []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    try:
        page.goto(path.as_uri())
        if page.locator("#explorer").is_visible():
            page.wait_for_function("document.getElementById('announcement').textContent !== ''", timeout=10_000)
            page.click("#worst")
            for axis in ("axis-x", "axis-y"):
                for place in range(min(3, page.locator(f"#{axis} option").count())):
                    page.select_option(f"#{axis}", str(place))
            assert "NaN" not in page.locator("#panel").inner_html()
        assert page.evaluate("window.hacked") is None
        assert complaints == []
        assert requests == [path.as_uri()]
    finally:
        page.close()
