"""What a person at a terminal sees while a command works."""

import os
import re
import sys

import pytest

from tests.cli.tables import NORMAL

pty = pytest.importorskip("pty", reason="needs a terminal")


def seen_at_a_terminal(*arguments):
    """Run a command whose stderr is a terminal, and return all that it has drawn there."""
    leader, follower = pty.openpty()
    process = os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "nearcal.cli", *map(str, arguments)],
        {**os.environ, "TERM": "xterm", "COLUMNS": "100"},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_DUP2, follower, 2),
            (os.POSIX_SPAWN_CLOSE, leader),
        ],
    )
    os.close(follower)
    drawn = b""
    while True:
        try:
            part = os.read(leader, 4096)
        except OSError:  # Linux says so at the end
            break
        if not part:
            break
        drawn += part
    os.close(leader)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", drawn.decode())


def test_fit_shows_that_it_works(folder, tmp_path):
    options = ("--y", "price", *NORMAL, "--space", "h*")
    drawn = seen_at_a_terminal("fit", folder / "cal.csv", "-o", tmp_path / "m.nearcal", *options)
    assert "choosing how to recalibrate" in drawn
    assert re.search(r"rows, 0:00:0\d", drawn)
    assert len(set(re.findall("[⠀-⣿]", drawn))) > 1  # the wheel turns, also while no row is done


def test_predict_counts_rows(folder, tmp_path):
    drawn = seen_at_a_terminal("predict", folder / "model.nearcal", folder / "new.csv", "-o", tmp_path / "out.csv")
    assert "checking" in drawn
    assert "predicting" in drawn
    assert "250/250 rows" in drawn
