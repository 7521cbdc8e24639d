"""Tilings on disk: one safetensors file, readable without splinescope, safe to open from strangers.

Layout, version 1. Arrays: `vertices` `[V, d]` float64; `tile_offsets` `[K + 1]` int64 and `tile_corners` `[M]`
int32 (tile i has the corners `tile_corners[tile_offsets[i]:tile_offsets[i + 1]]`, counter-clockwise);
`corner_labels` `[M]` int32 (the unit whose fold leads from a corner to the next, -1 on the domain's boundary);
`values` `[V, C]` float64, absent for large outputs; `slice_origin`, `slice_basis`, `slice_domain`,
`slice_anchors` float64. Metadata: `format`, `version`, and `tiling`, a JSON object with sites, rtol, ending,
fingerprint and complete.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from torch import nn

from .._checks import check_file
from .._errors import FileFormatError, InputError
from .._files import replacing
from ..network import Site, SplineNetwork
from .slice import Slice
from .tessellate import traced
from .tiling import Cells, Tiling

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMAT = "splinescope.tiling"
VERSION = 1

_LAYOUT: dict[str, tuple[type, int | None]] = {
    "vertices": (np.float64, 2),
    "tile_offsets": (np.int64, 1),
    "tile_corners": (np.int32, 1),
    "corner_labels": (np.int32, 1),
    "values": (np.float64, 2),
    "slice_origin": (np.float64, None),
    "slice_basis": (np.float64, None),
    "slice_domain": (np.float64, 2),
    "slice_anchors": (np.float64, 2),
}
_OPTIONAL = {"values"}


def save_tiling(tiling: Tiling, path: str | os.PathLike[str]) -> None:
    """Write a tiling by atomic replacement; see `Tiling.save`."""
    arrays = {
        "vertices": tiling.vertices,
        "tile_offsets": tiling.tiles.offsets,
        "tile_corners": tiling.tiles.corners,
        "corner_labels": tiling.corner_labels,
        "slice_origin": tiling.slice.origin,
        "slice_basis": tiling.slice.basis,
        "slice_domain": tiling.slice.domain,
        "slice_anchors": tiling.slice.anchors,
    }
    if tiling.values is not None:
        arrays["values"] = tiling.values
    arrays = {name: np.ascontiguousarray(array, _LAYOUT[name][0]) for name, array in arrays.items()}
    header = {
        "sites": [asdict(site) for site in tiling.sites],
        "rtol": tiling.rtol,
        "ending": tiling.ending,
        "fingerprint": tiling.fingerprint,
        "complete": tiling.complete,
    }
    metadata = {"format": FORMAT, "version": str(VERSION), "tiling": json.dumps(header)}
    with replacing(path) as partial:
        save_file(arrays, partial, metadata)


def load_tiling(path: str | os.PathLike[str], network: nn.Module | SplineNetwork | None = None) -> Tiling:
    """Read a tiling that `Tiling.save` wrote; nothing in the file is executed.

    Args:
        path: The file.
        network: The network it came from, for what needs one (outputs beyond the stored ones, full-space
            slopes, activation patterns); refused unless it has the fingerprint in the file.

    Raises:
        FileFormatError: The file is corrupt, cut short, of an unknown version, or something else altogether.
        InputError: There is no such file, or `network` is not the one that was tiled.

    Cost: one read of the file, 0.1 s for a million tiles.

    Example:
        >>> tiling = load_tiling("cats.tiling")    # doctest: +SKIP
    """
    name = str(check_file(path))
    metadata, arrays = _read(name)
    header = _checked_header(name, metadata)
    try:
        view = Slice(*(arrays[f"slice_{part}"] for part in ("origin", "basis", "domain", "anchors")))
    except InputError as error:
        raise FileFormatError(f"{name}: the slice in the file is not valid: {error}") from error
    sites = tuple(Site(**site) for site in header["sites"])
    _check_arrays(name, arrays, view, sum(site.units for site in sites))
    return Tiling(
        slice=view,
        vertices=arrays["vertices"],
        tiles=Cells(arrays["tile_offsets"], arrays["tile_corners"]),
        values=arrays.get("values"),
        sites=sites,
        rtol=float(header["rtol"]),
        ending=header["ending"],
        fingerprint=header["fingerprint"],
        complete=header["complete"],
        corner_labels=arrays["corner_labels"],
        network=None if network is None else _matching(network, view, header["fingerprint"]),
    )


def _read(name: str) -> tuple[Mapping[str, str], dict[str, np.ndarray]]:
    """Metadata and arrays; format, version, names, dtypes and numbers of axes are checked before an array is read."""
    try:
        with safe_open(name, framework="numpy") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                found = metadata.get("format") or "none"
                raise FileFormatError(f"{name} is not a tiling: format {FORMAT!r} expected, got {found!r}.")
            if metadata.get("version") != str(VERSION):
                raise FileFormatError(
                    f"{name} has version {metadata.get('version')!r} of the tiling format; "
                    f"this splinescope reads version {VERSION}."
                )
            names = set(file.keys())
            if not _LAYOUT.keys() - _OPTIONAL <= names <= _LAYOUT.keys():
                wrong = sorted((_LAYOUT.keys() - _OPTIONAL - names) | (names - _LAYOUT.keys()))
                raise FileFormatError(f"{name}: arrays missing or unknown: {', '.join(wrong)}.")
            arrays = {key: file.get_tensor(key) for key in names}
    except SafetensorError as error:
        raise FileFormatError(f"{name} is not a tiling, or is damaged: {error}.") from error
    for key, array in arrays.items():
        dtype, axes = _LAYOUT[key]
        if array.dtype != dtype or (axes is not None and array.ndim != axes):
            raise FileFormatError(
                f"{name}: {key} must be {np.dtype(dtype)}{'' if axes is None else f' with {axes} axes'}, "
                f"got {array.dtype} of shape {array.shape}."
            )
    return metadata, arrays


def _checked_header(name: str, metadata: Mapping[str, str]) -> dict[str, Any]:
    """The JSON part, each field of the type and range it must have."""
    try:
        header = json.loads(metadata.get("tiling", ""))
        sites = [{**site, "shape": tuple(site["shape"])} for site in header["sites"]]
        for site in sites:
            sizes = [*site["shape"], site["units"], site["depth"]]
            ok = all(type(n) is int and n >= 0 for n in sizes) and all(type(site[k]) is str for k in ("path", "op"))
            _require(ok and site.keys() == Site.__dataclass_fields__.keys(), f"site {site}")
        _require(type(header["rtol"]) is float and 0 <= header["rtol"] < 1e-3, f"rtol {header['rtol']!r}")
        _require(header["ending"] is None or type(header["ending"]) is str, f"ending {header['ending']!r}")
        _require(type(header["fingerprint"]) is str, f"fingerprint {header['fingerprint']!r}")
        _require(type(header["complete"]) is bool, f"complete {header['complete']!r}")
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{name}: the header is damaged: {type(error).__name__}: {error}.") from error
    return {**header, "sites": sites}


def _require(ok: bool, what: str) -> None:
    if not ok:
        raise ValueError(f"unexpected {what}")


def _check_arrays(name: str, arrays: Mapping[str, np.ndarray], view: Slice, units: int) -> None:
    """Refuse arrays that do not fit together: whatever passes can be indexed without a fault."""
    vertices, offsets = arrays["vertices"], arrays["tile_offsets"]
    corners, labels = arrays["tile_corners"], arrays["corner_labels"]
    values = arrays.get("values")
    sizes = np.diff(offsets)
    few, many = (2, 2) if view.dimension == 1 else (3, max(len(corners), 3))
    low, high = view.domain.min(0), view.domain.max(0)
    slack = 1e-9 * (high - low).max() + 1e-12 * np.abs(view.domain).max()
    checks = {
        f"vertices must have {view.dimension} columns": vertices.shape[1] == view.dimension,
        "anchors must have as many columns as the slice has directions": view.anchors.shape[1] == view.dimension,
        "anchors must be finite": bool(np.isfinite(view.anchors).all()),
        "tile_offsets must start at 0 and end at the number of corners": len(offsets) > 0
        and offsets[0] == 0
        and offsets[-1] == len(corners),
        "every tile must have 2 ends (1-D) or at least 3 corners (2-D)": bool(((sizes >= few) & (sizes <= many)).all()),
        "tile_corners must be vertex numbers": _within(corners, 0, len(vertices)),
        "corner_labels must be one unit number, or -1, per corner": len(labels) == len(corners)
        and _within(labels, -1, units),
        "values must be one row of finite numbers per vertex": values is None
        or (len(values) == len(vertices) and values.shape[1] > 0 and bool(np.isfinite(values).all())),
    }
    for sentence, ok in checks.items():
        if not ok:
            raise FileFormatError(f"{name} is damaged: {sentence}.")
    if view.dimension == 1:
        inside = ((vertices >= low - slack) & (vertices <= high + slack)).all()
    else:  # on the left of every side, for NaN is not
        start, side = view.domain, np.roll(view.domain, -1, 0) - view.domain
        inward = np.stack([-side[:, 1], side[:, 0]]) / np.linalg.norm(side, axis=1)
        inside = ((vertices @ inward - np.einsum("id,di->i", start, inward)) >= -slack).all()
    if not bool(inside):
        raise FileFormatError(f"{name} is damaged: vertices must lie in the slice's domain.")


def _within(numbers: np.ndarray, low: int, high: int) -> bool:
    return len(numbers) == 0 or bool(numbers.min() >= low and numbers.max() < high)


def _matching(network: nn.Module | SplineNetwork, view: Slice, fingerprint: str) -> SplineNetwork:
    if not isinstance(network, SplineNetwork):
        network = traced(network, view)
    if network.fingerprint() != fingerprint:
        raise InputError(
            "network must be the one that was tiled: its structure or parameters differ from the file's "
            f"(fingerprint {fingerprint[:12]}… expected, got {network.fingerprint()[:12]}…)."
        )
    return network
