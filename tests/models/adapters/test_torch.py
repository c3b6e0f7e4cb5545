"""PyTorch modules: activations, heads, dropout draws, ensembles, and a module left as it was found."""

import copy
import pickle
import threading

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import nearcal as nc
from nearcal.models.adapters import NormalHead, PointHead, TorchModel

RNG = np.random.default_rng(0)
N, D = 23, 3
X = RNG.normal(size=(N, D))
Y = RNG.normal(size=N)


def network(outputs=1, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(D, 7), nn.BatchNorm1d(7), nn.ReLU(inplace=True), nn.Dropout(0.4), nn.Linear(7, outputs)
    )


def trained_statistics(net):
    """Give batch norm something to remember."""
    net.train()
    with torch.no_grad():
        net(torch.tensor(3 + 2 * RNG.normal(size=(200, D)), dtype=torch.float32))
    return net


NET = trained_statistics(network())


def by_hand(net, x):
    """Return the outputs of all five layers of ``network`` in evaluation mode, in float64 numpy."""
    state = {name: value.double().numpy() for name, value in net.state_dict().items()}
    first = x @ state["0.weight"].T + state["0.bias"]
    spread = np.sqrt(state["1.running_var"] + 1e-5)
    second = (first - state["1.running_mean"]) / spread * state["1.weight"] + state["1.bias"]
    third = np.maximum(second, 0)
    return [first, second, third, third, third @ state["4.weight"].T + state["4.bias"]]


def close(actual, expected):
    # float32 networks: a few roundings of 6e-8
    np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=2e-6)


# ---- layers ----------------------------------------------------------------------------------------------------------


def test_activations_equal_a_hand_written_forward_pass():
    model = TorchModel(NET)
    expected = by_hand(NET, X)
    for layer in range(5):  # the third works in place on what the second put out
        close(model.represent(X, str(layer)), expected[layer])
    close(model.represent(X, "output"), expected[4])
    np.testing.assert_array_equal(model.represent(X, "input"), X)


def test_run_gives_the_same_in_one_pass():
    calls = []
    net = copy.deepcopy(NET)
    net.register_forward_hook(lambda *_: calls.append(1))
    model = TorchModel(net).prepared(X, Y)
    calls.clear()
    dist, positions = model.run(X, ["input", "0", "2", "output"])
    assert len(calls) == 1
    assert list(positions) == ["input", "0", "2", "output"]
    for layer, values in positions.items():
        np.testing.assert_array_equal(values, model.represent(X, layer))
    np.testing.assert_array_equal(dist.mean(), model.distribution(X).mean())
    draws = TorchModel(net, mc_dropout=3)
    calls.clear()
    draws.distribution(X)
    assert len(calls) == 3
    draws.run(X, ["0", "output"])
    assert len(calls) == 7


