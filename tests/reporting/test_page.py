"""The page: one file, no network, every string as text, every array as it was."""

import base64
import hashlib
import html
import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import nearcal as nc
from nearcal.diagnostics.features import Feature
from nearcal.reporting._explorer import _axis, choose_k, pack_numbers, pack_scaled
from nearcal.reporting._page import Markup, element, embed_json, join, shorten, shorten_all
from tests.reporting.cases import HOSTILE, hostile_report, make


class Elements(HTMLParser):
    """Elements with their attributes, and the text outside scripts and styles."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.text, self.inside = [], [], None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.inside = tag

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside not in ("script", "style"):
            self.text.append(data)


def unpack(packed):
    """What page/arrays.js does."""
    raw = np.frombuffer(base64.b64decode(packed["data"]), dtype=np.dtype(packed["kind"]).newbyteorder("<"))
    if "values" in packed:
        return np.array([np.nan if value is None else value for value in packed["values"]])[raw]
    if "low" in packed:
        return packed["low"] + raw * (packed["high"] - packed["low"]) / 65535
    return raw


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


@pytest.fixture(scope="module")
def local():
    """A report before and after, with its ingredients."""
    dist, y, features = make(1500, 1, "places")
    space = np.column_stack([features["x"], np.random.default_rng(2).normal(size=1500)])
    cal, y_cal, features_cal = make(1500, 2, "places")
    space_cal = np.column_stack([features_cal["x"], np.zeros(1500)])
    out = nc.LocalRecalibrator(k=200, quantile_rule="predictive").fit(cal, y_cal, space_cal).recalibrate(dist, space)
    report = nc.report({"base": dist, "local": out}, y, space, features=features, k=50)
    return report, dist, out, y, space, features


# ---- strings ----------------------------------------------------------------------------------------------------


def test_hostile_strings_stay_text():
    page = hostile_report().html
    found = Elements(page)
    tags = [tag for tag, _ in found.elements]
    assert tags.count("script") == 2
    assert not {"img", "textarea", "iframe", "link"} & set(tags)
    assert not [name for _, attributes in found.elements for name in attributes if name.startswith("on")]
    text = "".join(found.text)
    assert HOSTILE["title"] in text
    for name in ("method", "feature"):
        assert shorten(HOSTILE[name]) in text
    data = data_of(page)
    assert data["response"] == HOSTILE["response"]
    assert [axis["name"] for axis in data["axes"]] == [HOSTILE["feature"], shorten(HOSTILE["long"]), "__proto__"]
    assert shorten(HOSTILE["category"]) in data["axes"][1]["levels"]


def test_embedded_json_cannot_end_its_element():
    text = embed_json({"a": "</script><!-- & \u2028"})
    assert not set("<>&") & set(text)
    assert json.loads(text) == {"a": "</script><!-- & \u2028"}


def test_markup_escapes_all_but_itself():
    made = element("p", "<i>", element("b", "x & y"), ["1", 2], title='"><script>')
    assert made == '<p title="&quot;&gt;&lt;script&gt;">&lt;i&gt;<b>x &amp; y</b>12</p>'
    assert join(Markup("<hr>"), "<hr>") == "<hr>&lt;hr&gt;"


def test_names_are_shortened_and_still_differ():
    long, longer = HOSTILE["long"], HOSTILE["longer"]
    shown = shorten_all([long, longer, "short", "a\nb\u202ec"])
    assert len(set(shown)) == 4
    assert max(len(name) for name in shown) <= 60
    assert shown[2:] == ["short", "a\ufffdb\ufffdc"]
    dist, y, _ = make(100, 1, "right")
    report = nc.report({long: dist, longer: dist}, y)
    assert report.evaluation["method"].tolist()[:2] == [long, longer]
    assert long not in report.html


def test_a_notebook_shows_the_page_in_a_frame(local):
    shown = local[0]._repr_html_()
    assert html.unescape(re.search(r'srcdoc="(.*?)"', shown, re.DOTALL)[1]) == local[0].html
    assert 'sandbox="allow-scripts"' in shown


def test_the_choice_is_shown_where_it_is_known(local):
    report, dist, out, y, space, _ = local
    heading = "How recalibration was chosen"
    assert re.search(rf"<section [^>]* hidden>\n<h2[^>]*>{heading}", report.html)
    hostile = HOSTILE["feature"]
    tuning = nc.tune(dist[:300], y[:300], {hostile: space[:300]}, k=[20, 50], scaling=("standard", "relevance"))
    page = nc.report({"base": dist, "local": out}, y, tuning=tuning).html
    assert not re.search(rf"<section [^>]* hidden>\n<h2[^>]*>{heading}", page)
    assert [tag for tag, _ in Elements(page).elements].count("script") == 2
    text = "".join(Elements(page).text)
    assert tuning.reason in text
    for row in tuning.evidence:
        assert row["kind"] + (" (chosen)" if row["chosen"] else "") in text
        assert row["best"] in text
    with pytest.raises(nc.InvalidInputError, match=r"tuning must be what nearcal\.tune returns, .* got str"):
        nc.report(dist, y, tuning=tuning.reason)


# ---- network ----------------------------------------------------------------------------------------------------


def test_the_policy_lets_in_this_style_and_this_script_alone(local):
    page = local[0].html
    policy = next(a["content"] for tag, a in Elements(page).elements if a.get("http-equiv"))
    assert policy.startswith("default-src 'none'")
    for pattern in (r"<style>(.*?)</style>", r'<script type="module">(.*?)</script>'):
        digest = hashlib.sha256(re.search(pattern, page, re.DOTALL)[1].encode()).digest()
        assert f"'sha256-{base64.b64encode(digest).decode()}'" in policy
    assert not re.search(r'\b(src|href)="(?!#)', page)
    assert "style=" not in page


# ---- arrays -----------------------------------------------------------------------------------------------------


def test_numbers_travel_as_they_are():
    few, many = np.array([1.9, np.nan, 0.1, 1.9]), np.random.default_rng(1).normal(size=5000)
    np.testing.assert_array_equal(unpack(pack_numbers(few)), few)
    np.testing.assert_array_equal(unpack(pack_numbers(many)), many.astype(np.float32))
    scaled = unpack(pack_scaled(many, many.min(), many.max()))
    assert np.abs(scaled - many).max() <= np.ptp(many) / 65535 / 2 * (1 + 1e-9)
    np.testing.assert_array_equal(unpack(pack_scaled(np.full(3, 7.0), 7.0, 7.0)), 7.0)


def test_the_explorer_knows_every_row(local):
    report, dist, out, y, space, features = local
    data = data_of(report.html)
    np.testing.assert_allclose(unpack(data["y"]), y, atol=1e-6)
    np.testing.assert_array_equal(unpack(data["rows"]), np.arange(1500))
    np.testing.assert_allclose(unpack(data["pit"][0]), nc.diagnostics.pit(dist, y), atol=1e-5)
    np.testing.assert_allclose(unpack(data["axes"][0]), features["x"], atol=1e-7)
    assert data["axes"][1]["levels"] == ["a", "b", "c"]
    np.testing.assert_array_equal(np.array(["a", "b", "c"])[unpack(data["axes"][1])], features["group"])
    positions = np.column_stack([unpack(column) for column in data["space"]])
    np.testing.assert_allclose(positions, (space - space.mean(axis=0)) / space.std(axis=0), atol=1e-4)
    for m, method in enumerate((dist, out)):
        table = nc.diagnostics.neighborhood_calibration(method, y, space, 50, coverage=0.9)
        local_figures = {name: unpack(data["local"][name]["figures"][m]) for name in ("bias", "spread", "coverage")}
        np.testing.assert_allclose(local_figures["bias"], table["mean_z"], atol=1e-4)
        np.testing.assert_allclose(local_figures["spread"], table["std_z"], atol=1e-4)
        np.testing.assert_allclose(local_figures["coverage"], table["coverage"], atol=1e-4)


def test_the_explorer_knows_quantiles_and_intervals(local):
    report, dist, out, *_ = local
    data = data_of(report.html)
    low, high = unpack(data["low"]).astype(float), unpack(data["high"]).astype(float)
    shares = unpack(data["quantiles"]).reshape(1500, 2, -1)
    values = low[:, None, None] + shares * (high - low)[:, None, None]
    for m, method in enumerate((dist, out)):
        expected = np.column_stack([method.from_z(np.tile(data["scores"], (1500, 1))), *method.interval(0.9)])
        np.testing.assert_allclose(values[:, m], expected, atol=2e-5 * (high - low).max())


def test_of_many_rows_a_sample_is_shown_and_all_are_tested():
    dist, y, features = make(3000, 1, "places")
    report = nc.report(dist, y, features=features, points=500)
    data = data_of(report.html)
    rows = unpack(data["rows"])
    assert (data["n"], data["total"], data["k"], len(np.unique(rows))) == (500, 3000, choose_k(500), 500)
    np.testing.assert_allclose(unpack(data["y"]), y[rows], atol=1e-6)
    assert "3,000 observations" in report.html
    assert nc.report(dist, y, features=features, points=500).html == report.html


def test_wide_spaces_are_reduced_and_the_page_says_so():
    dist, y, _ = make(300, 1, "right")
    data = data_of(nc.report(dist, y, np.random.default_rng(1).normal(size=(300, 40))).html)
    assert (data["dimensions"], data["columns"], len(data["space"])) == (12, 40, 12)
    assert 0.3 < data["kept"] < 0.6
    assert len(data["axes"]) == 24 + 2


# ---- the function -----------------------------------------------------------------------------------------------


def test_saves_as_a_whole_or_not_at_all(local, tmp_path):
    report = local[0]
    path = report.save(tmp_path / "report.html")
    assert path.read_text(encoding="utf-8") == report.html
    with pytest.raises(nc.ArtefactError, match="existing directory"):
        report.save(tmp_path / "nowhere" / "report.html")
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_what_is_given_may_be_little():
    dist, y, features = make(200, 1, "right")
    assert data_of(nc.report({"a": dist}, y).html) is None
    words = nc.report(dist, y, features={"group": features["group"]})  # nothing that has a place
    assert data_of(words.html) is None
    frame = nc.report(dist, y, features=pd.DataFrame(features))
    assert [axis["name"] for axis in data_of(frame.html)["axes"]] == ["x", "group"]
    table = nc.report(dist, y, pd.DataFrame({"x": features["x"]}))
    assert [axis["name"] for axis in data_of(table.html)["axes"]] == ["x"]
    named = nc.report(dist, y, np.zeros((200, 2)), names=["p", "q"])  # a space without extent
    assert [axis["name"] for axis in data_of(named.html)["axes"]] == ["p", "q"]


def test_infinite_intervals_and_impossible_observations():
    rng = np.random.default_rng(1)
    y = rng.gamma(2.0, size=300)
    dist = nc.Gamma(np.full(300, 2.0), 1.0)
    out = nc.ConformalRecalibrator().fit(dist[:15], y[:15]).recalibrate(dist)
    y[3] = -1.0
    report = nc.report({"base": dist, "conformal": out}, y, y)
    assert np.isfinite(unpack(data_of(report.html)["high"])).all()


def test_bad_arguments():
    dist, y, features = make(100, 1, "right")
    with pytest.raises(nc.InvalidInputError, match="dists must be a distribution or a non-empty mapping"):
        nc.report({}, y)
    with pytest.raises(nc.InvalidInputError, match=r"dists\['a'\] must be a nearcal distribution"):
        nc.report({"a": y}, y)
    with pytest.raises(nc.InvalidInputError, match=r"y must have shape \(100,\)"):
        nc.report(dist, y[:9])
    with pytest.raises(nc.InvalidParameterError, match="points must be a whole number >= 1"):
        nc.report(dist, y, points=0)
    with pytest.raises(nc.InvalidParameterError, match="k must be at most the number of rows, 100, got 101"):
        nc.report(dist, y, features=features, k=101)
    with pytest.raises(nc.InvalidInputError, match="dists must all have 100 rows"):
        nc.report({"a": dist, "b": dist[:9], "c": dist}, y)


def test_thousands_of_texts_that_begin_alike_stay_apart():
    # quadratic before: each text was looked for among all those before it
    names = [f"{'the same long beginning ' * 4}{j}" for j in range(20_000)]
    assert len(set(shorten_all(names))) == 20_000


def test_a_feature_may_have_more_levels_than_two_bytes_count():
    n = 70_000
    feature = Feature("name", np.arange(n, dtype=float), tuple(map(str, range(n))), is_ordered=False)
    assert _axis(feature, np.arange(n - 3, n))["kind"] == "uint32"


# ---- regions, units, text -------------------------------------------------------------------------------------------


def test_all_figures_are_of_one_set_of_regions(local):
    """The demo said 89.9% in the table where the verdict said 84.6%: clusters there, described regions here."""
    report = local[0]
    found = {(row["metric"], row["method"]): row["value"] for row in report.evaluation}
    for method, key in (("base", "first_coverage"), ("local", "last_coverage")):
        assert found["worst_region_coverage", method] == pytest.approx(report.regions[key].min())
        error = np.abs(report.regions[key] - 0.9).mean()
        assert found["regional_coverage_error", method] == pytest.approx(error)


def test_what_is_printed_is_what_the_page_says(local):
    report = local[0]
    text = "".join(Elements(report.html).text).replace("\u00a0", " ")
    for line in str(report.verdict).splitlines():
        assert line.rstrip(".") in str(report)
    for row in report.regions:
        (line,) = [line for line in str(report).splitlines() if line.startswith(f"{row['region']}  ")]
        assert row["region"] in text
        for share in (row["first_coverage"], row["last_coverage"]):
            assert f"{100 * share:.1f}".removesuffix(".0") + "%" in line
    assert report.text == str(report)


def test_regions_that_are_given_take_the_place_of_those_described():
    dist, y, features = make(900, 1, "places")
    for regions, names in ((features["group"], {"a", "b", "c"}), (4, {f"cluster {j}" for j in range(4)})):
        report = nc.report(dist, y, features["x"], regions=regions)
        assert set(report.regions["region"]) == names
        assert report.regions["n"].sum() == 900
        least = report.evaluation["value"][report.evaluation["metric"] == "worst_region_coverage"][0]
        assert least == pytest.approx(report.regions["first_coverage"].min())
        assert "Regions were given" in report.html
        assert "small tree" not in report.html


def test_units_stand_beside_what_has_some():
    dist, y, features = make(300, 1, "places")
    plain, report = (nc.report(dist, y, features=features, response="price", unit=unit) for unit in ("", "<dollars>"))
    assert data_of(report.html)["response"] == "price (<dollars>)"
    assert data_of(plain.html)["response"] == "price"
    text = "".join(Elements(report.html).text)
    for words in ("(CRPS)", "(RMSE)", "Interval score", "Mean width of the intervals"):
        assert f"{words}, <dollars>" in text
    assert "Coverage of the intervals, " not in text
    assert "dollars" not in plain.html


@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.99])
def test_the_scale_of_coverages_has_units_and_the_nominal_one(coverage):
    dist, y, features = make(900, 1, "places")
    page = nc.report(dist, y, features=features, coverage=coverage).html
    scale = re.search(r'<svg [^>]*aria-label="Scale.*?</svg>', page, re.DOTALL)[0]
    labels = re.findall(r"<text[^>]*>(.*?)</text>", scale)
    assert f"{100 * coverage:.3g}%" in labels
    nominal = re.findall(r'<line class="nominal" x1="([\d.]+)"', page)
    assert len(nominal) == 1 + len(nc.report(dist, y, features=features, coverage=coverage).regions)
    assert len(set(nominal)) == 1  # one line, from the scale down through all strips


@pytest.mark.parametrize("place", ["title", "response", "unit", "method", "feature", "category"])
def test_halves_of_characters_can_be_saved(place, tmp_path):
    """A lone surrogate, as in names of files that are not in UTF-8, can stand in no file."""
    dist, y, features = make(300, 1, "places")
    half = {"title": "t", "response": "r", "unit": "u", "method": "m", "feature": "f", "category": "c"}
    half[place] += "\udce9\ud800"
    columns = {half["feature"]: features["x"], "g": np.where(features["x"] > 0.7, half["category"], "b")}
    texts = {name: half[name] for name in ("title", "response", "unit")}
    path = nc.report({half["method"]: dist, "other": dist}, y, features=columns, **texts).save(tmp_path / "it.html")
    assert half[place].replace("\udce9\ud800", "\ufffd\ufffd") in path.read_text(encoding="utf-8")


def test_texts_that_are_none_are_refused():
    dist, y, _ = make(50, 1, "right")
    for name in ("title", "response", "unit"):
        with pytest.raises(nc.InvalidInputError, match=f"{name} must be a string, got NoneType"):
            nc.report(dist, y, **{name: None})
    with pytest.raises(nc.InvalidParameterError, match="rng must be a whole number >= 0, got 'a'"):
        nc.report(dist, y, rng="a")
    with pytest.raises(nc.InvalidInputError, match=r"names must be a sequence of names, .* got 'x'"):
        nc.report(dist, y, y, names="x")
    with pytest.raises(nc.InvalidInputError, match="path must be a string or a path, got float"):
        nc.report(dist, y, path=1.5)


def test_a_space_of_categories_describes_regions():
    dist, y, features = make(4000, 1, "places")
    half = np.where(features["x"] > 0.7, "right", "left")
    found = nc.report(dist, y, half)
    assert set(found.regions["region"]) == {"x0 = left", "x0 = right"}
    assert data_of(found.html) is None  # nothing that has a place
    for space in (pd.Series(half, name="half"), pd.DataFrame({"half": half, "other": features["x"] % 0.1})):
        found = nc.report(dist, y, space)
        assert "half = right" in set(found.regions["region"])
    assert [axis["name"] for axis in data_of(found.html)["axes"]] == ["half", "other"]
    assert data_of(found.html)["columns"] == 1


def test_numbers_of_any_size():
    dist, y, features = make(300, 1, "places")
    for size in (1e-310, 1e-200, 1e200, 1e299):
        report = nc.report(nc.Normal(np.zeros(300), size), y * size, features["x"] * size)
        data = data_of(report.html)
        np.testing.assert_allclose(unpack(data["y"]), y * size, rtol=1e-6)
        usual = data_of(nc.report(nc.Normal(np.zeros(300), 1.0), y, features["x"]).html)
        if size > 1e-300:  # below, numbers have few digits
            for name in ("bias", "coverage"):
                packed, expected = (unpack(one["local"][name]["figures"][0]) for one in (data, usual))
                np.testing.assert_allclose(packed, expected, atol=1e-9)
    beyond = nc.report(dist, y, features={"x": features["x"] * 1e308})
    assert data_of(beyond.html) is None  # no map can be drawn of it; the rest of the page stands


def test_two_rows_are_enough_for_a_page():
    report = nc.report(nc.Normal([0.0, 0.0], 1.0), [0.1, 0.2], [0.0, 1.0])
    assert "nan" not in "".join(Elements(report.html).text)
