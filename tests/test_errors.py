"""Every wrong input gets one exception of the tree, with a message naming the argument, the rule and the value."""

import copy
import inspect
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy import sparse, stats

import nearcal as nc

N, D = 20, 2
RNG = np.random.default_rng(0)
Y = RNG.normal(size=N)
SPACE = RNG.normal(size=(N, D))
DIST = nc.Normal(np.zeros(N), 1.0)
NEW = nc.Normal(np.zeros(3), 1.0)
SPACE_NEW = RNG.normal(size=(3, D))

INPUT, PARAMETER = nc.InvalidInputError, nc.InvalidParameterError


def with_entry(array, index, value):
    changed = array.copy()
    changed[index] = value
    return changed


def refuses(error, message):
    return pytest.raises(error, match=f"(?s){message}")


@pytest.fixture(scope="module")
def fitted():
    return nc.LocalRecalibrator(k=5).fit(DIST, Y, SPACE)


@pytest.fixture(scope="module")
def out():
    return nc.LocalRecalibrator(k=5, quantile_rule="predictive").fit(DIST, Y, SPACE).recalibrate(NEW, SPACE_NEW)


@pytest.mark.parametrize(
    ("error", "parents"),
    [
        (nc.InvalidInputError, ValueError),
        (nc.InvalidParameterError, ValueError),
        (nc.ThinNeighborhoodError, ValueError),
        (nc.NotFittedError, (ValueError, AttributeError)),
        (nc.MissingExtraError, ImportError),
    ],
)
def test_one_tree(error, parents):
    assert issubclass(error, nc.NearcalError)
    assert all(issubclass(error, parent) for parent in np.atleast_1d(parents))


# ---- arrays: the same boundary for every argument -------------------------------------------------------------------

NOT_NUMBERS = {
    "complex": (np.ones(N, dtype=complex), "real numbers, got .* complex128"),
    "object": (np.array([None] * N), "real numbers, got .* dtype object"),
    "string": (["1.0"] * N, "real numbers, got .* dtype <U3"),
    "datetime": (np.full(N, np.datetime64("2024-01-01")), "real numbers, got .* dtype datetime64"),
    "timedelta": (np.full(N, np.timedelta64(1, "s")), "real numbers, got .* dtype timedelta64"),
    "None": (None, "array of real numbers, got None"),
    "ragged": ([[1.0, 2.0], [3.0]], "array of numbers, got list: .*inhomogeneous"),
    "generator": ((i for i in range(N)), "array of real numbers, got generator"),
    "sparse": (sparse.eye_array(N).tocsr(), "array of real numbers, got csr_array"),
    "masked": (np.ma.array(np.ones(N), mask=np.arange(N) < 2), "not be masked, got 2 masked"),
    "pandas strings": (pd.DataFrame({"a": [1.0] * N, "b": ["x"] * N}), "real numbers, got .* dtype object"),
    "polars strings": (pl.Series(["x"] * N), "real numbers, got .* dtype"),
    "polars lazy": (pl.LazyFrame({"a": [1.0] * N}), "array of real numbers, got LazyFrame"),
    "torch complex": (torch.ones(N, dtype=torch.complex64), "real numbers, got .* complex64"),
    "torch conjugate": (torch.ones(N, dtype=torch.complex64).conj(), "array of numbers, got Tensor"),
    "torch sparse": (torch.eye(N).to_sparse(), "array of numbers, got Tensor"),
    "list of tensors with gradients": ([torch.ones(1, requires_grad=True)] * N, "array of numbers, got list"),
}


