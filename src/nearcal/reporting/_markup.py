"""HTML in which text is escaped unless it was made here."""

from collections.abc import Iterable
from html import escape
from typing import Any


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
