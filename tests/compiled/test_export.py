import json

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import nearcal as nc
from nearcal.compiled import compiling, lessons
from nearcal.compiled.bases import GammaBase, NormalBase, family_of
from nearcal.compiled.network import LEVEL_SCORES, Effort
from nearcal.compiled.program import reading
from nearcal.compiled.student import Form, Kind
from tests.compiled.cases import LEVELS, calibration_set, compile_quickly, far_and_near, fitted

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")

M = 300
RNG = np.random.default_rng(0)
BASES = {
    "normal": nc.Normal(RNG.normal(size=M), RNG.uniform(1, 2, size=M)),
    "lognormal": nc.LogNormal(RNG.normal(size=M), RNG.uniform(0.1, 0.5, size=M)),
    "gamma": nc.Gamma(np.exp(RNG.uniform(-1, 8, size=M)), RNG.uniform(1, 2, size=M)),
    "quantiles": nc.Quantiles([0.05, 0.2, 0.5, 0.8, 0.95], np.sort(RNG.normal(size=(M, 5)), axis=1)),
    "samples": nc.Samples(RNG.normal(size=(M, 40))),
}
FADED = {"quantile_rule": "predictive", "corrections": (nc.Polish(), nc.Fade())}
pytestmark = pytest.mark.filterwarnings("ignore::nearcal.OutOfDistributionWarning")


@pytest.fixture(scope="module")
def compiled():
    return compile_quickly(fitted(200, **FADED), 200)


def run_onnx(path, inputs):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    answers = session.run(None, {name: np.ascontiguousarray(values) for name, values in inputs.items()})
    return dict(zip([output.name for output in session.get_outputs()], answers, strict=True))


def assert_agrees(answers, out, rtol=1e-4):
    """Quantiles to 1e-4 of a score, moments to some thousandths of the spread: they are integrated on another grid."""
    exact = out.base.z(out.ppf(LEVELS))
    np.testing.assert_allclose(out.base.z(answers["quantiles"]), exact, atol=1e-4)
    std = out.std()
    assert (np.abs(answers["mean"][:, 0] - out.mean()) < 5e-3 * std).all()
    np.testing.assert_allclose(answers["std"][:, 0], std, rtol=5e-2)
    lower, upper = out.interval(0.95)
    np.testing.assert_allclose(out.base.z(answers["lower"][:, 0]), out.base.z(lower), atol=1e-4)
    np.testing.assert_allclose(out.base.z(answers["upper"][:, 0]), out.base.z(upper), atol=1e-4)
    np.testing.assert_allclose(answers["trust"][:, 0], out.trust, atol=1e-5)
    flags = out.reliability(0.01)["out_of_distribution"]
    assert (answers["out_of_distribution"][:, 0] == flags).mean() > 0.99


@pytest.mark.parametrize("name", BASES)
def test_onnx_and_torch_say_what_python_says(name, compiled, tmp_path):
    base = BASES[name]
    space = np.random.default_rng(1).uniform(0.9, 3.1, size=(M, 2))
    out = compiled.recalibrate(base, space)
    path = compiled.to_onnx(tmp_path / "recalibration.onnx", base, levels=LEVELS)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    inputs = {**family_of(base).parameters(base), "position": space}
    assert_agrees(run_onnx(path, inputs), out)
    module = compiled.to_torch(base, levels=LEVELS)
    tensors = {key: torch.tensor(values) for key, values in inputs.items()}
    assert_agrees({key: value.numpy() for key, value in module(**tensors).items()}, out)


@pytest.mark.parametrize(
    "options",
    [
        {"metric": "manhattan", **FADED},
        {"metric": "chebyshev", "scaling": "whiten", "corrections": (nc.Fade(0.1, "global"),)},
        {"metric": "cosine"},
        {"radius": nc.Radius(0.5, 10), "corrections": (nc.Trend(), nc.Fade())},
    ],
    ids=str,
)
def test_all_kinds_of_surroundings(options, tmp_path):
    compiled = compile_quickly(fitted(120, **options))
    space = far_and_near(M) if options.get("metric") != "cosine" else calibration_set(M, seed=4)[2]
    path = compiled.to_onnx(tmp_path / "recalibration.onnx", "normal", levels=LEVELS)
    base = BASES["normal"]
    assert_agrees(
        run_onnx(path, {**NormalBase().parameters(base), "position": space}), compiled.recalibrate(base, space)
    )


