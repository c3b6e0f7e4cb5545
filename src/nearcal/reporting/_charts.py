"""Static drawings of the page: SVG whose colours are left to the style sheet, so that it can be dark or printed."""

from collections.abc import Callable, Sequence

from nearcal._table import Table
from nearcal.reporting._judgement import Judgement
from nearcal.reporting._page import Markup, element

_STRIP = 190.0  # the width of the drawing of a region's coverage


def role(place: int, count: int) -> str:
    """Return the class of a method by its place: the last is what is judged."""
    return "after" if place == count - 1 else "before"


def pit_histogram(table: Table, name: str, kind: str, tallest: float) -> Markup:
    """Draw a histogram of PIT values over the band that chance explains; ``tallest`` is the top of the scale."""
    width, height, left, bottom = 320.0, 240.0, 26.0, 34.0
    plot_width, plot_height = width - left - 8, height - bottom - 10

    def x(u: float) -> float:
        return left + u * plot_width

    def y(density: float) -> float:
        return 10 + plot_height * (1 - density / tallest)

    lower, upper = float(table["lower"][0]), float(table["upper"][0])
    marks = [
        element("rect", class_="band", x=_n(x(0)), y=_n(y(upper)), width=_n(plot_width), height=_n(y(lower) - y(upper)))
    ]
    for row in table:
        bar = {"x": _n(x(row["left"]) + 0.6), "width": _n(plot_width / len(table) - 1.2)}
        marks.append(
            element("rect", class_=f"bar {kind}", y=_n(y(row["density"])), height=_n(y(0) - y(row["density"])), **bar)
        )
    marks.append(element("line", class_="reference", x1=_n(x(0)), x2=_n(x(1)), y1=_n(y(1)), y2=_n(y(1))))
    marks += _horizontal_axis([(x(u), f"{u:g}") for u in (0, 0.25, 0.5, 0.75, 1)], y(0), "PIT value", x(0.5), height)
    marks += [_text(left - 6, y(d) + 4, f"{d:g}", "tick end") for d in (0, 1)]
    outside = sum(not lower <= row["density"] <= upper for row in table)
    label = f"PIT histogram of {name}: {outside} of {len(table)} bars lie outside the band that chance explains."
    return _svg(marks, width, height, label)


def reliability(tables: Sequence[tuple[str, Table]]) -> Markup:
    """Draw the share of observations below predicted quantiles against their level."""
    size, left = 294.0, 44.0
    plot = size - left - 10

    def x(level: float) -> float:
        return left + level * plot

    def y(share: float) -> float:
        return 10 + plot * (1 - share)

    marks = [element("line", class_="reference", x1=_n(x(0)), y1=_n(y(0)), x2=_n(x(1)), y2=_n(y(1)))]
    for place, (_, table) in enumerate(tables):
        kind = role(place, len(tables))
        points = [(x(row["level"]), y(row["observed"])) for row in table]
        path = "M" + "L".join(f"{_n(a)},{_n(b)}" for a, b in points)
        marks.append(element("path", class_=f"curve {kind}", d=path))
        for row, (a, b) in zip(table, points, strict=True):
            ends = {"y1": _n(y(row["lower"])), "y2": _n(y(row["upper"]))}
            marks.append(element("line", class_=f"error {kind}", x1=_n(a), x2=_n(a), **ends))
            marks.append(_marker(a, b, kind))
    ticks = (0, 0.25, 0.5, 0.75, 1)
    marks += _horizontal_axis([(x(u), f"{u:g}") for u in ticks], y(0), "predicted probability", x(0.5), size)
    marks += [_text(left - 6, y(u) + 4, f"{u:g}", "tick end") for u in ticks]
    middle = {"transform": f"rotate(-90 11 {_n(y(0.5))})"}
    marks.append(_text(11, y(0.5), "observed share", "label middle", **middle))
    gaps = (f"{name} {max(abs(row['observed'] - row['level']) for row in table):.0%}" for name, table in tables)
    label = f"Reliability diagram. Largest distance of the observed share from the predicted: {', '.join(gaps)}."
    return _svg(marks, size, size, label)


