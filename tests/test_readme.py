"""The code of the README runs as it stands, block after block."""

from pathlib import Path

import pytest

from tests.code_blocks import blocks, run_page

README = Path(__file__).parents[1] / "README.md"


def test_code_blocks_run(capsys):
    pytest.importorskip("matplotlib")
    assert len(blocks(README, "python")) >= 2
    names = run_page(README)
    assert "coverage" in capsys.readouterr().out
    mean = names["rc"].recalibrate(names["predict"](names["np"].array([3.0, 19.0])), [3.0, 19.0]).mean()
    # the true means are 55 and 1815; with n_eff near 800, four standard errors are about 13 and 80, bias aside
    assert abs(mean[0] - 55) < 40
    assert abs(mean[1] - 1815) < 100
