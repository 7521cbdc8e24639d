"""Tilings read back from their files (the layout is in `storage`)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from torch import nn

from ...network import SplineNetwork
from ...network.program import Site
from ...support.archive import Layout, read_archive
from ...support.errors import FileFormatError, InputError
from ..approximation import Approximation
from ..cells.polygons import Cells
from ..cells.polytopes import Polytopes
from ..networks import traced
from ..slice import Slice
from ..tiling import Tiling
from .storage import KIND, MESH_LAYOUT, OPTIONAL, SLICE_LAYOUT, check_arrays, check_header


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


def _matching(network: nn.Module | SplineNetwork, view: Slice, fingerprint: str) -> SplineNetwork:
    if not isinstance(network, SplineNetwork):
        network = traced(network, view)
    if network.fingerprint() != fingerprint:
        raise InputError(
            "network must be the one that was tiled: its structure or parameters differ from the file's "
            f"(fingerprint {fingerprint[:12]}… expected, got {network.fingerprint()[:12]}…)."
        )
    return network
