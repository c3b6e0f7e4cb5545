"""The units of work: choose a learning rate, train a network, recalibrate it in one way, predict without it."""

from collections.abc import Callable, Mapping
from typing import Any

from nearcal_studies.simulation.costs import watch
from nearcal_studies.simulation.data import Split, simulate
from nearcal_studies.simulation.methods import (
    Grid,
    Predicted,
    Row,
    measure_base,
    measure_density,
    measure_isotonic,
    measure_local,
    measure_memory,
    measure_neighbors,
    measure_tuned,
    pass_through,
    warm_up,
)
from nearcal_studies.simulation.networks import ARCHITECTURES, LAYERS, Training, examine, make_network, train_network
from nearcal_studies.study import Outcome
from nearcal_studies.training import Schedule, one_thread, weights_of, with_weights

Settings = Mapping[str, Any]


def choose_rate(settings: Settings) -> Outcome:
    """Train with every learning rate on one seed; the smallest validation error wins."""
    with one_thread(), watch() as cost:
        split = simulate(settings["n"], settings["seed"])
        errors = {rate: _train(settings, split, rate).validation_mse for rate in settings["rates"]}
    rate = min(errors, key=lambda tried: errors[tried])
    trials = [{"rate": tried, "validation_mse": error} for tried, error in errors.items()]
    return Outcome({"rate": rate, "trials": trials, "cost": cost.as_numbers()})


def train_one(settings: Settings, chosen: Outcome) -> Outcome:
    """Train one network and keep its weights."""
    with one_thread(), watch() as cost:
        split = simulate(settings["n"], settings["seed"])
        rate = chosen.numbers["rate"]
        training = _train(settings, split, rate)
        health = examine(training.network, split.calibration)
    numbers = {
        "epochs": training.epochs,
        "rate": rate,
        "validation_mse": training.validation_mse,
        "seconds": training.seconds,
        "explained": health.explained,
        "dead_units": health.dead_units,
        "collapsed": health.collapsed,
        "cost": cost.as_numbers(),
    }
    return Outcome(numbers, weights_of(training.network))


def recalibrate_locally(settings: Settings, trained: Outcome) -> Outcome:
    """Measure the network itself, isotonic recalibration, and local recalibration in every setting."""
    grid = Grid(tuple(settings["k"]), tuple(settings["eps"]))

    def rows(calibration: Predicted, test: Predicted) -> list[Row]:
        local = measure_local(calibration, test, grid, tuple(LAYERS))
        return [measure_base(test), measure_isotonic(calibration, test), *local]

    return _of_network(settings, trained, rows)


def recalibrate_by_density(settings: Settings, trained: Outcome) -> Outcome:
    """Measure recalibration by density estimation."""
    return _of_network(settings, trained, lambda cal, test: [measure_density(cal, test, settings["seed"])])


def recalibrate_tuned(settings: Settings, trained: Outcome) -> Outcome:
    """Measure local recalibration with the choice of leave-one-out."""
    return _of_network(settings, trained, lambda cal, test: [measure_tuned(cal, test)])


def predict_by_neighbors(settings: Settings) -> Outcome:
    """Measure nearest-neighbour regression on the calibration part."""
    warm_up()
    with watch() as cost:
        grid = Grid(tuple(settings["k"]), tuple(settings["eps"]))
        rows = measure_neighbors(simulate(settings["n"], settings["seed"]), grid, settings["test_rows"])
    return Outcome({"rows": rows, "cost": cost.as_numbers()})


def memory_of_prediction(settings: Settings) -> Outcome:
    """Measure the memory of prediction."""
    warm_up()
    with watch() as cost:
        memory = measure_memory(settings["n"], settings["rows"], settings["k"])
    return Outcome({"memory": memory, "cost": cost.as_numbers()})


def _train(settings: Settings, split: Split, rate: float) -> Training:
    batch_size, epochs, patience = settings["schedule"]
    return train_network(settings["network"], split, Schedule(epochs, batch_size, rate, patience), settings["seed"])


def _of_network(
    settings: Settings, trained: Outcome, measure_rows: Callable[[Predicted, Predicted], list[Row]]
) -> Outcome:
    """Measure ways to recalibrate a trained network; one that collapsed is left alone."""
    if trained.numbers["collapsed"]:
        return Outcome({"rows": []})
    warm_up()
    with one_thread(), watch() as cost:
        network = with_weights(make_network(ARCHITECTURES[settings["network"]]), trained.arrays)
        split = simulate(settings["n"], settings["seed"])
        calibration, test, microseconds = pass_through(network, split, settings["test_rows"])
        rows = measure_rows(calibration, test)
    return Outcome({"rows": rows, "pass_microseconds": microseconds, "cost": cost.as_numbers()})
