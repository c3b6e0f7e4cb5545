"""The table of section 4.2 beside the paper's figures, and what it must show."""

from collections.abc import Mapping
from typing import Any

from nearcal.studies._markdown import count, markdown_table, mean_and_sd
from nearcal.studies._study import Check
from nearcal.studies.rosenbrock._methods import METHODS, OWN_CHOICE
from nearcal.studies.rosenbrock._network import DROPOUT
from nearcal.studies.rosenbrock._paper import PAPER, PAPER_EPOCHS, PAPER_WIDTHS

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
        after, before = mean[f"{name}_local"], mean[name]
        title = METHODS[f"{name}_local"]
        checks += [
            _ratio_check(f"{title}: MSE within 5% of the true model's", after["mse"], true["mse"], 0.05),
            Check(
                f"{title}: coverage within 1 point of 95%",
                f"{after['coverage']:.2f}",
                abs(after["coverage"] - 95) <= 1,
            ),
            _ratio_check(f"{title}: sMIS within 8% of the true model's", after["smis"], true["smis"], 0.08),
            Check(
                f"{METHODS[name]} is clearly worse: MSE and sMIS at least 5% and 10% above those after recalibration",
                f"MSE {before['mse']:.2f} against {after['mse']:.2f}, sMIS {before['smis']:.3f} against "
                f"{after['smis']:.3f}",
                before["mse"] >= 1.05 * after["mse"] and before["smis"] >= 1.1 * after["smis"],
            ),
        ]
    return checks


def _ratio_check(statement: str, value: float, reference: float, share: float) -> Check:
    ratio = value / reference - 1
    return Check(statement, f"{value:.3f} against {reference:.3f}, {100 * ratio:+.1f}%", abs(ratio) <= share)
