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
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from torch import nn

from ...network import SplineNetwork
from ...network.program import Site
from ...support.archive import Kind, Layout, read_archive, require, write_archive
from ...support.errors import FileFormatError, InputError
from ..approximation import Approximation
from ..cells.polygons import Cells
from ..cells.polytopes import Polytopes
from ..slice import Slice
from ..tessellate import traced
from ..tiling import Tiling
from .stored import check_arrays

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


def load_tiling(path: str | os.PathLike[str], model: nn.Module | SplineNetwork | None = None) -> Tiling:
    """Read a tiling that `Tiling.save` wrote; nothing in the file is executed.

    Args:
        path: The file.
        model: The network it came from, for what needs one (outputs beyond the stored ones, full-space
            slopes, activation patterns); refused unless it has the fingerprint in the file.

    Raises:
        FileFormatError: The file is corrupt, cut short, of an unknown version, or something else altogether.
        InputError: There is no such file, or `model` is not the one that was tiled.

    Cost: one read of the file, 0.2 s for a million tiles. Its arrays are mapped: what is not used takes no memory.

    Example:
        >>> tiling = load_tiling("cats.tiling")    # doctest: +SKIP
    """

    def layout(header: dict[str, Any]) -> Layout:
        check_header(header)
        return {**MESH_LAYOUT, **SLICE_LAYOUT}

    name, header, arrays = read_archive(path, KIND, layout, OPTIONAL)
    view = read_slice(name, arrays)
    tiling = read_tiling(name, arrays, view, header)
    if model is None:
        return tiling
    found = _matching(model, view, tiling.fingerprint)
    return replace(tiling, network=found, frozen=found.program())


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


def read_slice(name: str, arrays: Mapping[str, np.ndarray]) -> Slice:
    """The slice in a file of this name."""
    try:
        return Slice(*(arrays[part] for part in SLICE_LAYOUT))
    except InputError as error:
        raise FileFormatError(f"{name}: the slice in the file is not valid: {error}") from error


def read_tiling(name: str, arrays: Mapping[str, np.ndarray], view: Slice, header: Mapping[str, Any]) -> Tiling:
    """A tiling from its arrays and its checked header; the arrays are checked here, so that no kernel runs astray."""
    sites = tuple(Site(**{**site, "shape": tuple(site["shape"])}) for site in header["sites"])
    check_arrays(name, arrays, view, sum(site.cuts for site in sites), header["complete"])
    tiles = Cells(arrays["tile_offsets"], arrays["tile_corners"])
    if view.dimension > 2:
        tiles = Polytopes(tiles.offsets, tiles.corners, arrays["facet_bits"], arrays["facet_offsets"])
    return Tiling(
        view=view,
        vertices=arrays["vertices"],
        tiles=tiles,
        values=arrays.get("values"),
        sites=sites,
        rtol=header["rtol"],
        ending=header["ending"],
        fingerprint=header["fingerprint"],
        complete=header["complete"],
        corner_labels=arrays["corner_labels"],
        frozen=None,
        network=None,
        approximation=_approximation(name, arrays, header["approximation"], sum(site.cuts for site in sites)),
    )


def _approximation(name: str, arrays: Mapping[str, np.ndarray], header: Any, cuts: int) -> Approximation | None:
    if header is None:
        return None
    elements, knots = (arrays.get(key, np.zeros(0)) for key in ("knot_elements", "knots"))
    if not len(elements) == len(knots) == cuts:
        raise FileFormatError(f"{name} is damaged: knots and knot_elements must be one number per cut, {cuts}.")
    return Approximation(**header, elements=elements, knots=knots)


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


def _matching(network: nn.Module | SplineNetwork, view: Slice, fingerprint: str) -> SplineNetwork:
    if not isinstance(network, SplineNetwork):
        network = traced(network, view)
    if network.fingerprint() != fingerprint:
        raise InputError(
            "network must be the one that was tiled: its structure or parameters differ from the file's "
            f"(fingerprint {fingerprint[:12]}… expected, got {network.fingerprint()[:12]}…)."
        )
    return network
