"""Run what pages show, and put what it prints and draws below it.

Python blocks and commands of a page are run in order, as one session. What fails is a warning, and
warnings fail the build. ``{run}`` holds a command::

    ```{run}
    python examples/torch_network.py --rows 8000
    ```

With ``:exit: 2`` it is expected to end with this code. ``{draw}`` holds Python of which the figures
alone are shown. ``{publish}`` puts a file that the page has written beside the pages of the site.
"""

import shutil
import sys
import tempfile
import textwrap
import traceback
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from tests.code_blocks import ROOT, Session, words_of

GENERATED = Path("_generated")  # in the folder of the sources
PUBLISHED = GENERATED / "published"
PIXELS_PER_INCH = 200
COLUMNS = 100
logger = logging.getLogger(__name__)


def run_page(app, doctree):
    """Run the blocks of a page that has just been read."""
    if not str(app.env.doc2path(app.env.docname)).endswith(".md"):
        return  # the reference: examples in docstrings are tested as doctests
    with tempfile.TemporaryDirectory() as folder:
        session = Session(folder)
        for number, block in enumerate(list(doctree.findall(nodes.literal_block))):
            name = f"{app.env.docname.replace('/', '-')}-{number}"
            try:
                shown = _run_block(block, session, Path(app.srcdir), name)
            except Exception:
                logger.warning("a block failed:\n%s", traceback.format_exc(), location=block)
                return
            place = block.parent.index(block)
            block.parent[place : place + 1] = shown


def _run_block(block, session, source, name):
    """Return what stands in the place of a block: itself, and what it printed and drew."""
    if "published" in block:
        shutil.copy(session.folder / block["published"], source / PUBLISHED)
        return []
    if "command" in block:
        code, printed = session.command(block["command"])
        if code != block["exit"]:
            raise RuntimeError(f"{block['command']} ended with {code}:\n{printed}")
        return [block, _output(printed.replace(str(session.folder), "/home/you"))]
    is_included = "source" in block  # shown from a file, not part of the session
    if block.get("language") != "python" or is_included:
        return [block]
    printed = session.python(block.astext())
    shown = [] if "hidden" in block else [block]
    shown += [_output(printed)] if printed.strip() else []
    return shown + _take_figures(source, name)


def _output(text):
    text = "\n".join(_fold(line.rstrip()) for line in text.strip("\n").splitlines())
    return nodes.literal_block(text, text, language="text", classes=["output"])


def _fold(line):
    """Fold a long line of prose; lines of tables stay as they are."""
    is_prose = "  " not in line.strip() and "─" not in line
    return textwrap.fill(line, COLUMNS) if is_prose and len(line) > COLUMNS else line


def _take_figures(source, name):
    """Save the open figures, close them, and return them as images."""
    plt = sys.modules.get("matplotlib.pyplot")
    if plt is None:
        return []
    images = []
    for number in plt.get_fignums():
        figure = plt.figure(number)
        path = GENERATED / "figures" / f"{name}-{number}.png"
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(source / path, dpi=PIXELS_PER_INCH)
        looks = {"width": f"{round(figure.get_figwidth() * 96)}px", "classes": ["drawn"]}
        images.append(nodes.image(uri=f"/{path}", alt=_describe(figure), **looks))
    plt.close("all")
    return images


def _describe(figure):
    """Return a text that stands for a figure where it cannot be seen."""
    panels = [
        ax.get_title() or f"{ax.get_ylabel()} against {ax.get_xlabel()}" for ax in figure.axes
    ]
    return "Figure: " + "; ".join(dict.fromkeys(panels))


class Run(SphinxDirective):
    """A command, shown with what it prints."""

    has_content = True
    option_spec = {"exit": directives.nonnegative_int}  # noqa: RUF012 - as docutils wants it

    def run(self):
        """Return the block, which is run with the others when the page has been read."""
        command = "\n".join(self.content)
        for word in words_of(command):
            if (ROOT / word).is_file():
                self.env.note_dependency(str(ROOT / word))
        text = f"$ {command}"
        expected = {"command": command, "exit": self.options.get("exit", 0)}
        return [nodes.literal_block(text, text, language="console", **expected)]


class Draw(SphinxDirective):
    """Python of which the figures alone are shown."""

    has_content = True

    def run(self):
        """Return the block, which gives way to what it draws."""
        source = "\n".join(self.content)
        return [nodes.literal_block(source, source, language="python", hidden=True)]


class Publish(SphinxDirective):
    """A file that the page has written, to be put beside the pages of the site."""

    required_arguments = 1

    def run(self):
        """Return a mark of the place from which on the file is there."""
        return [nodes.literal_block("", "", published=self.arguments[0])]


def setup(app):
    """Register with Sphinx."""
    (Path(app.srcdir) / PUBLISHED).mkdir(parents=True, exist_ok=True)
    app.config.html_extra_path.append(str(PUBLISHED))
    app.add_directive("draw", Draw)
    app.add_directive("publish", Publish)
    app.add_directive("run", Run)
    app.connect("doctree-read", run_page, priority=100)  # before images are collected
    return {"version": "1", "parallel_read_safe": False}
