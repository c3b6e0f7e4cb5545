"""What can be chosen: a space, how to measure distance in it, how many neighbours to ask and how to weigh them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from nearcal._saved import count, flag, one_of, optional, savable, text
from nearcal.recalibration import (
    SMOOTHINGS,
    Caution,
    Fade,
    LocalLinear,
    LocalRecalibrator,
    Polish,
    QuantileRule,
    Shrinkage,
    Smoothing,
    Trend,
    Workers,
)
from nearcal.recalibration.corrections import Correction
from nearcal.space import SCALINGS, Scaling, ScalingName

Kind = Literal["none", "global", "local"]


@savable(
    kind=one_of("none", "global", "local"),
    space=optional(text),
    scaling=optional(one_of(*SCALINGS)),
    components=optional(count()),
    k=optional(count()),
    smoothing=optional(one_of(*SMOOTHINGS)),
    linear=flag,
    shrinkage=flag,
    trend=flag,
    distilled=flag,
)
@dataclass(frozen=True)
class Candidate:
    """One way to recalibrate: not at all, globally, or locally with all that local recalibration asks for.

    Attributes
    ----------
    kind : {"none", "global", "local"}
    space, scaling, components, k, smoothing, linear, shrinkage, trend, distilled
        Of local recalibration; None or False otherwise. ``components`` is None where all directions count; ``linear``,
        ``shrinkage`` and ``trend`` tell whether there is such a correction, ``distilled`` whether a student stands in
        for it, or for an average of which it is the heaviest (:func:`nearcal.compile`).
    """

    kind: Kind
    space: str | None = None
    scaling: ScalingName | None = None
    components: int | None = None
    k: int | None = None
    smoothing: Smoothing | None = None
    linear: bool = False
    shrinkage: bool = False
    trend: bool = False
    distilled: bool = False

    @property
    def place(self) -> tuple[str, Scaling]:
        """The space of a local candidate and its scaling: one neighbour search serves all that share them."""
        assert self.space is not None
        assert self.scaling is not None
        return self.space, Scaling(self.scaling, self.components)

    @property
    def corrections(self) -> tuple[Correction, ...]:
        """The corrections of neighbours' scores."""
        return (Trend(),) * self.trend + (LocalLinear(),) * self.linear + (Shrinkage(),) * self.shrinkage

    def local_recalibrator(
        self,
        quantile_rule: QuantileRule,
        polish: Polish | None,
        fade: Fade | None,
        workers: Workers,
        caution: Caution | None = None,
    ) -> LocalRecalibrator:
        """Return the recalibrator of a local candidate, not fitted, that leaves to the model what caution says."""
        for_all_rows = tuple(correction for correction in (polish, caution) if correction is not None)
        assert self.smoothing is not None
        assert self.scaling is not None
        return LocalRecalibrator(
            self.k,
            smoothing=self.smoothing,
            scaling=self.scaling if self.components is None else Scaling(self.scaling, self.components),
            quantile_rule=quantile_rule,
            corrections=self.corrections + for_all_rows + (() if fade is None else (fade,)),
            workers=None if workers == Workers() else workers,
        )

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Self:
        """Return the candidate of a row of a table of candidates."""
        settings: dict[str, Any] = {name: row[name] or None for name in ("space", "scaling", "smoothing")}
        settings |= {name: None if np.isnan(row[name]) else int(row[name]) for name in ("components", "k")}
        settings |= {name: bool(row[name]) for name in ("linear", "shrinkage", "trend", "distilled")}
        return cls(row["kind"], **settings)

    def __str__(self) -> str:
        if self.kind == "none":
            return "no recalibration"
        if self.kind == "global":
            return "global recalibration"
        components = "" if self.components is None else f", {self.components} components"
        corrections = ", trend" * self.trend + ", local-linear" * self.linear + ", shrinkage" * self.shrinkage
        settings = f"k={self.k}, smoothing {self.smoothing!r}, scaling {self.scaling!r}{components}{corrections}"
        return f"{'distilled: ' * self.distilled}space {self.space!r}, {settings}"
