"""What nearcal asks of a model, a predictive distribution and places to look for neighbours; and who answers for it."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Self

from nearcal._arrays import FloatArray
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal._optional import import_extra
from nearcal.distributions import Distribution

# framework, its package and the extra: (module of the adapter, its class); first match wins, and a Keras model on
# PyTorch is a torch module too
_ADAPTERS = {
    "keras": ("_keras", "KerasModel"),
    "torch": ("_torch", "TorchModel"),
    "lightgbm": ("_boosting", "LightGBMModel"),
    "xgboost": ("_boosting", "XGBoostModel"),
    "ngboost": ("_boosting", "NGBoostModel"),
    "skpro": ("_skpro", "SkproModel"),
    "sklearn": ("_sklearn", "SklearnModel"),
    "function": ("function", "FunctionModel"),  # no framework: a function of the user's
    "several": ("several", "SeveralModels"),
}
_OWN = ("function", "several")  # which no package stands behind
NETWORKS = ("keras", "torch")


class ModelAdapter(ABC):
    """A trained model as nearcal sees it. Write a subclass to bring a model of your own.

    Subclasses say what their layers are called, what a layer makes of inputs, and which distribution they predict.
    The rest follows.
    """

    @abstractmethod
    def layers(self) -> tuple[str, ...]:
        """Return the names of the spaces the model offers, in the order data flows through them."""

    @abstractmethod
    def distribution(self, X: Any) -> Distribution:
        """Return the predictive distributions of n inputs."""

    @abstractmethod
    def represent(self, X: Any, layer: str) -> FloatArray:
        """Return where n inputs lie in the space of a layer, shape (n, d)."""

    def prepared(self, X_cal: Any, y_cal: Any) -> Self:
        """Return the model with everything learnt that it leaves to the calibration set, itself if that is nothing.

        A network trained on squared error, for instance, takes its standard deviation from calibration residuals.
        """
        return self

    def learnt(self) -> dict[str, Any]:
        """Return what :meth:`prepared` has learnt, in numbers, strings, and tuples and dictionaries of them.

        This is what :func:`nearcal.save` keeps of the model. A subclass with a ``prepared`` of its own that wants to be
        saved defines this method, and :meth:`with_learnt`.
        """
        if type(self).prepared is not ModelAdapter.prepared:
            kind = type(self).__name__
            raise InvalidInputError(
                f"{kind} must say what prepared() has learnt, to be saved: define {kind}.learnt(), which returns "
                f"numbers and strings by name, and {kind}.with_learnt(learnt), which returns the model with them again"
            )
        return {}

    def with_learnt(self, learnt: Mapping[str, Any]) -> Self:
        """Return the model with what :meth:`learnt` has told, as after :meth:`prepared`."""
        return self

    def identity(self) -> tuple[str, tuple[str, ...]]:
        """Return the class of the model and its layers, whatever :meth:`prepared` has learnt: known again by these."""
        return type(self).__name__, self.layers()

    def plain_inputs(self, X_cal: Any) -> Any:
        """Return the inputs of a calibration set as those of new rows are given."""
        return X_cal

    def run(self, X: Any, layers: Sequence[str]) -> tuple[Distribution, Mapping[str, FloatArray]]:
        """Return distributions and positions in several layers; a model that can do so passes its inputs once."""
        return self.distribution(X), {layer: self.represent(X, layer) for layer in layers}

    def _require_layer(self, layer: str) -> None:
        if layer not in self.layers():
            raise InvalidParameterError(f"layer must be one of {', '.join(self.layers())}, got {layer!r}")


def adapt(model: Any, **options: Any) -> ModelAdapter:
    """Return a trained model as nearcal sees it.

    Parameters
    ----------
    model : object
        A torch.nn.Module or a Keras 3 model, or a list of either (a deep ensemble); a fitted model of LightGBM,
        XGBoost, NGBoost, skpro or scikit-learn, or any object with a ``predict`` method, or several of them that
        predict one quantile each, as a mapping of levels to models or a list of models that know their level; a
        function of inputs that returns predictions (:class:`nearcal.models.adapters.FunctionModel`); a mapping of names
        to several models of the same response (:class:`nearcal.models.adapters.SeveralModels`); or a
        :class:`nearcal.models.adapters.ModelAdapter`, which is returned as it is.
    **options
        Passed on to the adapter, for example ``head="normal"`` or ``mc_dropout=100``; see the classes in
        :mod:`nearcal.models.adapters`.

    Returns
    -------
    ModelAdapter

    Examples
    --------
    >>> import nearcal as nc, torch
    >>> nc.adapt(torch.nn.Linear(3, 2), head="normal").layers()
    ('input', 'output')
    """
    if isinstance(model, ModelAdapter):
        if options:
            raise InvalidParameterError(
                f"options go with a model that nearcal adapts, got {', '.join(options)} with a {type(model).__name__}; "
                "give them when you build the adapter"
            )
        return model
    if isinstance(model, Mapping) and all(isinstance(name, str) for name in model):
        return _several(model, options)
    framework = framework_of(model)
    if framework is None:
        raise InvalidInputError(
            f"model must be a torch.nn.Module, a Keras model, a list of either, or a fitted model of "
            f"{', '.join(name for name in _ADAPTERS if name not in (*NETWORKS, *_OWN))} or with a predict method, "
            f"or a function of X, got {_description(model)}; for any other, write a subclass of "
            "nearcal.adapters.ModelAdapter with layers(), distribution(X) and represent(X, layer)"
        )
    adapter = adapter_class(framework)
    _check_options(adapter, options)
    return adapter(model, **options)


def _several(models: Mapping[str, Any], options: Mapping[str, Any]) -> ModelAdapter:
    if options:
        raise InvalidParameterError(
            f"options go with one of several models, got {', '.join(options)}; give them where it is adapted: "
            f"{{{next(iter(models), 'name')!r}: nc.adapt(model, {next(iter(options))}=...), ...}}"
        )
    several: ModelAdapter = adapter_class("several")(models)
    return several


def framework_of(model: Any) -> str | None:
    """Return the framework a model belongs to, told from the modules its classes come from, or None."""
    if isinstance(model, list | tuple):  # an ensemble of networks, or regressors of one quantile level each
        frameworks = {framework_of(member) for member in model}
        return frameworks.pop() if len(frameworks) == 1 else None
    if isinstance(model, Mapping):  # quantile levels to regressors
        framework = framework_of(list(model.values()))
        return None if framework in NETWORKS else framework
    roots = {cls.__module__.partition(".")[0] for cls in type(model).__mro__}
    known = next((framework for framework in _ADAPTERS if framework in roots and framework not in _OWN), None)
    if known is not None or isinstance(model, type):  # a class is called to make a model: it is none
        return known
    if callable(getattr(model, "predict", None)):
        return "sklearn"
    return "function" if callable(model) else None


def adapter_class(framework: str) -> Any:
    """Import the adapter of a framework."""
    module, name = _ADAPTERS[framework]
    if framework not in _OWN:
        import_extra(framework, framework, f"nearcal.adapters.{name}")
    return getattr(import_module(f"nearcal.models.adapters.{module}"), name)


def adapter_names() -> dict[str, str]:
    """Return the frameworks by the names of their adapter classes."""
    return {name: framework for framework, (_, name) in _ADAPTERS.items()}


def _check_options(adapter: type[ModelAdapter], options: Mapping[str, Any]) -> None:
    parameters = inspect.signature(adapter).parameters.values()
    known = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    unknown = [name for name in options if name not in known]
    if unknown:
        raise InvalidParameterError(
            f"{unknown[0]} is no option of this model, which is read by nearcal.adapters.{adapter.__name__}: its "
            f"options are {', '.join(known)}; got {', '.join(unknown)}: leave it out, or spell it as one of these"
        )


def _description(model: Any) -> str:
    if isinstance(model, type):
        return f"the class {model.__name__}, not an object of it"
    if not isinstance(model, list | tuple):
        return type(model).__name__
    members = ", ".join(sorted({type(member).__name__ for member in model}))
    return f"a {type(model).__name__} of {members or 'nothing'}"
