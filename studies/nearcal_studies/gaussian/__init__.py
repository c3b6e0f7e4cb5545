"""Section 4.1: a straight line with one standard deviation, on data that are curved and heteroscedastic."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from nearcal_studies.gaussian.figures import draw_figure_1, draw_figure_2
from nearcal_studies.gaussian.methods import population_figures, run_seed
from nearcal_studies.gaussian.table import agreement_with_r, judge_claims, tabulate
from nearcal_studies.study import Conclusion, Outcome, Scale, Study, Unit
from nearcal_studies.tables import collect, means


class Gaussian(Study):
    """The heteroscedastic Gaussian model."""

    name = "gaussian"
    title = "Heteroscedastic Gaussian model (section 4.1)"
    claims = staticmethod(judge_claims)

    def settings(self, scale: Scale) -> dict[str, Any]:
        """Return the paper's settings, or a tenth of its data."""
        return {
            "n": scale.choose(100_000, quick=10_000),
            "k": scale.choose(1000, quick=100),
            "kl_rows": scale.choose(16, quick=8),
            "seeds": scale.seed_list(40, quick=2),  # twice as many as the R package's, to leave less to chance
        }

    def units(self, settings: Mapping[str, Any]) -> Sequence[Unit]:
        """Return one unit a seed."""
        shared = {name: settings[name] for name in ("n", "k", "kl_rows")} | {"drawn": settings["seeds"][0]}
        return [Unit(f"seed-{seed}", run_seed, {**shared, "seed": seed}) for seed in settings["seeds"]]

    def conclude(self, settings: Mapping[str, Any], done: Mapping[str, Outcome]) -> Conclusion:
        """Return means and spreads over seeds, and the figures of the first seed."""
        outcomes = [done[f"seed-{seed}"] for seed in settings["seeds"]]
        values = collect([outcome.numbers["methods"] for outcome in outcomes])
        results: dict[str, Any] = {
            "values": values,
            "mean": means(values),
            "population": population_figures(),
            "frosini_calibration": [outcome.numbers["frosini_calibration"] for outcome in outcomes],
            "choices": [outcome.numbers["choice"] for outcome in outcomes],
        }
        first = outcomes[0]
        return Conclusion(
            results,
            tabulate(settings, results),
            agreement_with_r(settings, values),
            {"figure_1": partial(draw_figure_1, first, settings["k"]), "figure_2": partial(draw_figure_2, first)},
        )
