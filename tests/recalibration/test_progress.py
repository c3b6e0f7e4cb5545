"""Progress: shown where somebody looks, told to who asks, and silent otherwise."""

import io
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

import nearcal as nc
from nearcal.recalibration import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))
    monkeypatch.setattr(progress, "_SOON", 0.02)
    monkeypatch.setattr(progress, "_INTERVAL", 0.02)
    return stream


@pytest.fixture(params=["rich", "no rich"])
def either(request, monkeypatch):
    """With rich, and where it is not installed."""
    if request.param == "rich":
        pytest.importorskip("rich")
    else:
        monkeypatch.setitem(sys.modules, "rich.progress", None)
    return request.param


def work(given, seconds=0.3):
    with nc.Workers(progress=given).reporting("counting sheep", 100) as report:
        for _ in range(10):
            time.sleep(seconds / 10)
            report(10)


def test_a_terminal_shows_what_takes_long(terminal, either):
    work(None)
    assert "counting sheep" in terminal.getvalue()


def test_a_terminal_does_not_show_what_is_done_at_once(terminal, either, monkeypatch):
    monkeypatch.setattr(progress, "_SOON", 5.0)
    work(None, 0.0)
    assert terminal.getvalue() == ""


def test_a_terminal_is_silent_when_told_so(terminal, either):
    work(False)
    assert terminal.getvalue() == ""


def test_nothing_is_written_where_nobody_looks(either, capfd):
    work(None)
    assert capfd.readouterr() == ("", "")


def test_true_draws_everywhere(either, capsys):
    work(True, 0.0)
    out, err = capsys.readouterr()
    assert out == ""
    assert "counting sheep" in err
    assert "100%" in err


def test_what_is_done_next_is_told_as_it_is_written(either, capsys):
    with nc.Workers(progress=True).reporting("counting", 100) as report:
        report(0, "sheep [/b] 'of' [red]")
        time.sleep(0.6)  # longer than between two lines
        report(100)
    assert "counting: sheep [/b] 'of' [red]" in " ".join(capsys.readouterr().err.split())


@pytest.mark.usefixtures("little_choice")
def test_calibrate_shows_its_progress(terminal, either):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3))
    y = rng.normal(x[:, 0], np.exp(x[:, 1] / 2))
    nc.calibrate(lambda x: x[:, 0], x, y)
    shown = terminal.getvalue()
    assert "choosing how to recalibrate" in shown
    terminal.truncate(0)
    nc.calibrate(lambda x: x[:, 0], x, y, workers=nc.Workers(progress=False))
    assert terminal.getvalue().strip("\0") == ""


def test_a_closed_or_missing_stderr_is_no_terminal(monkeypatch):
    closed = Terminal()
    closed.close()
    for stream in (None, closed):
        monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))
        work(None, 0.0)


def test_an_error_ends_the_bar(terminal, either):
    with pytest.raises(ZeroDivisionError), nc.Workers(progress=True).reporting("counting", 10):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("done", "seconds", "words"),
    [
        (0, 30.0, "at work: 0%"),
        (50, 3.0, "at work: 50%"),
        (25, 10.0, "at work: 25%, about 30 s left"),
        (10, 60.0, "at work: 10%, about 9 min left"),
        (100, 60.0, "at work: 100%"),
    ],
)
def test_an_estimate_when_it_will_be_long(done, seconds, words):
    assert progress.describe("at work", done, 100, seconds) == words
