"""What can be chosen: a space, how to measure distance in it, how many neighbours to ask and how to weigh them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from nearcal._saved import count, flag, one_of, optional, savable, text
from nearcal.recalibration import GlobalRecalibrator, IdentityRecalibrator, LocalRecalibrator
from nearcal.recalibration._adjustment import ADJUSTMENTS, Adjustment
from nearcal.scaling import SCALINGS, Scaling
from nearcal.smoothing import SMOOTHINGS, Smoothing

Kind = Literal["none", "global", "local"]


@savable(
    kind=one_of("none", "global", "local"),
    space=optional(text),
    scaling=optional(one_of(*SCALINGS)),
    components=optional(count()),
    k=optional(count()),
    smoothing=optional(one_of(*SMOOTHINGS)),
    adjustment=optional(one_of(*ADJUSTMENTS)),
    shrinkage=flag,
)
@dataclass(frozen=True)
class Candidate:
    """One way to recalibrate: not at all, globally, or locally with all that local recalibration asks for.

    Attributes
    ----------
    kind : {"none", "global", "local"}
    space, scaling, components, k, smoothing, adjustment, shrinkage
        Of local recalibration; None or False otherwise. ``components`` is None where all directions count.
    """

    kind: Kind
    space: str | None = None
    scaling: Scaling | None = None
    components: int | None = None
    k: int | None = None
    smoothing: Smoothing | None = None
    adjustment: Adjustment | None = None
    shrinkage: bool = False

    def recalibrator(self, **options: Any) -> IdentityRecalibrator | GlobalRecalibrator | LocalRecalibrator:
        """Return the unfitted recalibrator; options are those of its class, such as ``quantile_rule``."""
        if self.kind == "none":
            return IdentityRecalibrator()
        if self.kind == "global":
            return GlobalRecalibrator(**options)
        assert self.smoothing is not None
        assert self.scaling is not None
        return LocalRecalibrator(
            self.k,
            smoothing=self.smoothing,
            scaling=self.scaling,
            components=self.components,
            adjustment=self.adjustment or "none",
            shrinkage=self.shrinkage,
            **options,
        )

    def __str__(self) -> str:
        if self.kind == "none":
            return "no recalibration"
        if self.kind == "global":
            return "global recalibration"
        reduced = "" if self.components is None else f", {self.components} components"
        moved = f", adjustment {self.adjustment!r}" if self.adjustment not in (None, "none") else ""
        moved += ", shrinkage" if self.shrinkage else ""
        return (
            f"space {self.space!r}, k={self.k}, smoothing {self.smoothing!r}, scaling {self.scaling!r}{reduced}{moved}"
        )


@dataclass(frozen=True)
class SearchSpace:
    """One neighbour search, behind all candidates that differ in k and smoothing alone."""

    space: str
    scaling: Scaling
    components: int | None

    @classmethod
    def of(cls, candidate: Candidate) -> Self:
        """Return the search behind a local candidate."""
        assert candidate.space is not None
        assert candidate.scaling is not None
        return cls(candidate.space, candidate.scaling, candidate.components)

    def candidates(self, k: Sequence[int], smoothings: Sequence[Smoothing]) -> list[Candidate]:
        """Return the local candidates, by k and then by smoothing."""
        return [
            Candidate("local", self.space, self.scaling, self.components, size, smoothing, "none")
            for size in k
            for smoothing in smoothings
        ]
