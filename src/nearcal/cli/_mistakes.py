"""Mistakes of the person at the keyboard: one line that says what is wrong, and what was probably meant."""

import difflib
from collections.abc import Iterable
from pathlib import Path

_MOST_NAMED = 12


class Mistake(Exception):
    """Something the user got wrong.

    Parameters
    ----------
    message : str
        What is wrong, in one line.
    suggestion : str
        What to do instead.
    """

    def __init__(self, message: str, suggestion: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.suggestion = suggestion


def did_you_mean(word: str, known: Iterable[str], what: str = "known") -> str:
    """Return a question with the name most like a word, or without any like it a list of the names there are."""
    names = list(dict.fromkeys(known))
    by_lower = {name.lower(): name for name in reversed(names)}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    if close:
        return f"did you mean {by_lower[close[0]]!r}?"
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{what}: {', '.join(names[:_MOST_NAMED])}{more}"


def check_word(word: str, known: Iterable[str], option: str) -> str:
    """Return an option's value, refusing one that is not among the known ones."""
    names = list(known)
    if word not in names:
        raise Mistake(f"{option} does not know {word!r}", did_you_mean(word, names))
    return word


def check_share(value: float, option: str) -> float:
    """Return a probability strictly between 0 and 1; who gives percent is asked about it."""
    if 0 < value < 1:
        return value
    suggestion = f"did you mean {value / 100:g}?" if 2 <= value < 100 else "95% is 0.95"
    raise Mistake(f"{option} must lie strictly between 0 and 1, got {value:g}", suggestion)


def require_file(path: Path, remedy: str) -> None:
    """Refuse a path where there is no file to read; a file with a similar name may have been meant."""
    if path.is_dir():
        raise Mistake(f"{path} is a directory", "give one file")
    if not path.exists():
        neighbours = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
        question = did_you_mean(path.name, neighbours)
        raise Mistake(f"there is no file {path}", question if question.endswith("?") else remedy)


def require_place(path: Path) -> None:
    """Refuse a path where no file can be written, before any work is done for it."""
    if path.is_dir():
        raise Mistake(f"--output {path} is a directory", "give the name of a file")
    if not path.parent.is_dir():
        raise Mistake(f"--output {path} lies in a directory that does not exist", f"create {path.parent} first")