@pytest.mark.parametrize(("value", "rule"), NOT_NUMBERS.values(), ids=NOT_NUMBERS)
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("y_cal", lambda v: nc.LocalRecalibrator(k=5).fit(DIST, v, SPACE)),
        ("space_cal", lambda v: nc.LocalRecalibrator(k=5).fit(DIST, Y, v)),
        ("loc", lambda v: nc.Normal(v, 1.0)),
        ("draws", nc.Samples),
        ("p", DIST.ppf),
        ("y", DIST.cdf),
    ],
)
def test_what_is_not_real_numbers_is_refused(name, call, value, rule):
    value = copy.copy(value) if not hasattr(value, "send") else (i for i in range(N))
    with refuses(INPUT, f"^{name} must .*{rule}"):
        call(value)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("name", "where", "call"),
    [
        ("y_cal", "index 3", lambda v: nc.LocalRecalibrator(k=5).fit(DIST, with_entry(Y, 3, v), SPACE)),
        ("y_cal", "index 3", lambda v: nc.GlobalRecalibrator().fit(DIST, with_entry(Y, 3, v))),
        (
            "space_cal",
            r"index \(3, 1\)",
            lambda v: nc.LocalRecalibrator(k=5).fit(DIST, Y, with_entry(SPACE, (3, 1), v)),
        ),
        ("loc", "index 3", lambda v: nc.Normal(with_entry(Y, 3, v), 1.0)),
        ("scale", "", lambda v: nc.Normal(Y, v)),
        ("mu", "", lambda v: nc.LogNormal(v, 1.0)),
        ("shape", "", lambda v: nc.Gamma(v, 1.0)),
        ("df", "", lambda v: nc.StudentT(v, 0.0, 1.0)),
        ("loc", "", lambda v: nc.Laplace(v, 1.0)),
        ("draws", r"index \(0, 1\)", lambda v: nc.Samples([[0.0, v]])),
        ("weights", "index 1", lambda v: nc.Samples([[0.0, 1.0]], weights=[1.0, v])),
        ("values", r"index \(0, 1\)", lambda v: nc.Quantiles([0.1, 0.9], [[0.0, v]])),
        ("levels", "index 1", lambda v: nc.Quantiles([0.1, v], [[0.0, 1.0]])),
        ("weights", "index 0", lambda v: nc.Mixture([v, 1.0], [nc.Normal(0.0, 1.0), nc.Normal(1.0, 1.0)])),
        ("a parameter of frozen", "", lambda v: nc.from_scipy(stats.norm(v, 1.0))),
    ],
)
def test_nan_and_infinities_are_refused(name, where, call, bad):
    with refuses(INPUT, rf"^{name} must be finite, got 1 bad of \d+ values, the first.*{where}: {bad}; "):
        call(bad)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_infinities_in_new_positions_are_refused(fitted, bad):
    with refuses(INPUT, rf"^space_new must be finite, .* index \(1, 0\): {bad}"):
        fitted.recalibrate(NEW, with_entry(SPACE_NEW, (1, 0), bad))


# ---- distributions --------------------------------------------------------------------------------------------------

ONE, TWO = nc.Normal(0.0, 1.0), nc.Normal([0.0, 1.0], 1.0)

