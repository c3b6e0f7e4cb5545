"""The page of the paper's claims, generated from results, and the claims that rest on several studies."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nearcal_studies.store import write_whole
from nearcal_studies.study import Check, Claims, Study

_HEAD = (
    "# Claims of the paper\n\n"
    "Generated from the results beside this file; nothing is typed. Every claim comes to numbers and their bounds. It "
    "holds if all are met, holds partly if some are, and else does not hold."
)
_GENERAL = "Background, methods and conclusion (sections 2, 3 and 5)"
_NEEDED = ("gaussian", "rosenbrock", "diamonds")
# (study, before, after, least coverage of a region) of every pair of the simulated examples
_PAIRS = {
    "Gaussian": ("gaussian", "linear", "local", "worst_slice"),
    "Rosenbrock, WSIR": ("rosenbrock", "wsir", "wsir_local", "worst_cell"),
    "Rosenbrock, MC dropout": ("rosenbrock", "dropout", "dropout_local", "worst_cell"),
}


def write_claims(folder: Path, studies: Mapping[str, type[Study]]) -> Path:
    """Write ``folder/claims.md`` from the ``results.json`` of the studies below the folder; return its path."""
    paths = {name: folder / name / "results.json" for name in studies}
    records = {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}
    results = {name: record["results"] for name, record in records.items() if "results" in record}
    sections = {study.title: study().claims(results[name]) for name, study in studies.items() if name in results}
    if all(name in results for name in _NEEDED):
        sections[_GENERAL] = general_claims({name: results[name]["mean"] for name in _NEEDED})
    verdicts = [verdict(checks) for own in sections.values() for checks in own.values()]
    counts = ", ".join(f"{verdicts.count(kind)} {kind}" for kind in dict.fromkeys(verdicts))
    blocks = [f"{_HEAD} Of {len(verdicts)} claims: {counts}."]
    for title, own in sections.items():
        blocks += [f"## {title}", *(_block(*claim) for claim in own.items())] if own else []
    path = folder / "claims.md"
    write_whole(path, ("\n\n".join(blocks) + "\n").encode())
    return path


def _block(sentence: str, checks: Sequence[Check]) -> str:
    return f"**{verdict(checks)}** {sentence}\n\n" + "\n".join(f"- {check}" for check in checks)


def verdict(checks: Sequence[Check]) -> str:
    """Return what the checks of a claim amount to."""
    met = [check.holds for check in checks]
    return "holds" if all(met) else "holds partly" if any(met) else "does not hold"


def general_claims(mean: Mapping[str, Any]) -> Claims:
    """Judge the claims of the paper's background, methods and conclusion by means over seeds, by study."""
    pairs = {title: (mean[s][before], mean[s][after], worst) for title, (s, before, after, worst) in _PAIRS.items()}
    everywhere, wsir, network = mean["gaussian"]["global"], mean["rosenbrock"]["wsir"], mean["diamonds"]["nn_base"]
    recalibrated = mean["diamonds"]["nn_local"]
    return {
        "(2) Quantile calibration is too weak a notion: a model can be calibrated overall and wrong in places.": [
            Check("Gaussian, global: coverage, points from 95%", abs(everywhere["coverage"] - 95), "<", 1),
            Check("Gaussian, global: coverage of the worst of six slices", everywhere["worst_slice"], "<", 90),
            Check("Rosenbrock, WSIR: coverage, points from 95%", abs(wsir["coverage"] - 95), "<", 2),
            Check("Rosenbrock, WSIR: coverage of the worst of 24 cells", wsir["worst_cell"], "<", 85),
        ],
        "(3, 5) The method serves models with a likelihood and those with an empirical distribution alike.": [
            *(_lower(f"{title}: ", *pair[:2], key) for title, pair in pairs.items() for key in ("mse", "smis")),
            *(_lower("diamonds, Gamma network: ", network, recalibrated, key) for key in ("rmse", "crps")),
        ],
        "(5) In the simple examples recalibration improves MSE, coverage and interval score.": [
            check
            for title, (before, after, _) in pairs.items()
            for check in (
                _lower(f"{title}: ", before, after, "mse"),
                _nearer(f"{title}: coverage", before["coverage"], after["coverage"]),
                _lower(f"{title}: ", before, after, "smis"),
            )
        ],
        "(5) Recalibrated models cover evenly while their intervals get narrower.": [
            check
            for title, (before, after, worst) in pairs.items()
            for check in (
                _nearer(f"{title}: coverage of the worst region", before[worst], after[worst]),
                _lower(f"{title}: ", before, after, "width"),
            )
        ],
        "(5) Recalibration can help even where the observed coverage is close to nominal.": [
            Check("Rosenbrock, WSIR: coverage before, points from 95%", abs(wsir["coverage"] - 95), "<", 2),
            _lower("Rosenbrock, WSIR: ", wsir, mean["rosenbrock"]["wsir_local"], "mse", 0.95),
            Check("diamonds: coverage before, points from 95%", 100 * abs(network["coverage_95"] - 0.95), "<", 2),
            _lower("diamonds: ", network, recalibrated, "rmse"),
        ],
    }


_TITLES = {"mse": "MSE", "rmse": "RMSE", "crps": "CRPS", "smis": "sMIS", "width": "mean width"}


def _lower(where: str, before: Mapping[str, float], after: Mapping[str, float], key: str, share: float = 1.0) -> Check:
    return Check(f"{where}{_TITLES[key]} after, relative to before", after[key] / before[key], "<", share)


def _nearer(what: str, before: float, after: float) -> Check:
    return Check(f"{what} after, points from 95%", abs(after - 95), "<", abs(before - 95))
