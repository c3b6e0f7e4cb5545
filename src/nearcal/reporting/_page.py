"""The page: template, style and scripts put together into one file that needs no network and allows none."""

import hashlib
import json
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from nearcal._errors import InvalidInputError
from nearcal.diagnostics.features import Feature

# in order: each may use what those before it define, all share the scope of one module
SCRIPTS = (
    "arrays.js",
    "scales.js",
    "density.js",
    "neighbors.js",
    "drawings.js",
    "scatter.js",
    "panel.js",
    "explorer.js",
    "theme.js",
)

LONGEST = 60
# also what turns text around, and halves of characters, which no file can hold
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def build_page(title: str, parts: Mapping[str, "Markup"], data: Mapping[str, Any] | None) -> str:
    """Return the page; ``parts`` fill the template by name, ``data`` is what the explorer shows, None for no explorer.

    The policy in the page's head lets only this style and this script in, by their hashes, and no connection out: were
    a user's string ever taken for a script, it would not run.
    """
    style = _read("style.css")
    script = "\n".join(_read(name) for name in SCRIPTS)
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    return Template(_read("template.html")).substitute(
        parts,
        title=escape(title),
        policy=escape(policy),
        style=style,
        script=script,
        data=embed_json(data),
        explorer_hidden="" if data is not None else "hidden",
        choice_hidden="" if parts["choice"] else "hidden",
    )


def embed_json(data: Any) -> str:
    """Return JSON that cannot end the element it stands in, nor begin a comment."""
    text = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _read(name: str) -> str:
    return files("nearcal.reporting").joinpath("page", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


# ---- HTML in which text is escaped unless it was made here ----------------------------------------------------------


class Markup(str):
    """HTML that may stand as it is. Everything else is text."""

    __slots__ = ()


Child = str | int | Iterable["Child"]

_EMPTY = frozenset({"br", "col", "meta", "path", "line", "rect", "circle"})


def element(tag: str, *children: Child, **attributes: Any) -> Markup:
    """Return an element; ``class_`` and ``for_`` drop their underscore, others turn theirs into hyphens."""
    names = {key: key.rstrip("_").replace("_", "-") for key in attributes}
    written = "".join(f' {names[key]}="{escape(str(value))}"' for key, value in attributes.items() if value is not None)
    if tag in _EMPTY and not children:
        return Markup(f"<{tag}{written}/>")
    return Markup(f"<{tag}{written}>{join(*children)}</{tag}>")


def join(*children: Child) -> Markup:
    """Return children one after the other: markup as it is, text escaped."""
    return Markup("".join(_render(child) for child in children))


def _render(child: Child) -> str:
    if isinstance(child, Markup):
        return child
    if isinstance(child, str | int):
        return escape(str(child))
    return join(*child)


# ---- names as a page can show them: of bounded length, on one line, in the direction they are written ----------------


def as_text(text: Any, name: str, most: int = LONGEST) -> str:
    """Return a string that a user gave as a page can show it; refuse what is none."""
    if not isinstance(text, str):
        raise InvalidInputError(f"{name} must be a string, got {type(text).__name__}; write it as str({name})")
    return shorten(text, most)


def shorten(name: str, most: int = LONGEST) -> str:
    """Return a name without control characters, cut to a length."""
    shown = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", name)
    return shown if len(shown) <= most else shown[: most - 1].rstrip() + "…"


def shorten_all(names: Iterable[str]) -> list[str]:
    """Return short names that still differ from each other."""
    shown: dict[str, None] = {}
    counts: Counter[str] = Counter()  # where to go on counting: thousands of texts may begin alike
    for name in names:
        short, start = shorten(name), shorten(name, LONGEST - 6)
        counts[start] = max(counts[start], 1)
        while short in shown:
            counts[start] += 1
            short = f"{start} ({counts[start]})"
        shown[short] = None
    return list(shown)


def shorten_features(features: Sequence[Feature]) -> tuple[Feature, ...]:
    """Return features with short names and levels."""
    names = shorten_all(feature.name for feature in features)
    return tuple(
        replace(feature, name=name, levels=None if feature.levels is None else tuple(shorten_all(feature.levels)))
        for feature, name in zip(features, names, strict=True)
    )
