"""``nearcal demo`` on few diamonds: what it prints and writes."""

import sys

import pytest

from nearcal.cli import demo


def test_demo_shows_before_and_after(tmp_path, capsys, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(demo, "EPOCHS", 2)
    demo.show(tmp_path / "demo", rows=3000)
    said = capsys.readouterr()
    assert said.err.splitlines() == [
        "Training a network on the prices of 2,100 diamonds …",
        "Recalibrating it by its errors on 600 others …",
        "Judging both on 300 more …",
    ]
    assert "Prices of 300 diamonds in dollars, 95% intervals, before and after recalibration:" in said.out
    assert "after - before" in said.out
    assert said.out.endswith("demo/report.html\n")
    assert {path.name for path in (tmp_path / "demo").iterdir()} == {"diamonds.png", "pit.png", "report.html"}
    assert "Prices of diamonds" in (tmp_path / "demo" / "report.html").read_text()


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
