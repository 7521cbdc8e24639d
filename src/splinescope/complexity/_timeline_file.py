"""Timelines on disk: the tilings in the layout of tilings (see `splinescope.tiling.storage`), with what was measured.

Besides the slice once and `i/vertices`, `i/tile_offsets`, ... for checkpoint i: `steps` `[T]` int64 and
`measures/NAME` `[T]` float64. The header holds the tilings' headers, the names of the measures, `radius`,
`near` and `statistics`.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .._archive import Kind, Layout, read_archive, require, write_archive
from .._errors import FileFormatError
from ..tiling.storage import (
    MESH_LAYOUT,
    OPTIONAL,
    SLICE_LAYOUT,
    check_header,
    mesh_arrays,
    read_slice,
    read_tiling,
    slice_arrays,
    tiling_header,
)
from .timeline import Timeline

KIND = Kind(
    "timeline",
    2,
    renewal="Version 1 measured batch norm with lagging running averages and did not say so: make it again from its "
    "checkpoints, by ss.complexity.timeline(model, checkpoints, view, x={...}).save(file) or "
    "splinescope timeline CHECKPOINTS --out FILE.",
)


def save_timeline(story: Timeline, path: str | os.PathLike[str]) -> None:
    """Write a timeline by atomic replacement; see `Timeline.save`."""
    arrays = {"steps": np.asarray(story.steps, np.int64), **slice_arrays(story.tilings[0].view)}
    arrays |= {f"measures/{name}": np.asarray(values, np.float64) for name, values in story.measures.items()}
    for i, tiling in enumerate(story.tilings):
        arrays |= {f"{i}/{name}": array for name, array in mesh_arrays(tiling).items()}
    header = {
        "tilings": [tiling_header(tiling) for tiling in story.tilings],
        "measures": list(story.measures),
        "radius": story.radius,
        "near": story.near,
        "statistics": story.statistics,
    }
    write_archive(path, KIND, arrays, header)


def load_timeline(path: str | os.PathLike[str]) -> Timeline:
    """Read a timeline that `Timeline.save` wrote; nothing in the file is executed.

    Raises:
        InputError: There is no such file.
        FileFormatError: The file is corrupt, of an unknown version, or something else altogether.
    """
    optional: set[str] = set()

    def layout(header: dict[str, Any]) -> Layout:
        require(isinstance(header["tilings"], list) and len(header["tilings"]) > 0, "list of tilings")
        require(all(isinstance(measure, str) for measure in header["measures"]), "names of measures")
        for key in ("radius", "near"):
            require(type(header[key]) is float and 0 < header[key] < np.inf, f"{key} {header[key]!r}")
        require(header["statistics"] in ("data", "running", "none"), f"statistics {header['statistics']!r}")
        for tiling in header["tilings"]:
            check_header(tiling)
        count = len(header["tilings"])
        optional.update(f"{i}/{key}" for i in range(count) for key in OPTIONAL)
        meshes = {f"{i}/{key}": kind for i in range(count) for key, kind in MESH_LAYOUT.items()}
        measures = {f"measures/{measure}": (np.float64, 1) for measure in header["measures"]}
        return {"steps": (np.int64, 1), **measures, **meshes, **SLICE_LAYOUT}

    name, header, arrays = read_archive(path, KIND, layout, optional)
    view = read_slice(name, arrays)
    tilings = []
    for i, tiling in enumerate(header["tilings"]):
        own = {key: arrays[f"{i}/{key}"] for key in MESH_LAYOUT if f"{i}/{key}" in arrays}
        tilings.append(read_tiling(f"{name}, tiling {i}", own, view, tiling))
    measures = {measure: arrays[f"measures/{measure}"] for measure in header["measures"]}
    for key, values in {"steps": arrays["steps"], **measures}.items():
        if len(values) != len(tilings):
            raise FileFormatError(f"{name}: {key} must be one number per tiling, {len(tilings)}, got {len(values)}.")
    if (np.diff(arrays["steps"]) <= 0).any():
        raise FileFormatError(f"{name}: steps must ascend.")
    return Timeline(arrays["steps"], tuple(tilings), measures, header["radius"], header["near"], header["statistics"])
