"""The package that scores are compared with."""

import importlib

import pytest


@pytest.fixture(scope="session")
def scoringrules():
    """Import it where it is asked for: it compiles for seconds when it is imported, in every worker that collects."""
    return importlib.import_module("scoringrules")
