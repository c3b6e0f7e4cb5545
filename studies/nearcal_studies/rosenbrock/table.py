"""The table of section 4.2 beside the paper's figures, what it must show, and the claims."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from nearcal_studies.rosenbrock.methods import METHODS, OWN_CHOICE
from nearcal_studies.rosenbrock.network import DROPOUT
from nearcal_studies.study import Check, Claims
from nearcal_studies.tables import count, markdown_table, mean_and_sd

PAPER = {
    "wsir": {"mse": 71.25, "coverage": 95.5, "smis": 0.569},
    "dropout": {"mse": 75.06, "coverage": 99.0, "smis": 0.874},
    "wsir_local": {"mse": 60.52, "coverage": 94.3, "smis": 0.500},
    "dropout_local": {"mse": 60.44, "coverage": 94.7, "smis": 0.499},
    "true": {"mse": 59.64, "coverage": 94.6, "smis": 0.477},
}
PAPER_WIDTHS = [6400, 6400, 240, 240]
PAPER_EPOCHS = 75
COLUMNS = {"mse": ("MSE", 2), "coverage": ("Coverage (%)", 2), "smis": ("sMIS", 3)}
ROWS = {**METHODS, OWN_CHOICE: "WSIR, nearcal's own choice"}


def tabulate(settings: Mapping[str, Any], results: Mapping[str, Any]) -> str:
    """Return the table and what must be said of it."""
    widths = ", ".join(map(str, settings["widths"]))
    parts = [
        f"n = {settings['n']:,}, split 80/10/10; hidden layers of {widths}, batch normalisation and dropout {DROPOUT} "
        f"after each, {settings['epochs']} epochs; {settings['draws']:,} draws; radius {settings['radius']}; mean "
        f"(standard deviation) over {count(settings['seeds'], 'seed')}. MSE to the responses; coverage and sMIS of 95% "
        "intervals; worst cell: the least coverage over the 24 unit squares of the input space. Without dropout (WSIR) "
        "batch normalisation has the statistics of inputs that pass without it; those of training vary more.",
        _table(results["values"]),
        f"nearcal's own choice (first seed): {results['choices'][0]}",
    ]
    if settings["widths"] != PAPER_WIDTHS:
        paper = ", ".join(map(str, PAPER_WIDTHS))
        parts.insert(
            1,
            f"The paper's network has hidden layers of {paper} and is trained for {PAPER_EPOCHS} epochs, which takes "
            "many hours on a CPU (`full`); this one is narrower, and makes up for epochs by a learning rate that falls "
            "to zero. Its inputs are standardised for training. Width, training and statistics were chosen on seeds 0, "
            "10, 11, 20 to 22 and 30 to 33, which are not among these.",
        )
    return "\n\n".join(parts)


def _table(values: Mapping[str, Any]) -> str:
    columns: dict[str, list[str]] = {"Model": list(ROWS.values())}
    for key, (title, digits) in COLUMNS.items():
        columns[title] = [mean_and_sd(values[name][key], digits) for name in ROWS]
        columns[f"{title}, paper"] = [str(PAPER[name][key]) if name in PAPER else "" for name in ROWS]
    columns["Worst cell (%)"] = [mean_and_sd(values[name]["worst_cell"], 1) for name in ROWS]
    return markdown_table(columns)


def judge_targets(mean: Mapping[str, Any]) -> list[Check]:
    """Tell whether recalibrated networks come near the true model and the networks themselves do not."""
    checks = []
    true = mean["true"]
    for name in ("wsir", "dropout"):
        before, after, title = mean[name], mean[f"{name}_local"], METHODS[f"{name}_local"]
        checks += [
            Check(f"{title}: MSE, share off the true model's", abs(after["mse"] / true["mse"] - 1), "<", 0.05),
            Check(f"{title}: coverage, points from 95%", abs(after["coverage"] - 95), "<", 1),
            Check(f"{title}: sMIS, share off the true model's", abs(after["smis"] / true["smis"] - 1), "<", 0.08),
            Check(f"{METHODS[name]}: MSE relative to that after", before["mse"] / after["mse"], ">", 1.05),
            Check(f"{METHODS[name]}: sMIS relative to that after", before["smis"] / after["smis"], ">", 1.1),
        ]
    return checks


def judge_claims(results: Mapping[str, Any]) -> Claims:
    """Judge the claims of section 4.2 by means over seeds."""
    mean = results["mean"]
    wsir, dropout, true = mean["wsir"], mean["dropout"], mean["true"]
    local = {name: mean[f"{name}_local"] for name in ("wsir", "dropout")}
    titles = {"wsir": "WSIR", "dropout": "MC dropout"}
    others = [wsir, *local.values()]
    low = {
        name: float(np.mean([seed[name] for seed in results["mean_where_x2_is_negative"]]))
        for name in ("wsir", "wsir_local", "true")
    }
    return {
        "(4.2) Recalibration decreases predictions for low x₂, which the network overestimated.": [
            Check("mean prediction over x₂ < 0, relative to the true mean", low["wsir"] / low["true"], ">", 1),
            Check("the same after, relative to before", low["wsir_local"] / low["wsir"], "<", 1),
        ],
        "(4.2) WSIR has a smaller MSE than MC dropout.": [Check("WSIR's mean MSE", wsir["mse"], "<", dropout["mse"])],
        "(4.2) The recalibrated methods are closest to the true model by a large margin.": [
            Check(
                f"{title}: excess of MSE over the true model's, relative to that before",
                (local[name]["mse"] - true["mse"]) / (mean[name]["mse"] - true["mse"]),
                "<",
                0.5,
            )
            for name, title in titles.items()
        ],
        "(4.2) MC dropout's intervals are too wide: the largest coverage and the largest interval score.": [
            Check("MC dropout's coverage", dropout["coverage"], ">", max(of["coverage"] for of in others)),
            Check("MC dropout's sMIS", dropout["smis"], ">", max(of["smis"] for of in others)),
        ],
        "(4.2) Coverage and interval score of the recalibrated methods are very close to those of the true model.": [
            check
            for name, title in titles.items()
            for check in (
                Check(
                    f"{title}: coverage, points from the true model's",
                    abs(local[name]["coverage"] - true["coverage"]),
                    "<",
                    1,
                ),
                Check(
                    f"{title}: sMIS, share off the true model's",
                    abs(local[name]["smis"] / true["smis"] - 1),
                    "<",
                    0.08,
                ),
            )
        ],
        "(4.2) The network covers about 95% overall but misses whole areas; recalibrated, it misses evenly.": [
            Check("WSIR: coverage, points from 95%", abs(wsir["coverage"] - 95), "<", 2),
            Check("WSIR: coverage of the worst of 24 cells", wsir["worst_cell"], "<", 85),
            Check("recalibrated: coverage of the worst cell", local["wsir"]["worst_cell"], ">", 88),
        ],
    }
