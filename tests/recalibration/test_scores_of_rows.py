"""Chunks of rows: one recalibrator on several threads and in forked processes, in memory set by the budget alone."""

import os
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import nearcal as nc
from nearcal.recalibration import leave_one_out, neighborhoods


@pytest.fixture(scope="module", params=[1, 4, 12])
def problem(request):
    rng = np.random.default_rng(request.param)
    x, new = rng.normal(size=(5000, request.param)), rng.normal(size=(2000, request.param))
    rc = nc.LocalRecalibrator(k=200).fit(nc.Normal(np.zeros(5000), 1.0), rng.standard_t(4, size=5000), x)
    return rc, nc.Normal(np.zeros(2000), 1.0), new


def summarise(problem):
    rc, base, new = problem
    s = rc.recalibrate(base, new).summary()
    return np.column_stack([s.mean, s.std, s.lower, s.upper])


def test_python_threads_share_a_recalibrator(problem):
    expected = summarise(problem)
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(lambda _: summarise(problem), range(8)):
            np.testing.assert_array_equal(result, expected)


def test_threads_share_one_lazy_result(problem):
    rc, base, new = problem
    expected = rc.recalibrate(base, new).ppf([0.1, 0.9])
    out = rc.recalibrate(base, new)
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(lambda _: out.ppf([0.1, 0.9]), range(8)):
            np.testing.assert_array_equal(result, expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_process_uses_a_recalibrator_in_use():
    """In a process of its own, since forking a process with running threads is what is tested here."""
    code = """
import os, warnings
import numpy as np, nearcal as nc
rng = np.random.default_rng(0)
x, new = rng.normal(size=(5000, 4)), rng.normal(size=(2000, 4))
rc = nc.LocalRecalibrator(k=200).fit(nc.Normal(np.zeros(5000), 1.0), rng.normal(size=5000), x)
run = lambda: rc.recalibrate(nc.Normal(np.zeros(2000), 1.0), new).summary().mean
expected = run()
warnings.simplefilter("ignore")
child = os.fork()
result = run()
assert (result == expected).all()
if child == 0:
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("both agree")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "both agree", done.stderr


def test_an_error_in_one_chunk_is_raised_and_stops_the_rest(problem):
    _, base, new = problem
    seen = []

    def stop_early(done, total):
        seen.append((done, total))
        raise KeyboardInterrupt

    out = nc.LocalRecalibrator(k=200, workers=nc.Workers(memory=2**20, threads=2, progress=stop_early))
    out = out.fit(base, np.zeros(2000), new).recalibrate(base, new)
    with pytest.raises(KeyboardInterrupt):
        out.summary()
    assert len(seen) == 1


def test_progress_counts_every_row(problem, capsys):
    _, base, new = problem
    seen = []
    workers = nc.Workers(memory=2**20, threads=2, progress=lambda done, total: seen.append((done, total)))
    counting = nc.LocalRecalibrator(k=50, workers=workers)
    counting.fit(base, np.zeros(2000), new).recalibrate(base, new).mean()
    assert seen[-1] == (2000, 2000)
    assert len(seen) > 1
    pytest.importorskip("rich")
    drawn = nc.LocalRecalibrator(k=50, workers=nc.Workers(progress=True))
    drawn.fit(base, np.zeros(2000), new).recalibrate(base, new).mean()
    assert "recalibrating" in capsys.readouterr().err


def test_rows_left_to_a_recalibrated_base_do_not_wait_for_themselves():
    """In a process of its own, which is stopped if it hangs."""
    code = """
import numpy as np, nearcal as nc
x = np.linspace(0, 1, 200)
model = nc.Normal(np.zeros(200), 1.0)
y = np.random.default_rng(0).normal(size=200)
first = nc.LocalRecalibrator(k=50).fit(model, y, x).recalibrate(model, x)
from nearcal.recalibration import workers
workers._LITTLE = 0  # so that little work is shared out too
second = nc.LocalRecalibrator(radius=nc.Radius(1e-6, thin="base"), workers=nc.Workers(threads=2))
second = second.fit(first, y, x).recalibrate(first, x)
np.testing.assert_array_equal(second.mean(), first.mean())
print("same means")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.stdout.strip() == "same means", done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_process_forked_while_a_statistic_is_computed_can_compute_it_too():
    """In a process of its own, which is stopped if it hangs."""
    code = """
import os, threading, warnings
import numpy as np, nearcal as nc
warnings.simplefilter("ignore")
x = np.linspace(0, 1, 2000)
model = nc.Normal(np.zeros(2000), 1.0)
rc = nc.LocalRecalibrator(k=50, workers=nc.Workers(memory=2**20)).fit(model, np.sin(40 * x), x)
expected = rc.recalibrate(model, x).mean()
forked, at_work = threading.Event(), threading.Event()
def pause(done, total):
    at_work.set()
    forked.wait()
busy = nc.LocalRecalibrator(k=50, workers=nc.Workers(memory=2**20, progress=pause))
busy = busy.fit(model, np.sin(40 * x), x).recalibrate(model, x)
thread = threading.Thread(target=busy.mean)
thread.start()
at_work.wait()
child = os.fork()
if child == 0:
    os._exit(int(not (rc.recalibrate(model, x).mean() == expected).all()))
forked.set()
thread.join()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert (busy.mean() == expected).all()
print("both agree")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.stdout.strip() == "both agree", done.stderr


# ---- memory ---------------------------------------------------------------------------------------------------------

BUDGET = 2**22


def peak_of(question):
    tracemalloc.start()
    question()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_many_questions_a_row():
    y = np.linspace(-2, 2, 500)
    rc = nc.LocalRecalibrator(k=5, workers=nc.Workers(memory=BUDGET, threads=1)).fit(
        nc.Normal(np.zeros(500), 1.0), y, y
    )
    out = rc.recalibrate(nc.Normal(np.zeros(4000), 1.0), np.linspace(-2, 2, 4000))
    at = np.tile(np.linspace(-2, 2, 300), (4000, 1))
    out[:2].cdf(at[:2])
    # the result twice (parts, and joined; log-tails come in pairs), and the budget
    assert peak_of(lambda: out.cdf(at)) < 5 * at.nbytes + 2 * BUDGET
    assert peak_of(lambda: out.ppf(np.linspace(0, 1, 300))) < 2 * at.nbytes + 2 * BUDGET


@pytest.mark.filterwarnings("ignore::nearcal.TiesWarning")
def test_many_draws_a_row():
    base = nc.Samples(np.random.default_rng(0).normal(size=(4000, 300)))
    out = nc.GlobalRecalibrator().fit(base, np.zeros(4000)).recalibrate(base)
    out[:2].ppf(0.5)
    assert peak_of(lambda: out.ppf(0.5)) < 2 * BUDGET


@pytest.mark.parametrize("base", [nc.Normal(np.zeros(1000), 1.0), nc.Gamma(np.linspace(1, 2, 1000), 1.0)], ids=repr)
@pytest.mark.parametrize("thin", ["global", "base", "nearest"])
def test_one_long_neighbourhood_among_short_ones(base, thin):
    """Rows are as long as the longest beside them: with ``thin="global"`` that is the whole calibration set."""
    n = 20_000
    x = np.linspace(0, 1, n)
    workers = nc.Workers(memory=BUDGET, threads=1)
    rc = nc.LocalRecalibrator(radius=nc.Radius(0.001, 5, thin), quantile_rule="interpolated", workers=workers)
    rc.fit(nc.Normal(np.zeros(n), 1.0), np.sin(40 * x), x)
    new = np.linspace(0, 1, 1000)
    new[[0, 500, 501]] = 9.0, 7.0, 8.0
    out = rc.recalibrate(base, new)
    alone = [out[row].ppf([0.1, 0.9])[0] for row in (0, 1, 499, 500, 501, 502, 999)]
    assert peak_of(lambda: out.ppf([0.1, 0.9])) < 8 * BUDGET  # a neighbourhood of all points takes 20 000 · 64 bytes
    np.testing.assert_array_equal(out.ppf([0.1, 0.9])[[0, 1, 499, 500, 501, 502, 999]], alone)
    np.testing.assert_array_equal(out.mean()[[0, 1, 500]], [out[row].mean()[0] for row in (0, 1, 500)])


@pytest.mark.parametrize(
    "corrections", [(), (nc.Shrinkage(), nc.LocalLinear(), nc.Polish())], ids=["plain", "corrected"]
)
@pytest.mark.parametrize("search", ["line", "boxes", "brute", "kdtree"])
def test_a_cluster_that_probes_miss(search, corrections, monkeypatch):
    """Neighbours within a radius are counted as they are found: the few rows looked at beforehand tell nothing."""
    rng = np.random.default_rng(0)
    n, d = 700, 1 if search == "line" else 3
    x = 0.01 * rng.normal(size=(n, d))
    x[:: n // 32] = 500 + 10 * rng.normal(size=x[:: n // 32].shape)  # the probes
    y, new = rng.normal(size=n), x[:300].copy()
    new[:: 300 // 32] += 1000
    workers = nc.Workers(memory=2**20, threads=1)
    options = {"radius": nc.Radius(1.0, 5), "search": search, "quantile_rule": "interpolated"}
    rc = nc.LocalRecalibrator(**options, corrections=corrections, workers=workers)
    held = []
    weigh = neighborhoods.weigh
    for module in (neighborhoods, leave_one_out):
        monkeypatch.setattr(
            module, "weigh", lambda near, smoothing: held.append(np.diff(near.indptr)) or weigh(near, smoothing)
        )
    model = nc.Normal(np.zeros(n), 1.0)
    out = rc.fit(model, y, x).recalibrate(model[:300], new)
    quantiles, reliability = out.ppf([0.1, 0.9]), out.reliability()
    assert len(held) > 3  # so that this says anything
    for counts in held:
        assert len(counts) == 1 or counts.sum() <= workers.pairs_per_chunk()
    # whatever the chunks
    free = nc.LocalRecalibrator(**options, corrections=corrections).fit(model, y, x).recalibrate(model[:300], new)
    np.testing.assert_array_equal(quantiles, free.ppf([0.1, 0.9]))
    np.testing.assert_array_equal(reliability["p_value"], free.reliability()["p_value"])
