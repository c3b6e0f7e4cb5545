"""The pages of the documentation: their code runs, their commands exist, the reference leaves no public name out.

Each page is run here and nowhere else in the tests; programs of ``examples/`` that pages show are run by
``tests/examples``.
"""

import importlib
import re
import tomllib
from pathlib import Path

import pytest

import nearcal as nc
from nearcal import _saved
from nearcal.cli._app import COMMANDS
from tests.code_blocks import blocks, run_page, words_of

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if not path.relative_to(DOCS).parts[0].startswith("_"))
MODULES = (
    "nearcal",
    "nearcal.datasets",
    "nearcal.diagnostics",
    "nearcal.distributed.dask",
    "nearcal.distributed.spark",
    "nearcal.models.adapters",
    "nearcal.persistence",
    "nearcal.reporting.plots",
    "nearcal.scores",
)
EXTRAS = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])


def name_of(path):
    return str(path.relative_to(DOCS))


@pytest.mark.parametrize("path", [path for path in PAGES if blocks(path, "python", "{draw}", "{run}")], ids=name_of)
@pytest.mark.usefixtures("least_choice")
def test_code_blocks_run(path, tmp_path):
    run_page(path, tmp_path)


def test_code_blocks_of_contributing_run(tmp_path, monkeypatch):
    monkeypatch.setattr(_saved, "_CLASSES", dict(_saved._CLASSES))  # it adds a class
    assert "shift" in run_page(ROOT / "CONTRIBUTING.md", tmp_path)


def commands():
    for path in PAGES:
        for kind, text, _ in blocks(path, "shell", "{run}"):
            # a block of the shell may hold several commands, and comments
            lines = text.replace("\\\n", " ").splitlines() if kind == "shell" else [text]
            yield from (line for line in lines if line and not line.startswith("#"))


@pytest.mark.parametrize("command", sorted(set(commands())))
def test_commands_exist(command):
    program, *arguments = words_of(command)
    if program == "pip":
        extras = re.findall(r"\[(.*)\]", arguments[-1])
        assert {extra for group in extras for extra in group.split(",")} <= EXTRAS
    elif program == "python":
        assert (ROOT / arguments[0]).is_file()
    elif program == "nearcal":
        assert arguments[0] in COMMANDS or arguments[0].startswith("--")
    else:
        assert (ROOT / program).is_file()


def listed_names():
    """Return the names that the reference lists, with their module."""
    names = set()
    for path in (DOCS / "api").glob("*.md"):
        module, in_list = "", False
        for line in path.read_text(encoding="utf-8").splitlines():
            if found := re.match(r"\.\. currentmodule:: (\S+)", line):
                module = found[1]
            in_list = line.startswith(".. autosummary::") or (in_list and (not line or line.startswith("   ")))
            if in_list and re.match(r"   \w", line):
                names.add((module, line.strip()))
    return names


def test_the_reference_is_complete():
    listed = [getattr(importlib.import_module(module), name) for module, name in listed_names()]
    modules = {importlib.import_module(module) for module in MODULES}
    for module in modules:
        for name in module.__all__:
            value = getattr(module, name)
            assert any(value is one for one in listed) or value in modules, (
                f"{module.__name__}.{name} is not in docs/api"
            )


GIVEN_UP = re.compile(r"\b(kth|bandwidth|adjustment|MappedDistribution|ScoreMap|settings_|tuning_)\b")


def test_pages_use_one_word_for_one_thing():
    # figures of earlier versions may speak of what was there
    pages = [path for path in PAGES if path.parent.name != "evidence"]
    for path in [*pages, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        assert not GIVEN_UP.findall(path.read_text(encoding="utf-8")), path


def test_every_extra_that_pages_speak_of_exists():
    for path in PAGES:
        for extra in re.findall(r"extra `(\w+)`", path.read_text(encoding="utf-8")):
            assert extra in EXTRAS, f"{name_of(path)} speaks of the extra {extra!r}"


def test_nothing_public_was_forgotten_here():
    assert set(MODULES) >= {
        getattr(nc, name).__name__ for name in nc.__all__ if type(getattr(nc, name)).__name__ == "module"
    }