class Branches(nn.Module):
    """Submodules defined in another order than data flow, one of them unused, two of them no spaces."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 1)
        self.unused = nn.Linear(2, 2)
        self.loss = nn.MSELoss()
        self.first = nn.Sequential(nn.Linear(D, 4), nn.Tanh(), nn.Identity())
        self.output = nn.Softplus()

    def forward(self, x):
        return self.last(self.output(self.first(x)))


def test_layers_come_in_the_order_of_data_once_prepared():
    model = TorchModel(Branches())
    assert model.layers() == ("input", "last", "unused", "first.0", "first.1", "output")
    # "last" is the output; the submodule called "output" hides behind the end of that name
    assert model.prepared(X, Y).layers() == ("input", "first.0", "first.1", "output")
    assert model.represent(X, "first").shape == (N, 4)  # a container, by name
    np.testing.assert_array_equal(model.represent(X, "first.2"), model.represent(X, "first.1"))


@pytest.mark.parametrize("layer", ["5", "", "linear", "0.weight"])
def test_unknown_layer(layer):
    with pytest.raises(nc.InvalidParameterError, match=r"layer must be the name of a layer, such as input, 0, 1"):
        TorchModel(NET).represent(X, layer)


def test_layer_that_is_not_called():
    with pytest.raises(nc.InvalidInputError, match="layer 'unused' was not called"):
        TorchModel(Branches()).represent(X, "unused")


class Sequences(nn.Module):
    def __init__(self, batch_first):
        super().__init__()
        self.lstm = nn.LSTM(D, 5, batch_first=batch_first)
        self.mix = nn.Linear(5, 5)
        self.read = nn.Linear(5, 1)

    def forward(self, x):
        states, _ = self.lstm(x)
        for _ in range(2):
            states = self.mix(states)
        return self.read(states[:, -1])


def test_first_tensor_and_last_call_count():
    torch.manual_seed(0)
    net = Sequences(batch_first=True)
    sequences = torch.tensor(RNG.normal(size=(N, 4, D)), dtype=torch.float32)
    model = TorchModel(net).prepared(sequences, Y)
    assert model.layers() == ("input", "lstm", "mix", "output")
    with torch.no_grad():
        states = net.lstm(sequences)[0]
        mixed = net.mix(net.mix(states))
    close(model.represent(sequences, "lstm"), states.reshape(N, -1).numpy())
    close(model.represent(sequences, "mix"), mixed.reshape(N, -1).numpy())
    assert model.represent(sequences, "input").shape == (N, 4 * D)


def test_the_last_call_places_a_layer():
    class Again(nn.Module):
        def __init__(self):
            super().__init__()
            self.shared = nn.Linear(D, D)
            self.between = nn.Tanh()

        def forward(self, x):
            return self.shared(self.between(self.shared(x))).sum(dim=1)

    assert TorchModel(Again()).prepared(X, Y).layers() == ("input", "between", "shared", "output")


def test_layer_without_the_batch_first():
    class Wrong(Sequences):
        def forward(self, x):
            return self.read(self.lstm(x.transpose(0, 1))[0][-1])

    sequences = RNG.normal(size=(N, 4, D))
    model = TorchModel(Wrong(batch_first=False))
    with pytest.raises(
        nc.InvalidInputError, match=r"layer 'lstm' must put out one row an input, got shape \(4, 23, 5\)"
    ):
        model.represent(sequences, "lstm")
    assert model.prepared(sequences, Y).layers() == ("input", "output")


def test_reparametrised_weights_are_no_layers():
    net = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(D, 16)), nn.Tanh(), nn.Linear(16, 1))
    assert TorchModel(net).prepared(X, Y).layers() == ("input", "0", "1", "output")


def test_transformer_layers_are_seen_in_evaluation_mode():
    # torch passes over submodules there by a fast path of its own, unless they are watched
    torch.manual_seed(0)
    encoder = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True)
    net = nn.Sequential(encoder, nn.Flatten(), nn.Linear(32, 1))
    sequences = RNG.normal(size=(N, 4, 8))
    layers = TorchModel(net).prepared(sequences, Y).layers()
    assert layers[:3] == ("input", "0.self_attn", "0.norm1")
    assert "0.linear1" in layers
    draws = TorchModel(net, mc_dropout=3).distribution(sequences).draws
    assert (np.ptp(draws, axis=1) > 0).all()


# ---- inputs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "convert",
    [
        np.asfortranarray,
        lambda x: x[::-1][::-1],
        lambda x: x.astype(np.float32).astype(np.float64),
        lambda x: pd.DataFrame(x, columns=list("abc")),
        lambda x: x.tolist(),
        lambda x: torch.tensor(x),
        lambda x: torch.tensor(x, dtype=torch.float32, requires_grad=True),
    ],
)
def test_kinds_of_arrays(convert):
    close(TorchModel(NET).represent(convert(X), "output"), by_hand(NET, X)[4])


def test_double_precision_is_exact():
    net = copy.deepcopy(NET).double()
    np.testing.assert_allclose(TorchModel(net).represent(X, "output"), by_hand(net, X)[4], rtol=1e-12)


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 2)
        self.read = nn.Linear(D + 2, 1)

    def forward(self, x, kind):
        return self.read(torch.cat([x, self.embed(kind)], dim=1))


def test_several_inputs():
    torch.manual_seed(0)
    net = TwoInputs()
    kind = torch.arange(N) % 5
    with torch.no_grad():
        expected = net(torch.tensor(X, dtype=torch.float32), kind).numpy()
    model = TorchModel(net, batch_size=4)
    close(model.represent((X, kind), "output"), expected)
    close(model.represent({"kind": kind, "x": X}, "output"), expected)
    assert model.represent((X, kind), "input").shape == (N, D + 1)
    with pytest.raises(nc.InvalidInputError, match="one common length"):
        model.represent((X, kind[1:]), "output")
    with pytest.raises(nc.InvalidInputError, match="one common length"):
        model.represent(X[:0], "input")


def test_inputs_are_not_changed_by_a_module_that_works_in_place():
    class Impolite(nn.Module):
        def forward(self, x):
            return x.add_(1.0).sum(dim=1)

    tensor = torch.zeros(4, 2)
    array = np.zeros((4, 2))
    for x in (tensor, array):
        np.testing.assert_array_equal(TorchModel(Impolite()).represent(x, "output"), 2.0)
        assert not np.asarray(x).any()


@pytest.mark.parametrize("size", [1, 5, N])
def test_batch_size_does_not_matter(size):
    model, whole = (TorchModel(NET, batch_size=b).prepared(X, Y) for b in (size, 4096))
    for layer in model.layers():
        np.testing.assert_allclose(model.represent(X, layer), whole.represent(X, layer), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(model.distribution(X).ppf(0.9), whole.distribution(X).ppf(0.9), rtol=1e-6, atol=1e-6)
    assert model.layers() == whole.layers()


# ---- left as found ---------------------------------------------------------------------------------------------------


class Fails(nn.Module):
    """Passes its input on, uses random numbers, and raises when told to."""

    def __init__(self):
        super().__init__()
        self.error = None
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        torch.rand(3)
        if self.error is not None and self.calls % 2 == 0:
            raise self.error
        return x


def state_of(net):
    flags = [module.training for module in net.modules()]
    hooks = [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in net.modules()]
    buffers = [buffer.clone() for buffer in net.buffers()]
    return (
        flags,
        hooks,
        [buffer.tolist() for buffer in buffers],
        torch.get_rng_state().tolist(),
        torch.is_grad_enabled(),
    )


@pytest.mark.parametrize("error", [None, RuntimeError("inside the model"), KeyboardInterrupt()])
@pytest.mark.parametrize("mc_dropout", [None, 3])
@pytest.mark.parametrize("grad", [True, False])
def test_module_is_left_as_found(error, mc_dropout, grad):
    net = nn.Sequential(copy.deepcopy(NET), Fails())
    net.train()
    net[0][1].eval()  # a frozen batch norm
    net[0][0].register_forward_hook(lambda *_: None)
    model = TorchModel(net, mc_dropout=mc_dropout, batch_size=10)
    net[1].error = error
    with torch.set_grad_enabled(grad):
        before = state_of(net)
        if error is None:
            model.prepared(X, Y).run(X, ["0.0", "output"])
        else:
            for question in (lambda: model.run(X, ["0.0"]), lambda: model.prepared(X, Y)):
                with pytest.raises(nc.InvalidInputError if isinstance(error, RuntimeError) else type(error)):
                    question()
        assert state_of(net) == before
    assert net[1].calls > 0


def test_module_can_be_trained_afterwards():
    class Remembers(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(D, 1)
            self.last = None

        def forward(self, x):
            result = self.inner(x)
            result = result if self.last is None else result * self.last.mean()
            self.last = result.detach()
            return result

    net = Remembers()
    TorchModel(net).represent(X, "output")
    net(torch.ones(2, D)).sum().backward()  # an inference tensor in self.last would refuse
    assert net.inner.weight.grad is not None


def test_no_gradients_are_kept():
    seen = []
    net = copy.deepcopy(NET)
    net.register_forward_hook(lambda module, arguments, output: seen.append(output.requires_grad))
    TorchModel(net).prepared(X, Y)
    assert seen
    assert not any(seen)


def test_two_threads_do_not_disturb_each_other():
    model = TorchModel(NET, batch_size=1)
    expected = {layer: model.represent(X, layer) for layer in ("0", "2")}
    failures = []

    def ask(layer):
        for _ in range(5):
            if not np.array_equal(model.represent(X, layer), expected[layer]):
                failures.append(layer)

    threads = [threading.Thread(target=ask, args=(layer,)) for layer in ("0", "2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert state_of(NET)[1] == [0] * len(list(NET.modules()))


# ---- heads -----------------------------------------------------------------------------------------------------------


def test_point_head_takes_its_deviation_from_the_calibration_set():
    model = TorchModel(NET)
    with pytest.raises(nc.NotFittedError, match="prepared"):
        model.distribution(X)
    dist = model.prepared(X, Y).distribution(X)
    point = by_hand(NET, X)[4][:, 0]
    close(dist.mean(), point)
    close(dist.std(), np.full(N, np.sqrt(np.mean((Y - point) ** 2))))
    again = model.prepared(X, Y).prepared(X, point + 5.0).distribution(X)
    close(again.std(), np.full(N, 5.0))


def test_log_response():
    dist = TorchModel(NET, response="log").prepared(X, np.exp(Y)).distribution(X)
    point = by_hand(NET, X)[4][:, 0]
    assert isinstance(dist, nc.LogNormal)
    close(dist.mu, point)
    close(dist.sigma, np.full(N, np.sqrt(np.mean((Y - point) ** 2))))


@pytest.mark.parametrize("response", ["identity", "log"])
def test_normal_and_quantile_heads(response):
    net = network(2)
    output = by_hand(net, X)[4]
    dist = TorchModel(net, head="normal", response=response).distribution(X)
    scale = (lambda y: y) if response == "identity" else np.exp
    close(dist.ppf(0.5), scale(output[:, 0]))
    close(dist.from_z(1.0), scale(output[:, 0] + np.exp(output[:, 1])))
    quantiles = TorchModel(net, levels=[0.2, 0.7], response=response).distribution(X)
    close(quantiles.ppf([0.2, 0.7]), scale(np.sort(output, axis=1)))


class Tree(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        both = self.net(x)
        return {"loc": both[:, 0], "rest": (F.softplus(both[:, 1:]), None)}


def test_function_of_a_tree_of_outputs():
    net = network(2)
    output = by_hand(net, X)[4]
    model = TorchModel(Tree(net), head=lambda o: nc.Laplace(o["loc"], o["rest"][0]), batch_size=6)
    dist = model.distribution(X)
    close(dist.loc, output[:, 0])
    close(dist.scale, np.log1p(np.exp(output[:, 1])))
    assert model.represent(X, "output").shape == (N, 2)
    with pytest.raises(nc.InvalidInputError, match="pass head=function"):
        TorchModel(Tree(net), head="normal").distribution(X)


class Distributions(nn.Module):
    def __init__(self, net, make):
        super().__init__()
        self.net = net
        self.make = make

    def forward(self, x):
        return self.make(self.net(x))


MAKERS = {
    "normal": lambda o: torch.distributions.Normal(o[:, 0], o[:, 1].exp()),
    "independent": lambda o: torch.distributions.Independent(torch.distributions.Normal(o[:, :1], o[:, 1:2].exp()), 1),
    "gamma": lambda o: torch.distributions.Gamma(o[:, 0].exp(), o[:, 1].exp()),
    "shared": lambda o: torch.distributions.StudentT(4.0, o[:, 0], 1.5),
    "lognormal": lambda o: torch.distributions.LogNormal(o[:, 0], o[:, 1].exp()),
    "mixture": lambda o: torch.distributions.MixtureSameFamily(
        torch.distributions.Categorical(logits=o[:, :2]), torch.distributions.Normal(o[:, :2], o[:, 2:4].exp())
    ),
}


@pytest.mark.parametrize("name", MAKERS)
def test_module_that_returns_torch_distributions(name):
    net = network(4)
    with torch.no_grad():
        expected = nc.from_torch(MAKERS[name](net.eval()(torch.tensor(X, dtype=torch.float32))))
    model = TorchModel(Distributions(net, MAKERS[name]), batch_size=5)
    dist, positions = model.prepared(X, Y).run(X, ["output"])
    assert type(dist) is type(expected)
    levels = [0.01, 0.1, 0.5, 0.9, 0.99]
    np.testing.assert_allclose(dist.ppf(levels), expected.ppf(levels), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(positions["output"], dist.ppf([0.1, 0.5, 0.9]))


def test_errors_of_torch_distributions():
    one = Distributions(network(2), lambda o: torch.distributions.Normal(0.0, 1.0))
    with pytest.raises(nc.InvalidInputError, match=r"one row an input.*got 1 distributions for a batch of 23"):
        TorchModel(one).distribution(X)
    fine = Distributions(network(2), MAKERS["gamma"])
    with pytest.raises(nc.InvalidParameterError, match=r'puts out distributions itself.*leave head="auto"'):
        TorchModel(fine, head="normal").distribution(X)
    with pytest.raises(nc.InvalidParameterError, match='response="log"'):
        TorchModel(fine, response="log").distribution(X)
    beta = Distributions(network(2), lambda o: torch.distributions.Beta(o[:, 0].exp(), o[:, 1].exp()))
    with pytest.raises(nc.InvalidInputError, match="Beta has no nearcal family"):
        TorchModel(beta).distribution(X)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda o: o,
            r"puts out 2 columns: if they are several targets.*output=0.* to output=1; if .*head",
        ),
        (lambda o: o.mean(), r"one row an input.*got an array of shape \(\)"),
        (lambda o: o.T, r"one row an input.*got an array of shape \(2, 23\)"),
        (lambda o: "text", "must return tensors.*got str"),
    ],
)
def test_outputs_that_say_too_little(make, message):
    with pytest.raises(nc.NearcalError, match=message):
        TorchModel(Distributions(network(2), make)).prepared(X, Y)


# ---- Monte-Carlo dropout ---------------------------------------------------------------------------------------------


def test_draws_are_reproducible_and_independent_of_the_batch():
    draws = TorchModel(NET, mc_dropout=20, seed=5).distribution(X).draws
    assert draws.shape == (N, 20)
    assert (np.diff(draws, axis=1) > 0).any(axis=1).all()
    for size in (1, 4):
        again = TorchModel(NET, mc_dropout=20, seed=5, batch_size=size).distribution(X).draws
        np.testing.assert_allclose(again, draws, rtol=1e-6, atol=1e-6)
    alone = TorchModel(NET, mc_dropout=20, seed=5).distribution(X[7:9]).draws
    np.testing.assert_allclose(alone, draws[7:9], rtol=1e-6, atol=1e-6)  # a row depends on itself alone
    assert not np.allclose(TorchModel(NET, mc_dropout=20, seed=6).distribution(X).draws, draws)


DROPOUTS = {
    "plain": (nn.Dropout(0.4), (5,)),
    "alpha": (nn.AlphaDropout(0.3), (5,)),
    "channels": (nn.Dropout2d(0.5), (3, 2, 2)),
    "alpha channels": (nn.FeatureAlphaDropout(0.3), (3, 2, 2)),
}


@pytest.mark.parametrize("name", DROPOUTS)
def test_draws_are_distributed_as_those_of_a_hand_written_loop(name):
    dropout, shape = DROPOUTS[name]
    torch.manual_seed(1)
    net = nn.Sequential(
        nn.Linear(D, int(np.prod(shape))),
        nn.BatchNorm1d(int(np.prod(shape))),
        nn.Unflatten(1, shape),
        dropout,
        nn.Flatten(),
        nn.Tanh(),
        nn.Linear(int(np.prod(shape)), 1),
    )
    trained_statistics(net)
    buffers = copy.deepcopy(list(net.buffers()))
    count = 2000
    x = X[:3]
    ours = TorchModel(net, mc_dropout=count).distribution(x).draws
    net.eval()
    dropout.train()
    with torch.no_grad():
        repeated = torch.tensor(x, dtype=torch.float32).repeat_interleave(count, dim=0)
        loop = net(repeated).reshape(3, count).numpy().astype(float)
    # means differ by N(0, 2 var / count), variances by N(0, 2 (m4 - var²) / count); 4.5 standard errors, 12 checks
    center = loop - loop.mean(axis=1, keepdims=True)
    var, fourth = (center**2).mean(axis=1), (center**4).mean(axis=1)
    assert (np.abs(ours.mean(axis=1) - loop.mean(axis=1)) < 4.5 * np.sqrt(2 * var / count)).all()
    assert (np.abs(ours.var(axis=1) - var) < 4.5 * np.sqrt(2 * (fourth - var**2) / count)).all()
    for before, after in zip(buffers, net.buffers(), strict=True):
        assert torch.equal(before, after)


def test_a_draw_is_one_thinned_network():
    # dropout of the inputs of a linear map without bias: each draw is the map with some weights struck out
    torch.manual_seed(0)
    linear = nn.Linear(D, 1, bias=False).double()
    draws = TorchModel(nn.Sequential(nn.Dropout(0.5), linear), mc_dropout=2, seed=3).distribution(X).draws
    weights = linear.weight.detach().numpy()[0]
    masks = np.array([[(code >> bit) & 1 for bit in range(D)] for code in range(2**D)])
    candidates = X @ (2 * masks * weights).T
    pairs = [(a, b) for a in range(2**D) for b in range(2**D)]
    assert any(np.allclose(np.sort(candidates[:, pair], axis=1), draws, atol=1e-12) for pair in pairs)


def test_layers_are_those_of_the_weight_scaling_rule():
    random, plain = TorchModel(NET, mc_dropout=4), TorchModel(NET)
    np.testing.assert_array_equal(random.run(X, ["4"])[1]["4"], plain.represent(X, "4"))
    np.testing.assert_array_equal(random.represent(X, "output"), plain.represent(X, "output"))


def test_dropout_with_other_heads_is_a_mixture():
    net = network(2)
    dist = TorchModel(net, head="normal", mc_dropout=6).distribution(X)
    assert isinstance(dist, nc.Mixture)
    assert len(dist.components) == 6
    assert len({part.loc[0] for part in dist.components}) > 1
    quantiles = TorchModel(net, levels=[0.1, 0.9], mc_dropout=3).distribution(X)
    assert all(isinstance(part, nc.Quantiles) for part in quantiles.components)
    scaled = TorchModel(NET, head=PointHead(scale=0.5), mc_dropout=6).distribution(X)
    draws = TorchModel(NET, mc_dropout=6).distribution(X).draws
    np.testing.assert_allclose(scaled.mean(), draws.mean(axis=1), atol=1e-12)
    np.testing.assert_allclose(scaled.var(), draws.var(axis=1) + 0.25, atol=1e-12)
    log = TorchModel(NET, response="log", mc_dropout=6).distribution(X)
    np.testing.assert_allclose(log.draws, np.exp(draws))


class FunctionalDropout(nn.Module):
    def __init__(self):
        super().__init__()
        self.read = nn.Linear(D, 1)
        self.spare = nn.Dropout(0.5)

    def forward(self, x):
        return self.read(F.dropout(x, 0.5, training=self.training))


@pytest.mark.parametrize("net", [nn.Linear(D, 1), nn.Sequential(nn.Dropout(0.0), nn.Linear(D, 1))])
def test_module_without_dropout_layers(net):
    with pytest.raises(nc.InvalidParameterError, match="mc_dropout needs a module with dropout layers"):
        TorchModel(net, mc_dropout=10)


def test_dropout_layers_that_are_not_called():
    with pytest.raises(nc.InvalidParameterError, match="none was called"):
        TorchModel(FunctionalDropout(), mc_dropout=10).distribution(X)


def test_rows_that_dropout_does_not_reach():
    net = nn.Sequential(nn.ReLU(), nn.Dropout(0.5), nn.Linear(D, 1))
    positive, negative = np.abs(X), -np.abs(X)
    with pytest.raises(nc.InvalidInputError, match=r"got 23 rows that dropout does not reach, the first row 23"):
        TorchModel(net, mc_dropout=30).distribution(np.concatenate([positive, negative]))
    assert len(TorchModel(net, mc_dropout=3, head=PointHead(scale=1.0)).distribution(negative)) == N


def test_dropout_needs_the_batch_first():
    class Across(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)

        def forward(self, x):
            return self.drop(x.T).sum(dim=0)

    with pytest.raises(nc.InvalidInputError, match=r"batch first.*23 rows, got shape \(3, 23\)"):
        TorchModel(Across(), mc_dropout=2).distribution(X)


# ---- ensembles -------------------------------------------------------------------------------------------------------


def test_ensemble_of_point_predictions_is_a_mixture_of_normals():
    members = [network(seed=seed) for seed in range(3)]
    model = TorchModel(members).prepared(X, Y)
    dist, positions = model.run(X, ["0", "output", "input"])
    points = np.column_stack([by_hand(net, X)[4] for net in members])
    variances = np.mean((Y[:, np.newaxis] - points) ** 2, axis=0)
    close(dist.mean(), points.mean(axis=1))
    close(dist.var(), variances.mean() + points.var(axis=1))
    close(positions["output"], np.column_stack([points, points.std(axis=1)]))  # and how far they disagree
    close(positions["0"], np.column_stack([by_hand(net, X)[0] for net in members]))
    np.testing.assert_array_equal(positions["input"], X)


def test_layers_of_an_ensemble_are_those_all_members_have():
    torch.manual_seed(0)
    small = nn.Sequential(nn.Linear(D, 4), nn.Tanh(), nn.Linear(4, 1))
    large = nn.Sequential(nn.Linear(D, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    model = TorchModel([small, large])
    assert model.layers() == ("input", "0", "1", "2", "output")
    assert model.prepared(X, Y).layers() == ("input", "0", "1", "output")
    with pytest.raises(nc.InvalidParameterError, match="of every network"):
        model.represent(X, "4")


def test_ensembles_of_other_heads_and_with_dropout():
    members = nn.ModuleList([network(2, seed) for seed in range(2)])
    dist = TorchModel(members, head=NormalHead()).distribution(X)
    expected = [by_hand(net, X)[4] for net in members]
    y = np.linspace(-1, 1, N)
    each = [nc.Normal(o[:, 0], np.exp(o[:, 1])).cdf(y) for o in expected]
    close(dist.cdf(y), np.mean(each, axis=0))
    draws = TorchModel([network(seed=0), network(seed=1)], mc_dropout=5).distribution(X).draws
    assert draws.shape == (N, 10)
    twins = TorchModel([NET, NET], mc_dropout=2).distribution(X).draws
    assert len(np.unique(twins[0])) > 2  # members have masks of their own


# ---- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", [[], [nn.Linear(1, 1), "text"], nn.Linear, None])
def test_what_is_no_module(module):
    with pytest.raises(nc.InvalidInputError, match=r"module must be a torch\.nn\.Module or a non-empty list"):
        TorchModel(module)


@pytest.mark.parametrize(
    "options",
    [{"mc_dropout": 1}, {"mc_dropout": 2.0}, {"batch_size": 0}, {"seed": -1}, {"head": "gauss"}, {"response": "sqrt"}],
)
def test_options_out_of_range(options):
    with pytest.raises(nc.InvalidParameterError, match=next(iter(options))):
        TorchModel(NET, **options)


def test_device_and_dtype():
    net = nn.Sequential(nn.Flatten(), nn.Linear(D, 1)).double()
    seen = []
    net.register_forward_hook(lambda module, arguments, output: seen.append((arguments[0].dtype, arguments[0].device)))
    TorchModel(net).represent(X, "output")
    TorchModel(nn.Sequential(net), device="cpu").represent(torch.tensor(X, dtype=torch.float16), "output")
    assert seen == [(torch.float64, torch.device("cpu"))] * 2
    ids = np.array([[0.0], [2.0]])
    embedding = nn.Sequential(nn.Embedding(3, 1), nn.Flatten())
    np.testing.assert_array_equal(
        TorchModel(embedding, dtype=torch.long).represent(ids, "output")[:, 0],
        embedding[0].weight.detach().double().numpy()[[0, 2], 0],
    )


def test_compiled_module_is_watched_through_its_origin():
    compiled = torch.compile(NET, backend="eager")
    close(TorchModel(compiled).represent(X, "0"), by_hand(NET, X)[0])


def test_prepared_model_is_pickled():
    model = TorchModel([NET, network(seed=4)], batch_size=8).prepared(X, Y)
    again = pickle.loads(pickle.dumps(model))
    assert again.layers() == model.layers()
    np.testing.assert_array_equal(again.distribution(X).ppf(0.3), model.distribution(X).ppf(0.3))


def test_local_recalibration_in_a_hidden_layer():
    rng = np.random.default_rng(3)
    x = rng.uniform(-2, 2, size=(4000, 1))
    y = rng.normal(0, 0.2 + np.abs(x[:, 0]))
    net = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1))
    model = TorchModel(net).prepared(x[:3000], y[:3000])
    dist, space = model.run(x[:3000], ["1"])
    rc = nc.LocalRecalibrator(k=300).fit(dist, y[:3000], space["1"])
    new = np.array([[0.0], [1.8]])
    out = rc.recalibrate(model.distribution(new), model.represent(new, "1"))
    # true standard deviations 0.2 and 2.0, with those of the neighbourhoods a little off; n_eff is about 250
    assert 0.15 < out.std()[0] < 0.45
    assert 1.6 < out.std()[1] < 2.3
