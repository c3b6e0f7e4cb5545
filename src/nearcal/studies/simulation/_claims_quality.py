"""Claims on accuracy and coverage."""

from itertools import pairwise
from math import pi, sqrt

from nearcal.studies._claims import Claim
from nearcal.studies.simulation._methods import COVERAGE
from nearcal.studies.simulation._networks import LAYERS
from nearcal.studies.simulation._numbers import (
    CONCLUSION,
    NETWORKS,
    SECTION,
    Numbers,
    at,
    falls,
    geometric_mean,
    join,
    spread,
)


def judge_accuracy(numbers: Numbers) -> list[Claim]:
    """Judge what is said of the mean squared error, by size and network."""
    sizes, last = numbers.sizes, numbers.sizes[-1]
    gain = {(n, net): numbers.of("relative_mse", "local", net, n=n) for n in sizes for net in NETWORKS}
    small = {n: numbers.of("mse", "network", "small", n=n) for n in sizes}
    big = {n: numbers.of("mse", "network", "big", n=n) for n in sizes}
    rival = {
        (method, net): geometric_mean(
            [numbers.of("mse", "local", net, n=n) / numbers.of("mse", method, net, n=n) for n in sizes]
        )
        for method in ("isotonic", "density")
        for net in NETWORKS
    }
    interval = {(n, net): numbers.of("relative_interval_score", "local", net, n=n) for n in sizes for net in NETWORKS}
    gains = ", ".join(f"{net} {at(n)} {value:.3f}" for (n, net), value in gain.items())
    return [
        Claim(
            SECTION,
            "Recalibration improves the networks' MSE.",
            {f"{net} network, {at(n)}: MSE below the network's": value < 1 for (n, net), value in gain.items()},
            f"MSE of RC relative to the network's, mean over layers, k and ε: {gains}",
            "table.md; figure 4 (a)",
        ),
        Claim(
            SECTION,
            "Recalibration improves MSE over the other recalibration methods.",
            {f"{net} network: MSE below that of {method}": value < 1 for (method, net), value in rival.items()},
            "MSE of RC relative to the other's, geometric mean over N: "
            + ", ".join(f"{method} ({net}) {value:.3f}" for (method, net), value in rival.items()),
            "table.md; figure 4 (a)",
        ),
        Claim(
            SECTION,
            "Recalibration has the larger impact on the smaller network.",
            {f"{at(n)}: relative MSE lower for the small network": gain[n, "small"] < gain[n, "big"] for n in sizes},
            f"MSE of RC relative to the network's: {gains}",
            "table.md; figure 4 (a)",
        ),
        Claim(
            SECTION,
            "The smaller network benefits the most from recalibration when data is plenty.",
            {
                f"relative MSE lowest at the largest N, {at(last)}": gain[last, "small"]
                == min(gain[n, "small"] for n in sizes),
                "relative MSE falls with every step of N": falls([gain[n, "small"] for n in sizes]),
            },
            "MSE of RC relative to the small network's: " + ", ".join(f"{at(n)} {gain[n, 'small']:.3f}" for n in sizes),
            "table.md; figure 4 (a)",
        ),
        Claim(
            SECTION,
            "The small network's low capacity keeps more data from improving its MSE further.",
            {
                "small network: MSE falls by less than 10% with the last step of N": small[last]
                > 0.9 * small[sizes[max(len(sizes) - 2, 0)]],
                "its MSE at the largest N is above twice the true model's": small[last] > 2,
                "the big network's MSE is lower there": big[last] < small[last],
            },
            "MSE of the small network: "
            + ", ".join(f"{at(n)} {small[n]:.2f}" for n in sizes)
            + f"; of the big one {at(last)} {big[last]:.2f}",
            "figure 4 (a)",
        ),
        Claim(
            SECTION,
            "Even where more data no longer helps the small network, recalibration improves its MSE on average.",
            {f"{at(n)}: MSE below the network's": gain[n, "small"] < 1 for n in sizes[-2:]},
            ", ".join(f"{at(n)} {gain[n, 'small']:.3f} of the network's MSE" for n in sizes[-2:]),
            "figure 4 (a)",
        ),
        Claim(
            CONCLUSION,
            "Recalibration consistently yields superior MSE and interval metrics.",
            {
                f"{net} network: {name} below the network's at every N": all(value[n, net] < 1 for n in sizes)
                for name, value in (("MSE", gain), ("interval score", interval))
                for net in NETWORKS
            },
            "interval score of RC relative to the network's: "
            + ", ".join(f"{net} {at(n)} {value:.3f}" for (n, net), value in interval.items()),
            "table.md",
        ),
    ]


