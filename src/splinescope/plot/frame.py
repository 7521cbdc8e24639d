"""Frames: what the viewer draws, as bytes. `web/frame.js` reads them."""

import json
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..support.checks import as_float64_array, check_whole
from ..support.errors import InputError
from ..tiling import Tiling
from ..tiling.measures.quantities import QUANTITIES, Quantity, available, corner_depths, tile_quantity
from ._fewer import shares, shown_tiles

FEW = 20_000
"""Up to this many tiles a frame has quantities that take a pass through the network per tile, too: minutes for a large
tiling of a convolutional network."""
MOST_TILES = 2_000_000
"""A frame of a plane has at most so many (some 75 bytes each), and the largest others of a raster: browsers read no
text of over 512 MB, and need several times as much to draw it."""
_DTYPES = ("float64", "float32", "uint32", "int32", "uint16", "uint8")


def pack(content: Any) -> bytes:
    """Nested dicts and lists as JSON, with the numpy arrays among them as raw little-endian bytes.

    Layout: uint32 length of the JSON text, the text padded to a multiple of 8, then the arrays, each 8-aligned. In
    the text an array is `{"$": [dtype, first byte after the text, count]}`; its shape is not kept.
    """
    return b"".join(packed_pieces(content))


def packed_pieces(content: Any) -> Iterator[bytes | memoryview]:
    """The bytes of `pack` piece by piece: arrays are looked at where they are, not copied."""
    arrays: list[np.ndarray] = []
    size = 0

    def plain(value: Any) -> Any:
        nonlocal size
        if isinstance(value, np.generic):
            return value.item()
        if not isinstance(value, np.ndarray):
            raise TypeError(f"a frame holds JSON and arrays, got {type(value).__name__}")
        if value.dtype.name not in _DTYPES:
            raise TypeError(f"arrays of a frame are {', '.join(_DTYPES)}, got {value.dtype}")
        arrays.append(np.ascontiguousarray(value, value.dtype.newbyteorder("<")).reshape(-1))
        place = {"$": [value.dtype.name, size, value.size]}
        size += value.nbytes + -value.nbytes % 8
        return place

    text = json.dumps(content, default=plain, allow_nan=False).encode()
    yield struct.pack("<I", len(text)) + text + b"\0" * (-(4 + len(text)) % 8)
    for array in arrays:
        yield array.view(np.uint8).data
        yield b"\0" * (-array.nbytes % 8)


def tiling_frame(
    tiling: Tiling, *, title: str = "Tiling", color: str | None = None, only: Sequence[str] | None = None,
    x: Any = None, y: Any = None, max_tiles: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """What the viewer draws of a 2-D tiling, colored by `color` first, ready for `pack`.

    `only` names the quantities to send; by default all that this tiling can give, but those that run the network on
    every tile only where there are few tiles. Inputs `x` (the slice's anchors by default) are marked by their classes
    `y`. Of more than `max_tiles` some are left out, and the notes say so: see `_fewer`.
    """
    if tiling.dimension != 2:
        raise InputError(f"tiling_frame needs a 2-D tiling, got a {tiling.dimension}-D one.")
    places, classes = marks(tiling, x, y)
    notes = notes_of(tiling)
    if max_tiles is None or tiling.count <= check_whole(max_tiles, "max_tiles"):
        shown = shown_tiles(tiling, MOST_TILES)
    else:
        shown = shown_tiles(tiling, *shares(max_tiles))
    tiling = shown.tiling
    if shown.note is not None:
        notes.insert(1, shown.note)
    values = tiling.values
    boundary = np.zeros((0, 2, 2)) if values is None else tiling.decision_boundary().segments
    return {
        "title": title,
        "notes": notes,
        "numbers": shown.numbers,
        "rest": shown.raster,
        "vertices": tiling.vertices,
        "offsets": tiling.tiles.offsets.astype(np.uint32),
        "corners": tiling.tiles.corners.astype(np.uint32),
        "depths": np.minimum(corner_depths(tiling), 254).astype(np.uint8),
        "domain": tiling.view.domain.ravel().tolist(),
        "anchors": places.ravel().tolist(),
        "labels": classes,
        "boundary": np.asarray(boundary, np.float64),
        "values": np.zeros(0, np.float32) if values is None else values.astype(np.float32),
        "quantities": [quantity_frame(tile_quantity(tiling, name)) for name in chosen_quantities(tiling, color, only)],
    }


def marks(tiling: Tiling, x: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Slice coordinates `[N, d]` and classes `[N]` (or none) of the points to mark: by default the slice's anchors."""
    if x is None:
        if y is not None:
            raise InputError("y are the classes of x: give x, too.")
        return tiling.view.anchors, np.zeros(0, np.int32)
    inputs = as_float64_array(x, "x")
    shape = tiling.view.input_shape
    if inputs.shape[1:] != shape:
        raise InputError(f"x must have shape (N, {', '.join(map(str, shape))}), got {inputs.shape}.")
    classes = np.zeros(0, np.int32) if y is None else as_float64_array(y, "y").astype(np.int32)
    if y is not None and (classes.shape != (len(inputs),) or (classes < 0).any()):
        raise InputError(f"y must be {len(inputs)} class numbers from 0 on, one per point, got {classes.shape}.")
    return tiling.view.coordinates(inputs), classes


def chosen_quantities(tiling: Tiling, color: str | None, only: Sequence[str] | None) -> list[str]:
    """Names of the quantities of a frame, `color` first; see `tiling_frame`."""
    names = available(tiling)
    if color is not None:
        tile_quantity(tiling, color)  # refuses unknown names and what this tiling cannot give
        names.sort(key=lambda name: name != color)
    if only is not None:
        names = [name for name in names if name in only]
    elif tiling.count > FEW:
        names = [name for name in names if name == color or not QUANTITIES[name].runs_network]
    return names


def quantity_frame(quantity: Quantity, tiles: np.ndarray | None = None) -> dict[str, Any]:
    """A quantity as the viewer takes it, of some tiles or of all."""
    low, high = quantity.limits
    values = quantity.values if tiles is None else quantity.values[tiles]
    counts = np.issubdtype(values.dtype, np.integer) and values.size and values.min() >= 0 and values.max() < 1 << 16
    return {
        "name": quantity.name,
        "label": quantity.label,
        "log": quantity.log,
        "low": low,
        "high": high,
        "categories": quantity.categories,
        "values": values.astype(np.uint16 if counts else np.float32),
    }


def notes_of(tiling: Tiling) -> list[tuple[str, str]]:
    """What stands beside the picture."""
    areas = tiling.areas
    notes = [
        ("tiles", f"{tiling.count:,}"),
        ("vertices", f"{len(tiling.vertices):,}"),
        ("folding sites", str(len(tiling.sites))),
        ("units", f"{sum(site.units for site in tiling.sites):,}"),
        ("area" if tiling.dimension == 2 else "volume", f"{tiling.view.size:.5g}"),
        ("median tile", f"{np.median(areas):.3g}" if len(areas) else "none"),
        ("input shape", " × ".join(map(str, tiling.view.input_shape))),
        ("tolerance", f"{tiling.rtol:g}"),
    ]
    if tiling.ending is not None:
        notes.append(("before", tiling.ending))
    if not tiling.complete:
        notes.append(("INCOMPLETE", "a limit stopped the work"))
    return notes
