"""A tiling as one self-contained page to explore."""

from __future__ import annotations

import base64
import html
import json
import os
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from .._checks import check_whole
from .._errors import InputError
from .._files import replacing
from ..tiling.quantities import available, corner_depths, tile_quantity

if TYPE_CHECKING:
    from ..tiling import Tiling


def write_page(
    tiling: Tiling,
    path: str | os.PathLike[str],
    *,
    title: str = "Tiling",
    color: str | None = None,
    max_tiles: int = 200_000,
) -> None:
    """Write a page with pan, zoom and hover; see `Tiling.to_html`."""
    text = render_page(tiling, title=title, color=color, max_tiles=max_tiles)
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def render_page(tiling: Tiling, *, title: str = "Tiling", color: str | None = None, max_tiles: int = 200_000) -> str:
    """The page as text: template, viewer and data (arrays in base64) in one, with no links out."""
    web = resources.files(__package__) / "web"
    data = json.dumps(page_data(tiling, title=title, color=color, max_tiles=max_tiles))
    page = (web / "tiling.html").read_text(encoding="utf-8")
    page = page.replace("{{title}}", html.escape(title))
    page = page.replace("{{viewer}}", (web / "viewer.js").read_text(encoding="utf-8"))
    return page.replace("{{data}}", data.replace("<", "\\u003c"))  # the text may not end its script element


def page_data(
    tiling: Tiling, *, title: str = "Tiling", color: str | None = None, max_tiles: int = 200_000
) -> dict[str, Any]:
    """What the viewer draws, ready for JSON; typed arrays as `{"dtype", "base64"}`."""
    if tiling.dimension != 2:
        raise InputError("a page shows 2-D tilings, got a 1-D one: tiling.plot() draws it as a graph.")
    if tiling.count > check_whole(max_tiles, "max_tiles"):
        raise InputError(
            f"the tiling has {tiling.count} tiles, over max_tiles={max_tiles}: tile a smaller slice, draw it with "
            "plot(), or raise max_tiles (the page then takes longer to open)."
        )
    names = available(tiling)
    if color is not None:
        tile_quantity(tiling, color)  # refuses unknown names and what this tiling cannot give
        names.sort(key=lambda name: name != color)
    quantities = []
    for name in names:
        quantity = tile_quantity(tiling, name)
        low, high = quantity.limits
        quantities.append(
            {"name": name, "label": quantity.label, "log": quantity.log, "low": low, "high": high,
             "categories": quantity.categories, "values": _array(quantity.values, np.float32)}
        )  # fmt: skip
    boundary = tiling.decision_boundary().segments if tiling.values is not None else np.zeros((0, 2, 2))
    return {
        "title": title,
        "notes": _notes(tiling),
        "vertices": _array(tiling.vertices, np.float64),
        "offsets": _array(tiling.tiles.offsets, np.uint32),
        "corners": _array(tiling.tiles.corners, np.uint32),
        "depths": _array(np.minimum(corner_depths(tiling), 254), np.uint8),
        "domain": tiling.slice.domain.ravel().tolist(),
        "anchors": tiling.slice.anchors.ravel().tolist(),
        "boundary": _array(boundary, np.float64),
        "quantities": quantities,
    }


def _notes(tiling: Tiling) -> list[tuple[str, str]]:
    areas = tiling.areas
    notes = [
        ("tiles", f"{tiling.count:,}"),
        ("vertices", f"{len(tiling.vertices):,}"),
        ("folding sites", str(len(tiling.sites))),
        ("units", f"{sum(site.units for site in tiling.sites):,}"),
        ("area", f"{tiling.slice.size:.5g}"),
        ("median tile", f"{np.median(areas):.3g}"),
        ("input shape", " × ".join(map(str, tiling.slice.input_shape))),
        ("tolerance", f"{tiling.rtol:g}"),
    ]
    if tiling.ending is not None:
        notes.append(("before", tiling.ending))
    if not tiling.complete:
        notes.append(("INCOMPLETE", "a limit stopped the work"))
    return notes


def _array(values: np.ndarray, dtype: type) -> dict[str, str]:
    little = np.ascontiguousarray(values, np.dtype(dtype).newbyteorder("<"))
    return {"dtype": np.dtype(dtype).name, "base64": base64.b64encode(little.tobytes()).decode("ascii")}
