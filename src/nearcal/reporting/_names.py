"""Names as a page can show them: of bounded length, on one line, in the direction they are written."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from nearcal.diagnostics._features import Feature

LONGEST = 60
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")  # also those that turn text around


def shorten(name: str, most: int = LONGEST) -> str:
    """Return a name without control characters, cut to a length."""
    shown = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", name)
    return shown if len(shown) <= most else shown[: most - 1].rstrip() + "…"


def shorten_all(names: Iterable[str]) -> list[str]:
    """Return short names that still differ from each other."""
    shown: list[str] = []
    for name in names:
        short, count = shorten(name), 1
        while short in shown:
            count += 1
            short = f"{shorten(name, LONGEST - 6)} ({count})"
        shown.append(short)
    return shown


def shorten_features(features: Sequence[Feature]) -> tuple[Feature, ...]:
    """Return features with short names and levels."""
    names = shorten_all(feature.name for feature in features)
    return tuple(
        replace(feature, name=name, levels=None if feature.levels is None else tuple(shorten_all(feature.levels)))
        for feature, name in zip(features, names, strict=True)
    )
