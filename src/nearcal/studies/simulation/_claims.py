"""The paper's claims on the simulation study, judged by means over seeds."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import exp, isnan, log
from typing import TYPE_CHECKING, Any

from nearcal.studies._claims import Claim
from nearcal.studies.simulation._networks import LAYERS
from nearcal.studies.simulation._results import NO_NETWORK

if TYPE_CHECKING:
    from nearcal.studies.simulation._methods import Row

_NETWORKS = ("small", "big")
_SECTION, _CONCLUSION = "4.3", "5, on section 4.3"


class Numbers:
    """The results, asked for by what they are of; what is not there is NaN, and no condition is met by it."""

    def __init__(self, results: Mapping[str, Any]) -> None:
        self._results = results
        self.sizes = sorted({row["n"] for row in results["methods"]})
        self.k = sorted({row["k"] for row in results["settings"]})
        self.eps = sorted({row["eps"] for row in results["settings"]})
        self.training: "Sequence[Row]" = results["training"]
        self.costs: "Sequence[Row]" = results["costs"]
        self.memory: "Sequence[Row]" = results["memory"]

    def of(self, metric: str, method: str, network: str | None = None, **where: Any) -> float:
        """Return the mean of a metric over all settings that match."""
        table = "settings" if {"layer", "eps", "k"} & set(where) else "methods"
        wanted = {"method": method, **({} if network is None else {"network": network}), **where}
        found = [
            row[metric]
            for row in self._results[table]
            if all(row.get(key) == value for key, value in wanted.items()) and row.get(metric) is not None
        ]
        return sum(found) / len(found) if found else float("nan")

    def sizes_with_every_k(self) -> list[int]:
        """Return the sizes with enough calibration points for the largest k."""
        return [n for n in self.sizes if not isnan(self.of("mse", "local", n=n, k=self.k[-1]))]


def judge_claims(results: Mapping[str, Any]) -> list[Claim]:
    """Judge every claim of the text."""
    if not results["methods"]:
        return []
    numbers = Numbers(results)
    return [*_accuracy(numbers), *_settings(numbers), *_coverage(numbers), *_costs(numbers), *_neighbors(numbers)]


def _accuracy(numbers: Numbers) -> list[Claim]:
    sizes, last = numbers.sizes, numbers.sizes[-1]
    gain = {(n, net): numbers.of("relative_mse", "local", net, n=n) for n in sizes for net in _NETWORKS}
    small = {n: numbers.of("mse", "network", "small", n=n) for n in sizes}
    big = {n: numbers.of("mse", "network", "big", n=n) for n in sizes}
    rival = {
        (method, net): _geometric_mean(
            [numbers.of("mse", "local", net, n=n) / numbers.of("mse", method, net, n=n) for n in sizes]
        )
        for method in ("isotonic", "density")
        for net in _NETWORKS
    }
    interval = {(n, net): numbers.of("relative_interval_score", "local", net, n=n) for n in sizes for net in _NETWORKS}
    gains = ", ".join(f"{net} {_at(n)} {value:.3f}" for (n, net), value in gain.items())
    return [
        Claim(
            _SECTION,
            "Recalibration improves the networks' MSE.",
            {f"{net} network, {_at(n)}: MSE below the network's": value < 1 for (n, net), value in gain.items()},
            f"MSE of RC relative to the network's, mean over layers, k and ε: {gains}",
            "table.md; figure 4 (a)",
        ),
        Claim(
            _SECTION,
            "Recalibration improves MSE over the other recalibration methods.",
            {f"{net} network: MSE below that of {method}": value < 1 for (method, net), value in rival.items()},
            "MSE of RC relative to the other's, geometric mean over N: "
            + ", ".join(f"{method} ({net}) {value:.3f}" for (method, net), value in rival.items()),
            "table.md; figure 4 (a)",
        ),
        Claim(
            _SECTION,
            "Recalibration has the larger impact on the smaller network.",
            {f"{_at(n)}: relative MSE lower for the small network": gain[n, "small"] < gain[n, "big"] for n in sizes},
            f"MSE of RC relative to the network's: {gains}",
            "table.md; figure 4 (a)",
        ),
        Claim(
            _SECTION,
            "The smaller network benefits the most from recalibration when data is plenty.",
            {
                f"relative MSE lowest at the largest N, {_at(last)}": gain[last, "small"]
                == min(gain[n, "small"] for n in sizes),
                "relative MSE falls with every step of N": _falls([gain[n, "small"] for n in sizes]),
            },
            "MSE of RC relative to the small network's: "
            + ", ".join(f"{_at(n)} {gain[n, 'small']:.3f}" for n in sizes),
            "table.md; figure 4 (a)",
        ),
        Claim(
            _SECTION,
            "The small network's low capacity keeps more data from improving its MSE further.",
            {
                "small network: MSE falls by less than 10% with the last step of N": small[last]
                > 0.9 * small[sizes[max(len(sizes) - 2, 0)]],
                "its MSE at the largest N is above twice the true model's": small[last] > 2,
                "the big network's MSE is lower there": big[last] < small[last],
            },
            "MSE of the small network: "
            + ", ".join(f"{_at(n)} {small[n]:.2f}" for n in sizes)
            + f"; of the big one {_at(last)} {big[last]:.2f}",
            "figure 4 (a)",
        ),
        Claim(
            _SECTION,
            "Even where more data no longer helps the small network, recalibration improves its MSE on average.",
            {f"{_at(n)}: MSE below the network's": gain[n, "small"] < 1 for n in sizes[-2:]},
            ", ".join(f"{_at(n)} {gain[n, 'small']:.3f} of the network's MSE" for n in sizes[-2:]),
            "figure 4 (a)",
        ),
        Claim(
            _CONCLUSION,
            "Recalibration consistently yields superior MSE and interval metrics.",
            {
                f"{net} network: {name} below the network's at every N": all(value[n, net] < 1 for n in sizes)
                for name, value in (("MSE", gain), ("interval score", interval))
                for net in _NETWORKS
            },
            "interval score of RC relative to the network's: "
            + ", ".join(f"{net} {_at(n)} {value:.3f}" for (n, net), value in interval.items()),
            "table.md",
        ),
    ]


def _settings(numbers: Numbers) -> list[Claim]:
    sizes, k = numbers.sizes_with_every_k(), numbers.k
    by_k = [_geometric_mean([numbers.of("relative_mse", "local", "big", n=n, k=value) for n in sizes]) for value in k]
    layer = {
        (n, net): _spread([numbers.of("mse", "local", net, n=n, layer=name) for name in LAYERS])
        for n in numbers.sizes
        for net in _NETWORKS
    }
    eps = {
        (n, net): _spread([numbers.of("mse", "local", net, n=n, eps=value) for value in numbers.eps])
        for n in numbers.sizes
        for net in _NETWORKS
    }
    return [
        Claim(
            _SECTION,
            "More nearest samples improve the big network's recalibrated MSE, with diminishing effect.",
            {
                "MSE falls with every step of k": _falls(by_k),
                "every step brings less than the one before": _falls(
                    [before - after for before, after in pairwise(by_k)]
                ),
            },
            "MSE of RC relative to the big network's, geometric mean over the N that have every k: "
            + ", ".join(f"k = {value}: {found:.3f}" for value, found in zip(k, by_k, strict=True)),
            "figure 4 (b)",
        ),
        Claim(
            _SECTION,
            "The target layer has little influence on accuracy.",
            {
                f"{net} network, {_at(n)}: MSE differs by less than 5%": found < 0.05
                for (n, net), found in layer.items()
            },
            "MSE of the worst layer above that of the best: "
            + ", ".join(f"{net} {_at(n)} {found:.1%}" for (n, net), found in layer.items()),
            "table.md, by layer",
        ),
        Claim(
            _SECTION,
            "The level of approximation has little influence on accuracy.",
            {f"{net} network, {_at(n)}: MSE differs by less than 1%": found < 0.01 for (n, net), found in eps.items()},
            "MSE of the worst ε above that of the best: "
            + ", ".join(f"{net} {_at(n)} {found:.2%}" for (n, net), found in eps.items()),
            "results.json, settings",
        ),
    ]


def _coverage(numbers: Numbers) -> list[Claim]:
    sizes, first, last = numbers.sizes_with_every_k(), numbers.sizes[0], numbers.sizes[-1]
    error = {
        (method, net, n): 100 * numbers.of("coverage_error", method, net, n=n)
        for method in ("network", "isotonic", "density", "local")
        for net in _NETWORKS
        for n in (first, last)
    }
    by_k = {
        (n, net): [100 * numbers.of("coverage_error", "local", net, n=n, k=k) for k in numbers.k]
        for n in sizes
        for net in _NETWORKS
    }
    return [
        Claim(
            _SECTION,
            "All models become more reliable as the sample size increases.",
            {
                f"{method}, {net} network: |coverage - 95%| smaller at {_at(last)} than at {_at(first)}": error[
                    method, net, last
                ]
                < error[method, net, first]
                for method in ("network", "isotonic", "density", "local")
                for net in _NETWORKS
            },
            "mean |coverage - 95%| in points: "
            + ", ".join(f"{method} ({net}) {_at(n)} {found:.2f}" for (method, net, n), found in error.items())
            + f"; {first // 10} test rows at {_at(first)} alone make for about 1.7",
            "figure 4 (c)",
        ),
        Claim(
            _SECTION,
            "Coverage of the recalibrated models is more consistent for larger k.",
            {
                f"{net} network, {_at(n)}: mean |coverage - 95%| falls with every step of k": _falls(found)
                for (n, net), found in by_k.items()
            },
            f"mean |coverage - 95%| in points for k = {', '.join(map(str, numbers.k))}: "
            + "; ".join(f"{net} {_at(n)} {_join(found, '.2f')}" for (n, net), found in by_k.items()),
            "figure 4 (d)",
        ),
    ]


def _costs(numbers: Numbers) -> list[Claim]:
    sizes, last = numbers.sizes, numbers.sizes[-1]
    training = {(n, net): numbers.of("train_seconds", "local", net, n=n) for n in sizes for net in _NETWORKS}
    share = {key: numbers.of("fit_seconds", "local", key[1], n=key[0]) / value for key, value in training.items()}
    slower = {
        (n, net): numbers.of("predict_microseconds", "local", net, n=n)
        / numbers.of("predict_microseconds", "network", net, n=n)
        for n in sizes
        for net in _NETWORKS
    }

    def microseconds(net: str, **where: Any) -> float:
        return numbers.of("predict_microseconds", "local", net, n=last, **where)

    places = [(net, layer) for net in _NETWORKS for layer in LAYERS]
    eps = {place: [microseconds(place[0], layer=place[1], eps=value) for value in numbers.eps] for place in places}
    by_k = {place: [microseconds(place[0], layer=place[1], k=value) for value in numbers.k] for place in places}
    layers = {net: {layer: microseconds(net, layer=layer) for layer in LAYERS} for net in _NETWORKS}
    return [
        Claim(
            _SECTION,
            "Recalibration does not significantly affect training time as the sample size increases.",
            {
                f"{net} network, {_at(n)}: fitting below 5% of training": found < 0.05
                for (n, net), found in share.items()
            },
            "fitting relative to training: "
            + ", ".join(f"{net} {_at(n)} {found:.2%}" for (n, net), found in share.items()),
            "table.md; figure 4 (e)",
        ),
        Claim(
            _CONCLUSION,
            "Training time is primarily influenced by the number of observations in the training set.",
            {
                f"{net} network: training takes longer with every step of N": _falls([-training[n, net] for n in sizes])
                for net in _NETWORKS
            },
            "seconds of processor: " + ", ".join(f"{net} {_at(n)} {found:.1f}" for (n, net), found in training.items()),
            "table.md; figure 4 (e)",
        ),
        Claim(
            _SECTION,
            "Recalibration significantly affects prediction time.",
            {
                f"{net} network, {_at(n)}: more than twice the network's": found > 2
                for (n, net), found in slower.items()
            },
            "prediction with RC relative to the network alone: "
            + ", ".join(f"{net} {_at(n)} {found:.1f}" for (n, net), found in slower.items()),
            "table.md; figure 4 (f)",
        ),
        Claim(
            _SECTION,
            "Exact search takes longer than approximate search.",
            {
                f"{net} network, {layer} layer: ε = {numbers.eps[-1]:g} is faster by more than 5%": found[-1]
                < 0.95 * found[0]
                for (net, layer), found in eps.items()
            },
            f"µs a row at {_at(last)} for ε = {_join(numbers.eps, 'g')}: "
            + "; ".join(f"{net} {layer} {_join(found, '.0f')}" for (net, layer), found in eps.items())
            + ". The exact search here does not need ε where it scans all points (wide layers) or a sorted line (one "
            "dimension)",
            "table.md, microseconds",
        ),
        Claim(
            _CONCLUSION,
            "Prediction time increases with k.",
            {
                f"{net} network, {layer} layer: longer with every step of k": _falls([-value for value in found])
                for (net, layer), found in by_k.items()
            },
            f"µs a row at {_at(last)} for k = {', '.join(map(str, numbers.k))}: "
            + "; ".join(f"{net} {layer} {_join(found, '.0f')}" for (net, layer), found in by_k.items()),
            "table.md, microseconds",
        ),
        Claim(
            _CONCLUSION,
            "Prediction time decreases with the dimension of the target layer (number of neurons), as written.",
            {
                "big network: fourth layer (200) faster than fifth (5)": layers["big"]["fourth"]
                < layers["big"]["fifth"],
                "big network: fifth layer (5) faster than output (1)": layers["big"]["fifth"] < layers["big"]["output"],
                "small network: input (20) faster than fifth layer (5)": layers["small"]["input"]
                < layers["small"]["fifth"],
            },
            f"µs a row at {_at(last)}: "
            + "; ".join(
                f"{net} " + ", ".join(f"{layer} {found:.0f}" for layer, found in of.items())
                for net, of in layers.items()
            )
            + ". Fewer neurons make prediction faster, which may be what is meant",
            "table.md, microseconds",
        ),
        _memory(numbers),
    ]


def _memory(numbers: Numbers) -> Claim:
    """Compare the growth of memory from the fewest to the most rows, at the largest k, with the formula's."""
    at_k = [row for row in numbers.memory if row["k"] == max(one["k"] for one in numbers.memory)]
    known = len(at_k) > 1 and all(row[name] is not None for row in at_k for name in ("held", "chunked"))
    growth = {
        name: at_k[-1][name] - at_k[0][name] if known else float("nan") for name in ("formula", "held", "chunked")
    }
    per_formula = {name: growth[name] / growth["formula"] for name in ("held", "chunked")}
    rows = f" from {at_k[0]['rows']:,} to {at_k[-1]['rows']:,} rows at k = {at_k[0]['k']}" if known else ""
    return Claim(
        _SECTION,
        "Memory of prediction grows in O(n), as n(2k + h + d).",
        {
            "samples of all rows held: grows by at least the formula's": per_formula["held"] >= 1,
            "means and intervals, as computed here: grows by at least half of the formula's": per_formula["chunked"]
            >= 0.5,
        },
        f"growth relative to the formula's{rows}: all held {per_formula['held']:.2f}, in chunks "
        f"{per_formula['chunked']:.2f}; working in chunks of rows bounds it",
        "table.md, megabytes",
    )


