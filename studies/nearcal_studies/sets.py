"""Data and base models of the studies on real sets: regression sets, the paper's simulation, four kinds of model."""

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression
from sklearn.neural_network import MLPRegressor
from threadpoolctl import threadpool_limits
from torch import nn

import nearcal as nc
from nearcal_studies import training
from nearcal_studies.simulation.data import INPUTS, correlated_inputs, true_mean
from nearcal_studies.study import Outcome, Study, Unit

TABLES = ["yacht", "boston", "energy", "concrete", "wine_red", "power", "kin8nm", "naval", "protein"]
WITHOUT_FOLDER = ["diamonds", "simulation"]
BASES = ["linear", "network", "network with σ", "LightGBM quantiles"]
LEVELS = (0.025, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.975)
QUICK_ROWS = (1000, 300, 300)  # to train on, to calibrate with, to judge
TURNS = 5  # parts of a small set, each of which is judged once
_SMALL = 2000  # rows of a set that is small
_SIMULATED_ROWS = 10_000

Part = tuple[NDArray[Any], NDArray[Any]]
Row = dict[str, Any]


class SetStudy(Study):
    """A study of base models on sets; a unit is a set, a base model and a seed, and yields rows.

    Settings are ``sets``, ``bases``, ``seeds`` and ``rows``, the most to train on, to calibrate with and to judge, None
    for all. Sets are split at random into 60%, 20% and 20%; inputs and response are standardised by the training part.
    With ``turns``, a run of a small set judges all of its rows, a fifth at a time by what has not seen it.
    """

    @abstractmethod
    def compare(self, settings: Row, model: Any, options: Row, cal: Part, new: Part) -> list[Row]:
        """Return rows on one trained model; ``options`` are those that ``nearcal.adapt`` needs to read it."""

    def units(self, settings: Mapping[str, Any]) -> list[Unit]:
        """Return the units, seed by seed."""
        absent = [name for name in settings["sets"] if name in TABLES and not self._path(name).is_file()]
        if absent:
            raise FileNotFoundError(
                f"{self.name} needs the sets {', '.join(absent)} as NAME.npz with arrays X (n, d) and y (n,); give "
                "their folder with --data"
            )
        shared = {name: value for name, value in settings.items() if name not in ("sets", "bases", "seeds")}
        return [
            Unit(f"{name}-{_slug(base)}-{seed}", self._work, {**shared, "set": name, "base": base, "seed": seed})
            for seed in settings["seeds"]
            for name in settings["sets"]
            for base in settings["bases"]
        ]

    def _path(self, name: str) -> Path:
        return (self.data or Path()) / f"{name}.npz"

    def _work(self, settings: Mapping[str, Any]) -> Outcome:
        """Split, train, and leave the rest to ``compare``; on one thread, for the same bits on machines of one kind."""
        about = {name: settings[name] for name in ("set", "base", "seed")}
        x, y = self._load(settings["set"], settings["seed"])
        turns = settings.get("turns", 1) if len(y) < _SMALL else 1
        hidden = (5, 5, 5, 5) if settings["set"] == "simulation" else (50, 50)  # there the paper's small network
        found = []
        with threadpool_limits(1), training.one_thread():
            for turn in range(turns):
                parts = split(x, y, settings["seed"], settings["rows"], turn)
                model, options = train(settings["base"], *parts[0], settings["seed"], hidden)
                found.append(self.compare(settings, model, options, *parts[1:]))
        rows = found[0] if turns == 1 else [over_turns(own) for own in zip(*found, strict=True)]
        return Outcome({"rows": [{**about, **row} for row in rows]})

    def _load(self, name: str, seed: int) -> Part:
        """Return inputs and response of a set; the simulation is drawn anew for every seed."""
        if name == "simulation":
            rng = np.random.default_rng(seed)
            x = correlated_inputs(_SIMULATED_ROWS, INPUTS, rng)
            return x, true_mean(x) + rng.normal(size=_SIMULATED_ROWS)
        if name == "diamonds":
            data = nc.datasets.load_diamonds()
            return np.asarray(data.X, dtype=np.float64), np.asarray(data.y, dtype=np.float64) / 1000
        with np.load(self._path(name)) as arrays:
            return arrays["X"].astype(np.float64), arrays["y"].astype(np.float64)


