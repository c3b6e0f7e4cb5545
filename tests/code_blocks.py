"""What pages of Markdown show, and how it is run: the same for the tests and for the documentation's build."""

import contextlib
import io
import os
import re
import runpy
import shlex
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(
    r"^```(?P<kind>python|shell|\{draw\}|\{run\})\n(:exit: (?P<exit>\d+)\n+)?(?P<text>.*?)^```$",
    flags=re.DOTALL | re.MULTILINE,
)
_PLAIN = {"COLUMNS": "100", "TERMINAL_WIDTH": "100", "NO_COLOR": "1", "TERM": "dumb"}


class Block(NamedTuple):
    """A block of a page; the exit code is that expected of a command."""

    kind: str
    text: str
    exit: int


def blocks(path, *kinds):
    """Return the blocks of some kinds on a page, in order."""
    found = _BLOCK.finditer(path.read_text(encoding="utf-8"))
    return [Block(block["kind"], block["text"], int(block["exit"] or 0)) for block in found if block["kind"] in kinds]


def words_of(command):
    """Return the words of a command, which may go on after a backslash at the end of a line."""
    return shlex.split(command.replace("\\\n", " "))


class Session:
    """Runs Python and commands one after another: one namespace, one folder for files, as a reader would have.

    Commands run in this process: ``python FILE`` in the root of the repository, ``nearcal`` in the folder.
    """

    def __init__(self, folder):
        self.folder = Path(folder)
        self.names = {"__name__": "__main__"}

    def python(self, code):
        """Run Python and return what it printed."""
        with contextlib.chdir(self.folder), _printed() as printed:
            exec(compile(code, "<page>", "exec"), self.names)
        return printed.getvalue()

    def command(self, text):
        """Run a command and return its exit code and what it printed."""
        program, *arguments = words_of(text)
        if program == "python":
            return 0, _run_file(ROOT / arguments[0], arguments)
        assert program == "nearcal", f"pages run python and nearcal, got {program}"
        from nearcal.cli._app import run

        with contextlib.chdir(self.folder), _plain_output(), _printed() as printed:
            code = run(arguments)
        return code, printed.getvalue()


def run_page(path, folder, names=None):
    """Run the Python and the commands of a page, given some names, and return all.

    Figures are drawn without a screen and dropped. Programs of ``examples/`` have tests of their own and are left out.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    session = Session(folder)
    session.names.update(names or {})
    for block in blocks(path, "python", "{draw}", "{run}"):
        if block.kind != "{run}":
            print(session.python(block.text))
            plt.close("all")
        elif words_of(block.text)[0] == "nearcal":
            code, printed = session.command(block.text)
            assert code == block.exit, printed
    return session.names


def _run_file(path, arguments):
    before = sys.argv, list(sys.path)
    sys.argv, sys.path[:0] = arguments, [str(path.parent)]
    try:
        with contextlib.chdir(ROOT), _plain_output(), _printed() as printed:
            runpy.run_path(str(path), run_name="__main__")
    finally:
        sys.argv, sys.path[:] = before
    return printed.getvalue()


@contextlib.contextmanager
def _printed():
    """Collect what is printed, mistakes included."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        yield printed


@contextlib.contextmanager
def _plain_output():
    """Have commands print a hundred columns without colours."""
    before = dict(os.environ)
    os.environ.update(_PLAIN)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
