"""What the arrays of a stored tiling must be, whoever wrote the file: nothing that reads them later checks again."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...support.errors import FileFormatError
from .. import kernels
from ..cells.lists import CornerLists
from ..slice import Slice

_TOGETHER = 1 << 20  # vertices or tiles that are checked at a time
_NO_AREA = 1e-12  # of the domain: what rounding may make of the area of a tile that is thinner than its corners' digits
_SUM_RTOL = 1e-6  # of millions of areas


def check_arrays(
    name: str, arrays: Mapping[str, np.ndarray], view: Slice, cuts: int, complete: bool, *, raw: bool = False
) -> float:
    """Refuse arrays that do not fit together: whatever passes can be indexed without a fault.

    Args:
        name: Of the file.
        arrays: By the names of `storage.MESH_LAYOUT`, with those dtypes and numbers of axes.
        view: The slice.
        cuts: How many there are.
        complete: The tiles must fill the slice's domain.
        raw: They are as the engine leaves them, with walls and facets that are none.

    Returns:
        Length or area of all tiles together; NaN from three dimensions on.
    """
    vertices, offsets = arrays["vertices"], arrays["tile_offsets"]
    corners, labels = arrays["tile_corners"], arrays["corner_labels"]
    values = arrays.get("values")
    sizes = np.diff(offsets)
    few, many = (2, 2) if view.dimension == 1 else (view.dimension + 1, max(len(corners), view.dimension + 1))
    low, high = view.domain.min(0), view.domain.max(0)
    slack = 1e-9 * (high - low).max() + 1e-12 * np.abs(view.domain).max()
    checks = {
        f"vertices must have {view.dimension} columns": vertices.shape[1] == view.dimension,
        "tile_offsets must start at 0 and end at the number of corners": len(offsets) > 0
        and offsets[0] == 0
        and offsets[-1] == len(corners),
        "every tile must have 2 ends (1-D) or at least d + 1 corners": bool(((sizes >= few) & (sizes <= many)).all()),
        "tile_corners must be vertex numbers": _within(corners, 0, len(vertices)),
        "corner_labels must be one cut's number, or -1, per side": _within(labels, -2 - cuts if raw else -1, cuts)
        and (view.dimension > 2 or len(labels) == len(corners)),
        "facets must be there in three and more dimensions, and there alone": (view.dimension > 2)
        == ("facet_bits" in arrays)
        == ("facet_offsets" in arrays),
        "values must be one row of finite numbers per vertex": values is None
        or (len(values) == len(vertices) and values.shape[1] > 0 and bool(np.isfinite(values).all())),
    }
    for sentence, ok in checks.items():
        if not ok:
            raise FileFormatError(f"{name} is damaged: {sentence}.")
    if view.dimension > 2 and not _good_facets(arrays, view.dimension, raw):
        raise FileFormatError(f"{name} is damaged: every tile must have facets, with at least d of its corners each.")
    inside = bool(((vertices >= low - slack) & (vertices <= high + slack)).all())  # NaN is not
    if inside and view.dimension == 2:  # on the left of every side
        start, side = view.domain, np.roll(view.domain, -1, 0) - view.domain
        inward = np.stack([-side[:, 1], side[:, 0]]) / np.linalg.norm(side, axis=1)
        least = np.einsum("id,di->i", start, inward) - slack
        blocks = (vertices[i : i + _TOGETHER] for i in range(0, len(vertices), _TOGETHER))
        inside = all(bool((block @ inward >= least).all()) for block in blocks)
    elif inside and view.dimension > 2:
        hull = view.hull
        inside = all(bool((vertices @ n <= o + slack).all()) for n, o in zip(hull.normals, hull.offsets, strict=True))
    if not inside:
        raise FileFormatError(f"{name} is damaged: vertices must lie in the slice's domain.")
    if view.dimension > 2:
        return np.nan
    total = _total_size(name, arrays, view)
    if complete:
        check_filled(name, total, view.size, view)
    return total


def _total_size(name: str, arrays: Mapping[str, np.ndarray], view: Slice) -> float:
    """The size of all tiles of a line or plane; tiles that are turned over are refused."""
    vertices, offsets, corners = arrays["vertices"], arrays["tile_offsets"], arrays["tile_corners"]
    least, total = np.inf, 0.0
    for start in range(0, len(offsets) - 1, _TOGETHER):
        these = offsets[start : start + _TOGETHER + 1]
        sizes = CornerLists(these - these[0], corners[these[0] : these[-1]]).sizes(vertices)
        least, total = min(least, float(sizes.min())), total + float(sizes.sum())
    if least < -_NO_AREA * view.size:
        raise FileFormatError(f"{name} is damaged: a tile's corners must go around it counter-clockwise.")
    return total


def check_filled(name: str, total: float, size: float, view: Slice) -> None:
    """Refuse tiles that do not fill the part of the slice's domain that they are of, by their size and its."""
    if abs(total - size) > _SUM_RTOL * view.size:
        raise FileFormatError(
            f"{name} is damaged: the tiles must fill the slice's domain, of size {size:.6g}, got {total:.6g}."
        )


def _good_facets(arrays: Mapping[str, np.ndarray], dimension: int, raw: bool) -> bool:
    """Whether the facets of solid tiles can be listed: offsets ascend, bits reach, every facet has d corners."""
    offsets, bits = arrays["facet_offsets"], arrays["facet_bits"]
    sizes = np.diff(offsets)
    ok = len(offsets) == len(arrays["tile_offsets"]) and len(bits) == len(arrays["tile_corners"])
    ok = ok and offsets[0] == 0 and offsets[-1] == len(arrays["corner_labels"])
    if not ok or (sizes <= dimension).any() or (sizes > 64 * bits.shape[1]).any():
        return False
    keys, corners = np.empty(offsets[-1], np.uint64), np.empty(offsets[-1], np.int32)
    kernels.facet_keys(arrays["tile_offsets"], arrays["tile_corners"], bits, offsets, keys, corners)
    # beyond three dimensions, a fold that touches a tile looks like a facet until the tiles are finished
    return (raw and dimension > 3) or bool((corners >= dimension).all())


def _within(numbers: np.ndarray, low: int, high: int) -> bool:
    return len(numbers) == 0 or bool(numbers.min() >= low and numbers.max() < high)