WRONG_DISTRIBUTIONS = {
    "scale 0": (lambda: nc.Normal(Y, 0.0), "scale must be positive, got .*: 0.0; "),
    "scale -1 at 3": (lambda: nc.Normal(Y, with_entry(np.ones(N), 3, -1.0)), "scale .* 1 bad .* index 3: -1.0"),
    "sigma": (lambda: nc.LogNormal(0.0, [1.0, -2.0]), "sigma must be positive, .*-2.0"),
    "gamma shape": (lambda: nc.Gamma(0.0, 1.0), "shape must be positive, .*0.0"),
    "gamma scale": (lambda: nc.Gamma(1.0, -1.0), "scale must be positive, .*-1.0"),
    "df": (lambda: nc.StudentT(-3.0, 0.0, 1.0), "df must be positive, .*-3.0"),
    "t scale": (lambda: nc.StudentT(3.0, 0.0, 0.0), "scale must be positive"),
    "laplace scale": (lambda: nc.Laplace(0.0, 0.0), "scale must be positive"),
    "lengths": (lambda: nc.Normal(np.zeros(3), np.ones(2)), "scale must be a scalar or have 3 values.*scale has 2"),
    "row vector": (lambda: nc.Normal(Y, np.ones((1, N))), r"scale must .* \(n,\) or \(n, 1\), got \(1, 20\)"),
    "matrix": (lambda: nc.Normal(np.zeros((N, N)), 1.0), r"loc must .* got \(20, 20\)"),
    "empty": (lambda: nc.Normal([], 1.0), r"loc must not be empty.* got shape \(0,\)"),
    "empty column": (lambda: nc.Normal(np.empty((0, 1)), 1.0), "loc must not be empty"),
    "1-d draws": (lambda: nc.Samples(Y), r"draws must have shape \(n, s\).* got \(20,\)"),
    "no draws": (lambda: nc.Samples(np.empty((3, 0))), r"draws must .* s >= 1, got \(3, 0\)"),
    "no rows": (lambda: nc.Samples(np.empty((0, 3))), r"draws must .* n >= 1.* got \(0, 3\)"),
    "equal draws": (lambda: nc.Samples([[1.0, 2.0], [5.0, 5.0]]), 'draws must .*tails="normal", .*row 1: 5.0'),
    "one draw": (lambda: nc.Samples([[7.0]]), "draws must have at least two different values .* row 0: 7.0"),
    "weights shape": (lambda: nc.Samples([[1.0, 2.0]], [1.0, 2.0, 3.0]), r"weights must have shape \(2,\) .* \(3,\)"),
    "negative weight": (lambda: nc.Samples([[1.0, 2.0]], [2.0, -1.0]), "weights must be >= 0 .* row 0"),
    "zero weights": (lambda: nc.Samples([[1.0, 2.0]], [0.0, 0.0]), "weights must .* positive sum"),
    "level 1": (lambda: nc.Quantiles([0.5, 1.0], [[0.0, 1.0]]), "levels must lie strictly between 0 and 1.*1. "),
    "level 95": (lambda: nc.Quantiles([5, 95], [[0.0, 1.0]]), "levels must .*give 95% as 0.95"),
    "one level": (lambda: nc.Quantiles([0.5], [[0.0]]), r"levels must have shape \(q,\) with q >= 2, got \(1,\)"),
    "equal levels": (lambda: nc.Quantiles([0.5, 0.5], [[0.0, 1.0]]), "levels must differ"),
    "values shape": (lambda: nc.Quantiles([0.1, 0.9], [[0.0, 1.0, 2.0]]), r"values must .*\(n, 2\), got \(1, 3\)"),
    "equal quantiles": (lambda: nc.Quantiles([0.1, 0.9], [[2.0, 2.0]]), "values must have at least two different"),
    "no components": (lambda: nc.Mixture([], []), "components must be a non-empty sequence"),
    "one batch for components": (lambda: nc.Mixture([0.5, 0.5], TWO), "components must be a non-empty sequence"),
    "a component of scipy": (lambda: nc.Mixture([1.0], [stats.norm()]), "components must be .* nearcal distributions"),
    "uneven components": (lambda: nc.Mixture([0.5, 0.5], [ONE, TWO]), r"components must have the same .* \[1, 2\]"),
    "mixture weights": (lambda: nc.Mixture([1.0], [ONE, ONE]), r"weights must have shape \(2,\) or \(1, 2\).*\(1,\)"),
    "from_scipy: not frozen": (lambda: nc.from_scipy(Y), "frozen must be .* got ndarray"),
    "from_scipy: discrete": (lambda: nc.from_scipy(stats.poisson(3.0)), "frozen must be a frozen continuous"),
    "from_scipy: family": (lambda: nc.from_scipy(stats.norm), "frozen must be a frozen"),
    "from_scipy: domain": (lambda: nc.from_scipy(stats.gumbel_r(0.0, -1.0)), "frozen has parameters outside .*gumbel"),
    "from_scipy: matrix": (lambda: nc.from_scipy(stats.norm(np.ones((2, 2)))), r"frozen must .*got \(2, 2\)"),
    "from_torch: array": (lambda: nc.from_torch(Y), "distribution must be a torch.distributions.* got ndarray"),
    "from_torch: discrete": (
        lambda: nc.from_torch(torch.distributions.Poisson(torch.ones(2))),
        "distribution of type Poisson has no nearcal family.*nearcal.Samples",
    ),
    "from_torch: matrix": (
        lambda: nc.from_torch(torch.distributions.Normal(torch.zeros(2, 2), 1.0)),
        "loc must .*2, 2",
    ),
}


@pytest.mark.parametrize(("call", "message"), WRONG_DISTRIBUTIONS.values(), ids=WRONG_DISTRIBUTIONS)
def test_wrong_parameters_of_distributions(call, message):
    with refuses(INPUT, message):
        call()


@pytest.mark.parametrize(
    "call", [lambda t: nc.Samples([[1, 2]], tails=t), lambda t: nc.Quantiles([0.1, 0.9], [[1, 2]], t)]
)
def test_unknown_tails(call):
    with refuses(PARAMETER, "tails must be one of 'normal', 'empirical', got 'gaussian'"):
        call("gaussian")


