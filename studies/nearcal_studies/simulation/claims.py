"""The paper's claims on the simulation study, judged by means over seeds."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nearcal_studies.simulation.methods import COVERAGE
from nearcal_studies.simulation.networks import ARCHITECTURES, LAYERS
from nearcal_studies.simulation.results import NO_NETWORK
from nearcal_studies.study import Check, Claims

NETWORKS = tuple(ARCHITECTURES)


def judge_claims(results: Mapping[str, Any]) -> Claims:
    """Judge every claim of section 4.3, and what the paper's conclusion says of it."""
    if not results["methods"]:
        return {}
    numbers = Numbers(results)
    parts = (judge_accuracy, judge_settings, judge_coverage, judge_costs, judge_memory, judge_neighbors)
    return {sentence: checks for judge in parts for sentence, checks in judge(numbers).items()}


class Numbers:
    """The results, asked for by what they are of; what is not there is NaN, and no bound is met by it."""

    def __init__(self, results: Mapping[str, Any]) -> None:
        self._results = results
        self.sizes = sorted({row["n"] for row in results["methods"]})
        self.k = sorted({row["k"] for row in results["settings"]})
        self.eps = sorted({row["eps"] for row in results["settings"]})
        self.costs, self.memory = results["costs"], results["memory"]
        self.places = [(network, n) for n in self.sizes for network in NETWORKS]

    def of(self, metric: str, method: str, network: str | None = None, **where: Any) -> float:
        """Return the mean of a metric over all settings that match."""
        table = "settings" if {"layer", "eps", "k"} & set(where) else "methods"
        wanted = {"method": method, **({} if network is None else {"network": network}), **where}
        matching = [
            row[metric]
            for row in self._results[table]
            if all(row.get(key) == value for key, value in wanted.items()) and row.get(metric) is not None
        ]
        return float(np.mean(matching)) if matching else np.nan

    def by_place(self, metric: str, method: str, **where: Any) -> dict[tuple[str, int], float]:
        """Return the means of a metric by network and size."""
        return {(network, n): self.of(metric, method, network, n=n, **where) for network, n in self.places}

    def sizes_with_every_k(self) -> list[int]:
        """Return the sizes with enough calibration points for the largest k."""
        return [n for n in self.sizes if not np.isnan(self.of("mse", "local", n=n, k=self.k[-1]))]


def judge_accuracy(numbers: Numbers) -> Claims:
    """Judge what is said of the mean squared error, by size and network."""
    sizes, last = numbers.sizes, numbers.sizes[-1]
    gain, interval = (numbers.by_place(f"relative_{score}", "local") for score in ("mse", "interval_score"))
    small, big = ({n: numbers.of("mse", "network", network, n=n) for n in sizes} for network in NETWORKS)
    rival = {
        (method, network): _geometric_mean(
            [numbers.of("mse", "local", network, n=n) / numbers.of("mse", method, network, n=n) for n in sizes]
        )
        for method in ("isotonic", "density")
        for network in NETWORKS
    }
    return {
        "(4.3) Recalibration improves the networks' MSE.": _each("MSE relative to the network's", gain, "<", 1),
        "(4.3) Recalibration improves MSE over the other recalibration methods.": _each(
            "MSE relative to the other's, geometric mean over N", rival, "<", 1
        ),
        "(4.3) Recalibration has the larger impact on the smaller network.": [
            Check(f"{_at(n)}: relative MSE, against the big one's", gain["small", n], "<", gain["big", n])
            for n in sizes
        ],
        "(4.3) The smaller network benefits the most from recalibration when data is plenty.": [
            Check(
                f"relative MSE at the largest N, {_at(last)}, against the best at others",
                gain["small", last],
                "<",
                min([gain["small", n] for n in sizes[:-1]], default=np.nan),
            ),
            *_falls("relative MSE, over the steps of N", {"small": [gain["small", n] for n in sizes]}),
        ],
        "(4.3) The small network's low capacity keeps more data from improving its MSE further.": [
            Check("its MSE relative to that one step of N before", small[last] / small[sizes[-2:][0]], ">", 0.9),
            Check("its MSE at the largest N relative to the true model's", small[last], ">", 2),
            Check("the big network's MSE relative to it there", big[last] / small[last], "<", 1),
        ],
        "(4.3) Even where more data no longer helps the small network, recalibration improves its MSE on average.": [
            Check(f"{_at(n)}: MSE relative to the network's", gain["small", n], "<", 1) for n in sizes[-2:]
        ],
        "(5) Recalibration consistently yields superior MSE and interval metrics.": [
            check
            for name, ratio in (("MSE", gain), ("interval score", interval))
            for check in _each(
                f"{name} relative to the network's, largest over N",
                {network: _largest([ratio[network, n] for n in sizes]) for network in NETWORKS},
                "<",
                1,
            )
        ],
    }


