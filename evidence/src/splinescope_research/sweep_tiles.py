"""`sweep_tiles`: exact numbers of tiles over width, depth and seed of a family of networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product
from math import prod
from typing import Any

import numpy as np
import torch
from torch import nn

from splinescope.support.checks import check_module, check_whole
from splinescope.support.display import Result, table
from splinescope.support.errors import InputError
from splinescope.support.progress import Progress, sharing
from splinescope.tiling import Slice, tessellate
from splinescope.tiling.networks import check_slice

from .drawings import plot_tile_sweep

Build = Callable[[int, int, int], nn.Module]
"""(width, depth, seed) -> the network."""


@dataclass(frozen=True, eq=False, repr=False)
class TileSweep(Result):
    """Numbers of tiles on one slice over width, depth and seed.

    Attributes:
        widths: W widths.
        depths: D depths.
        counts: `[W, D, seeds]` int64 numbers of tiles.
        units: `[W, D]` int64 units of the network.
        view: The slice.
    """

    widths: tuple[int, ...]
    depths: tuple[int, ...]
    counts: np.ndarray
    units: np.ndarray
    view: Slice
    certainty = "exact"

    def summary(self) -> str:
        """A row for each width and depth: units, and the median, least and largest number of tiles over seeds."""
        rows: list[tuple[str, ...]] = [("width", "depth", "units", "tiles (median)", "least", "largest")]
        for (i, width), (j, depth) in product(enumerate(self.widths), enumerate(self.depths)):
            counts = self.counts[i, j]
            numbers = (width, depth, self.units[i, j], np.median(counts), counts.min(), counts.max())
            rows.append(tuple(f"{number:,.15g}" for number in numbers))
        return f"{self!r}\n{table(rows)}\n{self.assurance}"

    plot = plot_tile_sweep


def relu_network(inputs: int, width: int, depth: int, seed: int) -> nn.Module:
    """A ReLU network of so many hidden layers and one output, with torch's own initial weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sizes = [inputs, *[width] * depth]
        hidden = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())]
        return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(width, 1)).eval()


def sweep_tiles(
    view: Slice,
    *,
    widths: Sequence[int],
    depths: Sequence[int] = (1,),
    seeds: int = 5,
    build: Build | None = None,
    max_tiles: int | None = None,
    progress: Progress | bool | None = None,
) -> TileSweep:
    """Count the tiles of a family of networks on one slice, over width, depth and seed. One tiling for each network.

    Args:
        view: The slice, the same for all.
        widths: Units of a hidden layer.
        depths: Hidden layers.
        seeds: How many: 0, 1, ...
        build: (width, depth, seed) -> a network in evaluation mode that takes the slice's inputs: trained, normalized,
            of any kind. None: ReLU networks with torch's own initial weights.
        max_tiles: Stop with `LimitReached` beyond this many tiles of one network.
        progress: None: shown once it takes a few seconds; True, False, or a function of (share done, what it is at).

    Example:
        >>> import splinescope as ss
        >>> from splinescope_research import sweep_tiles
        >>> view = ss.Slice.axes([0.0, 0.0], (0, 1), -2, 2)
        >>> found = sweep_tiles(view, widths=(4, 8), depths=(1, 2), seeds=3)
        >>> found.counts.shape, bool((found.counts[0, 0] <= 11).all())  # 4 lines make at most 11 regions
        ((2, 2, 3), True)
    """
    check_slice(view)
    widths, depths = _numbers(widths, "widths"), _numbers(depths, "depths")
    if build is not None and not callable(build):
        raise InputError(f"build must be a function (width, depth, seed) -> network, got {type(build).__name__}.")
    make = build or partial(relu_network, prod(view.input_shape))
    counts = np.zeros((len(widths), len(depths), check_whole(seeds, "seeds")), np.int64)
    units = np.zeros(counts.shape[:2], np.int64)
    with sharing(progress, "tiles of networks") as report:
        for done, (i, j, seed) in enumerate(np.ndindex(counts.shape), 1):
            given = f"{widths[i]}, {depths[j]}, {seed}"
            model = check_module(make(widths[i], depths[j], seed), f"what build({given}) returns", read=False)
            tiling = tessellate(model, view, max_tiles=max_tiles, progress=False)
            counts[i, j, seed], units[i, j] = tiling.count, sum(site.units for site in tiling.sites)
            report(done / counts.size)
    return TileSweep(widths, depths, counts, units, view)


def _numbers(given: Any, name: str) -> tuple[int, ...]:
    """Different whole numbers, in the order given."""
    try:
        numbers = tuple(check_whole(value, name) for value in given)
    except TypeError as error:
        raise InputError(f"{name} must be whole numbers, e.g. (8, 16, 32), got {given!r}.") from error
    if not numbers or len(set(numbers)) < len(numbers):
        raise InputError(f"{name} must be one or more different whole numbers, got {given!r}.")
    return numbers