WRONG_QUESTIONS = {
    "p 95": (lambda d: d.ppf(95), INPUT, r"p must lie in \[0, 1\], got 95.0; give 95% as 0.95"),
    "p negative": (lambda d: d.ppf([0.5, -0.1]), INPUT, r"p must lie in \[0, 1\], got -0.1"),
    "p nan": (lambda d: d.ppf(np.nan), INPUT, "p must not be NaN, .*nan"),
    "p of other rows": (lambda d: d.ppf(np.full((2, 4), 0.5)), INPUT, r"p must .*\(3, q\), got \(2, 4\)"),
    "p of three axes": (lambda d: d.ppf(np.full((3, 1, 1), 0.5)), INPUT, r"p must .* got \(3, 1, 1\)"),
    "y of other rows": (
        lambda d: d.cdf([1.0, 2.0]),
        INPUT,
        r"y must .*\(3,\).*\(3, q\), or \(1, q\).* got \(2,\); .*np.reshape\(y, \(1, -1\)\)",
    ),
    "y of two rows": (lambda d: d.logpdf(np.ones((2, 3))), INPUT, r"y must .* got \(2, 3\)"),
    "y nan": (lambda d: d.pdf(np.nan), INPUT, "y must not be NaN"),
    "z nan": (lambda d: d.from_z([0.0, np.nan, 0.0]), INPUT, "z must not be NaN, .*index 1: nan"),
    "size 0": (lambda d: d.sample(0), PARAMETER, "size must be a whole number >= 1, got 0"),
    "size 2.0": (lambda d: d.sample(2.0), PARAMETER, "size must be a whole number >= 1, got 2.0"),
    "no rows": (lambda d: d[[]], INPUT, "rows must select at least one row, got none"),
    "no rows by slice": (lambda d: d[3:], INPUT, "rows must select at least one row"),
    "short mask": (lambda d: d[[True, False]], INPUT, r"a row mask must have shape \(3,\), got \(2,\)"),
    "float rows": (lambda d: d[[0.0, 1.0]], INPUT, "rows must be an int, .* got dtype float64"),
    "two axes of rows": (lambda d: d[0, 1, 2][[[0, 1]]], INPUT, r"rows must .* shape \(1, 2\)"),
    **{
        f"coverage {c}": (
            lambda d, c=c: d.interval(c),
            PARAMETER,
            rf"coverage must .*between 0 and 1.*, got {re.escape(str(c))}",
        )
        for c in (95, 0, 1, -0.5, float("nan"), [[0.5, 0.9]])
    },
}


@pytest.mark.parametrize(("question", "error", "message"), WRONG_QUESTIONS.values(), ids=WRONG_QUESTIONS)
@pytest.mark.parametrize("which", ["parametric", "recalibrated"])
def test_wrong_questions(which, out, question, error, message):
    with refuses(error, message):
        question(NEW if which == "parametric" else out)


@pytest.mark.parametrize("rule", ["step", "conservative"])
@pytest.mark.parametrize("question", ["pdf", "logpdf"])
def test_a_distribution_of_atoms_has_no_density(rule, question):
    local = nc.LocalRecalibrator(k=5, quantile_rule=rule).fit(DIST, Y, SPACE).recalibrate(NEW, SPACE_NEW)
    alike = nc.GlobalRecalibrator(quantile_rule=rule).fit(DIST, Y).recalibrate(NEW)
    for d in (local, alike, nc.Samples([[1.0, 2.0]], tails="empirical")):
        with refuses(INPUT, r"\(n=\d\) has no density.*ask for cdf or ppf.*quantile_rule=\"predictive\""):
            getattr(d, question)(1.0)


@pytest.mark.parametrize("row", [3, -4, [0, 3]])
def test_a_row_out_of_range_is_an_index_error(out, row):
    with pytest.raises(IndexError, match=r"row -?\d is out of range for a batch of 3 rows"):
        out[row]


def test_wrong_levels_of_a_summary(out):
    with refuses(INPUT, r"p must be a scalar or have shape \(q,\), got \(3, 1\)"):
        out.summary(p=np.full((3, 1), 0.5))
    with refuses(PARAMETER, "coverage must .* got 95"):
        out.summary(coverage=95)


# ---- recalibrators --------------------------------------------------------------------------------------------------