def _neighbors(numbers: Numbers) -> list[Claim]:
    sizes = numbers.sizes
    accuracy = {
        (n, net): numbers.of("mse", "neighbors", NO_NETWORK, n=n) / numbers.of("mse", "local", net, n=n)
        for n in sizes
        for net in _NETWORKS
    }
    time = {
        n: numbers.of("predict_microseconds", "neighbors", NO_NETWORK, n=n, layer="input")
        / numbers.of("predict_microseconds", "local", "big", n=n, layer="input")
        for n in sizes
    }
    share = {
        row["n"]: row["neighbors_cpu_seconds"] / row["cpu_seconds"] if row["cpu_seconds"] else float("nan")
        for row in numbers.costs
    }
    return [
        Claim(
            _SECTION,
            "kNN regression does not compare with recalibration in performance.",
            {f"{net} network, {_at(n)}: MSE more than twice RC's": found > 2 for (n, net), found in accuracy.items()},
            "MSE of kNN regression relative to RC's: "
            + ", ".join(f"{net} {_at(n)} {found:.1f}" for (n, net), found in accuracy.items()),
            "table.md; figure 4 (a)",
        ),
        Claim(
            f"{_SECTION}; {_CONCLUSION}",
            "kNN regression does not compare with recalibration in computational efficiency.",
            {
                f"{_at(n)}: predicting takes 10% longer than RC in the input layer": found > 1.1
                for n, found in time.items()
            },
            "time to predict relative to RC in the big network's input layer: "
            + ", ".join(f"{_at(n)} {found:.2f}" for n, found in time.items())
            + ". Both are the same search here",
            "table.md",
        ),
        Claim(
            _SECTION,
            "kNN regression takes up to two thirds of the total simulation time, too much at N of 10^5 and more.",
            {f"{_at(n)}: more than half of the processor time": found > 0.5 for n, found in share.items()},
            "share of processor time: " + ", ".join(f"{_at(n)} {found:.1%}" for n, found in share.items()),
            "table.md, what the study took",
        ),
    ]


def _at(n: int) -> str:
    return f"N = {n:,}"


def _join(values: Sequence[float], form: str) -> str:
    return ", ".join(f"{value:{form}}" for value in values)


def _falls(values: Sequence[float]) -> bool:
    return len(values) > 1 and all(after < before for before, after in pairwise(values))


def _spread(values: Sequence[float]) -> float:
    """Return by how much the largest is above the smallest, relative to it."""
    return max(values) / min(values) - 1


def _geometric_mean(values: Sequence[float]) -> float:
    return exp(sum(log(value) for value in values) / len(values)) if values else float("nan")
