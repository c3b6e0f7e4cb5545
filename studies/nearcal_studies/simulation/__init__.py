"""Section 4.3: a small and a big network on data of a thousand to a million rows, recalibrated in every way."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from nearcal_studies.simulation import work
from nearcal_studies.simulation.claims import judge_claims
from nearcal_studies.simulation.figure import draw_figure_4
from nearcal_studies.simulation.networks import ARCHITECTURES, RATES
from nearcal_studies.simulation.results import gather_rows, summarise
from nearcal_studies.simulation.table import tabulate
from nearcal_studies.study import Conclusion, Outcome, Scale, Study, Unit

_K = (100, 500, 1000)
_EPS = (0.0, 0.5, 1.0)
_TEST_ROWS = 5000

# rows a step, most epochs, patience; trials of learning rates are shorter where epochs are dear
_SIZES: list[dict[str, Any]] = [
    {"n": 1_000_000, "seeds": 2, "schedule": (1024, 15, 4), "trial": (1024, 3, 3)},
    {"n": 100_000, "seeds": 5, "schedule": (256, 50, 8), "trial": (256, 12, 8)},
    {"n": 10_000, "seeds": 12, "schedule": (128, 150, 15), "trial": (128, 150, 15)},
    {"n": 1000, "seeds": 12, "schedule": (32, 300, 25), "trial": (32, 300, 25)},
]
_QUICK_SIZES: list[dict[str, Any]] = [
    {"n": 10_000, "seeds": 1, "schedule": (128, 10, 5), "trial": (128, 3, 3)},
    {"n": 1000, "seeds": 2, "schedule": (32, 30, 10), "trial": (32, 10, 10)},
]


class Simulation(Study):
    """Two networks, four sizes of data, and every way to recalibrate."""

    name = "simulation"
    title = "Simulation study (section 4.3)"
    claims = staticmethod(judge_claims)

    def settings(self, scale: Scale) -> dict[str, Any]:
        """Return sizes of data with their seeds and schedules, and the settings that the paper varies."""
        sizes = scale.choose(_SIZES, quick=_QUICK_SIZES)
        return {
            "sizes": [{**size, "seeds": scale.seed_list(size["seeds"], quick=size["seeds"])} for size in sizes],
            "networks": tuple(ARCHITECTURES),
            "rates": scale.choose(RATES, quick=RATES[2:]),
            "k": scale.choose(_K, quick=_K[:2]),
            "eps": scale.choose(_EPS, quick=_EPS[::2]),
            "test_rows": scale.choose(_TEST_ROWS, quick=_TEST_ROWS, full=max(size["n"] for size in sizes)),
            "memory": scale.choose(
                {"n": 100_000, "rows": (2000, 5000, 10_000), "k": _K},
                quick={"n": 10_000, "rows": (200, 1000), "k": _K[:2]},
            ),
        }

    def units(self, settings: Mapping[str, Any]) -> Sequence[Unit]:
        """Return the units, seeds of all sizes in step, so that a run cut short has something of every size."""
        units = [_rate_unit(settings, size, network) for size in settings["sizes"] for network in settings["networks"]]
        units.append(Unit("memory", work.memory_of_prediction, settings["memory"], 10.0))
        seeds = [(size, number) for size in settings["sizes"] for number in range(len(size["seeds"]))]
        for size, number in sorted(seeds, key=lambda one: one[1] / len(one[0]["seeds"])):
            units += _seed_units(settings, size, size["seeds"][number])
        # our own choice, where it takes minutes, after all that the paper did
        return sorted(units, key=lambda unit: unit.key.startswith("tuned-") and unit.cost > 60)

    def conclude(self, settings: Mapping[str, Any], done: Mapping[str, Outcome]) -> Conclusion:
        """Return means over seeds and figure 4."""
        done = dict(done)  # read once
        rows = gather_rows(settings, done)
        results = summarise(settings, done, rows)
        return Conclusion(results, tabulate(settings, results), figures={"figure_4": partial(draw_figure_4, rows)})


def _rate_unit(settings: Mapping[str, Any], size: Mapping[str, Any], network: str) -> Unit:
    own = {
        "n": size["n"],
        "network": network,
        "seed": size["seeds"][0],
        "schedule": size["trial"],
        "rates": settings["rates"],
    }
    cost = _training_cost(network, size["n"], size["trial"]) * len(settings["rates"])
    return Unit(f"rate-{network}-{size['n']}", work.choose_rate, own, cost)


def _seed_units(settings: Mapping[str, Any], size: Mapping[str, Any], seed: int) -> Iterator[Unit]:
    n = size["n"]
    shared = {"n": n, "seed": seed, "test_rows": settings["test_rows"]}
    grid = {"k": settings["k"], "eps": settings["eps"]}
    for network in settings["networks"]:
        name = f"{network}-{n}-{seed}"
        own = {**shared, "network": network}
        training = {"n": n, "network": network, "seed": seed, "schedule": size["schedule"]}
        yield Unit(
            f"train-{name}",
            work.train_one,
            training,
            _training_cost(network, n, size["schedule"]),
            (f"rate-{network}-{n}",),
        )
        for kind, measure, more, cost in (
            ("local", work.recalibrate_locally, grid, _local_cost(network, n)),
            ("density", work.recalibrate_by_density, {}, 3 + n / 3e4),
            ("tuned", work.recalibrate_tuned, {}, 1 + n / (4e3 if network == "big" else 8e3)),
        ):
            all_own = {**own, **more}
            yield Unit(f"{kind}-{name}", measure, all_own, cost, (f"train-{name}",))
    own = {**shared, **grid}
    yield Unit(f"neighbors-{n}-{seed}", work.predict_by_neighbors, own, 1 + n / 1e5)


def _training_cost(network: str, n: int, schedule: Sequence[int]) -> float:
    """Return seconds of a training that runs through half of its epochs, about."""
    batch_size, epochs, _ = schedule
    rows = 0.8 * n
    per_row, per_step = (1e-5, 2e-3) if network == "big" else (3e-7, 5e-4)
    return epochs / 2 * (per_row * rows + per_step * rows / batch_size)


def _local_cost(network: str, n: int) -> float:
    return 3 + min(n, 1e6) / (1e4 if network == "big" else 2e4)
