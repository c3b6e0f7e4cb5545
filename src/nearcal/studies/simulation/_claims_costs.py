"""Claims on time and memory, and on nearest-neighbour regression."""

from typing import Any

from nearcal.studies._claims import Claim
from nearcal.studies.simulation._networks import LAYERS
from nearcal.studies.simulation._numbers import CONCLUSION, NETWORKS, SECTION, Numbers, at, falls, join
from nearcal.studies.simulation._results import NO_NETWORK


def judge_costs(numbers: Numbers) -> list[Claim]:
    """Judge what is said of training, prediction and memory."""
    sizes, last = numbers.sizes, numbers.sizes[-1]
    training = {(n, net): numbers.of("train_seconds", "local", net, n=n) for n in sizes for net in NETWORKS}
    share = {key: numbers.of("fit_seconds", "local", key[1], n=key[0]) / value for key, value in training.items()}
    slower = {
        (n, net): numbers.of("predict_microseconds", "local", net, n=n)
        / numbers.of("predict_microseconds", "network", net, n=n)
        for n in sizes
        for net in NETWORKS
    }

    def microseconds(net: str, **where: Any) -> float:
        return numbers.of("least_microseconds", "local", net, n=last, **where)

    places = [(net, layer) for net in NETWORKS for layer in LAYERS]
    eps = {place: [microseconds(place[0], layer=place[1], eps=value) for value in numbers.eps] for place in places}
    by_k = {place: [microseconds(place[0], layer=place[1], k=value) for value in numbers.k] for place in places}
    layers = {net: {layer: microseconds(net, layer=layer) for layer in LAYERS} for net in NETWORKS}
    return [
        Claim(
            SECTION,
            "Recalibration does not significantly affect training time as the sample size increases.",
            {
                f"{net} network, {at(n)}: fitting below 5% of training": found < 0.05
                for (n, net), found in share.items()
            },
            "fitting relative to training: "
            + ", ".join(f"{net} {at(n)} {found:.2%}" for (n, net), found in share.items()),
            "table.md; figure 4 (e)",
        ),
        Claim(
            CONCLUSION,
            "Training time is primarily influenced by the number of observations in the training set.",
            {
                f"{net} network: training takes longer with every step of N": falls([-training[n, net] for n in sizes])
                for net in NETWORKS
            },
            "seconds of processor: " + ", ".join(f"{net} {at(n)} {found:.1f}" for (n, net), found in training.items()),
            "table.md; figure 4 (e)",
        ),
        Claim(
            SECTION,
            "Recalibration significantly affects prediction time.",
            {f"{net} network, {at(n)}: more than twice the network's": found > 2 for (n, net), found in slower.items()},
            "prediction with RC relative to the network alone: "
            + ", ".join(f"{net} {at(n)} {found:.1f}" for (n, net), found in slower.items()),
            "table.md; figure 4 (f)",
        ),
        Claim(
            SECTION,
            "Exact search takes longer than approximate search.",
            {
                f"{net} network, {layer} layer: ε = {numbers.eps[-1]:g} is faster by more than 20%": found[-1]
                < 0.8 * found[0]
                for (net, layer), found in eps.items()
            },
            f"µs a row at {at(last)} for ε = {join(numbers.eps, 'g')}: "
            + "; ".join(f"{net} {layer} {join(found, '.0f')}" for (net, layer), found in eps.items())
            + ". The exact search here does not need ε where it scans all points (wide layers) or a sorted line (one "
            "dimension)",
            "table.md, microseconds",
        ),
        Claim(
            CONCLUSION,
            "Prediction time increases with k.",
            {
                f"{net} network, {layer} layer: longer with every step of k": falls([-value for value in found])
                for (net, layer), found in by_k.items()
            },
            f"µs a row at {at(last)} for k = {', '.join(map(str, numbers.k))}: "
            + "; ".join(f"{net} {layer} {join(found, '.0f')}" for (net, layer), found in by_k.items()),
            "table.md, microseconds",
        ),
        Claim(
            CONCLUSION,
            "Prediction time decreases with the dimension of the target layer (number of neurons), as written.",
            {
                "big network: fourth layer (200) faster than fifth (5)": layers["big"]["fourth"]
                < layers["big"]["fifth"],
                "big network: fifth layer (5) faster than output (1)": layers["big"]["fifth"] < layers["big"]["output"],
                "small network: input (20) faster than fifth layer (5)": layers["small"]["input"]
                < layers["small"]["fifth"],
            },
            f"µs a row at {at(last)}: "
            + "; ".join(
                f"{net} " + ", ".join(f"{layer} {found:.0f}" for layer, found in of.items())
                for net, of in layers.items()
            )
            + ". Fewer neurons make prediction faster, which may be what is meant",
            "table.md, microseconds",
        ),
        judge_memory(numbers),
    ]


def judge_memory(numbers: Numbers) -> Claim:
    """Compare the growth of memory from the fewest to the most rows, at the largest k, with the formula's."""
    at_k = [row for row in numbers.memory if row["k"] == max(one["k"] for one in numbers.memory)]
    known = len(at_k) > 1 and all(row[name] is not None for row in at_k for name in ("held", "chunked"))
    growth = {
        name: at_k[-1][name] - at_k[0][name] if known else float("nan") for name in ("formula", "held", "chunked")
    }
    per_formula = {name: growth[name] / growth["formula"] for name in ("held", "chunked")}
    rows = f" from {at_k[0]['rows']:,} to {at_k[-1]['rows']:,} rows at k = {at_k[0]['k']}" if known else ""
    return Claim(
        SECTION,
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


def judge_neighbors(numbers: Numbers) -> list[Claim]:
    """Judge what is said of nearest-neighbour regression."""
    sizes = numbers.sizes
    accuracy = {
        (n, net): numbers.of("mse", "neighbors", NO_NETWORK, n=n) / numbers.of("mse", "local", net, n=n)
        for n in sizes
        for net in NETWORKS
    }
    time = {
        n: numbers.of("least_microseconds", "neighbors", NO_NETWORK, n=n, layer="input")
        / numbers.of("least_microseconds", "local", "big", n=n, layer="input")
        for n in sizes
    }
    share = {
        row["n"]: row["kinds"]["neighbors"]["cpu_seconds"] / row["cpu_seconds"]
        for row in numbers.costs
        if "neighbors" in row["kinds"]
    }
    return [
        Claim(
            SECTION,
            "kNN regression does not compare with recalibration in performance.",
            {f"{net} network, {at(n)}: MSE more than twice RC's": found > 2 for (n, net), found in accuracy.items()},
            "MSE of kNN regression relative to RC's: "
            + ", ".join(f"{net} {at(n)} {found:.1f}" for (n, net), found in accuracy.items()),
            "table.md; figure 4 (a)",
        ),
        Claim(
            f"{SECTION}; {CONCLUSION}",
            "kNN regression does not compare with recalibration in computational efficiency.",
            {
                f"{at(n)}: predicting takes 10% longer than RC in the input layer": found > 1.1
                for n, found in time.items()
            },
            "time to predict relative to RC in the big network's input layer: "
            + ", ".join(f"{at(n)} {found:.2f}" for n, found in time.items())
            + ". Both are the same search here",
            "table.md",
        ),
        Claim(
            SECTION,
            "kNN regression takes up to two thirds of the total simulation time, too much at N of 10^5 and more.",
            {f"{at(n)}: more than half of the processor time": found > 0.5 for n, found in share.items()},
            "share of processor time: " + ", ".join(f"{at(n)} {found:.1%}" for n, found in share.items()),
            "table.md, what the study took",
        ),
    ]