def gather(settings: Mapping[str, Any], done: Mapping[str, Outcome]) -> list[Row]:
    """Return the rows of all units, set by set."""
    rows = [row for outcome in done.values() for row in outcome.numbers["rows"]]
    return sorted(rows, key=lambda row: (settings["sets"].index(row["set"]), settings["bases"].index(row["base"])))


def over_turns(rows: Sequence[Row]) -> Row:
    """Return one row of what a method showed in every turn: means, of standard errors the root of their squares."""
    found = {**rows[0], "turns": len(rows)}
    for name, value in rows[0].items():
        if isinstance(value, float):
            values = np.array([row[name] for row in rows])
            is_error = name.endswith("_error") and name.startswith("crps")
            found[name] = float(np.sqrt((values**2).sum()) / len(rows) if is_error else values.mean())
    return found


def split(x: NDArray[Any], y: NDArray[Any], seed: int, most: Sequence[int | None], turn: int = 0) -> list[Part]:
    """Return standardised inputs and responses of the training, calibration and judged rows.

    A turn further, those rows are judged that have calibrated, and others calibrate.
    """
    order = np.roll(np.random.default_rng(seed).permutation(len(y)), turn * len(y) // TURNS)
    parts = np.split(order, [int(0.6 * len(y)), int(0.8 * len(y))])
    spread = x[parts[0]].std(axis=0)
    x = (x - x[parts[0]].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    y = (y - y[parts[0]].mean()) / y[parts[0]].std()
    return [(x[rows[:count]], y[rows[:count]]) for rows, count in zip(parts, most, strict=True)]


def train(
    base: str, x: NDArray[Any], y: NDArray[Any], seed: int, hidden: tuple[int, ...] = (50, 50)
) -> tuple[Any, dict[str, Any]]:
    """Return a trained model and the options that ``nearcal.adapt`` needs to read it."""
    if base == "linear":
        return LinearRegression().fit(x, y), {}
    if base == "network":
        network = MLPRegressor(hidden_layer_sizes=hidden, early_stopping=True, max_iter=300, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return network.fit(x, y), {}
    if base == "network with σ":
        return _train_normal_network(x, y, seed, hidden), {"head": "normal"}
    options = {"objective": "quantile", "n_jobs": 1, "random_state": seed, "verbose": -1}
    return [lightgbm.LGBMRegressor(alpha=level, **options).fit(x, y) for level in LEVELS], {}


def _train_normal_network(x: NDArray[Any], y: NDArray[Any], seed: int, hidden: tuple[int, ...]) -> nn.Sequential:
    """Return a network for (μ, log σ), trained on the likelihood; the best epoch by a tenth of the rows is kept."""
    with training.seeded(seed):
        layers, width = [], x.shape[1]
        for units in hidden:
            layers += [nn.Linear(width, units), nn.ReLU()]
            width = units
        network = nn.Sequential(*layers, nn.Linear(width, 2))
        held_out, rows = torch.randperm(len(y)).split([len(y) // 10, len(y) - len(y) // 10])
        schedule = training.Schedule(150, min(200, max(32, len(rows) // 30)), 1e-3, patience=10)
        return training.train(network, _negative_log_likelihood, x[rows], y[rows], schedule, (x[held_out], y[held_out]))


def _negative_log_likelihood(output: Any, y: Any) -> Any:
    """Return the mean negative log-likelihood of Normal distributions, σ kept above e⁻⁶."""
    mean, log_std = output[:, 0], output[:, 1].clamp(min=-6.0)
    return (log_std + 0.5 * ((y - mean) / log_std.exp()) ** 2).mean()


def _slug(base: str) -> str:
    return base.replace(" ", "_").replace("σ", "sigma")
