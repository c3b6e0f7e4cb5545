"""Time ours against general libraries in the same run: mean, standard deviation and 95% interval, end to end.

    python benchmarks/engine.py [--quick]

Single-threaded figures are processor time, so that other work on the machine counts little; figures with all cores
are wall time. Fitting is not counted. Writes results/engine.json.
"""

import argparse
import os
import time

from cases import CASES, SWEEPS, fit_ours, generate
from references import REFERENCES, in_chunks, knn_regression
from threadpoolctl import threadpool_limits
from timing import cost_per_row, save

import nearcal as nc

MOST_ROWS = 20_000


def time_case(case, seconds, threads, *, references=True):
    """Return the cost in microseconds per row of each method."""
    data = generate(case.n, case.d, MOST_ROWS)
    clock = time.process_time if threads == 1 else time.perf_counter

    def first_rows(m):
        return data._replace(space_new=data.space_new[:m], mean_new=data.mean_new[:m])

    recalibrator = fit_ours(data, case.k, case.eps, workers=nc.Workers(threads))

    def ours(rows):
        recalibrator.recalibrate(nc.Normal(rows.mean_new, rows.sigma), rows.space_new).summary(0.95)

    costs = {"nearcal": cost_per_row(ours, first_rows, seconds, clock)}
    with threadpool_limits(threads):
        for name, make in REFERENCES.items() if references else ():
            if case.eps and name != "cKDTree + numpy":
                continue  # the others know no eps
            search = make(data, case.k, case.eps, threads)
            costs[name] = cost_per_row(lambda rows, search=search: in_chunks(search, rows), first_rows, seconds, clock)
        if references and not case.eps:
            predict = knn_regression(data, case.k, threads)
            costs["kNN regression alone"] = cost_per_row(
                lambda rows: predict(rows.space_new), first_rows, seconds, clock
            )
    return costs


def report(case, costs):
    """Print one line and return the row for the results."""
    rivals = {name: cost for name, cost in costs.items() if name.endswith("numpy")}
    ratio = min(rivals.values()) / costs["nearcal"] if rivals else None
    line = "  ".join(f"{name} {cost:.1f}" for name, cost in costs.items())
    print(f"{case}  {line}" + (f"  ratio {ratio:.1f}" if ratio else ""), flush=True)
    return {"n": case.n, "d": case.d, "k": case.k, "eps": case.eps, "costs": costs, "ratio": ratio}


def main():
    """Run all cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smoke run of the smaller cases")
    arguments = parser.parse_args()
    seconds = 0.05 if arguments.quick else 3.0
    cases = [case for case in CASES if case.n * case.d <= 50_000] if arguments.quick else CASES
    cores = len(os.sched_getaffinity(0))
    content = {
        "unit": "microseconds per row",
        "cores": cores,
        "one thread, processor time": [report(case, time_case(case, seconds, 1)) for case in cases],
        "all cores, wall time": [report(case, time_case(case, seconds, cores)) for case in cases if not case.eps],
        "sweeps": {
            name: [report(case, time_case(case, seconds / 3, 1, references=False)) for case in sweep]
            for name, sweep in ({} if arguments.quick else SWEEPS).items()
        },
    }
    save("engine-quick" if arguments.quick else "engine", content)


if __name__ == "__main__":
    main()
