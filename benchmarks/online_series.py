"""Series for the online benchmark: made ones to choose settings on, and the published ones to judge on."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

LENGTH = 1600
SEASON = 48


class Series(NamedTuple):
    """Responses in order of time, forecasts of them one step ahead, and the season, 0 if there is none in reach."""

    name: str
    y: np.ndarray
    forecast: np.ndarray
    season: int


def published(folder):
    """Return the eight series published with *Conformal PID Control for Time Series Prediction*."""
    series = []
    for name, season in (("elec2", SEASON), ("daily_climate", 0)):
        with np.load(Path(folder) / f"{name}.npz") as file:
            forecasts, forecasters = file["forecasts"], file["forecasters"]
            y = file["y"][: len(forecasts)]
        series += [Series(f"{name}, {who}", y, forecasts[:, i], season) for i, who in enumerate(forecasters)]
    return series


def made(seed):
    """Return made series: what responses do, times how good forecasts of them are."""
    series = []
    for number, (name, make) in enumerate(KINDS.items()):
        rng = np.random.default_rng([seed, number])
        signal, noise = make(rng)
        y = signal + noise
        for who, forecast in _forecasts(rng, y, signal).items():
            series.append(Series(f"{name}, {who}", y, forecast, SEASON if name in SEASONAL else 0))
    return series


def _forecasts(rng, y, signal):
    """Return forecasts that know the signal, repeat the last response, or average the last two hundred."""
    last = np.concatenate([y[:1], y[:-1]])
    slow = np.convolve(y, np.full(200, 1 / 200))[: len(y)]
    return {"signal": signal, "last": last, "slow": np.concatenate([slow[:1], slow[:-1]])}


def _ar(rng, phi, noise):
    x = np.empty(LENGTH)
    x[0] = noise[0]
    for t in range(1, LENGTH):
        x[t] = phi * x[t - 1] + noise[t]
    return x


def _day(rng):
    hours = np.arange(LENGTH) * 2 * np.pi / SEASON
    return np.sin(hours) + 0.5 * np.sin(2 * hours + rng.uniform(0, 6))


def _walk(rng, scale):
    return np.cumsum(rng.normal(scale=scale, size=LENGTH))


KINDS = {
    "white": lambda rng: (np.zeros(LENGTH), rng.normal(size=LENGTH)),
    "autoregressive": lambda rng: (np.zeros(LENGTH), _ar(rng, 0.9, rng.normal(size=LENGTH))),
    "seasonal": lambda rng: (3 * _day(rng), _ar(rng, 0.8, rng.normal(size=LENGTH) * np.exp(0.5 * _day(rng)))),
    "season grows": lambda rng: (np.linspace(1, 4, LENGTH) * _day(rng), _ar(rng, 0.5, rng.normal(size=LENGTH))),
    "mean drifts": lambda rng: (np.zeros(LENGTH), _walk(rng, 0.1) + rng.normal(size=LENGTH)),
    "spread drifts": lambda rng: (np.zeros(LENGTH), np.exp(_walk(rng, 0.04)) * rng.normal(size=LENGTH)),
    "heavy tails": lambda rng: (np.zeros(LENGTH), _ar(rng, 0.5, rng.standard_t(3, size=LENGTH))),
    "jumps": lambda rng: (
        np.zeros(LENGTH),
        np.repeat(rng.normal(scale=3, size=4), LENGTH // 4)
        + np.repeat(rng.choice([0.5, 1, 2], size=4), LENGTH // 4) * rng.normal(size=LENGTH),
    ),
}
SEASONAL = ("seasonal", "season grows")
