"""Keras 3 models: activations, heads, dropout draws, ensembles, and a model left as it was found."""

import numpy as np
import pytest

import nearcal as nc
from nearcal.models.adapters import KerasModel

keras = pytest.importorskip("keras")
layers = keras.layers

RNG = np.random.default_rng(0)
N, D = 23, 3
X = RNG.normal(size=(N, D))
Y = RNG.normal(size=N)


def sequential(outputs=1, seed=0):
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [
            keras.Input((D,)),
            layers.Dense(7, name="hidden"),
            layers.BatchNormalization(name="norm"),
            layers.ReLU(name="relu"),
            layers.Dropout(0.4, name="drop"),
            layers.Dense(outputs, name="read"),
        ]
    )


def functional(outputs=1, seed=0):
    keras.utils.set_random_seed(seed)
    start = keras.Input((D,))
    x = layers.Dense(7, name="hidden")(start)
    x = layers.BatchNormalization(name="norm")(x)
    x = layers.ReLU(name="relu")(x)
    x = layers.Dropout(0.4, name="drop")(x)
    return keras.Model(start, layers.Dense(outputs, name="read")(x))


class Subclassed(keras.Model):
    def __init__(self, outputs=1):
        super().__init__()
        self.read = layers.Dense(outputs, name="read")
        self.hidden = layers.Dense(7, name="hidden")
        self.norm = layers.BatchNormalization(name="norm")
        self.relu = layers.ReLU(name="relu")
        self.drop = layers.Dropout(0.4, name="drop")
        self.unused = layers.Dense(2, name="unused")
        self.unused.build((None, 2))

    def call(self, x, training=False):
        x = self.norm(self.hidden(x), training=training)
        return self.read(self.drop(self.relu(x), training=training))


def subclassed(outputs=1, seed=0):
    keras.utils.set_random_seed(seed)
    model = Subclassed(outputs)
    model(np.zeros((1, D)))
    return model


KINDS = [sequential, functional, subclassed]


def weights(layer):
    return [variable.value.detach().double().numpy() for variable in layer.weights]


def by_hand(model, x):
    """Return what the layers put out in inference, in float64 numpy."""
    hidden, norm, read = (model.get_layer(name) for name in ("hidden", "norm", "read"))
    kernel, bias = weights(hidden)
    gamma, beta, mean, var = weights(norm)
    out = {"input": x, "hidden": x @ kernel + bias}
    out["norm"] = (out["hidden"] - mean) / np.sqrt(var + norm.epsilon) * gamma + beta
    out["relu"] = out["drop"] = np.maximum(out["norm"], 0)
    kernel, bias = weights(read)
    out["read"] = out["output"] = out["relu"] @ kernel + bias
    return out


def trained_statistics(model):
    model(3 + 2 * RNG.normal(size=(200, D)), training=True)
    return model


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=2e-6)  # float32 networks


def state_of(model):
    calls = ["call" in vars(layer) for layer in model._flatten_layers()]
    variables = [v.value.tolist() for v in model.variables]
    return calls, variables


