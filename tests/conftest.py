"""What tests of several rooms share."""

import pytest

from nearcal.tuning import choosing, finals
from tests.compiled.cases import quick_students


@pytest.fixture(scope="module")
def little_choice():
    """Let "auto" mean few candidates in a file, for tests that run programs through and do not judge what is chosen."""
    few = {"k": (20, 100), "smoothing": ("epanechnikov",), "scaling": ("standard",), "trend": (False,)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choosing, "USUAL", choosing.USUAL | few)
        for name, number in {"_FINALISTS": 1, "_SPACES": 1, "_MOST_ROWS": 300}.items():
            patch.setattr(finals, name, number)
        yield


@pytest.fixture(scope="module")
def least_choice(little_choice):
    """Let "auto" mean neighbourhoods without corrections, too, and students of ``nearcal.compile`` learn for a moment.

    Not for tests of options: whether those are handed on that ask for no correction is not seen.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choosing, "USUAL", choosing.USUAL | {"linear": (False,), "shrinkage": (False,)})
        with quick_students(200, 200):
            yield
