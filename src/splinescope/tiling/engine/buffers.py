"""Memory that the chunks of one tiling use again: clearing fresh pages would take a sixth of the time."""

from __future__ import annotations

import sys
import threading

import numpy as np

_WORTH_KEEPING = 1 << 17  # numbers: what is smaller, the allocator itself keeps
_UNUSED = 2  # references to a buffer that no array is made from: our list's, and that of the question
_GROUP = 8
# Rows are filled up to a multiple of this. The last bits of a row of a matrix product must not depend on the rows
# beside it: the kernels of a BLAS for whole groups of rows are alike, those for the rest of a matrix are not (and see
# `network.program.Product` for the length of rows).


class Buffers(threading.local):
    """Buffers of float64, each thread's own; one is free again once no array made from it is left."""

    def __init__(self) -> None:
        self._kept: list[np.ndarray] = []
        self._scratch = np.empty(0)

    def scratch(self, count: int, width: int) -> np.ndarray:
        """`[count, width]` of any content, good until the next call."""
        if len(self._scratch) < count * width:
            self._scratch = np.empty(count * width)
        return self._scratch[: count * width].reshape(count, width)

    def rows(self, count: int, width: int) -> np.ndarray:
        """`[count, width]` of any content, with room behind it for `whole_groups`."""
        size = (count + missing(count)) * width
        buffer = np.empty(size) if size < _WORTH_KEEPING else self._free(size)
        buffer[count * width : size] = 0.0
        return buffer[: count * width].reshape(count, width)

    def _free(self, size: int) -> np.ndarray:
        free = [i for i in range(len(self._kept)) if sys.getrefcount(self._kept[i]) == _UNUSED]
        fits = [i for i in free if len(self._kept[i]) >= size]
        if fits:
            return self._kept[min(fits, key=lambda i: len(self._kept[i]))]
        if free:  # one that is too small makes room for the new one
            del self._kept[free[0]]
        self._kept.append(np.empty(size + size // 4))
        return self._kept[-1]


def missing(count: int) -> int:
    """How many rows fill up that many to whole groups."""
    return -count % _GROUP


def whole_groups(rows: np.ndarray) -> np.ndarray:
    """Rows from `Buffers.rows` with what fills them up; others as they are."""
    whole, size = rows.base, (len(rows) + missing(len(rows))) * rows.shape[1]
    if whole is None or whole.ndim != 1 or len(whole) < size or not rows.flags.c_contiguous:
        return rows
    same = whole.__array_interface__["data"] == rows.__array_interface__["data"]
    return whole[:size].reshape(-1, rows.shape[1]) if same and whole.dtype == rows.dtype else rows
