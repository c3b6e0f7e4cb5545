"""Directives that stand for Markdown made from result files: no figure on a page is typed."""

import json
import re
from pathlib import Path

from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).parents[2]
STUDIES = ROOT / "studies" / "results"
BENCHMARKS = ROOT / "benchmarks" / "results"
COMPARISON = BENCHMARKS / "compare_methods.json"


class Generated(SphinxDirective):
    """A directive that stands for Markdown."""

    optional_arguments = 1

    def run(self):
        """Return the nodes of the Markdown."""
        return self.parse_text_to_nodes(self.markdown())

    def read(self, path):
        """Return the text of a file; the page is built again when it changes."""
        self.env.note_dependency(str(path))
        return path.read_text(encoding="utf-8")


class Findings(Generated):
    """The list at the end of a study's page."""

    def markdown(self):
        """Return the lines that begin with a dash."""
        lines = self.read(STUDIES / self.arguments[0]).splitlines()
        return "\n".join(line for line in lines if line.startswith("- "))


class Study(Generated):
    """A study of the paper: its tables and figures, or a note that it has not been run."""

    def markdown(self):
        """Return all Markdown files of the study, then all its figures that no text shows."""
        place = STUDIES / self.arguments[0]
        pages = [place] if place.is_file() else sorted(place.glob("*.md"))
        if not pages:
            return f"*There are no results of `{place.name}` yet: run the study, build again.*"
        texts = [
            _without_headings(_with_absolute_images(self.read(page), page.parent)) for page in pages
        ]
        figures = [] if place.is_file() else sorted(place.glob("*.png"))
        unseen = [figure for figure in figures if not any(figure.name in text for text in texts)]
        shown = [f"![{figure.stem.replace('_', ' ')}]({_from_docs(figure)})" for figure in unseen]
        return "\n\n".join([*texts, *shown])


class Benchmark(Generated):
    """The tables that a benchmark has written."""

    def markdown(self):
        """Return the file as it is."""
        return self.read(BENCHMARKS / self.arguments[0])


class Methods(Generated):
    """Two tables of the comparison of methods: CRPS, and the error of coverage by region."""

    def markdown(self):
        """Return the tables."""
        rows = json.loads(self.read(COMPARISON))["rows"]
        # k and the points used follow the size of the set: one row for all
        names = {row["method"]: re.sub(r", (k=)?\d+( points)?$", "", row["method"]) for row in rows}
        methods = list(dict.fromkeys(names.values()))
        cases = {}
        for row in rows:
            cases.setdefault((row["set"], row["base"]), {})[names[row["method"]]] = row
        return "\n\n".join(
            [
                "CRPS relative to the base model's:",
                _table(methods, cases, lambda row, base: row["crps"] / base["crps"], "{:.3f}"),
                "Mean absolute error of coverage over ten regions, in percentage points; "
                "floor: what perfect intervals would show:",
                _table(
                    methods, cases, lambda row, _: 100 * row["regional_error"], "{:.1f}", floor=True
                ),
            ]
        )


def _table(methods, cases, value, form, *, floor=False):
    """Return one row a method and one column a case; the best of a column is bold."""
    columns = []
    for case in cases.values():
        values = [value(case[method], case["none"]) for method in methods]
        cells = [form.format(v) if v > min(values) else f"**{form.format(v)}**" for v in values]
        columns.append([*cells, *([form.format(100 * case["none"]["floor"])] if floor else [])])
    head = ["", *(f"{name}, {base}" for name, base in cases)]
    lines = [f"| {' | '.join(head)} |", "|---" + "|---:" * len(cases) + "|"]
    for name, *cells in zip([*methods, *(["*floor*"] if floor else [])], *columns, strict=True):
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _without_headings(text):
    """Drop the title, which the page has, and turn headings into lines that stand out."""
    text = re.sub(r"\A#+ .*\n", "", text)
    return re.sub(r"^#+ (.*)$", r"```{rubric} \1\n```", text, flags=re.MULTILINE)


def _with_absolute_images(text, folder):
    return re.sub(
        r"(!\[[^\]]*\]\()([^):]+)\)",
        lambda found: f"{found[1]}{_from_docs(folder / found[2])})",
        text,
    )


def _from_docs(path):
    """Return a path as Sphinx reads it, from the folder of the sources."""
    return f"/../{path.relative_to(ROOT)}"


def setup(app):
    """Register with Sphinx."""
    app.add_directive("findings", Findings)
    app.add_directive("study", Study)
    app.add_directive("methods", Methods)
    app.add_directive("benchmark", Benchmark)
    return {"version": "1", "parallel_read_safe": True}
