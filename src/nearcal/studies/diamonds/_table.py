"""The table of section 4.4 beside the paper's figures, and what it must show."""

from collections.abc import Mapping
from typing import Any

from nearcal.studies._markdown import count, markdown_table, mean_and_sd
from nearcal.studies._study import Check
from nearcal.studies.diamonds._data import CHOSEN, FEATURES
from nearcal.studies.diamonds._methods import BASES, LEVELS, METHODS, OWN_CHOICE
from nearcal.studies.diamonds._paper import MEASURES, PAPER

TITLES = {"rmse": "RMSE", "coverage_90": "90%", "coverage_95": "95%", "coverage_99": "99%"}
_DIGITS = {"rmse": 1, "coverage_90": 3, "coverage_95": 3, "coverage_99": 3}


def tabulate(settings: Mapping[str, Any], results: Mapping[str, Any]) -> str:
    """Return the table and what must be said of it."""
    training = settings["training"]
    choices = results["choices"][0]
    return "\n\n".join(
        [
            f"{settings['rows']:,} diamonds, split 70/20/10; k = {settings['k']:,} in the input space; mean (standard "
            f"deviation) over {count(settings['seeds'], 'random split')}. The paper gives one split. CRPS by the "
            "midpoint rule over 100 levels.",
            _table(results["values"]),
            f"{FEATURES} The network is trained by Adam, learning rate {training['learning_rate']}, batches of "
            f"{training['batch_size']}, at most {training['epochs']} epochs, the best by validation loss kept. The "
            f"paper states none of this. {CHOSEN}",
            "nearcal's own choice (first split): " + " ".join(f"{BASES[base]}: {choices[base]}" for base in BASES),
        ]
    )


def _rows() -> dict[str, str]:
    """Return the title of every row."""
    rows = {}
    for base, title in BASES.items():
        for method, name in METHODS.items():
            rows[f"{base}_{method}"] = f"{name} {title} RC" if name else title
        rows[f"{base}_{OWN_CHOICE}"] = f"{title}, nearcal's own choice"
    return rows


def _table(values: Mapping[str, Any]) -> str:
    rows = _rows()
    columns: dict[str, list[str]] = {"Model": list(rows.values())}
    for place, measure in enumerate(MEASURES):
        columns[TITLES[measure]] = [mean_and_sd(values[row][measure], _DIGITS[measure]) for row in rows]
        columns[f"{TITLES[measure]}, paper"] = [str(PAPER[row][place]) if row in PAPER else "" for row in rows]
    columns["CRPS"] = [mean_and_sd(values[row]["crps"], 1) for row in rows]
    return markdown_table(columns)


def judge_targets(mean: Mapping[str, Any]) -> list[Check]:
    """Tell whether local recalibration lowers the RMSE of both models and meets every nominal level."""
    checks = []
    for base, title in BASES.items():
        before, after = mean[f"{base}_base"], mean[f"{base}_local"]
        checks.append(
            Check(
                f"Quantile {title} RC: RMSE below that of the {title}",
                f"{after['rmse']:.1f} against {before['rmse']:.1f}",
                after["rmse"] < before["rmse"],
            )
        )
        found = {level: after[f"coverage_{100 * level:.0f}"] for level in LEVELS}
        checks.append(
            Check(
                f"Quantile {title} RC: every nominal level met within 1 point",
                ", ".join(f"{share:.3f}" for share in found.values()),
                all(abs(share - level) <= 0.01 for level, share in found.items()),
            )
        )
    return checks
