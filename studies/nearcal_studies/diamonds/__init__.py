"""Section 4.4: prices of diamonds, by a Gamma regression and by a network with a Gamma likelihood."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from nearcal_studies.diamonds.data import FIRST_SPLIT
from nearcal_studies.diamonds.figures import draw_figure_5
from nearcal_studies.diamonds.methods import run_split
from nearcal_studies.diamonds.table import judge_claims, judge_targets, tabulate
from nearcal_studies.study import Conclusion, Outcome, Scale, Study, Unit
from nearcal_studies.tables import collect, means


class Diamonds(Study):
    """Prices of diamonds."""

    name = "diamonds"
    title = "Diamonds price prediction (section 4.4)"
    claims = staticmethod(judge_claims)

    def settings(self, scale: Scale) -> dict[str, Any]:
        """Return the paper's settings, and how the network is trained, which the paper does not say."""
        return {
            "rows": scale.choose(53_940, quick=6_000),
            "k": scale.choose(1000, quick=100),
            "training": {
                "epochs": scale.choose(30, quick=10),
                "batch_size": 128,
                "learning_rate": 0.002,
                "patience": None,
            },
            "density_epochs": scale.choose(500, quick=30),
            "seeds": scale.seed_list(5, first=FIRST_SPLIT),
        }

    def units(self, settings: Mapping[str, Any]) -> Sequence[Unit]:
        """Return one unit a split."""
        shared = {name: value for name, value in settings.items() if name != "seeds"} | {"drawn": settings["seeds"][0]}
        return [Unit(f"split-{seed}", run_split, {**shared, "seed": seed}) for seed in settings["seeds"]]

    def conclude(self, settings: Mapping[str, Any], done: Mapping[str, Outcome]) -> Conclusion:
        """Return means and spreads over splits, and figure 5 of the first split."""
        outcomes = [done[f"split-{seed}"] for seed in settings["seeds"]]
        values = collect([outcome.numbers["methods"] for outcome in outcomes])
        results: dict[str, Any] = {
            "values": values,
            "mean": means(values),
            "choices": [outcome.numbers["choices"] for outcome in outcomes],
        }
        return Conclusion(
            results,
            tabulate(settings, results),
            judge_targets(results["mean"]),
            {"figure_5": partial(draw_figure_5, outcomes[0])},
        )
