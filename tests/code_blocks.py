"""The code on pages of Markdown, and how it is run: block after block in one namespace, as in a session."""

import re

_BLOCK = re.compile(r"^```(?P<kind>python|\{draw\}|shell)\n(?P<code>.*?)^```$", flags=re.DOTALL | re.MULTILINE)


def blocks(path, *kinds):
    """Return the blocks of some kinds on a page, in order."""
    return [found["code"] for found in _BLOCK.finditer(path.read_text(encoding="utf-8")) if found["kind"] in kinds]


def run_page(path, names=None):
    """Run the Python of a page, given some names, and return all; figures are drawn without a screen and dropped."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    names = {"__name__": "__main__", **(names or {})}
    for number, code in enumerate(blocks(path, "python", "{draw}")):
        exec(compile(code, f"{path}, block {number}", "exec"), names)
        plt.close("all")
    return names
