"""The page: template, style and scripts put together into one file that needs no network and allows none."""

import hashlib
import json
from base64 import b64encode
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from nearcal.reporting._markup import Markup

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


def build_page(title: str, parts: Mapping[str, Markup], data: Mapping[str, Any] | None) -> str:
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