def coverage_strip(judgements: Sequence[Judgement], nominal: float, least: float) -> Markup:
    """Draw the coverage of one region, a mark with limits for each method, on a scale from ``least`` to 1."""
    step = 13.0
    height = step * len(judgements) + 5
    x = _strip_place(least)
    marks = [_nominal_line(x(nominal), 0, height)]
    for place, one in enumerate(judgements):
        kind, y = role(place, len(judgements)), 9 + step * place
        ends = {"x1": _n(x(one.lower)), "x2": _n(x(one.upper))}
        marks.append(element("line", class_=f"error {kind}", y1=_n(y), y2=_n(y), **ends))
        marks.append(_marker(x(one.coverage), y, kind))
    label = "; ".join(f"{one.coverage:.1%}, limits {one.lower:.1%} to {one.upper:.1%}" for one in judgements)
    return _svg(marks, _STRIP, height, f"Coverage {label}; nominal {nominal:g}", "strip")


def coverage_scale(nominal: float, least: float) -> Markup:
    """Draw the scale above the strips: its ends, and the nominal coverage where the line runs down through them."""
    x, height = _strip_place(least), 20.0
    places = [(least, "begin"), (nominal, "middle"), (1.0, "end")]
    crowded = _STRIP / 6  # labels nearer to the nominal one would run into it
    shown = [(at, kind) for at, kind in places if at == nominal or abs(x(at) - x(nominal)) > crowded]
    marks = [_text(x(at), 9, f"{100 * at:.3g}%", f"tick {kind}") for at, kind in shown]
    marks += [element("line", class_="axis", x1=_n(x(least)), x2=_n(x(1.0)), y1=14, y2=14)]
    marks += [_nominal_line(x(nominal), 11, height)]
    return _svg(marks, _STRIP, height, f"Scale from {least:.0%} to 100%, nominal {nominal:g}", "strip")


def _strip_place(least: float) -> Callable[[float], float]:
    return lambda share: 6 + (_STRIP - 12) * (share - least) / (1 - least)


def _nominal_line(x: float, top: float, bottom: float) -> Markup:
    return element("line", class_="nominal", x1=_n(x), x2=_n(x), y1=_n(top), y2=_n(bottom))


def legend_mark(kind: str) -> Markup:
    """Return the mark of a method."""
    marks = [element("line", class_=f"error {kind}", x1=1, x2=21, y1=7, y2=7), _marker(11, 7, kind)]
    return element("svg", *marks, viewBox="0 0 22 14", width=22, height=14, class_="chart mark", aria_hidden="true")


def _marker(x: float, y: float, kind: str) -> Markup:
    """Return a hollow circle for the first and a filled square for the last: told apart without colour."""
    if kind == "before":
        return element("circle", class_="marker before", cx=_n(x), cy=_n(y), r=3.6)
    return element("rect", class_="marker after", x=_n(x - 3.2), y=_n(y - 3.2), width=6.4, height=6.4)


def _horizontal_axis(
    ticks: Sequence[tuple[float, str]], y: float, name: str, middle: float, height: float
) -> list[Markup]:
    line = element("line", class_="axis", x1=_n(ticks[0][0]), x2=_n(ticks[-1][0]), y1=_n(y), y2=_n(y))
    labels = [_text(x, y + 14, text, "tick middle") for x, text in ticks]
    return [line, *labels, _text(middle, height - 4, name, "label middle")]


def _text(x: float, y: float, text: str, kind: str, **attributes: str) -> Markup:
    return element("text", text, x=_n(x), y=_n(y), class_=kind, **attributes)


def _svg(marks: Sequence[Markup], width: float, height: float, label: str, kind: str = "") -> Markup:
    box = f"0 0 {width:g} {height:g}"
    return element("svg", *marks, viewBox=box, class_=f"chart {kind}".strip(), role="img", aria_label=label)


def _n(value: float) -> str:
    return f"{value:.1f}"
