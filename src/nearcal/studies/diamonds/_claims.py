"""The paper's claims on the diamonds."""

from collections.abc import Mapping
from typing import Any

from nearcal.studies._claims import Claim
from nearcal.studies.diamonds._methods import BASES, LEVELS


def judge_claims(results: Mapping[str, Any]) -> list[Claim]:
    """Judge the claims of section 4.4 by means over splits."""
    mean = results["mean"]
    rmse = {row: measures["rmse"] for row, measures in mean.items()}
    gap = {row: _largest_gap(measures) for row, measures in mean.items()}
    return [
        Claim(
            "4.4",
            "Local (quantile) recalibration is the only method that lowers the RMSE of the network.",
            {
                "local: lower on average, by at least 0.5%": rmse["nn_local"] < 0.995 * rmse["nn_base"],
                "isotonic: not lower by as much": rmse["nn_isotonic"] >= 0.995 * rmse["nn_base"],
                "density estimation: not lower by as much": rmse["nn_density"] >= 0.995 * rmse["nn_base"],
            },
            f"RMSE {rmse['nn_base']:.1f} (base), {rmse['nn_local']:.1f} (local), {rmse['nn_isotonic']:.1f} (isotonic), "
            f"{rmse['nn_density']:.1f} (density estimation)",
            "table.md",
        ),
        Claim(
            "4.4",
            "Local recalibration lowers the RMSE of the regression most.",
            {
                f"lower than {name}": rmse["glm_local"] < rmse[f"glm_{method}"]
                for method, name in (("base", "base"), ("isotonic", "isotonic"), ("density", "density estimation"))
            },
            f"RMSE {rmse['glm_base']:.1f} (base), {rmse['glm_local']:.1f} (local), {rmse['glm_isotonic']:.1f} "
            f"(isotonic), {rmse['glm_density']:.1f} (density estimation)",
            "table.md",
        ),
        Claim(
            "4.4",
            "Isotonic and local recalibration bring coverage close to nominal at 90, 95 and 99%.",
            {
                f"{name}, {BASES[base]}: all three within 1 point": gap[f"{base}_{method}"] <= 0.01
                for base in BASES
                for method, name in (("isotonic", "isotonic"), ("local", "local"))
            },
            "largest gap in points: "
            + ", ".join(f"{100 * gap[f'{b}_{m}']:.2f} ({m}, {BASES[b]})" for b in BASES for m in ("isotonic", "local")),
            "table.md",
        ),
        Claim(
            "4.4",
            "Density estimation leaves the coverage of the base models as it was.",
            {
                f"{BASES[base]}: largest gap after is at least 80% of that before": gap[f"{base}_density"]
                >= 0.8 * gap[f"{base}_base"]
                for base in BASES
            },
            "largest gap in points, before → after: "
            + ", ".join(f"{100 * gap[f'{b}_base']:.2f} → {100 * gap[f'{b}_density']:.2f} ({BASES[b]})" for b in BASES),
            "table.md",
        ),
        Claim(
            "4.4, 5",
            "On real data recalibration improves predictions and intervals, even at a nearly nominal coverage.",
            {
                f"{BASES[base]}: RMSE and CRPS lower, largest gap of coverage smaller": rmse[f"{base}_local"]
                < rmse[f"{base}_base"]
                and mean[f"{base}_local"]["crps"] < mean[f"{base}_base"]["crps"]
                and gap[f"{base}_local"] < gap[f"{base}_base"]
                for base in BASES
            },
            ", ".join(
                f"{BASES[b]}: RMSE {rmse[f'{b}_base']:.1f} → {rmse[f'{b}_local']:.1f}, CRPS "
                f"{mean[f'{b}_base']['crps']:.1f} → {mean[f'{b}_local']['crps']:.1f}"
                for b in BASES
            ),
            "table.md; figure 5",
        ),
    ]


def _largest_gap(measures: Mapping[str, float]) -> float:
    return max(abs(measures[f"coverage_{100 * level:.0f}"] - level) for level in LEVELS)
