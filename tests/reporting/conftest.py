"""Draw without a screen, and leave no figure open."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest


@pytest.fixture(autouse=True)
def _no_screen():
    mpl.use("Agg")
    yield
    plt.close("all")
