"""What tests of several rooms share."""

import pytest

from nearcal.compiled import compiling
from nearcal.tuning import choosing, finals


@pytest.fixture(scope="module")
def little_choice():
    """Let "auto" mean few candidates in a file, for tests that run programs through and do not judge what is chosen.

    Students of ``nearcal.compile`` learn for a moment, too.
    """
    few = {"k": (20, 100), "smoothing": ("epanechnikov",), "scaling": ("standard",)}
    few |= dict.fromkeys(("linear", "shrinkage", "trend"), (False,))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choosing, "USUAL", choosing.USUAL | few)
        for name, number in {"_FINALISTS": 1, "_SPACES": 1, "_MOST_ROWS": 300}.items():
            patch.setattr(finals, name, number)
        for name in ("_FEWEST_STEPS", "_MOST_STEPS"):
            patch.setattr(compiling, name, 200)
        yield