NUMBER = "must be a finite number"
WRONG_OPTIONS = {
    "neither": ({"k": None}, "give exactly one of k and radius, got k=None and radius=None"),
    "both": ({"k": 5, "radius": 1.0}, "give exactly one of k and radius, got k=5 and radius=1.0"),
    "k 0": ({"k": 0}, "k must be a whole number >= 1, got 0"),
    "k -1": ({"k": -1}, "k must be a whole number >= 1, got -1"),
    "k 5.0": ({"k": 5.0}, "k must be a whole number >= 1, got 5.0"),
    "k True": ({"k": True}, "k must be a whole number >= 1, got True"),
    "k np.True_": ({"k": np.True_}, "k must be a whole number"),
    "k '5'": ({"k": "5"}, "k must be a whole number >= 1, got '5'"),
    "k 'auto'": ({"k": "auto"}, r"k must be a whole number >= 1, got 'auto'; nearcal\.tune\(.*chooses it"),
    "k > n": ({"k": N + 1}, "k must be at most the number of calibration points, 20, got 21; .*GlobalRecalibrator"),
    "radius 0": ({"radius": 0.0}, f"radius {NUMBER} > 0, got 0.0"),
    "radius -1": ({"radius": -1}, f"radius {NUMBER} > 0, got -1"),
    "radius nan": ({"radius": np.nan}, f"radius {NUMBER} > 0, got nan"),
    "radius inf": ({"radius": np.inf}, f"radius {NUMBER} > 0, got inf"),
    "radius True": ({"radius": True}, f"radius {NUMBER} > 0, got True"),
    "radius array": ({"radius": np.ones(2)}, f"radius {NUMBER} > 0, got array"),
    "eps -1": ({"k": 5, "eps": -1.0}, f"eps {NUMBER} >= 0, got -1.0"),
    "eps nan": ({"k": 5, "eps": np.nan}, f"eps {NUMBER} >= 0, got nan"),
    "eps None": ({"k": 5, "eps": None}, f"eps {NUMBER} >= 0, got None"),
    "smoothing": ({"k": 5, "smoothing": "box"}, "smoothing must be one of 'epanechnikov', .*, got 'box'"),
    "smoothing None": ({"k": 5, "smoothing": None}, "smoothing must be one of .*, got None"),
    "metric": ({"k": 5, "metric": "l2"}, "metric must be one of 'euclidean', .*, got 'l2'"),
    "scaling": ({"k": 5, "scaling": "minmax"}, "scaling must be one of 'none', .*, got 'minmax'"),
    "thin": ({"radius": nc.Radius(1.0, thin="nan")}, "thin must be one of 'nearest', .*, got 'nan'"),
    "quantile_rule": ({"k": 5, "quantile_rule": "linear"}, "quantile_rule must be one of 'step', .*, got 'linear'"),
    "min_neighbors": ({"radius": nc.Radius(1.0, 0)}, "min_neighbors must be a whole number >= 1, got 0"),
    "components": ({"k": 5, "scaling": nc.Scaling("none", 0)}, "components must be a whole number >= 1, got 0"),
    "radius inside": ({"radius": nc.Radius(-1.0)}, f"radius {NUMBER} > 0, got -1.0"),
    "scaling inside": ({"k": 5, "scaling": nc.Scaling("minmax")}, "scaling must be one of 'none', .*, got 'minmax'"),
    "a correction by name": ({"k": 5, "corrections": ["linear"]}, r"corrections must be .*LocalLinear\(\).*'linear'"),
    "a correction's class": ({"k": 5, "corrections": [nc.Shrinkage]}, "corrections must be a sequence of .*Shrinkage"),
    "polish of steps": (
        {"k": 5, "corrections": [nc.Polish()]},
        r"Polish\(.*\) needs a continuous quantile_rule.*got 'step'; use quantile_rule=\"predictive\"",
    ),
    "polish first": (
        {"k": 5, "quantile_rule": "predictive", "corrections": [nc.Polish(), nc.LocalLinear()]},
        r"must come last, got \(Polish\(drift=False\), LocalLinear\(\)\); put Polish\(\) last",
    ),
}


@pytest.mark.parametrize(("options", "message"), WRONG_OPTIONS.values(), ids=WRONG_OPTIONS)
def test_wrong_options_are_refused_by_fit(options, message):
    recalibrator = nc.LocalRecalibrator(**options)  # scikit-learn's manners: __init__ only stores
    with refuses(PARAMETER, message):
        recalibrator.fit(DIST, Y, SPACE)
    with refuses(nc.NotFittedError, "this LocalRecalibrator is not fitted; call fit"):
        recalibrator.recalibrate(NEW, SPACE_NEW)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threads": 0}, "threads must be a whole number of 1 to 1024, got 0"),
        ({"threads": -1}, "threads must be a whole number of 1 to 1024, got -1"),
        ({"memory": 100}, "memory must be a whole number of 1048576 to .*, got 100"),
        ({"progress": "yes"}, "progress must be True, False or a function .* got 'yes'"),
    ],
)
def test_wrong_options_of_workers(options, message):
    with refuses(PARAMETER, message):
        nc.Workers(**options)


