"""`sweep_tiles`: exact numbers of tiles over width, depth and seed of a family of networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np
import torch
from torch import nn

from ..support.checks import check_module, check_whole
from ..support.display import Result, table
from ..support.drawing import drawn
from ..support.errors import InputError
from ..support.progress import Progress, sharing
from ..tiling import Slice, tessellate
from ..tiling.networks import check_slice


@dataclass(frozen=True, eq=False, repr=False)
class TileSweep(Result):
    """Numbers of tiles on one slice: `counts` `[widths, depths, seeds]`; networks have `units` `[widths, depths]`."""

    widths: tuple[int, ...]
    depths: tuple[int, ...]
    counts: np.ndarray
    units: np.ndarray
    certainty = "exact"
    plot = drawn("tiling.plot_tile_sweep")

    def summary(self) -> str:
        """A row for each width and depth: units, and the median, least and largest number of tiles over seeds."""
        rows = [
            (self.widths[i], self.depths[j], n, np.median(of := self.counts[i, j]), of.min(), of.max())
            for (i, j), n in np.ndenumerate(self.units)
        ]
        told: list[tuple[str, ...]] = [("width", "depth", "units", "tiles (median)", "least", "largest")]
        told += [tuple(f"{number:,.15g}" for number in row) for row in rows]
        return f"{self!r}\n{table(told)}\n{self.assurance}"


def sweep_tiles(
    view: Slice, *, widths: Sequence[int], depths: Sequence[int] = (1,), seeds: int = 5,
    build: Callable[[int, int, int], nn.Module] | None = None, max_tiles: int | None = None,
    progress: Progress | bool | None = None,
) -> TileSweep:  # fmt: skip
    """Count the tiles of a family of networks on one slice, over width, depth and seed: exact, one tiling for each.

    `widths` are units of a hidden layer, `depths` numbers of hidden layers; seeds are 0, 1, ...; `build` makes, of
    (width, depth, seed), a network in evaluation mode that takes the slice's inputs: trained, normalized, of any kind.
    By default it is a ReLU network with torch's own initial weights. More than `max_tiles` tiles of one network raise
    `LimitReached`.

    Example:
        >>> import splinescope as ss
        >>> view = ss.Slice.axes([0.0, 0.0], (0, 1), -2, 2)
        >>> found = ss.complexity.sweep_tiles(view, widths=(4, 8), depths=(1, 2), seeds=3)
        >>> found.counts.shape, bool((found.counts[0, 0] <= 11).all())  # 4 lines make at most 11 regions
        ((2, 2, 3), True)
    """
    check_slice(view)
    widths, depths = _numbers(widths, "widths"), _numbers(depths, "depths")
    counts = np.zeros((len(widths), len(depths), check_whole(seeds, "seeds")), np.int64)
    units = np.zeros(counts.shape[:2], np.int64)
    with sharing(progress, "tiles of networks") as report:
        for done, (i, j, seed) in enumerate(np.ndindex(counts.shape), 1):
            size = widths[i], depths[j], seed
            model = _relu_network(prod(view.input_shape), *size) if build is None else build(*size)
            check_module(model, f"what build{size} returns", read=False)
            tiling = tessellate(model, view, max_tiles=max_tiles, progress=False)
            counts[i, j, seed], units[i, j] = tiling.count, sum(site.units for site in tiling.sites)
            report(done / counts.size)
    return TileSweep(widths, depths, counts, units)


def _numbers(given: Sequence[int], name: str) -> tuple[int, ...]:
    if not isinstance(given, Sequence | np.ndarray) or len(set(given)) < max(len(given), 1):
        raise InputError(f"{name} must be one or more different whole numbers, e.g. (8, 16, 32), got {given!r}.")
    return tuple(check_whole(number, name) for number in given)


def _relu_network(inputs: int, width: int, depth: int, seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        hidden = (module for a, b in pairwise([inputs, *[width] * depth]) for module in (nn.Linear(a, b), nn.ReLU()))
        return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(width, 1)).eval()