@pytest.mark.parametrize(("shape", "worth"), [("gaussian", 0.0), ("laplace", np.inf)])
def test_round_and_pointed_bumps(shape, worth, tmp_path, monkeypatch):
    monkeypatch.setattr(lessons, "_WORTH_ITS_TIME", worth)
    monkeypatch.setattr(compiling, "_forms", lambda fit: [Form((Kind(True, Effort(8, 50)),))])
    own = compile_quickly(fitted(200))
    assert [bumps.shape for bumps in own.student_.bumps] == [shape]
    space, base = np.random.default_rng(1).uniform(0.9, 3.1, size=(M, 2)), BASES["normal"]
    own.to_onnx(tmp_path / "own.onnx", base=base, levels=LEVELS)
    inputs = {"loc": base.loc[:, None], "scale": base.scale[:, None], "position": space}
    assert_agrees(run_onnx(tmp_path / "own.onnx", inputs), own.recalibrate(base, space))
    given = {name: torch.tensor(values) for name, values in inputs.items()}
    answers = own.to_torch(base=base, levels=LEVELS)(**given)
    assert_agrees({name: value.numpy() for name, value in answers.items()}, own.recalibrate(base, space))


def test_anchors_and_two_kinds_of_networks(tmp_path, monkeypatch):
    kinds = Kind(True, Effort(8, 5)), Kind(False, Effort(4, 9))
    monkeypatch.setattr(compiling, "_forms", lambda fit: [Form(kinds, True)])
    own = compile_quickly(fitted(200, **FADED))
    assert own.student_.anchors is not None
    space, base = np.random.default_rng(1).uniform(0.9, 3.1, size=(M, 2)), BASES["normal"]
    path = own.to_onnx(tmp_path / "own.onnx", base=base, levels=LEVELS)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    inputs = {"loc": base.loc[:, None], "scale": base.scale[:, None], "position": space}
    out = own.recalibrate(base, space)
    assert_agrees(run_onnx(path, inputs), out)
    tensors = {name: torch.tensor(values, requires_grad=True) for name, values in inputs.items()}
    answers = own.to_torch(base=base, levels=LEVELS)(**tensors)
    assert_agrees({name: value.detach().numpy() for name, value in answers.items()}, out)
    answers["quantiles"].sum().backward()
    assert torch.isfinite(tensors["position"].grad).all()


def test_one_law_of_all_rows(tmp_path):
    compiled = nc.compile(nc.VarianceScaling().fit(*calibration_set()))
    path, base = compiled.to_onnx(tmp_path / "all.onnx", "normal", levels=LEVELS), BASES["normal"]
    answers = run_onnx(path, NormalBase().parameters(base))
    np.testing.assert_allclose(answers["quantiles"], compiled.recalibrate(base).ppf(LEVELS), rtol=1e-9)
    assert not answers["out_of_distribution"].any()


def test_gradients_pass_through(compiled):
    space = torch.tensor(calibration_set(20, seed=2)[2], requires_grad=True)
    loc = torch.zeros(20, 1, dtype=torch.float64, requires_grad=True)
    module = compiled.to_torch("normal")
    module(loc=loc, scale=torch.ones(20), position=space)["quantiles"].sum().backward()
    np.testing.assert_allclose(loc.grad.numpy(), 5.0)  # of five quantiles, each moves as loc does
    assert torch.isfinite(space.grad).all()
    assert (space.grad != 0).any()
    with pytest.raises(TypeError, match="got no position"):
        module(loc=loc, scale=loc)


def test_a_file_tells_about_itself(compiled, tmp_path):
    path = compiled.to_onnx(tmp_path / "told.onnx", "normal", levels=[0.5])
    model = onnx.load(path)
    told = {entry.key: entry.value for entry in model.metadata_props}
    assert told["nearcal"] == nc.__version__
    assert json.loads(told["levels"]) == [0.5]
    assert float(told["loss"]) == pytest.approx(compiled.loss_.loss, abs=1e-6)
    assert [(one.domain, one.version) for one in model.opset_import] == [("", 18)]
    assert {one.name: one.type.tensor_type.shape.dim[0].dim_param for one in model.graph.input} == {
        "loc": "batch", "scale": "batch", "position": "batch"
    }  # fmt: skip


