"""Importing nearcal stays light."""

import subprocess
import sys

HEAVY = ["numba", "sklearn", "matplotlib", "scipy.stats", "pandas", "polars", "torch", "scoringrules"]


def test_import_pulls_in_nothing_heavy():
    code = f"import sys, nearcal; print([m for m in {HEAVY} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
