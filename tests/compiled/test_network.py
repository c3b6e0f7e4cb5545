import os
import subprocess
import sys

import numpy as np
import pytest

from nearcal.compiled import network
from nearcal.compiled.network import LEVEL_SCORES, Effort, Network, Targets, Units, outwards, train


def lesson(n=50, f=4, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, f)).astype(np.float32)
    tables = x[:, :1] + np.exp(0.3 * x[:, 1:2]) * LEVEL_SCORES
    z = np.where(rng.uniform(size=n) < 0.5, rng.normal(size=n), np.nan)
    parts = tables, rng.normal(size=(n, 2)), z, rng.uniform(0.5, 1.5, size=n)
    return x, Targets(*(part.astype(np.float32) for part in parts)), Units.of(tables, np.ones(n))


def loss_in_double(weights, x, targets, units):
    """The loss as the docstring has it, node by node, in double precision."""
    first = np.maximum(x @ weights[0] + weights[1], 0)
    second = np.maximum(first @ weights[2] + weights[3], 0)
    outputs = second @ weights[4] + x @ weights[5] + weights[6]
    q = len(LEVEL_SCORES)
    increments = units.increments * np.exp(np.clip(outputs[:, 1:q], -network.LARGEST_LOG, network.LARGEST_LOG))
    nodes = units.location + units.unit * outputs[:, :1] + increments @ outwards()
    by_table = np.abs(nodes - targets.tables)
    error, level = targets.z[:, None] - nodes, network._LEVELS
    pinball = 2 * (level * np.maximum(error, 0) + (1 - level) * np.maximum(-error, 0))
    own = network._OWN_SHARE
    each = np.where(np.isnan(targets.z)[:, None], by_table, (1 - own) * by_table + own * pinball)
    described = network._DESCRIBED_SHARE * np.abs(outputs[:, q:] - targets.described)
    return float(((each * network._SHARES).sum(axis=1) + described.sum(axis=1)) @ targets.weights / len(x))


def test_derivatives_are_those_of_the_loss():
    x, targets, units = lesson()
    rng = np.random.default_rng(1)
    weights = Network(*(0.3 * rng.normal(size=shape).astype(np.float32) for shape in Network.shapes(4, 6)))
    double = [weight.astype(np.float64) for weight in weights]
    wide = Targets(*(part.astype(np.float64) for part in targets))
    slopes = Network(*(np.full_like(weight, np.nan) for weight in weights))
    network._slopes(weights, x, targets, units, slopes)
    for place, slope in enumerate(slopes):
        direction = rng.normal(size=slope.shape)
        step = 1e-6
        values = []
        for sign in (-1, 1):
            moved = [w + sign * step * direction if i == place else w for i, w in enumerate(double)]
            values.append(loss_in_double(moved, x.astype(np.float64), wide, units))
        # single precision, and kinks of absolute values within a step
        assert (values[1] - values[0]) / (2 * step) == pytest.approx(
            float((slope * direction).sum()), rel=2e-2, abs=2e-4
        )


def test_training_finds_a_function_of_its_inputs():
    x, targets, units = lesson(2000)
    network_ = train(x, targets, units, Effort(16, 600), np.random.default_rng(0))
    located = units.location + units.unit * network_(x)[:, 0]
    assert np.corrcoef(located, x[:, 0])[0, 1] > 0.98


def test_moves_are_those_of_adam():
    rng = np.random.default_rng(3)
    start = Network(*(rng.normal(size=shape).astype(np.float32) for shape in Network.shapes(3, 4)))
    adam, plain = network.Adam(start), [weights.astype(np.float64) for weights in start]
    means, squares = ([np.zeros_like(weights) for weights in plain] for _ in range(2))
    for step in range(1, 6):
        slopes = [rng.normal(size=weights.shape) for weights in plain]
        for into, slope in zip(adam.slopes, slopes, strict=True):
            into[...] = slope
        adam.move(0.1)
        for i, slope in enumerate(slopes):  # Kingma and Ba (2015), decay as Loshchilov and Hutter (2019) have it
            means[i] = 0.9 * means[i] + 0.1 * slope
            squares[i] = network._MEMORY * squares[i] + (1 - network._MEMORY) * slope**2
            move = means[i] / (1 - 0.9**step) / np.sqrt(squares[i] / (1 - network._MEMORY**step))
            plain[i] = plain[i] - 0.1 * (move + (network._DECAY * plain[i] if plain[i].ndim == 2 else 0.0))
    for weights, expected in zip(adam.network, plain, strict=True):
        np.testing.assert_allclose(weights, expected, rtol=1e-4, atol=1e-4)  # single precision


def test_an_average_is_one_network():
    rng = np.random.default_rng(2)
    several = [
        Network(*(rng.normal(size=shape).astype(np.float32) for shape in Network.shapes(4, 6))) for _ in range(3)
    ]
    x = rng.normal(size=(10, 4)).astype(np.float32)
    expected = np.mean([one(x) for one in several], axis=0)
    np.testing.assert_allclose(Network.averaged(several)(x), expected, rtol=1e-4, atol=1e-4)


def test_increments_add_up_outwards():
    nodes = np.sort(np.random.default_rng(0).normal(size=len(LEVEL_SCORES)))
    np.testing.assert_allclose(nodes[15] + np.diff(nodes) @ outwards(), nodes, atol=1e-12)


ROWS_ALONE = """
import numpy as np
from nearcal.compiled.network import Network
rng = np.random.default_rng(2)
x = rng.normal(size=(333, 7)).astype(np.float32)
weights = Network(*(rng.normal(size=shape).astype(np.float32) for shape in Network.shapes(7, 64)))
whole = weights(x)
for rows in (slice(0, 1), slice(5, 38), slice(100, 333), [300, 2]):
    assert (weights(x[rows]) == whole[rows]).all(), rows
"""


# processors that OpenBLAS multiplies matrices for in ways of their own; where it is not, the variable says nothing
@pytest.mark.parametrize("processor", ["Haswell", "SkylakeX", "Sandybridge"])
def test_a_row_depends_on_itself_alone(processor):
    environment = {**os.environ, "OPENBLAS_CORETYPE": processor}
    done = subprocess.run(
        [sys.executable, "-c", ROWS_ALONE], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
