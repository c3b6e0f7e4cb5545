"""The package that scores are compared with."""

import importlib
import sys

import pytest


@pytest.fixture(scope="session")
def scoringrules():
    """Import it where it is asked for, as where there is no numba: it would compile for seconds, in every worker."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "numba", None)
        return importlib.import_module("scoringrules")
