"""Online recalibration beside adaptive conformal inference and conformal PID, and the monitor's alarms.

    python benchmarks/online.py choose                  # settings, on made series of seed 1 alone
    python benchmarks/online.py judge FOLDER            # the eight published series in FOLDER, with settings as chosen
    python benchmarks/online.py monitor                 # false alarms and delays

Intervals of 90%, a burn-in of 300 steps that do not count, one step ahead. Base distributions are Normal around the
forecast; their spread is the root mean square of the last hundred errors about the mean of recent residuals. Rows are
where a user can say they are: the last residual, the mean of recent residuals, the change of the forecast and, with a
season, the residual one season ago, all divided by the spread. Each part writes results/online_PART.json; ``judge`` and
``monitor`` write tables for the documentation as well, results/online.md and results/online_monitor.md.
"""

import argparse
import itertools
import time

import numpy as np
from online_rivals import intervals_of_all
from online_series import made, published
from timing import RESULTS, save

import nearcal as nc
from nearcal.online.bets import BETS, grow, log_ratios, log_shares, log_total

COVERAGE, BURN_IN, STRETCH = 0.9, 300, 200
FIRST, POINTS = 80, 200  # the first row that has all it needs, and the points of the first calibration set
SETTINGS = {"step": 0.1, "k": 200, "window": 500}
GRID = {"step": (0.05, 0.1, 0.2), "k": (100, 200), "window": (500, 1000)}
SEED = 1

# ---- ours -----------------------------------------------------------------------------------------------------------


def describe(series):
    """Return base distributions and positions of all rows; a row looks at what is known before its response."""
    y, forecast = series.y, series.forecast
    residual, n = y - forecast, len(y)
    recent = np.zeros(n + 1)
    for t in range(n):
        recent[t + 1] = recent[t] + 0.1 * (residual[t] - recent[t])
    squares = np.concatenate([[0.0], np.cumsum((residual - recent[:-1]) ** 2)])
    begin, end = np.maximum(np.arange(n) - 100, 0), np.arange(n)
    spread = np.sqrt((squares[end] - squares[begin]) / np.maximum(end - begin, 1))
    spread = np.maximum(spread, 1e-6 * y.std())
    columns = [_before(residual, 1), recent[:-1], forecast - _before(forecast, 1)]
    if series.season:
        columns.append(_before(residual, series.season))
    return nc.Normal(forecast, spread), np.column_stack(columns) / spread[:, np.newaxis]


def _before(values, steps):
    return np.concatenate([np.zeros(steps), values[:-steps]])


def run_ours(series, *, step, k, window, batch=1, local=True):
    """Return lower and upper ends, predicted ``batch`` rows at a time; NaN where nothing is predicted.

    Without ``local`` the level is all that is corrected.
    """
    base, space = describe(series)
    start = FIRST + POINTS
    rc = nc.LocalRecalibrator(
        k=min(k, POINTS), quantile_rule="predictive", corrections=(nc.LocalLinear(),), workers=nc.Workers(threads=1)
    ).fit(base[FIRST:start], series.y[FIRST:start], space[FIRST:start])
    online = nc.OnlineRecalibrator(rc, step=step, window=window) if local else nc.OnlineRecalibrator(step=step)
    lower, upper = np.full((2, len(series.y)), np.nan)
    for first in range(start, len(series.y), batch):
        rows = slice(first, min(first + batch, len(series.y)))
        out = online.predict(base[rows], space[rows])
        lower[rows], upper[rows] = out.interval(COVERAGE)
        online.observe(out.tickets, series.y[rows])
    return lower, upper


