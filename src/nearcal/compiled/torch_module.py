"""Compiled recalibration as a PyTorch module, which differentiates."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nearcal._optional import import_extra
from nearcal.compiled.bases import BaseFamily
from nearcal.compiled.program import Wanted, recalibration
from nearcal.compiled.recalibrator import CompiledRecalibrator
from nearcal.space import Ranges

torch: Any = import_extra("torch", "torch", "to_torch")


class RecalibrationModule(torch.nn.Module):  # type: ignore[misc]
    """Parameters of predictive distributions and positions in, statistics of the recalibrated ones out.

    It has no parameters to train: gradients pass through it, to its inputs. Tables become those of ``forward``:
    ``module(loc=..., scale=..., position=...)`` returns a dictionary of tensors.
    """

    def __init__(
        self, compiled: CompiledRecalibrator, family: BaseFamily, wanted: Wanted, look: Ranges | None = None
    ) -> None:
        super().__init__()
        self._compiled, self._family, self._wanted, self._look = compiled, family, wanted, look
        self.input_names = (*family.inputs, *(["position"] if compiled.width is not None else []))
        self.input_names += () if look is None else ("look",)

    def forward(self, **inputs: Any) -> dict[str, Any]:
        """Return mean, std, quantiles (n, q), lower, upper, trust and out_of_distribution, else (n, 1), by name."""
        missing = [name for name in self.input_names if name not in inputs]
        if missing:
            raise TypeError(f"the module needs {', '.join(self.input_names)}, got no {missing[0]}")
        tables = {name: _table(inputs[name]) for name in self.input_names}
        device = next(iter(tables.values())).device
        return recalibration(TorchOperations(device), self._compiled, self._family, tables, self._wanted, self._look)


def _table(values: Any) -> Any:
    tensor = torch.as_tensor(values).to(torch.float64)
    return tensor[:, None] if tensor.ndim == 1 else tensor


class TorchOperations:
    """The operations of :mod:`nearcal.compiled.program` on tensors."""

    def __init__(self, device: Any) -> None:
        self.device = device

    def constant(self, values: Any, single: bool = False) -> Any:
        """See :class:`nearcal.compiled.program.Operations`, here and below."""
        return torch.as_tensor(
            np.array(values, dtype=np.float64), dtype=torch.float32 if single else torch.float64, device=self.device
        )

    def single(self, x: Any) -> Any:  # noqa: D102
        return x.to(torch.float32)

    def double(self, x: Any) -> Any:  # noqa: D102
        return x.to(torch.float64)

    def clip(self, x: Any, low: Any, high: Any) -> Any:  # noqa: D102
        return torch.minimum(torch.maximum(x, low), high)

    def where(self, condition: Any, x: Any, y: Any) -> Any:  # noqa: D102
        return torch.where(condition, x, y)

    def exp(self, x: Any) -> Any:  # noqa: D102
        return torch.exp(x)

    def log(self, x: Any) -> Any:  # noqa: D102
        return torch.log(x)

    def sqrt(self, x: Any) -> Any:  # noqa: D102
        # the derivative at zero, which is infinite, is left out: times zero it would be no number
        return torch.where(x > 0, torch.sqrt(torch.where(x > 0, x, torch.ones_like(x))), torch.zeros_like(x))

    def sign(self, x: Any) -> Any:  # noqa: D102
        return torch.sign(x)

    def concat(self, parts: Sequence[Any]) -> Any:  # noqa: D102
        return torch.cat(list(parts), dim=1)

    def expand(self, x: Any) -> Any:  # noqa: D102
        return x.unsqueeze(-1)

    def squeeze(self, x: Any) -> Any:  # noqa: D102
        return x.squeeze(-1)

    def total(self, x: Any) -> Any:  # noqa: D102
        return x.sum(dim=-1, keepdim=True)

    def largest(self, x: Any) -> Any:  # noqa: D102
        return x.amax(dim=-1, keepdim=True)

    def columns(self, x: Any, start: int, stop: int) -> Any:  # noqa: D102
        return x[:, start:stop]

    def sort(self, x: Any, width: int) -> Any:  # noqa: D102
        return torch.sort(x, dim=1).values

    def smallest(self, x: Any, count: int) -> tuple[Any, Any]:  # noqa: D102
        return torch.topk(x, count, dim=1, largest=False)

    def weighed(self, weights: Any, table: Any, places: Any) -> Any:  # noqa: D102
        return (weights.unsqueeze(1) @ table[places]).squeeze(1)
