"""The import is light, and the public names are the documented ones."""

import subprocess
import sys

import pytest

import nearcal as nc

HEAVY = ["numba", "torch", "sklearn", "matplotlib", "scipy.stats", "scipy.spatial", "scipy.optimize", "pandas", "rich"]


def test_import_loads_nothing_heavy():
    code = f"import sys, nearcal; print([m for m in {HEAVY} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert found == "[]"


def test_all_names_what_is_visible():
    visible = {name for name in dir(nc) if not name.startswith("_")}
    modules = {
        "calibrated",
        "cli",
        "distributions",
        "estimator",
        "neighbors",
        "persistence",
        "recalibration",
        "relevance",
        "reporting",
        "scaling",
        "smoothing",
        "tuning",
    }
    imports = {"Any", "TYPE_CHECKING", "import_module"}
    assert visible - modules - imports == set(nc.__all__)
    assert all(getattr(nc, name) is not None for name in nc.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nomal'"):
        nc.Nomal  # noqa: B018