def test_workers_by_another_name_are_refused():
    with refuses(PARAMETER, "workers must be .*nearcal.Workers.*got 4"):
        nc.LocalRecalibrator(k=5, workers=4).fit(DIST, Y, SPACE)


def test_wrong_options_of_the_global_recalibrator():
    with refuses(PARAMETER, "quantile_rule must be one of .*, got 'linear'"):
        nc.GlobalRecalibrator(quantile_rule="linear").fit(DIST, Y)


INSIDE = "y_cal must lie inside the support of dist_cal, got"
WRONG_FITS = {
    "y longer": (DIST, np.zeros(N + 1), SPACE, r"y_cal must have shape \(20,\) or \(20, 1\).* got \(21,\)"),
    "y square": (DIST, np.zeros((N, N)), SPACE, r"y_cal must .* got \(20, 20\)"),
    "y as a row": (DIST, Y[np.newaxis], SPACE, r"y_cal must .* got \(1, 20\)"),
    "y scalar": (DIST, 1.0, SPACE, r"y_cal must .* got \(\)"),
    "one row for many": (ONE, Y, SPACE, r"y_cal must have shape \(1,\) .* got \(20,\)"),
    "space longer": (DIST, Y, np.zeros((N + 1, D)), "space_cal must have 20 rows.* got 21"),
    "space transposed": (DIST, Y, SPACE.T, "space_cal must have 20 rows.* got 2"),
    "space of three axes": (DIST, Y, np.zeros((N, 2, 2)), r"space_cal must have shape \(n, d\).* got \(20, 2, 2\)"),
    "space without columns": (DIST, Y, np.zeros((N, 0)), r"space_cal must .* d >= 1, got \(20, 0\)"),
    "space scalar": (DIST, Y, 1.0, r"space_cal must have shape \(n, d\).* got \(\)"),
    "space empty": (DIST, Y, np.zeros((0, D)), "space_cal must have 20 rows.* got 0"),
    "space huge": (DIST, Y, SPACE * 1e200, "space_cal must hold numbers of magnitude below .*rescale"),
    "dist is an array": (
        Y,
        Y,
        SPACE,
        r"dist_cal must be a nearcal distribution, got numpy.ndarray; .*nearcal.Normal\(mean",
    ),
    "dist of scipy": (
        stats.norm(Y),
        Y,
        SPACE,
        "dist_cal must be .* got scipy.stats.*rv_continuous_frozen; .*from_scipy",
    ),
    "dist of torch": (
        torch.distributions.Normal(0.0, 1.0),
        Y,
        SPACE,
        "dist_cal must be .* got torch.distributions.normal.Normal; .*from_torch",
    ),
    "dist is a class": (nc.Normal, Y, SPACE, "dist_cal must be a nearcal distribution"),
    "dist is None": (None, Y, SPACE, "dist_cal must be a nearcal distribution, got NoneType"),
    "Gamma at 0": (
        nc.Gamma(np.ones(N), 1.0),
        with_entry(Y**2 + 1, 4, 0.0),
        SPACE,
        f"{INSIDE} .*1 of 20 .*index 4: 0.0",
    ),
    "LogNormal at -2": (nc.LogNormal(np.zeros(N), 1.0), with_entry(Y**2, 4, -2.0), SPACE, f"{INSIDE} .*index 4: -2.0"),
    "scipy below its support": (
        nc.from_scipy(stats.weibull_min(np.full(N, 2.0))),
        with_entry(Y**2 + 1, 4, -2.0),
        SPACE,
        f"{INSIDE} .*index 4: -2.0",
    ),
    "scipy above its support": (
        nc.from_scipy(stats.uniform(np.zeros(N))),
        np.full(N, 2.0),
        SPACE,
        f"{INSIDE} .*20 of 20 .*index 0: 2.0",
    ),
}


@pytest.mark.parametrize(("dist", "y", "space", "message"), WRONG_FITS.values(), ids=WRONG_FITS)
def test_wrong_calibration_sets(dist, y, space, message):
    with refuses(INPUT, message):
        nc.LocalRecalibrator(k=5).fit(dist, y, space)


