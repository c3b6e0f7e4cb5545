"""Run what pages show, and put what it prints and draws below it.

The ``python`` blocks of a page share one namespace, as in a session. A block that fails is a
warning, and warnings fail the build. ``{run}`` runs a command in the root of the repository::

    ```{run} python examples/torch_network.py --rows 8000
    ```

``{draw}`` holds Python of which the figures alone are shown.
"""

import contextlib
import io
import os
import shlex
import subprocess
import sys
import traceback
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).parents[2]
FIGURES = Path("_generated") / "figures"  # in the folder of the sources
PIXELS_PER_INCH = 200
logger = logging.getLogger(__name__)


def run_python_blocks(app, doctree):
    """Run the Python blocks of a page that has just been read."""
    if not str(app.env.doc2path(app.env.docname)).endswith(".md"):
        return  # the reference: examples in docstrings are tested as doctests
    session = {"__name__": "__main__"}
    for number, block in enumerate(list(doctree.findall(nodes.literal_block))):
        is_included = "source" in block.attributes  # shown from a file, not part of the session
        if block.get("language") != "python" or is_included:
            continue
        try:
            printed = _run(block.astext(), session)
        except Exception:
            logger.warning("a Python block failed:\n%s", traceback.format_exc(), location=block)
            return
        shown = [_output(printed)] if printed.strip() else []
        shown += _take_figures(app, f"{app.env.docname.replace('/', '-')}-{number}")
        place = block.parent.index(block)
        block.parent[place : place + 1] = shown if block.get("hidden") else [block, *shown]


def _run(source, session):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, "<page>", "exec"), session)
    return printed.getvalue()


def _output(text):
    text = "\n".join(line.rstrip() for line in text.strip("\n").splitlines())
    return nodes.literal_block(text, text, language="text", classes=["output"])


def _take_figures(app, name):
    """Save the open figures, close them, and return them as images."""
    plt = sys.modules.get("matplotlib.pyplot")
    if plt is None:
        return []
    images = []
    for number in plt.get_fignums():
        figure = plt.figure(number)
        path = FIGURES / f"{name}-{number}.png"
        (Path(app.srcdir) / FIGURES).mkdir(parents=True, exist_ok=True)
        figure.savefig(Path(app.srcdir) / path, dpi=PIXELS_PER_INCH)
        width = f"{round(figure.get_figwidth() * 96)}px"
        images.append(
            nodes.image(uri=f"/{path}", alt=_describe(figure), width=width, classes=["drawn"])
        )
    plt.close("all")
    return images


def _describe(figure):
    """Return a text that stands for a figure where it cannot be seen."""
    panels = [
        ax.get_title() or f"{ax.get_ylabel()} against {ax.get_xlabel()}" for ax in figure.axes
    ]
    return "Figure: " + "; ".join(dict.fromkeys(panels))


class Run(SphinxDirective):
    """Run a command and show it with what it prints."""

    required_arguments = 1
    final_argument_whitespace = True
    option_spec = {"exit": directives.nonnegative_int}  # noqa: RUF012 - as docutils wants it

    def run(self):
        """Return the nodes."""
        command = self.arguments[0]
        words = shlex.split(command)
        for word in words:
            if (ROOT / word).is_file():
                self.env.note_dependency(str(ROOT / word))
        words[0] = sys.executable if words[0] == "python" else words[0]
        plain = {
            **os.environ,
            "COLUMNS": "100",
            "NO_COLOR": "1",
            "TERM": "dumb",
            "PYTHONWARNINGS": "ignore",
        }
        done = subprocess.run(
            words, cwd=ROOT, env=plain, capture_output=True, text=True, check=False
        )
        if done.returncode != self.options.get("exit", 0):
            logger.warning(
                "%s ended with %d:\n%s",
                command,
                done.returncode,
                done.stderr,
                location=self.get_location(),
            )
        text = f"$ {command}"
        shown = done.stdout if "exit" not in self.options else done.stdout + done.stderr
        return [nodes.literal_block(text, text, language="console"), _output(shown)]


class Draw(SphinxDirective):
    """Python of which the figures alone are shown."""

    has_content = True

    def run(self):
        """Return the block, which gives way to what it draws when the page has been read."""
        source = "\n".join(self.content)
        return [nodes.literal_block(source, source, language="python", hidden=True)]


def setup(app):
    """Register with Sphinx."""
    app.add_directive("draw", Draw)
    app.add_directive("run", Run)
    app.connect("doctree-read", run_python_blocks, priority=100)  # before images are collected
    return {"version": "1", "parallel_read_safe": False}
