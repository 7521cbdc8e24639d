"""Headers of version 1 of the tiling format, in today's words. Its arrays are those of planes and lines today.

Its sites knew of units alone, one per cut, and each stage of a max-pool's tournament was a site of its own. There was
no approximation, and no checksum.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def from_version_1(header: Mapping[str, Any]) -> dict[str, Any]:
    """The header of version 2 with the same meaning; KeyError, TypeError or ValueError if it is not of version 1."""
    return {**header, "sites": sites_from_version_1(header["sites"]), "approximation": None}


def sites_from_version_1(sites: Any) -> list[dict[str, Any]]:
    """With `cuts`, and the stages of each max-pool as one site of one unit per window.

    A stage has the shape (competitors left, windows); the last one leaves one. The shape that the windows form is not
    in the file: they stand in a row.
    """
    found: list[dict[str, Any]] = []
    cuts = 0  # of the stages so far
    for site in map(dict, sites):
        if "max_pool" not in site["op"]:
            found.append({**site, "cuts": site["units"]})
            continue
        left, windows = site["shape"]
        cuts += site["units"]
        if left == 1:
            found.append({**site, "shape": [windows], "units": windows, "cuts": cuts})
            cuts = 0
    if cuts:
        raise ValueError("a max-pool without its last stage")
    return found
