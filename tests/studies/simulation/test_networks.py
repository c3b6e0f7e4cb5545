import numpy as np
import pytest
import torch

from nearcal.models.adapters import TorchModel
from nearcal_studies.simulation.data import Part, simulate
from nearcal_studies.simulation.networks import (
    ARCHITECTURES,
    LAYERS,
    Health,
    examine,
    explained_share,
    make_network,
    train_network,
)
from nearcal_studies.training import Schedule

SCHEDULE = Schedule(epochs=12, batch_size=64, learning_rate=0.003, patience=5)


@pytest.fixture(scope="module")
def split():
    return simulate(2000, 0)


@pytest.fixture(scope="module")
def training(split):
    return train_network("big", split, SCHEDULE, 0)


def predict(network, x):
    with torch.no_grad():
        return network(torch.from_numpy(x).float())[:, 0].double().numpy()


def test_network_predicts_the_response_itself(split, training):
    error = np.mean((split.calibration.y - predict(training.network, split.calibration.x)) ** 2)
    assert training.validation_mse == pytest.approx(error, rel=1e-3)  # the weights of the best epoch
    assert error < 0.2 * split.calibration.y.var()


def test_training_depends_on_its_seed_alone(split, training):
    torch.manual_seed(123)
    state = torch.get_rng_state()
    again = train_network("big", split, SCHEDULE, 0)
    other = train_network("big", split, Schedule(1, 64, 0.003), 1)
    assert torch.equal(torch.get_rng_state(), state)
    x = split.test.x
    np.testing.assert_array_equal(predict(again.network, x), predict(training.network, x))
    assert not np.allclose(predict(other.network, x), predict(training.network, x))


def test_training_stops_early(split):
    # steps so long that the error never falls after the first epochs
    assert train_network("small", split, Schedule(40, 64, 30.0, patience=2), 0).epochs < 40


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_layers_are_those_of_the_paper(architecture, split):
    model = TorchModel(make_network(ARCHITECTURES[architecture])).prepared(*split.calibration)
    widths = [model.represent(split.test.x, name).shape[1] for name in LAYERS.values()]
    assert widths == [20, ARCHITECTURES[architecture][2], 5, 1]
    assert (model.represent(split.test.x, LAYERS["fourth"]) >= 0).all()  # after ReLU


def test_trained_network_has_not_collapsed(split, training):
    health = examine(training.network, split.calibration)
    assert not health.collapsed
    assert health.explained == pytest.approx(1 - training.validation_mse / split.calibration.y.var(), rel=1e-3)


def test_network_with_a_dead_layer_has_collapsed(split, training):
    network = make_network(ARCHITECTURES["small"])
    with torch.no_grad():
        network[4].weight.zero_()
        network[4].bias.fill_(-1.0)  # no unit of the third hidden layer ever fires
        network[-1].bias.fill_(float(split.training.y.mean()))
    health = examine(network, split.calibration)
    assert health.dead_units[2] == 5
    assert health.explained == pytest.approx(0.0, abs=0.02)  # the best constant explains nothing
    assert health.collapsed


def test_some_dead_units_are_no_collapse():
    assert not Health(explained=0.4, dead_units=(0, 2, 3, 4)).collapsed
    assert Health(explained=0.04, dead_units=(0, 0, 0, 0)).collapsed


def test_explained_share():
    y = np.array([0.0, 1.0, 2.0, 3.0])
    assert explained_share(y, y) == 1.0
    assert explained_share(np.full(4, 1.5), y) == 0.0
    assert explained_share(3 - y, y) == pytest.approx(1 - 5 / 1.25)


def test_unit_is_dead_if_zero_in_every_row():
    network = make_network((2,))
    with torch.no_grad():
        network[0].weight.zero_()
        network[0].weight[1, 0] = 1.0
        network[0].bias.zero_()
    part = Part(np.tile([[1.0], [-1.0]], (1, 20)), np.array([0.0, 1.0]))
    assert examine(network, part).dead_units == (1,)
