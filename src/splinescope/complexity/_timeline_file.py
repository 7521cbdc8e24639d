"""Timelines on disk: one safetensors file with every tiling's arrays, no pickle."""

from __future__ import annotations

import json
import os
from dataclasses import asdict

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from .._checks import check_file
from .._errors import FileFormatError
from .._files import replacing
from ..network import Site
from ..tiling import Slice, Tiling
from ..tiling.tiling import Cells
from .timeline import Timeline

FORMAT = "splinescope.timeline"
VERSION = 1
_SLICE = ("origin", "basis", "domain", "anchors")


def save_timeline(story: Timeline, path: str | os.PathLike[str]) -> None:
    """Arrays `steps`, `measures/NAME`, `slice/PART` and, per checkpoint i, `i/vertices`, `i/offsets`, `i/corners`,
    `i/labels` and `i/values`; the rest as JSON in the header."""
    first = story.tilings[0]
    arrays = {"steps": story.steps}
    arrays |= {f"measures/{name}": values for name, values in story.measures.items()}
    arrays |= {f"slice/{part}": getattr(first.slice, part) for part in _SLICE}
    for i, tiling in enumerate(story.tilings):
        arrays |= {f"{i}/vertices": tiling.vertices, f"{i}/offsets": tiling.tiles.offsets,
                   f"{i}/corners": tiling.tiles.corners, f"{i}/labels": tiling.corner_labels}  # fmt: skip
        if tiling.values is not None:
            arrays[f"{i}/values"] = tiling.values
    header = {
        "sites": [asdict(site) for site in first.sites],
        "rtol": first.rtol,
        "ending": first.ending,
        "fingerprints": [tiling.fingerprint for tiling in story.tilings],
        "radius": story.radius,
        "near": story.near,
    }
    metadata = {"format": FORMAT, "version": str(VERSION), "timeline": json.dumps(header)}
    with replacing(path) as partial:
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, partial, metadata)


def load_timeline(path: str | os.PathLike[str]) -> Timeline:
    """Read a timeline that `Timeline.save` wrote; nothing in the file is executed.

    Raises:
        InputError: There is no such file.
        FileFormatError: The file is corrupt, of an unknown version, or something else altogether.
    """
    name = str(check_file(path))
    try:
        with safe_open(name, framework="numpy") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT or metadata.get("version") != str(VERSION):
                raise FileFormatError(f"{name} is not a timeline of version {VERSION}.")
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        header = json.loads(metadata["timeline"])
        return _assemble(arrays, header)
    except (SafetensorError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise FileFormatError(f"{name} is not a readable timeline: {error}") from error


def _assemble(arrays: dict[str, np.ndarray], header: dict) -> Timeline:
    origin, basis, domain, anchors = (arrays[f"slice/{part}"] for part in _SLICE)
    view = Slice(origin, basis, domain, anchors)
    sites = tuple(Site(**{**site, "shape": tuple(site["shape"])}) for site in header["sites"])
    tilings = tuple(
        Tiling(
            slice=view,
            vertices=arrays[f"{i}/vertices"],
            tiles=Cells(arrays[f"{i}/offsets"], arrays[f"{i}/corners"]),
            values=arrays.get(f"{i}/values"),
            sites=sites,
            rtol=header["rtol"],
            ending=header["ending"],
            fingerprint=fingerprint,
            complete=True,
            corner_labels=arrays[f"{i}/labels"],
            network=None,
        )
        for i, fingerprint in enumerate(header["fingerprints"])
    )
    measures = {key.split("/", 1)[1]: value for key, value in arrays.items() if key.startswith("measures/")}
    return Timeline(arrays["steps"], tilings, measures, header["radius"], header["near"])
