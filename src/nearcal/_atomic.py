"""Files that are replaced as a whole or not at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_IMODE
from typing import BinaryIO

from nearcal._errors import ArtefactError


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that takes the place of ``path`` when the block ends without an error.

    Until then, and after a crash or a loss of power at any time, the old file is there as it was. A symbolic link stays
    one and what it points to is replaced. A new file gets the usual permissions, another keeps those it had.
    """
    target = Path(os.path.realpath(path))
    _require_replaceable(target, path)
    # a name of its own, so that what a killed process leaves behind is in nobody's way
    temporary = target.with_name(f".nearcal-{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            if target.exists():
                temporary.chmod(S_IMODE(target.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_directory(target.parent)


def _require_replaceable(target: Path, path: Path) -> None:
    if not target.parent.is_dir():
        raise ArtefactError(f"path must lie in an existing directory, got {path}; create {target.parent} first")
    if target.exists() and not target.is_file():
        kind = "a directory" if target.is_dir() else "no regular file"
        raise ArtefactError(f"path must be a file, new or to be replaced, got {path}, which is {kind}")


def _sync_directory(directory: Path) -> None:
    """Make the new name last; not every system can open a directory."""
    if os.name == "posix":
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
