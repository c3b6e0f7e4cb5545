"""``nearcal demo`` on few diamonds: what it prints and writes."""

import re
import sys
from html import unescape
from pathlib import Path

import pytest

from nearcal.cli import demo


@pytest.mark.usefixtures("little_choice")
def test_demo_shows_before_and_after(tmp_path, capsys, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(demo, "EPOCHS", 2)
    demo.show(tmp_path / "demo", rows=3000)
    said = capsys.readouterr()
    assert said.err.splitlines() == [
        "Loading PyTorch and matplotlib …",
        "Training a network on the prices of 2,100 diamonds …",
        "Recalibrating it by its errors on 600 others; the first time, code is compiled for this machine …",
        "Judging both on the 300 that neither has seen, and writing the report …",
    ]
    first = said.out.splitlines()[0]
    covered = re.fullmatch(r"On 300 diamonds it has not seen, its 95% intervals cover ([\d.]+)%\. Does .*", first)[1]
    assert f"95% intervals cover {covered.removesuffix('.0')}% of 300 observations" in said.out
    names = {"diamonds.png", "pit.png", "report.html", "report.txt"}
    assert {path.name for path in (tmp_path / "demo").iterdir()} == names
    # one text, one set of regions: what is printed is what the page says
    text = (tmp_path / "demo" / "report.txt").read_text()
    assert text in said.out
    page = unescape((tmp_path / "demo" / "report.html").read_text())
    assert "Prices of diamonds" in page
    headline, lead = text.splitlines()[:2]
    assert headline in page
    assert lead in page
    regions = text.rsplit("\n\n", 1)[1].splitlines()
    header = ["region", "rows", "before covers", "tests of before", "after covers", "tests of after"]
    assert re.split(r"\s{2,}", regions[0]) == header
    for line in regions[1:]:
        region, rows, before, _, after, _ = re.split(r"\s{2,}", line)
        found = re.search(rf">{re.escape(region)}</th><td[^>]*>{rows}</td><td[^>]*>(.*?)</td><td[^>]*>(.*?)</td>", page)
        assert found.groups() == (before, after)


def test_the_command_takes_a_folder(nearcal, monkeypatch, tmp_path):
    folders = []
    monkeypatch.setattr(demo, "show", folders.append)
    for option in ("-o", "--output"):
        assert nearcal("demo", option, tmp_path) == (0, "", "")
    assert folders == [tmp_path, tmp_path]


def test_without_torch_the_extra_is_named(nearcal, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch", None)
    done = nearcal("demo", "-o", tmp_path)
    assert done.code == 2
    assert 'pip install "nearcal[demo]"' in done.err


def test_unknown_commands_of_old_are_not_there(nearcal):
    assert nearcal("reproduce", "gaussian").code == 2


def test_the_readme_says_what_the_demo_said():
    """docs/demo.txt is report.txt of a run of scripts/demo; the README quotes it between its two marks."""
    root = Path(__file__).parents[2]
    said = (root / "docs" / "demo.txt").read_text(encoding="utf-8")
    readme = (root / "README.md").read_text(encoding="utf-8")
    quoted, told = re.search(r"<!-- demo -->\n(.*?)<!-- /demo -->\n\n(.*?)\n\n", readme, re.S).groups()
    lines = [line.strip() for line in quoted.splitlines() if line.startswith("    ")]
    assert len(lines) > 5
    assert set(lines) <= {line.strip() for line in said.splitlines()}
    # what it tells of it in words has no figure of its own
    figures = re.findall(r"\d+ of \d+ regions|\d+\.?\d*%|\d+(?= diamonds)", told)
    assert len(figures) >= 5
    for figure in figures:
        assert re.search(rf"(?<![\d.]){re.escape(figure)}", said), figure
    for words in ("too high", "too narrow"):
        assert words in told
        assert words in said