def judge(y, lower, upper):
    """Return mean interval score, coverage, that of the worst stretch, and mean width, all after the burn-in."""
    y, lower, upper = y[BURN_IN:], lower[BURN_IN:], upper[BURN_IN:]
    is_in = (lower <= y) & (y <= upper)
    beyond = np.maximum(lower - y, 0) + np.maximum(y - upper, 0)
    stretches = np.convolve(is_in, np.full(STRETCH, 1 / STRETCH), "valid")
    return {
        "score": float(np.mean(upper - lower + 2 / (1 - COVERAGE) * beyond)),
        "coverage": float(is_in.mean()),
        "worst_stretch": float(stretches.min()),
        "width": float(np.mean(upper - lower)),
    }


# ---- choose, judge --------------------------------------------------------------------------------------------------


def choose():
    """Try settings on made series, five rows at a time.

    SETTINGS is the one of the lowest score whose worst stretch is at least 0.83: three points more than is asked for.
    """
    series = made(SEED)
    units = [np.std(one.y) for one in series]
    rows = []
    for values in itertools.product(*GRID.values()):
        setting, start = dict(zip(GRID, values, strict=True)), time.process_time()
        found = [judge(one.y, *run_ours(one, **setting, batch=5)) for one in series]
        rows.append({**setting, **_overall(found, units), "seconds": time.process_time() - start})
        print(rows[-1], flush=True)
    save("online_choose", {"seed": SEED, "series": [one.name for one in series], "trials": rows})


def _overall(found, units):
    coverages = [one["coverage"] for one in found]
    return {
        "score": float(np.mean([one["score"] / unit for one, unit in zip(found, units, strict=True)])),
        "lowest_coverage": min(coverages),
        "highest_coverage": max(coverages),
        "worst_stretch": min(one["worst_stretch"] for one in found),
    }


def judge_all(folder):
    """Run ours once and every setting of the rivals on the published series."""
    series, results = published(folder), {}
    for one in series:
        start = time.process_time()
        ends = {"nearcal": run_ours(one, **SETTINGS)}
        seconds = (time.process_time() - start) / (len(one.y) - FIRST - POINTS)
        ends["nearcal, the level alone"] = run_ours(one, **SETTINGS, local=False)
        ends |= intervals_of_all(one.y, one.forecast, one.season, (1 - COVERAGE) / 2, BURN_IN)
        results[one.name] = {name: judge(one.y, *both) for name, both in ends.items()}
        results[one.name]["nearcal"]["milliseconds_a_step"] = 1e3 * seconds
        print(one.name, results[one.name]["nearcal"], flush=True)
    units = {one.name: float(np.std(one.y[BURN_IN:])) for one in series}
    save("online_judge", {"settings": SETTINGS, "units": units, "series": results})
    (RESULTS / "online.md").write_text(write_page(results, units))


