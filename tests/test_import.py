"""The import is light, and the public names are the documented ones."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import nearcal as nc

HEAVY = ["numba", "torch", "sklearn", "matplotlib", "scipy.stats", "scipy.spatial", "scipy.optimize", "pandas", "rich"]
HEAVY += ["dask", "distributed", "pyspark", "pyarrow"]
STUB = ast.parse(Path(nc.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def heavy_after(code):
    return run(f"import sys, nearcal as nc\n{code}\nprint([name for name in {HEAVY} if name in sys.modules])")


def test_import_loads_nothing_heavy():
    assert heavy_after("") == "[]"


def test_what_needs_no_kernel_loads_none():
    assert heavy_after("assert nc.Gamma([2.0, 3.0], 1.0).cdf(1.0).shape == (2,)") == "[]"


def test_who_recalibrates_loads_no_plots_and_no_models():
    code = """
rc = nc.LocalRecalibrator(k=2).fit(nc.Normal([0.0, 1.0], 1.0), [0.5, 0.2], [0.0, 1.0])
rc.recalibrate(nc.Normal(0.0, 1.0), [0.3]).mean()
print([name for name in ("nearcal.models", "nearcal.tuning", "nearcal.reporting") if name in sys.modules])
"""
    assert heavy_after(code) == "[]\n['numba']"


def imported():
    """Return (module, name, public name) of every import of the contents page."""
    imports = [node for node in STUB.body if isinstance(node, ast.ImportFrom)]
    return [(node.module, alias.name, alias.asname) for node in imports for alias in node.names]


def test_the_contents_page_is_nothing_but_names():
    assert all(isinstance(node, ast.ImportFrom) for node in STUB.body)
    assert all(name == public for _, name, public in imported())  # re-exported, as type checkers understand it


@pytest.mark.parametrize(("module", "name", "_"), imported())
def test_every_name_of_the_contents_page_resolves(module, name, _):
    names = {}
    if module == "nearcal":  # asking the package would be asking what is tested
        names[name] = import_module(f"nearcal.{name}")
    else:
        exec(f"from {module} import {name}", names)
    assert getattr(nc, name) is names[name]


def test_all_names_what_is_visible():
    contents = {name for _, name, _ in imported()} - {"__version__"}
    assert set(nc.__all__) == contents
    # in a fresh interpreter: others here have imported modules, which then are attributes of the package
    visible = run("import nearcal; print(*(name for name in dir(nearcal) if not name.startswith('_')))").split()
    assert set(visible) - {"Any", "Path", "ast", "import_module"} == contents
    star = run("from nearcal import *; print(*(name for name in dir() if not name.startswith('_')))").split()
    assert set(star) == contents


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="no attribute 'Nomal'"):
        nc.Nomal  # noqa: B018