def judge_settings(numbers: Numbers) -> Claims:
    """Judge what is said of k, the layer and ε."""
    sizes = numbers.sizes_with_every_k()
    by_k = [_geometric_mean([numbers.of("relative_mse", "local", "big", n=n, k=k) for n in sizes]) for k in numbers.k]
    first, *later = -np.diff(by_k) if len(by_k) > 1 else [np.nan]
    layer, eps = (
        {place: _spread([values[place] for values in table]) for place in numbers.places}
        for table in (
            [numbers.by_place("mse", "local", layer=layer) for layer in LAYERS],
            [numbers.by_place("mse", "local", eps=eps) for eps in numbers.eps],
        )
    )
    return {
        "(4.3) More nearest samples improve the big network's recalibrated MSE, with diminishing effect.": [
            *_falls("relative MSE, geometric mean over N, over the steps of k", {"big": by_k}),
            Check("what the first step brings, against the best of later ones", first, ">", max([0.0, *later])),
        ],
        "(4.3) The target layer has little influence on accuracy.": _each(
            "MSE of the worst layer above the best's, relative", layer, "<", 0.05
        ),
        "(4.3) The level of approximation has little influence on accuracy.": _each(
            "MSE of the worst ε above the best's, relative", eps, "<", 0.01
        ),
    }


def judge_coverage(numbers: Numbers) -> Claims:
    """Judge what is said of coverage."""
    first, last = numbers.sizes[0], numbers.sizes[-1]
    # the mean absolute deviation of a Normal variable with the variance of a share of hits
    chance = 100 * np.sqrt(2 / np.pi * COVERAGE * (1 - COVERAGE) / (first / 10))

    def error(method: str, network: str, n: int, **where: Any) -> float:
        return 100 * numbers.of("coverage_error", method, network, n=n, **where)

    by_k = {
        (network, n): [error("local", network, n, k=k) for k in numbers.k]
        for network, n in numbers.places
        if n in numbers.sizes_with_every_k()
    }
    return {
        "(4.3) All models become more reliable as the sample size increases.": [
            Check(
                f"{method}, {network}: |coverage - 95%| in points at {_at(last)}, against {_at(first)}, where chance "
                f"alone makes {chance:.1f}",
                error(method, network, last),
                "<",
                error(method, network, first),
            )
            for method in ("network", "isotonic", "density", "local")
            for network in NETWORKS
        ],
        "(4.3) Coverage of the recalibrated models is more consistent for larger k.": _falls(
            "|coverage - 95%| in points, over the steps of k", by_k
        ),
    }


def judge_costs(numbers: Numbers) -> Claims:
    """Judge what is said of training and prediction."""
    last = numbers.sizes[-1]
    training, fitting = (numbers.by_place(f"{what}_seconds", "local") for what in ("train", "fit"))
    alone, recalibrated = (numbers.by_place("predict_microseconds", method) for method in ("network", "local"))
    places = [(network, layer) for network in NETWORKS for layer in LAYERS]

    def microseconds(network: str, layer: str, **where: Any) -> float:
        return numbers.of("least_microseconds", "local", network, n=last, layer=layer, **where)

    # the exact search does not need ε where it scans all points (wide layers) or a sorted line (one dimension)
    approximate = {
        place: microseconds(*place, eps=numbers.eps[-1]) / microseconds(*place, eps=numbers.eps[0]) for place in places
    }
    pairs = (("big", "fourth", "fifth"), ("big", "fifth", "output"), ("small", "input", "fifth"))
    narrower = {
        (network, f"{wide} against {narrow} layer"): microseconds(network, wide) / microseconds(network, narrow)
        for network, wide, narrow in pairs
    }
    return {
        "(4.3) Recalibration does not significantly affect training time as the sample size increases.": _each(
            "fitting relative to training", {place: fitting[place] / training[place] for place in training}, "<", 0.05
        ),
        "(5) Training time is primarily influenced by the number of observations in the training set.": _rises(
            "seconds, over the steps of N",
            {network: [training[network, n] for n in numbers.sizes] for network in NETWORKS},
        ),
        "(4.3) Recalibration significantly affects prediction time.": _each(
            "relative to the network alone", {place: recalibrated[place] / alone[place] for place in alone}, ">", 2
        ),
        "(4.3) Exact search takes longer than approximate search.": _each(
            f"time with ε = {numbers.eps[-1]:g} relative to the exact search", approximate, "<", 0.8
        ),
        "(5) Prediction time increases with k.": _rises(
            "µs a row, over the steps of k",
            {place: [microseconds(*place, k=k) for k in numbers.k] for place in places},
        ),
        # fewer neurons make prediction faster, which may be what is meant
        "(5) Prediction time decreases with the dimension of the target layer (number of neurons), as written.": _each(
            "ratio of times", narrower, "<", 1
        ),
    }


