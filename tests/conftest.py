"""What tests of several rooms share."""

import pytest

from nearcal.tuning import choosing, finals


@pytest.fixture
def little_choice(monkeypatch):
    """Let "auto" mean few candidates, for tests that run programs through and do not judge what is chosen."""
    few = {"k": (20, 100), "smoothing": ("epanechnikov",), "scaling": ("standard",), "trend": (False,)}
    monkeypatch.setattr(choosing, "USUAL", choosing.USUAL | few)
    for name, number in {"_FINALISTS": 1, "_SPACES": 1, "_MOST_ROWS": 300}.items():
        monkeypatch.setattr(finals, name, number)
