"""The code of the README runs as it stands, block after block."""

from pathlib import Path

import numpy as np
import pytest

from tests.code_blocks import blocks, run_page

README = Path(__file__).parents[1] / "README.md"


def what_the_reader_has():
    """Return a network and data as the README takes them for granted: right on average, wrong in every region."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(3000, 2)).astype(np.float32)
    y = rng.normal(X[:, 0], 0.1 + X[:, 1])
    net = torch.nn.Linear(2, 1)
    with torch.no_grad():
        net.weight[:] = torch.tensor([[1.0, 0.0]])
        net.bias[:] = 0.0
    others = {"booster": lambda X: (X[:, 0], 0.3 + 0 * X[:, 0]), "forest": lambda X: X.mean(axis=1)}
    return {**others, "net": net, "X_cal": X[:1000], "y_cal": y[:1000], "X_new": X[1000:], "y_new": y[1000:]}


@pytest.mark.usefixtures("least_choice")
def test_code_blocks_run(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    assert len(blocks(README, "python")) >= 2
    names = run_page(README, tmp_path, what_the_reader_has())
    assert "regional_coverage_error" in capsys.readouterr().out
    inside = (names["lower"] <= names["y_new"]) & (names["y_new"] <= names["upper"])
    quiet = names["X_new"][:, 1] < 0.2
    assert 0.84 < inside[quiet].mean() < 0.98  # the network alone covers all of these
    mean = names["rc"].recalibrate(names["predict"](names["np"].array([3.0, 19.0])), [3.0, 19.0]).mean()
    # the true means are 55 and 1815; with n_eff near 800, four standard errors are about 13 and 80, bias aside
    assert abs(mean[0] - 55) < 40
    assert abs(mean[1] - 1815) < 100
