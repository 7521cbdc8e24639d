"""Memory that chunks use again: never while an array of it is left, and at once when none is."""

import numpy as np

from splinescope.tiling.engine.buffers import Buffers, whole_groups


def test_memory_is_used_again_only_when_no_array_of_it_is_left() -> None:
    buffers = Buffers()
    rows = buffers.rows(1000, 300)
    part, place = rows[10:20], rows.ctypes.data
    del rows
    assert not np.shares_memory(buffers.rows(1000, 300), part)
    del part
    assert place in {buffers.rows(1000, 300).ctypes.data, buffers.rows(999, 300).ctypes.data}


def test_rows_are_followed_by_zeros_up_to_a_whole_group() -> None:
    buffers = Buffers()
    buffers.rows(1003, 300)[:] = np.nan
    whole = whole_groups(rows := buffers.rows(1001, 300))
    assert whole.shape == (1008, 300)
    assert whole.ctypes.data == rows.ctypes.data
    assert not whole[1001:].any()
    assert whole_groups(rows[1:]).shape == (1000, 300)
