"""What claims are judged by: means over seeds, asked for by what they are of."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import exp, isnan, log
from typing import TYPE_CHECKING, Any

from nearcal.studies.simulation._networks import ARCHITECTURES

if TYPE_CHECKING:
    from nearcal.studies.simulation._methods import Row

NETWORKS = tuple(ARCHITECTURES)
SECTION, CONCLUSION = "4.3", "5, on section 4.3"  # where the paper claims something


class Numbers:
    """The results, asked for by what they are of; what is not there is NaN, and no condition is met by it."""

    def __init__(self, results: Mapping[str, Any]) -> None:
        self._results = results
        self.sizes = sorted({row["n"] for row in results["methods"]})
        self.k = sorted({row["k"] for row in results["settings"]})
        self.eps = sorted({row["eps"] for row in results["settings"]})
        self.costs: Sequence[Row] = results["costs"]
        self.memory: Sequence[Row] = results["memory"]

    def of(self, metric: str, method: str, network: str | None = None, **where: Any) -> float:
        """Return the mean of a metric over all settings that match."""
        table = "settings" if {"layer", "eps", "k"} & set(where) else "methods"
        wanted = {"method": method, **({} if network is None else {"network": network}), **where}
        found = [
            row[metric]
            for row in self._results[table]
            if all(row.get(key) == value for key, value in wanted.items()) and row.get(metric) is not None
        ]
        return sum(found) / len(found) if found else float("nan")

    def sizes_with_every_k(self) -> list[int]:
        """Return the sizes with enough calibration points for the largest k."""
        return [n for n in self.sizes if not isnan(self.of("mse", "local", n=n, k=self.k[-1]))]


def at(n: int) -> str:
    """Return a size in words."""
    return f"N = {n:,}"


def join(values: Sequence[float], form: str) -> str:
    """Return formatted numbers in a row."""
    return ", ".join(f"{value:{form}}" for value in values)


def falls(values: Sequence[float]) -> bool:
    """Tell whether there are several values, each below the one before."""
    return len(values) > 1 and all(after < before for before, after in pairwise(values))


def spread(values: Sequence[float]) -> float:
    """Return by how much the largest is above the smallest, relative to it."""
    return max(values) / min(values) - 1


def geometric_mean(values: Sequence[float]) -> float:
    """Return the mean that suits ratios."""
    return exp(sum(log(value) for value in values) / len(values)) if values else float("nan")
