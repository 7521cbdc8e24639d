"""Tilings that are equal to the last bit."""

import numpy as np

import splinescope as ss


def assert_same(one: ss.Tiling, other: ss.Tiling) -> None:
    """Equal vertices, tiles, labels and outputs, of equal types."""
    assert one.fingerprint == other.fingerprint
    for a, b in (
        (one.vertices, other.vertices), (one.tiles.offsets, other.tiles.offsets),
        (one.tiles.corners, other.tiles.corners), (one.corner_labels, other.corner_labels), (one.values, other.values),
    ):  # fmt: skip
        assert getattr(a, "dtype", None) == getattr(b, "dtype", None)
        np.testing.assert_array_equal(a, b)
