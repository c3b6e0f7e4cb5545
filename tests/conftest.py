"""What tests of several rooms share."""

import pytest

from nearcal.tuning import choosing, finals


@pytest.fixture
def little_choice(monkeypatch):
    """Let "auto" mean few candidates, for tests that run programs through and do not judge what is chosen."""
    few = {"k": (20, 100), "smoothing": ("epanechnikov",), "scaling": ("standard",)}
    monkeypatch.setattr(choosing, "USUAL", choosing.USUAL | few)
    monkeypatch.setattr(finals, "_FINALISTS", 1)
