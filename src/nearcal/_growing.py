"""Rows that can be appended to without being copied every time."""

import threading
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

_LEAST_ROOM = 64  # rows


class GrowingRows:
    """An array of rows, of shape (n, ...), that others can begin with; it never changes itself.

    ``extended`` returns this array and more rows. Both share one piece of memory with room to spare: whoever holds the
    shorter one sees what he always saw. Two that extend the same rows get a piece of memory each.

    Parameters
    ----------
    array : ndarray
        The rows; not to be written to any more.
    """

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        self._room: _Room | None = None
        self._stop = len(array)  # where the rows end in the room

    def __len__(self) -> int:
        return len(self.array)

    def extended(self, more: NDArray[Any]) -> "GrowingRows":
        """Return these rows followed by more."""
        room, stop = self._room, self._stop
        if room is None or not room.claim(stop, stop + len(more)):
            room, stop = _Room(self.array, len(more)), len(self.array)
        room.rows[stop : stop + len(more)] = more
        grown = GrowingRows(room.rows[stop - len(self.array) : stop + len(more)])
        grown._room, grown._stop = room, stop + len(more)
        return grown

    def kept(self, rows: NDArray[np.intp]) -> "GrowingRows":
        """Return some of the rows, in increasing order; the last ones are not copied."""
        first = len(self.array) - len(rows)
        if len(rows) and rows[0] == first:
            rest = GrowingRows(self.array[first:])
            rest._room, rest._stop = self._room, self._stop
            return rest
        return GrowingRows(self.array[rows])

    def __getstate__(self) -> dict[str, Any]:
        """Return what pickle and copy take along: the rows, without the room."""
        return {"array": self.array.copy(), "_room": None, "_stop": len(self.array)}

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # it never changes


class _Room:
    """Memory for rows, of which the first ``used`` belong to somebody."""

    def __init__(self, rows: NDArray[Any], more: int) -> None:
        self.used = len(rows) + more
        size = self.used + max(self.used // 2, _LEAST_ROOM)
        self.rows = np.empty((size, *rows.shape[1:]), rows.dtype)
        self.rows[: len(rows)] = rows
        self._lock = threading.Lock()

    def claim(self, start: int, stop: int) -> bool:
        """Take the rows from start to stop, if they are the next and there is room; one claimant alone gets them."""
        with self._lock:
            is_free = self.used == start and stop <= len(self.rows)
            if is_free:
                self.used = stop
            return is_free
