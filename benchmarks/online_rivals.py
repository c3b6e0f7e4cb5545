"""Adaptive conformal inference and conformal PID control, from their papers, for signed residuals at both ends.

Each function takes residuals y - forecast (T,), the miscoverage of one end and the burn-in, and returns what is added
to the forecast for the upper end; for the lower end it is asked about the negative residuals.
"""

import numpy as np


def aci(scores, miss, burn_in, gamma):
    """Adaptive conformal inference (Gibbs and Candès, 2021): the level of the empirical quantile of all past scores.

    Where the level leaves (0, 1) the paper's set is everything; here it ends at the farthest score so far, in its
    favour: one infinite interval would make its mean score infinite.
    """
    ends, level = np.full(len(scores), np.nan), miss
    for t in range(burn_in, len(scores)):
        ends[t] = np.quantile(scores[:t], np.clip(1 - level, 0, 1), method="higher")
        level += gamma * (miss - (scores[t] > ends[t]))
    return ends


def pid(scores, miss, burn_in, rate, *, integrator=True, forecast=None, saturation=5.0):
    """Conformal PID (Angelopoulos, Candès and Tibshirani, 2023): quantile tracking, error integration, scorecasting.

    The step is ``rate`` times the range of the scores of the last ``burn_in`` steps, the paper's adaptive rate. The
    integrator is K tan(x log(t) / (C t)) of the excess x of misses, with K that range.
    """
    forecast = np.zeros(len(scores)) if forecast is None else forecast
    ends, tracked, excess = (
        np.full(len(scores), np.nan),
        np.quantile(scores[:burn_in] - forecast[:burn_in], 1 - miss),
        0,
    )
    for t in range(burn_in, len(scores)):
        past = scores[t - burn_in : t] - forecast[t - burn_in : t]
        unit = past.max() - past.min()
        integrated = 0.0
        if integrator and t > burn_in:
            steps = t - burn_in
            angle = np.clip(excess * np.log(steps + 1) / (saturation * (steps + 1)), -1.5, 1.5)
            integrated = unit * np.tan(angle)
        ends[t] = forecast[t] + tracked + integrated
        is_missed = scores[t] > ends[t]
        tracked += rate * unit * (is_missed - miss)
        excess += is_missed - miss
    return ends


def theta(scores, burn_in, season, every=50):
    """Forecast scores one step ahead by the Theta method: exponential smoothing with half of the linear trend.

    With a season, its mean over the past is taken out first and put back. The constant of the smoothing is the best of
    a grid for the past, chosen again every so many steps.
    """
    forecasts = np.zeros(len(scores))
    # before the burn-in ends the past is all there is: forecasts there only say how large errors are
    for start in range(max(2 * season, 30), len(scores), every):
        past = scores[:start]
        pattern = _pattern(past, season)
        flat = past - pattern[np.arange(start) % len(pattern)]
        slope = np.polyfit(np.arange(start), flat, 1)[0]
        rate = min(np.linspace(0.05, 1.0, 20), key=lambda a: np.mean((flat[10:] - _smooth(flat, a)[10:-1]) ** 2))
        stop = min(start + every, len(scores))
        flat = scores[:stop] - pattern[np.arange(stop) % len(pattern)]
        level = _smooth(flat, rate)
        forecasts[start:stop] = level[start:stop] + slope / (2 * rate) + pattern[np.arange(start, stop) % len(pattern)]
    return forecasts


def _pattern(past, season):
    if not season:
        return np.zeros(1)
    return np.array([past[phase::season].mean() for phase in range(season)]) - past.mean()


def _smooth(values, rate):
    """Return the smoothed level before each value, and after the last."""
    levels = np.empty(len(values) + 1)
    levels[0] = values[0]
    for t, value in enumerate(values):
        levels[t + 1] = levels[t] + rate * (value - levels[t])
    return levels


# the settings of each that are tried; the best in hindsight is what ours is held against
SETTINGS = {
    "ACI": (0.005, 0.01, 0.05, 0.1),
    "quantile tracking": (0.02, 0.05, 0.1, 0.2),
    "conformal PI": (0.02, 0.05, 0.1, 0.2),
    "conformal PID": (0.02, 0.05, 0.1, 0.2),
}


def intervals_of_all(y, forecast, season, miss, burn_in):
    """Return lower and upper ends by method and setting, for the miscoverage of each end."""
    residuals = y - forecast
    casts = {sign: theta(sign * residuals, burn_in, season) for sign in (1, -1)}
    ways = {
        "ACI": lambda scores, sign, setting: aci(scores, miss, burn_in, setting),
        "quantile tracking": lambda scores, sign, setting: pid(scores, miss, burn_in, setting, integrator=False),
        "conformal PI": lambda scores, sign, setting: pid(scores, miss, burn_in, setting),
        "conformal PID": lambda scores, sign, setting: pid(scores, miss, burn_in, setting, forecast=casts[sign]),
    }
    ends = {}
    for name, way in ways.items():
        for setting in SETTINGS[name]:
            lower, upper = (forecast + sign * way(sign * residuals, sign, setting) for sign in (-1, 1))
            ends[f"{name}, {setting:g}"] = lower, upper
    return ends