WRONG_NEWS = {
    "space longer": (NEW, np.zeros((4, D)), "space_new must have 3 rows.* got 4"),
    "one row as a vector": (ONE, [0.0, 0.0], r"space_new must have 1 rows.* got 2; .*shape \(1, d\)"),
    "other columns": (NEW, np.zeros((3, 5)), "space_new must have 2 columns as space_cal had in fit, got 5"),
    "one column": (NEW, np.zeros(3), "space_new must have 2 columns .* got 1"),
    "empty": (NEW, np.zeros((0, D)), "space_new must have 3 rows.* got 0"),
    "None": (NEW, None, "space_new must be an array of real numbers, got None"),
    "huge": (NEW, SPACE_NEW * 1e200, "space_new must hold numbers of magnitude below"),
    "an array": (np.zeros(3), SPACE_NEW, "dist_new must be a nearcal distribution, got numpy.ndarray"),
    "of scipy": (stats.norm(np.zeros(3)), SPACE_NEW, "dist_new must be .*from_scipy"),
}


@pytest.mark.parametrize(("dist", "space", "message"), WRONG_NEWS.values(), ids=WRONG_NEWS)
def test_wrong_new_rows(fitted, dist, space, message):
    with refuses(INPUT, message):
        fitted.recalibrate(dist, space)
    assert np.isfinite(fitted.recalibrate(NEW, SPACE_NEW).mean()).all()


@pytest.mark.parametrize("recalibrator", [nc.LocalRecalibrator(k=5), nc.GlobalRecalibrator()])
def test_unfitted_use(recalibrator):
    with refuses(nc.NotFittedError, f"this {type(recalibrator).__name__} is not fitted; call fit"):
        recalibrator.recalibrate(NEW, SPACE_NEW)


def test_a_thin_row_raises_when_asked_to():
    rc = nc.LocalRecalibrator(radius=nc.Radius(1e-3, 2, "raise")).fit(DIST, Y, SPACE)
    out = rc.recalibrate(DIST, SPACE + 10.0)
    message = "at least min_neighbors=2 .*radius=0.001; row \\d+ has 0, .*increase radius or choose thin="
    for question in (out.mean, out.summary, lambda: out.cdf(0.0), lambda: out.neighbors(0)):
        with refuses(nc.ThinNeighborhoodError, message):
            question()


@pytest.mark.parametrize("scaling", ["standard", "whiten"])
def test_positions_that_overflow_once_scaled_are_refused(scaling):
    rc = nc.LocalRecalibrator(k=5, scaling=scaling).fit(DIST, Y, SPACE * 1e-100)
    with refuses(INPUT, "space_new after scaling must hold numbers of magnitude below"):
        rc.recalibrate(NEW, SPACE_NEW * 1e100)


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, 7.0, 1e6 / 7])
def test_identical_rows_cannot_be_whitened(value):
    with refuses(INPUT, 'space_cal must vary .*scaling="whiten".*use scaling="none"'):
        nc.LocalRecalibrator(k=5, scaling="whiten").fit(DIST, Y, np.full((N, D), value))


def test_a_zero_row_has_no_direction():
    rc = nc.LocalRecalibrator(k=5, metric="cosine", workers=nc.Workers(threads=2))
    with refuses(INPUT, 'space_cal must have no zero row for metric="cosine".* row 7'):
        rc.fit(DIST, Y, with_entry(SPACE, 7, 0.0))
    with refuses(INPUT, "space_new must have no zero row .* row 17"):
        rc.fit(DIST, Y, SPACE).recalibrate(DIST, with_entry(SPACE, 17, 0.0))


# ---- seeds ----------------------------------------------------------------------------------------------------------

DRAWN = nc.Samples(RNG.normal(size=(N, 5)), tails="empirical")
SEEDED = {
    "sample": lambda rng: DIST.sample(2, rng),
    "report": lambda rng: nc.report(DIST, Y, rng=rng),
    "sample of atoms": lambda rng: nc.GlobalRecalibrator().fit(DIST, Y).recalibrate(NEW).sample(2, rng),
    "pit": lambda rng: nc.diagnostics.pit(DRAWN, Y, rng),
    "pit without draws": lambda rng: nc.diagnostics.pit(DIST, Y, rng),
    "kmeans_regions": lambda rng: nc.diagnostics.kmeans_regions(SPACE, 3, rng),
    "described_regions": lambda rng: nc.diagnostics.described_regions(DIST, Y, {"a": Y}, rng=rng),
    "local_calibration": lambda rng: nc.diagnostics.local_calibration(DIST, Y, SPACE, regions=2, rng=rng),
    "coverage_gap": lambda rng: nc.diagnostics.coverage_gap(DIST, Y, Y > 0, rng=rng),
    "worst_slab_coverage": lambda rng: nc.diagnostics.worst_slab_coverage(DIST, Y, SPACE, rng=rng),
    "width_dependence": lambda rng: nc.diagnostics.width_dependence(DIST, Y, permutations=9, rng=rng),
    "excess_risk": lambda rng: nc.diagnostics.excess_risk(DIST, Y, SPACE, folds=2, rng=rng),
    "compile": lambda rng: nc.compile(nc.GlobalRecalibrator().fit(DIST, Y), rng=rng),
    "evaluate": lambda rng: nc.evaluate(DIST, Y, bootstrap=3, rng=rng),
    "QuantileNetRecalibrator": lambda rng: nc.QuantileNetRecalibrator(epochs=1, rng=rng).fit(DIST, Y),
    "GPBetaRecalibrator": lambda rng: nc.GPBetaRecalibrator(rng=rng).fit(DIST, Y),
}


