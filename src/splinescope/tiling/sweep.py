"""`sweep_tiles`: exact numbers of tiles over width, depth and seed of a family of networks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from ..support.checks import check_module, check_whole
from ..support.display import Result, counted, table
from ..support.drawing import drawing
from ..support.errors import InputError
from ..support.progress import Progress, sharing
from ..support.worker_processes import call_each
from .networks import check_slice
from .slice import Slice
from .tessellate import tessellate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Build = Callable[[int, int, int], nn.Module]
"""(width, depth, seed) -> the network."""


@dataclass(frozen=True, eq=False, repr=False)
class TileSweep(Result):
    """Numbers of tiles on one slice over width, depth and seed.

    Attributes:
        widths: W widths.
        depths: D depths.
        seeds: S seeds.
        counts: `[W, D, S]` int64 numbers of tiles.
        units: `[W, D]` int64 units of the network.
        view: The slice.
    """

    widths: tuple[int, ...]
    depths: tuple[int, ...]
    seeds: tuple[int, ...]
    counts: np.ndarray
    units: np.ndarray
    view: Slice
    certainty = "exact"

    def __repr__(self) -> str:
        shape = ", ".join(counted(n, w) for n, w in zip(self.counts.shape, ("width", "depth", "seed"), strict=True))
        return f"TileSweep({shape}: {self.counts.min():,} to {self.counts.max():,} tiles, {self.certainty})"

    def records(self) -> list[dict[str, int]]:
        """One row for each network: width, depth, seed, units and tiles, ready for JSON or a data frame."""
        return [
            {"width": w, "depth": d, "seed": s, "units": int(self.units[i, j]), "tiles": int(self.counts[i, j, k])}
            for (i, w), (j, d), (k, s) in product(*map(enumerate, (self.widths, self.depths, self.seeds)))
        ]

    def summary(self) -> str:
        """A row for each width and depth: units, and the median, least and largest number of tiles over seeds."""
        rows: list[tuple[str, ...]] = [("width", "depth", "units", "tiles (median)", "least", "largest")]
        for (i, width), (j, depth) in product(enumerate(self.widths), enumerate(self.depths)):
            counts = self.counts[i, j]
            numbers = (width, depth, self.units[i, j], np.median(counts), counts.min(), counts.max())
            rows.append(tuple(f"{number:,.15g}" for number in numbers))
        return f"{self!r}\n{table(rows)}\n{self.assurance}"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Tiles over width on logarithmic axes, a line for each depth: medians over seeds, bands from least to most."""
        plot_tile_sweep = drawing("sweep.plot_tile_sweep")
        return plot_tile_sweep(self, ax)


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
    seeds: int | Sequence[int] = 5,
    build: Build | None = None,
    max_tiles: int | None = None,
    workers: int | None = None,
    progress: Progress | bool | None = None,
) -> TileSweep:
    """Count the tiles of a family of networks on one slice, over width, depth and seed.

    Args:
        view: The slice, the same for all.
        widths: Units of a hidden layer.
        depths: Hidden layers.
        seeds: That many (0, 1, ...), or the seeds themselves.
        build: (width, depth, seed) -> a network in evaluation mode that takes the slice's inputs: trained, normalised,
            of any kind. None: ReLU networks with torch's own initial weights.
        max_tiles: Stop with `LimitReached` beyond this many tiles of one network.
        workers: Share the networks between so many processes (by joblib, which may send them to a cluster).
        progress: None: shown once it takes a few seconds; True, False, or a function of (share done, what it is at).

    Returns:
        A `TileSweep`: `.counts` `[widths, depths, seeds]`, `.plot()`, `.summary()`, `.records()`.

    Cost: one tiling for each network.

    Example:
        >>> import splinescope as ss
        >>> view = ss.Slice.axes([0.0, 0.0], (0, 1), -2, 2)
        >>> found = ss.tiling.sweep_tiles(view, widths=(4, 8), depths=(1, 2), seeds=3)
        >>> found.counts.shape, bool((found.counts[0, 0] <= 11).all())  # 4 lines make at most 11 regions
        ((2, 2, 3), True)
    """
    check_slice(view)
    chosen = {"widths": _numbers(widths, "widths", 1), "depths": _numbers(depths, "depths", 1)}
    chosen["seeds"] = tuple(range(check_whole(seeds, "seeds"))) if _is_one(seeds) else _numbers(seeds, "seeds", 0)
    if build is not None and not callable(build):
        raise InputError(f"build must be a function (width, depth, seed) -> network, got {type(build).__name__}.")
    if build is not None:
        _check_takes_three(build)
    make = build or partial(relu_network, prod(view.input_shape))
    count = partial(_count, make, view, max_tiles)
    cases = list(product(*chosen.values()))
    names = [f"width {width}, depth {depth}, seed {seed}" for width, depth, seed in cases]
    found = np.zeros((len(cases), 2), np.int64)
    with sharing(progress, "tiles of networks") as report:
        results = (
            ((i, count(*case)) for i, case in enumerate(cases))
            if workers is None
            else call_each(count, cases, names, workers=workers)
        )
        for done, (i, result) in enumerate(results, 1):
            found[i] = result
            report(done / len(cases))
    shape = tuple(map(len, chosen.values()))
    tiles, units = (found[:, k].reshape(shape) for k in (0, 1))
    return TileSweep(chosen["widths"], chosen["depths"], chosen["seeds"], tiles, units[:, :, 0], view)


def _count(build: Build, view: Slice, max_tiles: int | None, width: int, depth: int, seed: int) -> tuple[int, int]:
    """Tiles and units of one network."""
    model = check_module(build(width, depth, seed), f"what build({width}, {depth}, {seed}) returns", read=False)
    tiling = tessellate(model, view, max_tiles=max_tiles, progress=False)
    return tiling.count, sum(site.units for site in tiling.sites)


def _check_takes_three(build: Build) -> None:
    try:
        signature = inspect.signature(build)
    except ValueError:  # written in C: what it takes is not known before it is called
        return
    try:
        signature.bind(1, 1, 0)
    except TypeError as error:
        raise InputError(f"build must take (width, depth, seed), got a function of {signature}: {error}.") from error


def _is_one(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _numbers(given: Any, name: str, least: int) -> tuple[int, ...]:
    """Different whole numbers, in the order given."""
    try:
        numbers = tuple(check_whole(value, name, least=least) for value in given)
    except TypeError as error:
        raise InputError(f"{name} must be whole numbers, e.g. (8, 16, 32), got {given!r}.") from error
    if not numbers or len(set(numbers)) < len(numbers):
        raise InputError(f"{name} must be one or more different whole numbers, got {given!r}.")
    return numbers
