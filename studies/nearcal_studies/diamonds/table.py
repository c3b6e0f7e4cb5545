"""The table of section 4.4 beside the paper's figures of one split, what it must show, and the claims."""

from collections.abc import Mapping
from typing import Any

from nearcal_studies.diamonds.data import CHOSEN, FEATURES
from nearcal_studies.diamonds.methods import BASES, LEVELS, METHODS, OWN_CHOICE
from nearcal_studies.study import Check, Claims
from nearcal_studies.tables import count, markdown_table, mean_and_sd

PAPER = {
    "glm_base": (798.9, 0.955, 0.982, 0.997),
    "glm_isotonic": (789.3, 0.894, 0.949, 0.991),
    "glm_density": (796.0, 0.956, 0.982, 0.997),
    "glm_local": (751.2, 0.898, 0.946, 0.986),
    "nn_base": (557.8, 0.933, 0.966, 0.987),
    "nn_isotonic": (557.8, 0.898, 0.947, 0.988),
    "nn_density": (558.0, 0.934, 0.965, 0.987),
    "nn_local": (542.8, 0.896, 0.944, 0.986),
}
MEASURES = ("rmse", "coverage_90", "coverage_95", "coverage_99")
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
        checks += [
            Check(f"Quantile {title} RC: RMSE relative to the {title}'s", after["rmse"] / before["rmse"], "<", 1),
            Check(f"Quantile {title} RC: largest gap of coverage at the levels, points", _gap(after), "<", 1),
        ]
    return checks


def judge_claims(results: Mapping[str, Any]) -> Claims:
    """Judge the claims of section 4.4 by means over splits."""
    mean = results["mean"]
    rmse = {row: measures["rmse"] for row, measures in mean.items()}
    gap = {row: _gap(measures) for row, measures in mean.items()}
    others = {"isotonic": "isotonic", "density": "density estimation"}
    return {
        "(4.4) Local (quantile) recalibration is the only method that lowers the RMSE of the network.": [
            Check("local: RMSE relative to the network's", rmse["nn_local"] / rmse["nn_base"], "<", 0.995),
            *(
                Check(f"{name}: RMSE relative to the network's", rmse[f"nn_{method}"] / rmse["nn_base"], ">", 0.995)
                for method, name in others.items()
            ),
        ],
        "(4.4) Local recalibration lowers the RMSE of the regression most.": [
            Check(f"RMSE relative to that of {name}", rmse["glm_local"] / rmse[f"glm_{method}"], "<", 1)
            for method, name in {"base": "the regression", **others}.items()
        ],
        "(4.4) Isotonic and local recalibration bring coverage close to nominal at 90, 95 and 99%.": [
            Check(f"{method}, {BASES[base]}: largest gap of the three, points", gap[f"{base}_{method}"], "<", 1)
            for base in BASES
            for method in ("isotonic", "local")
        ],
        "(4.4) Density estimation leaves the coverage of the base models as it was.": [
            Check(
                f"{BASES[base]}: largest gap after, relative to before",
                gap[f"{base}_density"] / gap[f"{base}_base"],
                ">",
                0.8,
            )
            for base in BASES
        ],
        "(4.4, 5) On real data recalibration improves predictions and intervals, even at a nearly nominal coverage.": [
            Check(f"{BASES[base]}: {name} after, relative to before", after / before, "<", 1)
            for base in BASES
            for name, before, after in (
                ("RMSE", rmse[f"{base}_base"], rmse[f"{base}_local"]),
                ("CRPS", mean[f"{base}_base"]["crps"], mean[f"{base}_local"]["crps"]),
                ("largest gap of coverage", gap[f"{base}_base"], gap[f"{base}_local"]),
            )
        ],
    }


def _gap(measures: Mapping[str, float]) -> float:
    """Return the largest distance of coverage from its nominal level, in percentage points."""
    return max(abs(100 * measures[f"coverage_{100 * level:.0f}"] - 100 * level) for level in LEVELS)