def test_nothing_that_takes_a_seed_is_left_out():
    known = {name: getattr(room, name) for room in (nc, nc.diagnostics) for name in room.__all__}
    takers = {name: one for name, one in known.items() if callable(one) and not _is_exception(one)}
    assert {name for name, one in takers.items() if "rng" in inspect.signature(one).parameters} <= set(SEEDED)


def _is_exception(one):
    return isinstance(one, type) and issubclass(one, Exception)


@pytest.mark.parametrize("seed", ["a", "12", -1, 1.5, np.nan, True, [0.5], {}, ...], ids=repr)
@pytest.mark.parametrize("name", SEEDED)
def test_a_seed_that_is_none(name, seed):
    with refuses(PARAMETER, f"^rng must be a whole number >= 0.*, got {re.escape(repr(seed))}"):
        SEEDED[name](seed)


def test_seeds_are_those_of_numpy():
    def draw(rng):
        return DIST.sample(3, rng)

    expected = np.random.default_rng(7).standard_normal((N, 3))
    for seed in (7, np.int64(7), np.random.SeedSequence(7), np.random.default_rng(7), np.random.PCG64(7)):
        np.testing.assert_array_equal(draw(seed), expected)
    np.testing.assert_array_equal(draw([7, 8]), np.random.default_rng([7, 8]).standard_normal((N, 3)))
    assert (draw(None) != draw(None)).all()
    generator = np.random.default_rng(7)
    assert (draw(generator) != draw(generator)).all()


# ---- nothing is left half-changed -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ({}, (DIST, with_entry(Y, 0, np.nan), SPACE)),
        ({}, (DIST, Y, with_entry(SPACE, 0, np.nan))),
        ({}, (nc.Normal(np.zeros(3), 1.0), np.zeros(3), np.ones((3, 7)))),
        ({"scaling": "none"}, (DIST, Y, with_entry(SPACE, 0, 0.0))),  # the last thing that can fail
    ],
)
def test_a_failed_refit_keeps_the_old_fit(options, arguments):
    rc = nc.LocalRecalibrator(k=5, scaling="standard", metric="cosine").fit(DIST, Y, SPACE)
    before = rc.recalibrate(NEW, SPACE_NEW).mean()
    with pytest.raises(nc.NearcalError):
        rc.set_params(**options).fit(*arguments)
    np.testing.assert_array_equal(rc.recalibrate(NEW, SPACE_NEW).mean(), before)
    assert (rc.n_cal_, rc.n_features_in_) == (N, D)


@pytest.mark.parametrize("recalibrator", [nc.LocalRecalibrator(k=5), nc.GlobalRecalibrator()])
def test_an_unknown_parameter_changes_nothing(recalibrator):
    before = recalibrator.get_params()
    with refuses(PARAMETER, f"{type(recalibrator).__name__} has no parameter 'alpha'; it has .*quantile_rule"):
        recalibrator.set_params(quantile_rule="conservative", alpha=0.05)
    assert recalibrator.get_params() == before


def test_wrong_options_set_after_the_fit_are_refused_by_the_next_fit(fitted):
    rc = copy.copy(fitted).set_params(k=N + 1)
    with refuses(PARAMETER, "k must be at most the number of calibration points, 20, got 21"):
        rc.fit(DIST, Y, SPACE)
    with refuses(PARAMETER, "give exactly one of k and radius, got k=21 and radius=1.0"):
        rc.set_params(radius=1.0).fit(DIST, Y, SPACE)
