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


def save_tiling(tiling: Tiling, path: str | os.PathLike[str]) -> None:
    """Write a tiling by atomic replacement; see `Tiling.save`."""
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