def test_whole_models(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    pytest.importorskip("onnxmltools")
    pytest.importorskip("skl2onnx")
    rng = np.random.default_rng(1)
    X = rng.normal(size=(250, 3)).astype(np.float32)
    y = (X[:, 0] + rng.normal(size=250) * np.exp(X[:, 1] / 2)).astype(np.float64)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).train()
    boosters = [
        lightgbm.LGBMRegressor(objective="quantile", alpha=level, n_estimators=5, verbose=-1, n_jobs=1).fit(X, y)
        for level in (0.9, 0.1, 0.5)
    ]
    local = nc.LocalRecalibrator(k=60, **FADED)
    models = {
        "torch": nc.calibrate(net, X, y, head="normal", layer="1", recalibrator=local),
        "torch, log": nc.calibrate(
            net, X, np.exp(y), head="normal", response="log", layer="input + 1", recalibrator=local
        ),
        "sklearn": nc.calibrate(LinearRegression().fit(X, y), X, y, layer="input + output", recalibrator=local),
        "lightgbm": nc.calibrate(boosters, X, y, layer="input", recalibrator=local),
        "alike": nc.calibrate(net, X, y, head="normal", recalibrator=nc.IsotonicRecalibrator()),
    }
    for name, model in models.items():
        small = compile_quickly(model, 20)
        path = small.to_onnx(tmp_path / "whole.onnx", X[:1], levels=LEVELS)
        out = small.predict(X)
        # networks run in single precision, in another order of sums: a score moves by some 1e-5
        got = run_onnx(path, {"X": X})["quantiles"]
        np.testing.assert_allclose(out.base.z(got), out.base.z(out.ppf(LEVELS)), atol=2e-4, err_msg=name)
    assert net.training


def test_what_cannot_be_exported(compiled, tmp_path):
    X, y = np.zeros((200, 2)), np.random.default_rng(0).normal(size=200)
    path = tmp_path / "none.onnx"
    function = nc.calibrate(lambda X: X[:, 0], X, y, recalibrator=nc.VarianceScaling())
    for what, match in [
        (lambda: compiled.to_onnx(path), "base must be one of 'normal'"),
        (lambda: compiled.to_onnx(path, nc.StudentT(3.0, [0.0], 1.0)), "nc.Quantiles"),
        (lambda: compiled.to_onnx(path, "normal", levels=[0.0]), "strictly between 0 and 1"),
        (lambda: compiled.to_onnx(path, "normal", coverage=2), "coverage"),
        (lambda: compiled.to_onnx(path, "normal", false_alarm=0), "false_alarm"),
        (lambda: function.to_onnx(path, X), "give the model to nearcal.compile first"),
        (lambda: nc.compile(function).to_onnx(path, X), "PyTorch, scikit-learn or LightGBM"),
        (lambda: nc.compile(function).to_onnx(path, None), "X must be some inputs"),
    ]:
        with pytest.raises(nc.NearcalError, match=match):
            what()
    assert not path.exists()


def test_gamma_quantiles_against_scipy():
    class Numpy:
        def __getattr__(self, name):
            return getattr(np, name)

        def constant(self, values, single=False):
            return np.asarray(values)

        def columns(self, x, start, stop):
            return x[:, start:stop]

        def concat(self, parts):
            return np.concatenate(parts, axis=1)

    shape = np.exp(np.linspace(np.log(0.3), np.log(1e5), 200))
    z = np.tile(np.linspace(-8, 8, 65), (200, 1))
    got = GammaBase().quantiles(Numpy(), {"shape": shape[:, None], "scale": np.ones((200, 1))}, z)
    np.testing.assert_allclose(nc.Gamma(shape, 1.0).z(got), z, atol=5e-5)


def test_tables_are_read_as_curves_are():
    line = nc.Quantiles([0.1, 0.5, 0.9], [[-1.0, 0.5, 3.0]]).curve
    table = np.concatenate([line.from_z(LEVEL_SCORES[None])[0], line.slope_below[0], line.slope_above[0]])
    at = np.linspace(-9, 9, 37)
    nodes = np.interp(at, LEVEL_SCORES, table[:-2])
    inside = np.abs(at) <= 3
    read = table @ reading(at)
    np.testing.assert_allclose(read[inside], nodes[inside], atol=1e-12)
    np.testing.assert_allclose(read[~inside], line.from_z(at[None])[0][~inside], atol=1e-12)