def judge_settings(numbers: Numbers) -> list[Claim]:
    """Judge what is said of k, the layer and ε."""
    sizes, k = numbers.sizes_with_every_k(), numbers.k
    by_k = [geometric_mean([numbers.of("relative_mse", "local", "big", n=n, k=value) for n in sizes]) for value in k]
    steps = [before - after for before, after in pairwise(by_k)]
    layer = {
        (n, net): spread([numbers.of("mse", "local", net, n=n, layer=name) for name in LAYERS])
        for n in numbers.sizes
        for net in NETWORKS
    }
    eps = {
        (n, net): spread([numbers.of("mse", "local", net, n=n, eps=value) for value in numbers.eps])
        for n in numbers.sizes
        for net in NETWORKS
    }
    return [
        Claim(
            SECTION,
            "More nearest samples improve the big network's recalibrated MSE, with diminishing effect.",
            {
                "MSE falls with every step of k": falls(by_k),
                "the first step brings something, and more than any later one": all(
                    steps[0] > max(later, 0.0) for later in steps[1:]
                ),
            },
            "MSE of RC relative to the big network's, geometric mean over the N that have every k: "
            + ", ".join(f"k = {value}: {found:.3f}" for value, found in zip(k, by_k, strict=True)),
            "figure 4 (b)",
        ),
        Claim(
            SECTION,
            "The target layer has little influence on accuracy.",
            {f"{net} network, {at(n)}: MSE differs by less than 5%": found < 0.05 for (n, net), found in layer.items()},
            "MSE of the worst layer above that of the best: "
            + ", ".join(f"{net} {at(n)} {found:.1%}" for (n, net), found in layer.items()),
            "table.md, by layer",
        ),
        Claim(
            SECTION,
            "The level of approximation has little influence on accuracy.",
            {f"{net} network, {at(n)}: MSE differs by less than 1%": found < 0.01 for (n, net), found in eps.items()},
            "MSE of the worst ε above that of the best: "
            + ", ".join(f"{net} {at(n)} {found:.2%}" for (n, net), found in eps.items()),
            "results.json, settings",
        ),
    ]


def judge_coverage(numbers: Numbers) -> list[Claim]:
    """Judge what is said of coverage."""
    sizes, first, last = numbers.sizes_with_every_k(), numbers.sizes[0], numbers.sizes[-1]
    error = {
        (method, net, n): 100 * numbers.of("coverage_error", method, net, n=n)
        for method in ("network", "isotonic", "density", "local")
        for net in NETWORKS
        for n in (first, last)
    }
    # the mean absolute deviation of a Normal variable with the variance of a share of hits
    chance = 100 * sqrt(2 / pi * COVERAGE * (1 - COVERAGE) / (first / 10))
    by_k = {
        (n, net): [100 * numbers.of("coverage_error", "local", net, n=n, k=k) for k in numbers.k]
        for n in sizes
        for net in NETWORKS
    }
    return [
        Claim(
            SECTION,
            "All models become more reliable as the sample size increases.",
            {
                f"{method}, {net} network: |coverage - 95%| smaller at {at(last)} than at {at(first)}": error[
                    method, net, last
                ]
                < error[method, net, first]
                for method in ("network", "isotonic", "density", "local")
                for net in NETWORKS
            },
            "mean |coverage - 95%| in points: "
            + ", ".join(f"{method} ({net}) {at(n)} {found:.2f}" for (method, net, n), found in error.items())
            + f"; chance alone makes {chance:.1f} of {first // 10} test rows, at {at(first)}",
            "figure 4 (c)",
        ),
        Claim(
            SECTION,
            "Coverage of the recalibrated models is more consistent for larger k.",
            {
                f"{net} network, {at(n)}: mean |coverage - 95%| falls with every step of k": falls(found)
                for (n, net), found in by_k.items()
            },
            f"mean |coverage - 95%| in points for k = {', '.join(map(str, numbers.k))}: "
            + "; ".join(f"{net} {at(n)} {join(found, '.2f')}" for (n, net), found in by_k.items()),
            "figure 4 (d)",
        ),
    ]
