"""Tilings on disk: one safetensors file, readable without splinescope, safe to open from strangers.

Layout, version 2. Arrays: `vertices` `[V, d]` float64; `tile_offsets` `[K + 1]` int64 and `tile_corners` `[M]`
int32 (tile i has the corners `tile_corners[tile_offsets[i]:tile_offsets[i + 1]]`, counter-clockwise);
`corner_labels` `[M]` int32 (the cut that leads from a corner to the next, -1 on the domain's boundary);
in three and more dimensions corners have no order, `corner_labels` has one entry per facet of each tile,
`facet_offsets` `[K + 1]` int64 says which those are, and bit f of `facet_bits` `[M, words]` uint64 whether a corner
lies on its tile's f-th facet; `values` `[V, C]` float64, absent for large outputs; of a tiling within a tolerance
`knot_elements` int64 and `knots` float64, `[cuts]` (see `Approximation`); `slice_origin`, `slice_basis`,
`slice_domain`, `slice_anchors` float64. Metadata: `format`, `version`, `sha256`, and `header`, a JSON object with
sites, rtol, ending, fingerprint, complete and approximation. Files with several tilings of one slice hold the arrays
of tiling i as `i/vertices` and so on, and their slice once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from ...network.program import Site
from ...support.archive import Kind, Layout, require, write_archive
from ...support.errors import FileFormatError
from .. import kernels
from ..cells.lists import CornerLists
from ..cells.polytopes import Polytopes
from ..slice import Slice

if TYPE_CHECKING:
    from ..tiling import Tiling

KIND = Kind("tiling", 2)

MESH_LAYOUT: Layout = {
    "vertices": (np.float64, 2),
    "tile_offsets": (np.int64, 1),
    "tile_corners": (np.int32, 1),
    "corner_labels": (np.int32, 1),
    "facet_offsets": (np.int64, 1),
    "facet_bits": (np.uint64, 2),
    "values": (np.float64, 2),
    "knot_elements": (np.int64, 1),
    "knots": (np.float64, 1),
}
SLICE_LAYOUT: Layout = {
    "slice_origin": (np.float64, None),
    "slice_basis": (np.float64, None),
    "slice_domain": (np.float64, 2),
    "slice_anchors": (np.float64, 2),
}
OPTIONAL = {"values", "facet_offsets", "facet_bits", "knot_elements", "knots"}
_NUMBERS = ("tolerance", "bound", "deviation", "basis")
_MOST_CUTS = 2**31 - 1  # labels are int32
_TOGETHER = 1 << 20  # vertices or tiles that are checked at a time
_NO_AREA = 1e-12  # of the domain: what rounding may make of the area of a tile that is thinner than its corners' digits
_SUM_RTOL = 1e-6  # of millions of areas


def save_tiling(tiling: Tiling, path: str | os.PathLike[str]) -> None:
    """See `Tiling.save`."""
    write_archive(path, KIND, mesh_arrays(tiling) | slice_arrays(tiling.view), tiling_header(tiling))


def mesh_arrays(tiling: Tiling) -> dict[str, np.ndarray]:
    """A tiling's arrays but for its slice's, by the names of the layout."""
    arrays = {
        "vertices": tiling.vertices,
        "tile_offsets": tiling.tiles.offsets,
        "tile_corners": tiling.tiles.corners,
        "corner_labels": tiling.corner_labels,
    }
    if isinstance(tiling.tiles, Polytopes):
        arrays["facet_offsets"], arrays["facet_bits"] = tiling.tiles.facet_offsets, tiling.tiles.facet_bits
    if tiling.values is not None:
        arrays["values"] = tiling.values
    if tiling.approximation is not None:
        arrays["knot_elements"], arrays["knots"] = tiling.approximation.elements, tiling.approximation.knots
    return {name: np.asarray(array, MESH_LAYOUT[name][0]) for name, array in arrays.items()}


def slice_arrays(view: Slice) -> dict[str, np.ndarray]:
    """A slice's arrays by the names of the layout."""
    return {name: getattr(view, name.removeprefix("slice_")) for name in SLICE_LAYOUT}


def tiling_header(tiling: Tiling) -> dict[str, Any]:
    """What a tiling has besides arrays, ready for JSON."""
    return {
        "sites": [asdict(site) for site in tiling.sites],
        "rtol": tiling.rtol,
        "ending": tiling.ending,
        "fingerprint": tiling.fingerprint,
        "complete": tiling.complete,
        "approximation": tiling.approximation and {key: getattr(tiling.approximation, key) for key in _NUMBERS},
    }


def check_header(header: Mapping[str, Any]) -> None:
    """Refuse a `tiling_header` whose fields are not of the type and range they must have."""
    for site in header["sites"]:
        sizes = [*site["shape"], site["units"], site["depth"], site["cuts"]]
        ok = all(type(n) is int and n >= 0 for n in sizes) and all(type(site[k]) is str for k in ("path", "op"))
        ok = ok and site["units"] >= 1 and site["cuts"] >= 1 and site["cuts"] % site["units"] == 0
        ok = ok and 1 <= site["depth"] <= len(header["sites"])  # folds on the longest way to it, with itself
        require(ok and site.keys() == Site.__dataclass_fields__.keys(), f"site {site}")
    require(sum(site["cuts"] for site in header["sites"]) <= _MOST_CUTS, "number of cuts")
    require(type(header["rtol"]) is float and 0 <= header["rtol"] < 1e-3, f"rtol {header['rtol']!r}")
    require(header["ending"] is None or type(header["ending"]) is str, f"ending {header['ending']!r}")
    require(type(header["fingerprint"]) is str, f"fingerprint {header['fingerprint']!r}")
    require(type(header["complete"]) is bool, f"complete {header['complete']!r}")
    near = header["approximation"]
    ok = near is None or (
        isinstance(near, dict)
        and near.keys() == set(_NUMBERS)
        and all(type(near[key]) is float and near[key] >= 0 for key in _NUMBERS[:3])
        and near["basis"] in ("bound", "deviation")
    )
    require(ok, f"approximation {near!r}")


def check_arrays(
    name: str, arrays: Mapping[str, np.ndarray], view: Slice, cuts: int, complete: bool, *, raw: bool = False
) -> float:
    """Length or area of all tiles together (NaN from 3-D on), once their arrays are found to fit together.

    Whatever passes can be indexed without a fault. `complete` tiles must fill the slice's domain, `raw` ones are as the
    engine leaves them, with spurious walls and facets.
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