def judge_memory(numbers: Numbers) -> Claims:
    """Compare the growth of memory from the fewest to the most rows, at the largest k, with the formula's."""
    table = [row for row in numbers.memory if row["k"] == max(one["k"] for one in numbers.memory)]
    known = len(table) > 1 and all(row[name] is not None for row in table for name in ("held", "chunked"))
    growth = {name: table[-1][name] - table[0][name] if known else np.nan for name in ("formula", "held", "chunked")}
    return {
        "(4.3) Memory of prediction grows in O(n), as n(2k + h + d).": [
            Check("growth relative to the formula's, all samples held", growth["held"] / growth["formula"], ">", 1),
            Check("the same in chunks of rows, as here", growth["chunked"] / growth["formula"], ">", 0.5),
        ]
    }


def judge_neighbors(numbers: Numbers) -> Claims:
    """Judge what is said of nearest-neighbour regression."""
    local = numbers.by_place("mse", "local")
    accuracy = {
        (network, n): numbers.of("mse", "neighbors", NO_NETWORK, n=n) / mse for (network, n), mse in local.items()
    }
    time = {
        n: numbers.of("least_microseconds", "neighbors", NO_NETWORK, n=n, layer="input")
        / numbers.of("least_microseconds", "local", "big", n=n, layer="input")
        for n in numbers.sizes
    }
    share = {
        row["n"]: row["kinds"]["neighbors"]["cpu_seconds"] / row["cpu_seconds"]
        for row in numbers.costs
        if "neighbors" in row["kinds"]
    }
    return {
        "(4.3) kNN regression does not compare with recalibration in performance.": _each(
            "its MSE relative to RC's", accuracy, ">", 2
        ),
        "(4.3, 5) kNN regression does not compare with recalibration in computational efficiency.": _each(
            "its time relative to RC in the big network's input layer, by the same search", time, ">", 1.1
        ),
        "(4.3) kNN regression takes up to two thirds of the simulation time, too much at N of 10^5 and more.": _each(
            "share of processor time", share, ">", 0.5
        ),
    }


def _each(what: str, values: Mapping[Any, float], side: Any, bound: float) -> list[Check]:
    """Return one check a value, named by its key: a size, words, or both."""
    return [Check(f"{_name(key)}: {what}", value, side, bound) for key, value in values.items()]


def _falls(what: str, values: Mapping[Any, Sequence[float]]) -> list[Check]:
    changes = {key: _largest(np.diff(own)) for key, own in values.items()}
    return _each(f"{what}, largest change", changes, "<", 0)


def _rises(what: str, values: Mapping[Any, Sequence[float]]) -> list[Check]:
    changes = {key: -_largest(-np.diff(own)) for key, own in values.items()}
    return _each(f"{what}, smallest change", changes, ">", 0)


def _name(key: Any) -> str:
    parts = key if isinstance(key, tuple) else (key,)
    return ", ".join(_at(part) if isinstance(part, int) else part for part in parts)


def _at(n: int) -> str:
    return f"N = {n:,}"


def _largest(values: Any) -> float:
    return float(np.max(values)) if len(values) else np.nan


def _spread(values: Sequence[float]) -> float:
    """Return by how much the largest is above the smallest, relative to it."""
    return max(values) / min(values) - 1


def _geometric_mean(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values)))) if values else np.nan
