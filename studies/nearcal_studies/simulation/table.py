"""Tables of the simulation study; the paper shows figure 4 and one number, the true model's MSE of 1."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from nearcal_studies.run import duration
from nearcal_studies.simulation.methods import CRPS_ROWS, Row
from nearcal_studies.simulation.networks import LAYERS, LEAST_EXPLAINED
from nearcal_studies.simulation.results import NO_NETWORK
from nearcal_studies.tables import markdown_table

#: The methods by the paper's names, in its order.
METHODS = {
    "network": "network alone (NN)",
    "isotonic": "isotonic (ISO)",
    "density": "density estimation (QNN)",
    "local": "local (RC)",
    "tuned": "local, tuned by leave-one-out",
    "neighbors": "kNN regression",
}
_WITH_K = ("local", "neighbors")
_KINDS = {
    "rate": "learning rates",
    "train": "training",
    "local": "NN, ISO and RC",
    "density": "QNN",
    "tuned": "tuned RC",
    "neighbors": "kNN",
}


def tabulate(settings: Mapping[str, Any], results: Mapping[str, Any]) -> str:
    """Return all tables and what must be said of them."""
    parts = [
        _introduction(settings),
        _methods(results),
        _layers(results),
        _choices(results),
        _prediction_times(results),
        _training(settings, results),
        _memory(results),
        _costs(results),
    ]
    return "\n\n".join(parts)


def _introduction(settings: Mapping[str, Any]) -> str:
    seeds = ", ".join(f"{len(size['seeds'])} at N = {size['n']:,}" for size in settings["sizes"])
    return (
        f"Mean (standard deviation) over seeds: {seeds}. 80% of N to train, 10% to validate and calibrate, 10% to "
        f"test, of which the first {settings['test_rows']:,} rows at most are predicted (the CRPS is that of the first "
        f"{CRPS_ROWS:,}). MSE is to the observed response, so that the true model's is 1, the only number that the "
        "paper gives; coverage and interval score are those of 95% intervals. Rows with k are means over layers and "
        f"ε = {', '.join(f'{eps:g}' for eps in settings['eps'])}; k above the number of calibration points, a tenth of "
        "N, is left out. Times are processor time with one thread, as the machine is shared: to train the network, to "
        "fit the recalibrator (tuning included), and to predict the mean and interval of one row, passing through the "
        "network included."
    )


def _methods(results: Mapping[str, Any]) -> str:
    rows = _ordered([row for row in results["by_k"] if row["method"] in _WITH_K])
    rows = _ordered([*rows, *(row for row in results["methods"] if row["method"] not in _WITH_K)])
    return markdown_table(
        {
            "N": [f"{row['n']:,}" for row in rows],
            "network": [_name_network(row) for row in rows],
            "method": [name_method(row) for row in rows],
            "MSE": [_cell(row, "mse", 3) for row in rows],
            "MSE / network's": [_cell(row, "relative_mse", 3) for row in rows],
            "coverage (%)": [_cell(row, "coverage", 2, 100) for row in rows],
            "CRPS": [_cell(row, "crps", 4) for row in rows],
            "interval score": [_cell(row, "interval_score", 2) for row in rows],
            "train (s)": [f"{row['train_seconds']:.1f}" for row in rows],
            "fit (s)": [f"{row['fit_seconds']:.3g}" for row in rows],
            "predict (µs a row)": [f"{row['predict_microseconds']:.1f}" for row in rows],
            "seeds": [str(row["seeds"]) for row in rows],
        }
    )


def _layers(results: Mapping[str, Any]) -> str:
    rows = _ordered([row for row in results["settings"] if row["method"] == "local" and row["eps"] == 0])
    places = list(dict.fromkeys((row["n"], row["network"], row["k"]) for row in rows))
    found = {(row["n"], row["network"], row["k"], row["layer"]): row for row in rows}
    columns = {
        "N": [f"{n:,}" for n, _, _ in places],
        "network": [network for _, network, _ in places],
        "k": [str(k) for _, _, k in places],
    }
    for layer in LAYERS:
        columns[layer] = [
            f"{found[(*place, layer)]['relative_mse']:.3f} / {100 * found[(*place, layer)]['coverage']:.1f} / "
            f"{found[(*place, layer)]['relative_crps']:.3f}"
            for place in places
        ]
    return (
        "Local recalibration by layer, exact search: MSE relative to the network's / coverage (%) / CRPS relative to "
        "the network's.\n\n" + markdown_table(columns)
    )


def _prediction_times(results: Mapping[str, Any]) -> str:
    largest = max((row["n"] for row in results["settings"]), default=0)
    rows = [row for row in results["settings"] if row["n"] == largest]
    places = list(dict.fromkeys((row["network"], row["layer"]) for row in rows))
    columns = {
        "network": [_name_network({"network": network}) for network, _ in places],
        "layer": [layer for _, layer in places],
    }
    found = {(row["network"], row["layer"], row["k"], row["eps"]): row["least_microseconds"] for row in rows}
    for k, eps in sorted({(row["k"], row["eps"]) for row in rows}):
        columns[f"k = {k}, ε = {eps:g}"] = [f"{found[(*place, k, eps)]:.1f}" for place in places]
    return (
        f"Microseconds to predict a row at N = {largest:,}, by layer, k and ε: the least over seeds, as other work on "
        "the machine only ever adds to it.\n\n" + markdown_table(columns)
    )


def _choices(results: Mapping[str, Any]) -> str:
    groups: dict[tuple[int, str], list[Row]] = {}
    for row in sorted(results["choices"], key=lambda row: row["n"]):
        groups.setdefault((row["n"], row["network"]), []).append(row)
    layers = [Counter(row["layer"] or "no layer" for row in rows).most_common() for rows in groups.values()]
    return "What leave-one-out chose; no layer stands for global or no recalibration.\n\n" + markdown_table(
        {
            "N": [f"{n:,}" for n, _ in groups],
            "network": [network for _, network in groups],
            "layer (seeds)": [", ".join(f"{layer} ({count})" for layer, count in found) for found in layers],
            "k": [_name_range([row["k"] for row in rows if row["k"]]) for rows in groups.values()],
            "first seed": [rows[0]["choice"] for rows in groups.values()],
        }
    )


def _name_range(values: Sequence[int]) -> str:
    ends = sorted({min(values), max(values)}) if values else []
    return " to ".join(map(str, ends))


def _training(settings: Mapping[str, Any], results: Mapping[str, Any]) -> str:
    rows = results["training"]
    schedules = {size["n"]: size["schedule"] for size in settings["sizes"]}
    table = markdown_table(
        {
            "N": [f"{row['n']:,}" for row in rows],
            "network": [row["network"] for row in rows],
            "learning rate": [f"{row['rate']:g}" for row in rows],
            "validation MSE by rate, first seed": [
                ", ".join(f"{trial['rate']:g}: {trial['validation_mse']:.3g}" for trial in row["trials"])
                for row in rows
            ],
            "rows a step": [str(schedules[row["n"]][0]) for row in rows],
            "epochs, most": [str(schedules[row["n"]][1]) for row in rows],
            "epochs, run": [_name_range(row["epochs"]) for row in rows],
            "dead units": [_name_range(row["dead_units"]) for row in rows],
            "collapsed": [f"{len(row['collapsed'])} of {row['trained']}" for row in rows],
        }
    )
    lost = [
        f"{row['network']} at N = {row['n']:,}, seed {one['seed']} (explains {one['explained']:.1%}, dead units by "
        f"layer {one['dead_units']})"
        for row in rows
        for one in row["collapsed"]
    ]
    shorter = [
        f"of {size['trial'][1]} epochs at N = {size['n']:,}"
        for size in settings["sizes"]
        if size["trial"] != size["schedule"]
    ]
    trials = f" ({', '.join(shorter)})" if shorter else ""
    return (
        "Networks: Adam on squared error, response standardised, stopped early by the validation part, which also "
        "chooses the learning rate, by a training of the first seed with each"
        f"{trials}. The paper's range is 1e-4 to 1e-2; it gives no batch sizes "
        f"and epochs. A network that explains less than {LEAST_EXPLAINED:.0%} of the variance of the validation "
        f"responses has collapsed and is left out of all else: {'; '.join(lost) or 'none did'}.\n\n{table}"
    )


def _memory(results: Mapping[str, Any]) -> str:
    rows = results["memory"]
    return (
        "Megabytes that predicting takes, against the paper's n(2k + h + d) numbers of 8 bytes (input space): with the "
        "weighted samples of all rows held, and as means and intervals are computed here, in chunks.\n\n"
        + markdown_table(
            {
                "new rows": [f"{row['rows']:,}" for row in rows],
                "k": [str(row["k"]) for row in rows],
                "paper's formula": [f"{row['formula']:.1f}" for row in rows],
                "all held": [_megabytes(row["held"]) for row in rows],
                "in chunks": [_megabytes(row["chunked"]) for row in rows],
            }
        )
    )


def _costs(results: Mapping[str, Any]) -> str:
    rows = results["costs"]
    columns = {
        "N": [f"{row['n']:,}" for row in rows],
        "processor time": [duration(row["cpu_seconds"]) for row in rows],
        "time on the clock": [duration(row["elapsed_seconds"]) for row in rows],
        "peak memory (MB)": [f"{row['peak_megabytes']:.0f}" for row in rows],
    }
    for kind, name in _KINDS.items():
        own = [row["kinds"].get(kind) for row in rows]
        columns[name] = ["" if of is None else f"{of['cpu_seconds']:.0f} / {of['peak_megabytes']:.0f}" for of in own]
    return (
        "What the whole study took, by size: all seeds, both networks, one thread; and by part, seconds of processor "
        "time / peak memory of the process in MB.\n\n" + markdown_table(columns)
    )


def name_method(row: Row) -> str:
    """Return a method by its name in the paper, with k if it has one of its own."""
    name = METHODS[row["method"]]
    return f"{name}, k = {row['k']}" if row["method"] in _WITH_K else name


def _name_network(row: Row) -> str:
    return "" if row["network"] == NO_NETWORK else row["network"]


def _ordered(rows: Sequence[Row]) -> list[Row]:
    networks, methods = ["small", "big", NO_NETWORK], list(METHODS)
    return sorted(
        rows,
        key=lambda row: (row["n"], networks.index(row["network"]), methods.index(row["method"]), row.get("k") or 0),
    )


def _cell(row: Row, metric: str, digits: int, factor: float = 1.0) -> str:
    if metric not in row:
        return ""
    mean, sd = f"{factor * row[metric]:.{digits}f}", row[f"{metric}_sd"]
    return mean if sd is None else f"{mean} ({factor * sd:.{digits}f})"


def _megabytes(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
