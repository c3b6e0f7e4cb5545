"""The import is light, and the public names are the documented ones."""

import subprocess
import sys

import nearcal as nc

HEAVY = ["numba", "torch", "sklearn", "matplotlib", "scipy.stats", "scipy.spatial", "scipy.optimize", "pandas", "rich"]


def test_import_loads_nothing_heavy():
    code = f"import sys, nearcal; print([m for m in {HEAVY} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert found == "[]"


def test_all_names_what_is_visible():
    visible = {name for name in vars(nc) if not name.startswith("_")}
    modules = {"distributions", "evaluation", "neighbors", "recalibration", "scaling", "smoothing"}
    assert visible - modules == set(nc.__all__)
