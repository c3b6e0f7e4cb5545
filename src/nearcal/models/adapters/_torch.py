"""PyTorch modules: layers by name through forward hooks, and the module left as it was found."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from numpy.typing import NDArray

from nearcal._errors import InvalidInputError
from nearcal._optional import import_extra
from nearcal.distributions import Distribution, from_torch
from nearcal.models.adapters.batches import Thinning, leaves, map_leaves
from nearcal.models.adapters.heads import HeadLike, Response
from nearcal.models.adapters.networks import NetworkModel, as_networks
from nearcal.models.adapters.targets import Target

torch: Any = import_extra("torch", "torch", "nearcal.adapters.TorchModel")


class TorchModel(NetworkModel):
    """A trained ``torch.nn.Module``, or an ensemble of them.

    Parameters
    ----------
    module : torch.nn.Module or sequence of torch.nn.Module
        A trained module. Several are a deep ensemble: an equal mixture of their distributions (Lakshminarayanan et al.,
        2017, arXiv:1612.01474), point predictions each with a standard deviation of their own; the positions in a
        layer are those of all members side by side.
    head : {"auto", "point", "normal", "quantiles"}, Head or callable
        What the output means. "auto": a ``torch.distributions`` object speaks for itself (see
        :func:`nearcal.from_torch`), and one column is a point prediction, Normal with the root mean squared residual of
        the calibration set as σ. "normal": two columns, μ and log σ. A function takes the output as float64 arrays,
        in tuples and dictionaries if the module returns such, and returns a nearcal distribution.
    levels : array_like, optional
        For a quantile network: the level of each output column.
    response : {"identity", "log"}
        "log" if the module predicts log y: a point or "normal" head then gives LogNormal distributions.
    output : int or str, optional
        Of a module of several targets the one to read: the number of a column or of a tuple's element, 0 for the first,
        or the key of a dictionary. The head reads that one alone, and it is the layer "output". Each target is
        calibrated on its own.
    mc_dropout : int, optional
        Number of draws of Monte-Carlo dropout, at least 2. Dropout layers alone become random; batch norm and all else
        stay in evaluation mode. Point predictions become :class:`nearcal.Samples`, any other head (also a
        ``PointHead`` with a given scale) an equal mixture over the draws. None is the weight-scaling rule: one pass
        with dropout switched off.
    seed : int
        Of the dropout masks. The same seed gives the same draws whatever the batch size: a draw is one thinned
        network for all rows. torch's own random numbers are neither used nor changed.
    batch_size : int
        Rows a pass. Results agree for all batch sizes up to the rounding of matrix products, some 1e-7 in float32.
    device : torch.device or str, optional
        Where inputs are sent; None sends them to the module's first parameter. The module is never moved.
    dtype : torch.dtype, optional
        Type of the inputs; None takes that of the module's parameters. Tensors of integers are passed on as they are.

    Notes
    -----
    X is an array (numpy, pandas, polars, torch) with one row an input; a tuple of arrays is passed as ``module(*X)``, a
    mapping as ``module(**X)``.

    Layers go by the names of submodules in ``named_modules()``, such as "encoder.2"; "input" and "output" are the ends
    of the module, whatever submodules may be called so. Listed are submodules without children, except dropout,
    identity, flattening and losses. What a layer puts out is flattened to (n, d), from the last call if it is called
    several times; of several tensors the first counts, which is the output sequence of an ``nn.LSTM``.

    The module is left as it was found, also after an error: training flags, hooks, gradient mode and torch's random
    state. Passes of nearcal run one at a time; do not train the module in another thread meanwhile.

    Monte-Carlo dropout finds torch's dropout modules. It cannot switch on ``F.dropout`` called as a function, nor the
    dropout inside ``nn.LSTM`` and ``nn.MultiheadAttention``.

    Examples
    --------
    >>> import numpy as np, torch, nearcal as nc
    >>> net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    >>> rng = np.random.default_rng(0)
    >>> model = nc.adapters.TorchModel(net).prepared(rng.normal(size=(100, 3)), rng.normal(size=100))
    >>> model.layers()
    ('input', '0', '1', 'output')
    >>> X = rng.normal(size=(5, 3))
    >>> model.distribution(X), model.represent(X, "1").shape
    (Normal(n=5), (5, 8))
    """

    _needs_dropout = (
        "a module with dropout layers such as nn.Dropout(p=0.1), got one with none of p > 0; F.dropout called as a "
        "function, and the dropout inside nn.LSTM and nn.MultiheadAttention, cannot be switched on alone: use "
        "nn.Dropout instead"
    )

    def __init__(
        self,
        module: Any,
        *,
        head: HeadLike = "auto",
        levels: Any = None,
        response: Response = "identity",
        output: Target = None,
        mc_dropout: int | None = None,
        seed: int = 0,
        batch_size: int = 4096,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            module,
            head=head,
            levels=levels,
            response=response,
            output=output,
            mc_dropout=mc_dropout,
            seed=seed,
            batch_size=batch_size,
        )
        self.device = device
        self.dtype = dtype

    def _members(self, model: Any) -> list[Any]:
        several = (list, tuple, torch.nn.ModuleList)
        modules = as_networks(model, torch.nn.Module, "module must be a torch.nn.Module", several)
        # behind torch.compile: the compiled form does not see new hooks
        return [getattr(module, "_orig_mod", module) for module in modules]

    @contextmanager
    def _inference(self, network: Any) -> Iterator[None]:
        flags = [(module, module.training) for module in network.modules()]
        devices = {parameter.device for parameter in network.parameters() if parameter.device.type == "cuda"}
        # no_grad, not inference_mode: what a module keeps of its inputs must stay fit for training
        with torch.random.fork_rng(devices=list(devices)), torch.no_grad():
            try:
                network.eval()
                yield
            finally:
                for module, flag in flags:
                    module.training = flag

    def _forward(self, network: Any, batch: Any) -> Any:
        inputs = map_leaves(self._tensor_maker(network), batch)
        if isinstance(inputs, dict):
            output = network(**inputs)
        else:
            output = network(*inputs) if isinstance(inputs, tuple) else network(inputs)
        return map_leaves(_from_module, output)

    def _tensor_maker(self, network: Any) -> Callable[[Any], Any]:
        """Return what makes a tensor of the rows of an input; always a copy, which the module may change in place."""
        devices = (parameter.device for parameter in network.parameters())
        types = (parameter.dtype for parameter in network.parameters() if parameter.dtype.is_floating_point)
        device = next(devices, None) if self.device is None else self.device
        dtype = next(types, torch.get_default_dtype()) if self.dtype is None else self.dtype

        def make(rows: Any) -> Any:
            if not isinstance(rows, torch.Tensor):
                return torch.tensor(rows, dtype=dtype, device=device)
            return rows.to(device, dtype if rows.dtype.is_floating_point else rows.dtype, copy=True)

        return make

    def _named_layers(self, network: Any) -> Mapping[str, Any]:
        # a module used in two places has two names
        return {name: module for name, module in network.named_modules(remove_duplicate=False) if name}

    def _listed(self, network: Any) -> list[str]:
        nn = torch.nn
        plain = (nn.Identity, nn.Flatten, nn.Unflatten, nn.modules.dropout._DropoutNd, nn.modules.loss._Loss)
        return [name for name, module in _childless(network) if not isinstance(module, plain)]

    def _dropout_layers(self, network: Any) -> Iterator[Any]:
        dropout = torch.nn.modules.dropout._DropoutNd
        return (module for module in network.modules() if isinstance(module, dropout) and module.p > 0)

    def _thin(self, layer: Any, thinning: Thinning, rows: int) -> Callable[[], None]:
        def thin(module: Any, arguments: tuple[Any, ...], output: Any) -> Any:
            # in place of the output, which in evaluation mode is the input
            x = arguments[0] if arguments else output
            factors = thinning.factors(_mask_shape(module, x), module.p, rows, keeps_moments=_keeps_moments(module))
            scale, shift = (torch.tensor(factor, dtype=x.dtype, device=x.device) for factor in factors)
            return x * scale + shift

        return layer.register_forward_hook(thin).remove

    def _watch(self, layer: Any, record: Callable[[NDArray[Any] | None], None]) -> Callable[[], None]:
        def watch(module: Any, arguments: tuple[Any, ...], output: Any) -> None:
            first = next((leaf for leaf in leaves(output) if isinstance(leaf, torch.Tensor)), None)
            record(None if first is None else _as_array(first))

        return layer.register_forward_hook(watch).remove


def _childless(module: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Return the submodules without children; attention, which uses its child's weights alone, counts as one."""
    attention = torch.nn.MultiheadAttention
    for name, child in module.named_children():
        if name == "parametrizations":  # of the module's weights: no layer
            continue
        below = [] if isinstance(child, attention) else list(_childless(child, f"{prefix}{name}."))
        yield from below or [(f"{prefix}{name}", child)]


def _mask_shape(module: Any, x: Any) -> tuple[int, ...]:
    nn = torch.nn
    whole_channels = isinstance(module, nn.Dropout1d | nn.Dropout2d | nn.Dropout3d | nn.FeatureAlphaDropout)
    return (*x.shape[:2], *(1 for _ in x.shape[2:])) if whole_channels else x.shape


def _keeps_moments(module: Any) -> bool:
    return isinstance(module, torch.nn.AlphaDropout | torch.nn.FeatureAlphaDropout)


def _from_module(leaf: Any) -> Distribution | NDArray[Any]:
    if isinstance(leaf, torch.Tensor):
        return _as_array(leaf)
    if isinstance(leaf, torch.distributions.Distribution):
        return from_torch(leaf)
    raise InvalidInputError(
        "module must return tensors or a torch.distributions object, singly or in tuples and dictionaries, got "
        f"{type(leaf).__name__}"
    )


def _as_array(tensor: Any) -> NDArray[Any]:
    """Return a copy, since the next layer may work in place."""
    array: NDArray[Any] = tensor.detach().cpu().to(torch.float64, copy=True).numpy()
    return array
