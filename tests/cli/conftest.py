"""Tables in a directory of their own, and the command run in this process."""

from typing import NamedTuple

import pytest

from nearcal.cli._app import run
from tests.cli.tables import FORMATS, NORMAL, make_table, write_table


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def nearcal(capsys):
    def command(*arguments):
        code = run([str(argument) for argument in arguments])
        return Done(code, *capsys.readouterr())

    return command


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Calibration set, test set and new rows in all formats, and a model."""
    path = tmp_path_factory.mktemp("tables")
    for name, rows, seed in (("cal", 400, 1), ("test", 300, 2), ("new", 250, 3)):
        for suffix in FORMATS:
            write_table(make_table(rows, seed), path / f"{name}.{suffix}")
    arguments = ["fit", path / "cal.parquet", "-o", path / "model.nearcal", "--y", "price", *NORMAL, "--space", "h*"]
    assert run([*map(str, arguments), "--k", "50"]) == 0
    return path