def write_page(results, units):
    """Return the tables as Markdown."""
    methods = list(next(iter(results.values())))
    rivals = [way for way in methods if not way.startswith("nearcal")]
    best = {name: min(rows[way]["score"] for way in rivals) for name, rows in results.items()}
    lines = [
        "| | mean score | in standard deviations of y | relative to the best rival of each series | coverage | "
        "worst stretch of 200 |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for way in methods:
        rows = [rows[way] for rows in results.values()]
        scaled = np.mean([row["score"] / unit for row, unit in zip(rows, units.values(), strict=True)])
        ratio = np.mean([row["score"] / one for row, one in zip(rows, best.values(), strict=True)])
        coverages = [row["coverage"] for row in rows]
        plain, worst = np.mean([row["score"] for row in rows]), min(row["worst_stretch"] for row in rows)
        coverage = f"{min(coverages):.3f} to {max(coverages):.3f}"
        lines.append(f"| {way} | {plain:.3f} | {scaled:.3f} | {ratio:.3f} | {coverage} | {worst:.3f} |")
    lines += [
        "",
        "| series | nearcal: score | coverage | worst stretch | best rival | score |",
        "|---|---:|---:|---:|---|---:|",
    ]
    for name, rows in results.items():
        own, rival = rows["nearcal"], min(rivals, key=lambda way: rows[way]["score"])
        lines.append(
            f"| {name} | {own['score']:.4g} | {own['coverage']:.3f} | {own['worst_stretch']:.3f} | {rival} | "
            f"{rows[rival]['score']:.4g} |"
        )
    return "\n".join(lines) + "\n"


# ---- the monitor ----------------------------------------------------------------------------------------------------

STREAMS, LENGTH, CHANGE = 2000, 2000, 500
CHANGES = {
    "half a σ too low": lambda z: z + 0.5,
    "a quarter of a σ too low": lambda z: z + 0.25,
    "one σ too low": lambda z: z + 1.0,
    "spread 1.5 times too narrow": lambda z: z * 1.5,
    "spread 1.5 times too wide": lambda z: z / 1.5,
    "one in twenty from a spread of 5": None,
}


def first_alarms(z, false_alarm):
    """Return the index of the first alarm in each of some streams of scores (streams, T), or -1: many at once."""
    wealth, alarms = np.full((len(z), len(BETS)), -np.inf), np.full(len(z), -1)
    for t, log_share in enumerate(log_shares(1, z.shape[1])):
        wealth = grow(wealth, log_share, log_ratios(z[:, t]))
        given = (alarms < 0) & (log_total(wealth, t + 1) >= -np.log(false_alarm))
        alarms[given] = t
    return alarms


def watch():
    """Count false alarms in calm streams, and steps from a change to the alarm."""
    calm = np.random.default_rng([SEED, 0]).normal(size=(STREAMS, LENGTH))
    rates = {}
    for false_alarm in (0.001, 0.01, 0.05):
        rates[f"{false_alarm:g}"] = float((first_alarms(calm, false_alarm) >= 0).mean())
    print("share of calm streams with an alarm", rates, flush=True)
    delays = {}
    for number, (name, change) in enumerate(CHANGES.items()):
        rng = np.random.default_rng([SEED, 1 + number])
        z = rng.normal(size=(STREAMS, LENGTH))
        after = z[:, CHANGE:]
        outlying = np.where(rng.random(after.shape) < 0.05, 5 * after, after)
        z[:, CHANGE:] = outlying if change is None else change(after)
        alarms = first_alarms(z, 0.01)
        late = np.where(alarms < 0, LENGTH, alarms) - CHANGE + 1.0
        true = late[(alarms < 0) | (alarms >= CHANGE)]
        delays[name] = {
            "median": float(np.median(true)),
            "90%": float(np.quantile(true, 0.9)),
            "false_before": float(((alarms >= 0) & (alarms < CHANGE)).mean()),
            "never": float((alarms < 0).mean()),
        }
        print(name, delays[name], flush=True)
    content = {"seed": SEED, "streams": STREAMS, "length": LENGTH, "change_at": CHANGE, "false_alarm": 0.01}
    save("online_monitor", {**content, "false_alarms": rates, "delays": delays})
    (RESULTS / "online_monitor.md").write_text(write_alarms(rates, delays))


def write_alarms(rates, delays):
    """Return the tables as Markdown."""
    lines = ["| `false_alarm` | calm streams with an alarm |", "|---:|---:|"]
    lines += [f"| {rate} | {share:.4f} |" for rate, share in rates.items()]
    lines += ["", "| from observation 500 on | median delay | 90% | never noticed |", "|---|---:|---:|---:|"]
    lines += [
        f"| {name} | {row['median']:.0f} | {row['90%']:.0f} | {row['never']:.1%} |" for name, row in delays.items()
    ]
    return "\n".join(lines) + "\n"


def main():
    """Run a part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("choose", "judge", "monitor"))
    parser.add_argument("folder", nargs="?", help="of elec2.npz and daily_climate.npz, for judge")
    arguments = parser.parse_args()
    if arguments.part == "judge":
        judge_all(arguments.folder)
    else:
        {"choose": choose, "monitor": watch}[arguments.part]()


if __name__ == "__main__":
    main()
