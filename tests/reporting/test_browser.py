"""The page in a browser: points are picked by mouse and keys, panels follow, nothing leaves the page, text stays text.

Driven in the system's chromium; skipped where there is none.
"""

import shutil
from importlib.resources import files

import numpy as np
import pytest
from scipy import stats

import nearcal as nc
from nearcal.reporting._page import shorten
from tests.reporting.cases import HOSTILE, hostile_report, make

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine: the page is not looked at")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser):
    """Open a file, and fail at the end if anything was complained about or asked for."""
    contexts, complaints, requests = [], [], []

    def open_(path, waits=True, **options):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        if waits:
            page.wait_for_function("document.getElementById('announcement').textContent !== ''")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert complaints == []
    assert all(url.startswith("file:") and url.endswith(".html") for url in requests), requests


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A report before and after, and where it was saved."""
    dist, y, features = make(800, 1, "places")
    better = make(800, 1, "right")[0]
    path = tmp_path_factory.mktemp("report") / "report.html"
    return nc.report({"base": dist, "better": better}, y, features=features, path=path, response="price"), path


def click_map(page, x, y):
    """Click a share of the way across and down the map."""
    box = page.locator("#points").bounding_box()
    page.locator("#points").click(position={"x": x * box["width"], "y": y * box["height"]})


def picture(page):
    return page.evaluate("document.getElementById('points').toDataURL()")


def picked(page):
    return page.locator("#panel h3").first.inner_text() if page.locator("#panel h3").count() else None


def test_a_point_is_picked_with_the_mouse(open_page, saved):
    page = open_page(saved[1])
    untouched = picture(page)
    assert picked(page) is None
    click_map(page, 0.5, 0.5)
    first, chosen = picked(page), picture(page)
    assert first.startswith("Row ")
    assert chosen != untouched
    assert page.locator("#panel svg[role=img]").count() == 3
    assert "base" in page.locator("#announcement").inner_text()
    assert page.locator("#panel path.area").count() == 2
    click_map(page, 0.8, 0.3)
    assert picked(page) != first
    assert picture(page) != chosen


def test_the_panel_tells_the_truth(open_page, saved):
    dist, y, features = make(800, 1, "places")
    page = open_page(saved[1])
    click_map(page, 0.4, 0.6)
    row = int(picked(page).removeprefix("Row ").replace(",", ""))
    cells = dict(line.split("\t", 1) for line in page.locator("#panel").inner_text().split("\n") if "\t" in line)
    lower, upper = (end[row] for end in dist.interval(0.9))
    shown = cells["90% interval"].split("\t")[0].replace("−", "-").split(" to ")
    assert [float(end) for end in shown] == pytest.approx([lower, upper], rel=1e-3, abs=1e-3)
    assert float(cells["price, observed"].replace("−", "-")) == pytest.approx(y[row], rel=1e-3)
    assert float(cells["x"]) == pytest.approx(features["x"][row], rel=1e-3)
    assert cells["group"] == features["group"][row]


def test_the_keyboard_is_enough(open_page, saved):
    page = open_page(saved[1])
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "points":
            break
    assert page.evaluate("document.activeElement.id") == "points"
    page.keyboard.press("ArrowRight")
    places = [picked(page)]
    for key in ("ArrowRight", "ArrowUp", "ArrowLeft", "ArrowDown"):
        page.keyboard.press(key)
        places.append(picked(page))
        assert places[-1] != places[-2]
        assert places[-1].removeprefix("Row ").replace(",", "") in page.locator("#announcement").inner_text()
    for _ in range(120):  # to the edge, where it stays
        page.keyboard.press("ArrowRight")
    edge = picked(page)
    page.keyboard.press("ArrowRight")
    assert picked(page) == edge
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "panel"
    page.locator("#points").focus()
    page.keyboard.press("Escape")
    assert picked(page) is None
    page.keyboard.press("Home")
    assert picked(page) is not None


def test_choices_change_the_map(open_page, saved):
    page = open_page(saved[1])
    seen = {picture(page)}
    for choice, value in (("colour", "bias"), ("colour", "spread"), ("method", "1"), ("axis-x", "1"), ("axis-y", "0")):
        page.select_option(f"#{choice}", value)
        assert picture(page) not in seen, choice
        seen.add(picture(page))
    assert "Local spread of better" in page.locator("#map-caption").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_themes(open_page, saved, scheme):
    page = open_page(saved[1], color_scheme=scheme)
    brightness = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).reduce((a, b) => a + Number(b), 0) / 3"
    was_light = page.evaluate(brightness) > 128
    assert was_light == (scheme == "light")
    before = picture(page)
    page.click("#theme")
    assert (page.evaluate(brightness) > 128) != was_light
    assert picture(page) != before


def test_a_phone(open_page, saved):
    page = open_page(saved[1], viewport={"width": 390, "height": 844}, has_touch=True, device_scale_factor=2)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    box = page.locator("#points").bounding_box()
    page.locator("#points").tap(position={"x": box["width"] / 2, "y": box["height"] / 2})
    assert picked(page) is not None
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_paper_is_light_and_shows_the_map(open_page, saved):
    page = open_page(saved[1], color_scheme="dark")
    click_map(page, 0.5, 0.5)
    on_screen = picture(page)
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert not page.locator("#controls").is_visible()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert picture(page) != on_screen
    page.emulate_media(media="screen", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert picture(page) == on_screen
    assert page.pdf().startswith(b"%PDF")


def test_hostile_strings_are_shown_as_text(open_page, tmp_path):
    path = tmp_path / "hostile.html"
    hostile_report(path=path)
    page = open_page(path)
    page.click("#worst")
    for axis in ("axis-x", "axis-y"):
        for place in range(3):
            page.select_option(f"#{axis}", str(place))
    assert page.evaluate("window.hacked") is None
    assert page.title() == HOSTILE["title"]
    assert page.locator("h1").inner_text() == HOSTILE["title"]
    panel = page.locator("#panel").inner_text()
    for name in ("method", "feature", "response"):
        assert shorten(HOSTILE[name]) in panel
    assert page.locator("#panel img, #panel script, header script").count() == 0
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") == width


def test_a_notebook_runs_the_page_in_its_frame(browser, saved):
    page = browser.new_page()
    page.set_content(saved[0]._repr_html_())
    frame = page.frames[1]
    frame.wait_for_function("document.getElementById('announcement').textContent !== ''")
    frame.click("#worst")
    assert frame.locator("#panel h3").first.inner_text().startswith("Row ")
    page.close()


def test_a_page_without_explorer(open_page, tmp_path):
    dist, y, _ = make(100, 1, "right")
    path = nc.report(dist, y).save(tmp_path / "plain.html")
    page = open_page(path, waits=False)
    assert not page.locator("#explorer").is_visible()
    page.click("#theme")
    assert page.locator(".headline").inner_text().startswith("No sign of miscalibration")


# ---- the scripts' own arithmetic --------------------------------------------------------------------------------


@pytest.fixture
def scripts(browser):
    page = browser.new_page()
    for name in ("arrays.js", "scales.js", "density.js", "neighbors.js"):
        page.add_script_tag(content=files("nearcal.reporting").joinpath("page", name).read_text(encoding="utf-8"))
    yield page
    page.close()


def test_densities(scripts):
    scores = np.linspace(-2.5, 2.5, 11)
    call = "([q, s, low, high]) => densityCurve(q, s, low, high)"
    curve = np.array(scripts.evaluate(call, [(3 + 2 * scores).tolist(), scores.tolist(), -5.0, 11.0]))
    np.testing.assert_allclose(curve[:, 1], stats.norm.pdf(curve[:, 0], 3, 2), rtol=1e-3)
    skew = stats.gamma(4.0)
    quantiles = skew.ppf(stats.norm.cdf(scores))
    curve = np.array(scripts.evaluate(call, [quantiles.tolist(), scores.tolist(), 0.0, 14.0]))
    assert np.abs(curve[:, 1] - skew.pdf(curve[:, 0])).max() < 0.03
    assert scripts.evaluate(call, [[1.0] * 11, scores.tolist(), 0.0, 2.0]) is None


def test_nearest_rows(scripts):
    space = np.random.default_rng(1).normal(size=(3, 500)).astype(np.float32)
    call = "([space, row, k]) => nearestRows(space.map((c) => Float32Array.from(c)), row, k)"
    found = scripts.evaluate(call, [space.tolist(), 7, 25])
    distance = ((space - space[:, [7]]) ** 2).sum(axis=0)
    assert sorted(found) == sorted(np.argsort(distance)[:25].tolist())
    assert len(scripts.evaluate(call, [[[0.0] * 50], 3, 10])) == 10  # all equally near


def test_ticks_and_numbers(scripts):
    assert scripts.evaluate("roundTicks(0.13, 2.9, 5)") == [1, 2]
    assert scripts.evaluate("roundTicks(-0.01, 0.01, 4)") == [-0.01, -0.005, 0, 0.005, 0.01]
    # no end was in sight where a step is lost in rounding
    for low, high in ((1e16, 1e16), (1e16, 1e16 + 2), (-1e300, -1e300), (0.0, 5e-324), (1.0, 1.0 + 1e-15)):
        ticks = scripts.evaluate(f"roundTicks({low!r}, {high!r}, 5)")
        assert len(ticks) <= 12
        assert all(abs(tick - low) <= 1e-9 * abs(low) for tick in ticks)
    axis = "makeAxis({name: 'x', kind: 'uint8', data: 'AAAA', values: [VALUE]})"
    for value in (0.0, 1e16, -1e299, 1e-310):
        low, high = scripts.evaluate(f"(({{low, high}}) => [low, high])({axis.replace('VALUE', repr(value))})")
        assert low < value < high
    numbers = [1234.5678, -0.25, 1e-9, 3.2e9, 0]
    assert scripts.evaluate("(x) => x.map(formatNumber)", numbers) == ["1,235", "−0.25", "1.00e−9", "3.20e+9", "0"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_colours_are_in_order_of_lightness(scripts, theme):
    linear = (np.array(scripts.evaluate(f"makeRamp('{theme}')")) / 255) ** 2.2
    lightness = linear @ [0.2126, 0.7152, 0.0722]
    steps = np.diff(lightness)
    assert np.all(steps < 0) if theme == "light" else np.all(steps > 0)
    assert abs(lightness[-1] - lightness[0]) > 0.3
