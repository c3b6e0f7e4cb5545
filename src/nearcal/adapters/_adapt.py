"""Which adapter a model needs, told from the modules its classes come from: no framework is imported to find out."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal._optional import import_extra
from nearcal.adapters._protocol import ModelAdapter

# framework, its package and the extra: (module of the adapter, its class); first match wins, and a Keras model on
# PyTorch is a torch module too
_ADAPTERS = {
    "keras": ("_keras", "KerasModel"),
    "torch": ("_torch", "TorchModel"),
    "lightgbm": ("_lightgbm", "LightGBMModel"),
    "xgboost": ("_xgboost", "XGBoostModel"),
    "ngboost": ("_ngboost", "NGBoostModel"),
    "skpro": ("_skpro", "SkproModel"),
    "sklearn": ("_sklearn", "SklearnModel"),
}
_NETWORKS = ("keras", "torch")


def adapt(model: Any, **options: Any) -> ModelAdapter:
    """Return a trained model as nearcal sees it.

    Parameters
    ----------
    model : object
        A torch.nn.Module or a Keras 3 model, or a list of either (a deep ensemble); a fitted model of LightGBM,
        XGBoost, NGBoost, skpro or scikit-learn, or any object with a ``predict`` method, or several of them that
        predict one quantile each, as a mapping of levels to models or a list of models that know their level; or a
        :class:`nearcal.adapters.ModelAdapter`, which is returned as it is.
    **options
        Passed on to the adapter, for example ``head="normal"`` or ``mc_dropout=100``; see the classes in
        :mod:`nearcal.adapters`.

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
    framework = _framework(model)
    if framework is None:
        raise InvalidInputError(
            f"model must be a torch.nn.Module, a Keras model, a list of either, or a fitted model of "
            f"{', '.join(list(_ADAPTERS)[2:])} or with a predict method, got {_description(model)}; "
            "for any other, write a subclass of nearcal.adapters.ModelAdapter with layers(), distribution(X) and "
            "represent(X, layer)"
        )
    return adapter_class(_ADAPTERS[framework][1])(model, **options)


def adapter_class(name: str) -> Any:
    """Import one of the adapter classes."""
    homes = {cls: (framework, module) for framework, (module, cls) in _ADAPTERS.items()}
    if name not in homes:
        raise AttributeError(f"module 'nearcal.adapters' has no attribute {name!r}")
    framework, module = homes[name]
    import_extra(framework, framework, f"nearcal.adapters.{name}")
    return getattr(import_module(f"nearcal.adapters.{module}"), name)


def adapter_names() -> list[str]:
    """Return the names of the adapter classes."""
    return [cls for _, cls in _ADAPTERS.values()]


def _framework(model: Any) -> str | None:
    """Return the framework a model belongs to, or None."""
    if isinstance(model, list | tuple):  # an ensemble of networks, or regressors of one quantile level each
        found = {_framework(member) for member in model}
        return found.pop() if len(found) == 1 else None
    if isinstance(model, Mapping):  # quantile levels to regressors
        framework = _framework(list(model.values()))
        return None if framework in _NETWORKS else framework
    roots = {cls.__module__.partition(".")[0] for cls in type(model).__mro__}
    known = next((framework for framework in _ADAPTERS if framework in roots), None)
    return "sklearn" if known is None and callable(getattr(model, "predict", None)) else known


def _description(model: Any) -> str:
    if isinstance(model, list | tuple):
        return (
            f"a {type(model).__name__} of {', '.join(sorted({type(member).__name__ for member in model})) or 'nothing'}"
        )
    return type(model).__name__