@pytest.mark.parametrize("make", KINDS)
def test_activations_equal_a_hand_written_forward_pass(make):
    net = trained_statistics(make())
    model = KerasModel(net)
    for layer, expected in by_hand(net, X).items():
        close(model.represent(X, layer), expected)
    small = KerasModel(net, batch_size=4)
    np.testing.assert_allclose(small.represent(X, "relu"), model.represent(X, "relu"), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("make", KINDS)
def test_layers(make):
    model = KerasModel(make())
    assert model.prepared(X, Y).layers() == ("input", "hidden", "norm", "relu", "output")
    with pytest.raises(nc.InvalidParameterError, match="layer must be the name of a layer"):
        model.represent(X, "dense_77")


def test_layer_that_is_not_called():
    with pytest.raises(nc.InvalidInputError, match="layer 'unused' was not called"):
        KerasModel(subclassed()).represent(X, "unused")


def test_model_inside_a_model():
    inner = functional(outputs=4)
    inner.name = "inner"
    net = keras.Sequential([keras.Input((D,)), inner, layers.Dense(1, name="top")])
    model = KerasModel(net).prepared(X, Y)
    assert model.layers() == ("input", "inner/hidden", "inner/norm", "inner/relu", "inner/read", "output")
    close(model.represent(X, "inner/relu"), by_hand(inner, X)["relu"])
    close(model.represent(X, "inner"), by_hand(inner, X)["output"])


def test_recurrent_layers_and_wrappers_are_layers():
    keras.utils.set_random_seed(0)
    lstm = layers.LSTM(4, return_sequences=True, name="lstm")
    both = layers.Bidirectional(layers.GRU(3), name="both")
    net = keras.Sequential([keras.Input((6, D)), lstm, both, layers.Dense(1)])
    sequences = RNG.normal(size=(N, 6, D))
    model = KerasModel(net).prepared(sequences, Y)
    assert model.layers() == ("input", "lstm", "both", "output")
    states = lstm(sequences.astype(np.float32))
    close(model.represent(sequences, "lstm"), states.detach().numpy().reshape(N, -1))
    close(model.represent(sequences, "both"), both(states).detach().numpy())


def test_heads():
    net = functional(2)
    output = by_hand(net, X)["output"]
    dist = KerasModel(net, head="normal", batch_size=7).distribution(X)
    close(dist.loc, output[:, 0])
    close(dist.scale, np.exp(output[:, 1]))
    close(KerasModel(net, levels=[0.2, 0.7]).distribution(X).ppf([0.2, 0.7]), np.sort(output, axis=1))
    gamma = KerasModel(net, head=lambda o: nc.Gamma(np.exp(o[:, 0]), np.exp(o[:, 1]))).distribution(X)
    close(gamma.shape, np.exp(output[:, 0]))
    point = functional()
    log = KerasModel(point, response="log").prepared(X, np.exp(Y)).distribution(X)
    close(log.mu, by_hand(point, X)["output"][:, 0])
    with pytest.raises(nc.InvalidParameterError, match="puts out 2 columns"):
        KerasModel(net).prepared(X, Y)


def test_several_inputs_and_outputs():
    keras.utils.set_random_seed(0)
    first, second = keras.Input((D,), name="first"), keras.Input((2,), name="second")
    joined = layers.Concatenate(name="joined")([first, second])
    net = keras.Model([first, second], {"loc": layers.Dense(1)(joined), "log_scale": layers.Dense(1)(joined)})
    more = RNG.normal(size=(N, 2))
    model = KerasModel(net, head=lambda o: nc.Normal(o["loc"], np.exp(o["log_scale"])), batch_size=9)
    expected = net([X, more], training=False)
    for inputs in ((X, more), {"second": more, "first": X}):
        close(model.distribution(inputs).loc, expected["loc"].detach().numpy()[:, 0])
        close(model.represent(inputs, "joined"), np.column_stack([X, more]))


@pytest.mark.parametrize("make", KINDS)
def test_model_is_left_as_found(make):
    net = trained_statistics(make())
    before = state_of(net)
    for mc_dropout in (None, 3):
        model = KerasModel(net, mc_dropout=mc_dropout)
        model.prepared(X, Y).run(X, ["hidden", "output"])
        assert state_of(net) == before
        with pytest.raises(ValueError, match=r"(?s)(incompatible|shape)"):
            model.run(X[:, :2], ["hidden"])  # Keras refuses two columns, in the midst of a pass
        assert state_of(net) == before


def test_a_layer_keeps_a_call_of_its_own():
    net = sequential()
    layer = net.get_layer("relu")
    vars(layer)["call"] = own = lambda x: x * 2
    close(KerasModel(net).represent(X, "relu"), 2 * by_hand(net, X)["norm"])
    assert vars(layer)["call"] is own


def test_error_inside_a_layer():
    class Fails(layers.Layer):
        def call(self, x):
            if keras.ops.shape(x)[0] == 2:
                raise KeyboardInterrupt
            return x

    net = keras.Sequential([keras.Input((D,)), layers.Dense(2, name="hidden"), layers.Dropout(0.5), Fails()])
    before = state_of(net)
    with pytest.raises(KeyboardInterrupt):
        KerasModel(net, mc_dropout=2).run(X[:2], ["hidden"])
    assert state_of(net) == before


def test_draws_are_reproducible_and_distributed_as_those_of_a_hand_written_loop():
    net = trained_statistics(functional())
    count = 600
    x = X[:3]
    ours = KerasModel(net, mc_dropout=count, seed=4).distribution(x).draws
    few = KerasModel(net, mc_dropout=20, seed=4).distribution(X).draws
    again = KerasModel(net, mc_dropout=20, seed=4, batch_size=5).distribution(X).draws
    np.testing.assert_allclose(again, few, rtol=1e-6, atol=1e-6)
    assert not np.allclose(KerasModel(net, mc_dropout=20, seed=5).distribution(X).draws, few)
    hidden = keras.Model(net.input, net.get_layer("relu").output)(np.repeat(x, count, axis=0), training=False)
    dropped = net.get_layer("drop")(hidden, training=True)
    loop = net.get_layer("read")(dropped).detach().double().numpy().reshape(3, count)
    # means differ by N(0, 2 var / count), variances by N(0, 2 (m4 - var²) / count); 4.5 standard errors, 6 checks
    center = loop - loop.mean(axis=1, keepdims=True)
    var, fourth = (center**2).mean(axis=1), (center**4).mean(axis=1)
    assert (np.abs(ours.mean(axis=1) - loop.mean(axis=1)) < 4.5 * np.sqrt(2 * var / count)).all()
    assert (np.abs(ours.var(axis=1) - var) < 4.5 * np.sqrt(2 * (fourth - var**2) / count)).all()


@pytest.mark.parametrize(
    ("dropout", "together"),
    [
        (layers.Dropout(0.5), False),
        (layers.Dropout(0.5, noise_shape=(None, 1, None)), True),
        (layers.SpatialDropout1D(0.5), True),
        (layers.AlphaDropout(0.5), False),
    ],
)
def test_masks_of_kinds_of_dropout(dropout, together):
    net = keras.Sequential([keras.Input((40, 5)), dropout, layers.Flatten()])
    model = KerasModel(net, head=lambda o: nc.Normal(o[:, 0], 1.0), mc_dropout=2)
    seen = []
    model.head = nc.adapters.FunctionHead(lambda o: seen.append(o) or nc.Normal(o[:, 0], 1.0))
    model.distribution(np.ones((2, 40, 5)))
    masks = seen[0].reshape(2, 40, 5)
    np.testing.assert_array_equal(masks[0], masks[1])  # one thinned network for all rows
    assert len(np.unique(masks)) == 2
    assert (np.ptp(masks[0], axis=0) == 0).all() == together


def test_dropout_is_needed_for_draws():
    net = keras.Sequential([keras.Input((D,)), layers.Dense(1), layers.GaussianNoise(0.1)])
    with pytest.raises(nc.InvalidParameterError, match="mc_dropout needs a model with Dropout"):
        KerasModel(net, mc_dropout=5)


def test_ensemble():
    members = [functional(seed=seed) for seed in range(3)]
    model = KerasModel(members).prepared(X, Y)
    dist, positions = model.run(X, ["relu", "output"])
    points = np.column_stack([by_hand(net, X)["output"] for net in members])
    close(dist.mean(), points.mean(axis=1))
    close(dist.var(), np.mean((Y[:, np.newaxis] - points) ** 2, axis=0).mean() + points.var(axis=1))
    close(positions["output"], np.column_stack([points, points.std(axis=1)]))  # and how far they disagree
    assert positions["relu"].shape == (N, 21)


@pytest.mark.parametrize("model", [[], None, layers.Dense(1), ["text"]])
def test_what_is_no_model(model):
    with pytest.raises(nc.InvalidInputError, match=r"model must be a keras\.Model or a non-empty list"):
        KerasModel(model)
