"""How each layer subdivides the tiles of the layers before it: are the parts like the whole?

The tiles of the first l layers are unions of final tiles: those joined by walls that later layers made. Layer l + 1
cuts each of them by some of its folds. If cutting were alike at every scale, a small tile would be cut by as many folds
as a large one; if the next layer's folds lay about with no regard to the tiles, by a number proportional to its size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from splinescope.support.display import Certainty, Result, table
from splinescope.support.errors import InputError
from splinescope.tiling.cells.lists import connected
from splinescope.tiling.measures.folds import need_tiling

from ..arguments import check_names

if TYPE_CHECKING:
    from splinescope.tiling.tiling import Tiling


@dataclass(frozen=True, eq=False, repr=False)
class Level(Result):
    """The tiles of the first `depth` layers and how the next layer cuts them; exact.

    Attributes:
        depth: l, the number of layers whose tiles these are; 0 is the domain itself.
        sizes: `[P]` their areas (1-D lengths, 3-D volumes) to the power 1/d: lengths.
        cuts: `[P]` by how many folds of layer l + 1 each is cut.
        children: `[P]` into how many tiles of the first l + 1 layers.
        sides: `[P]` how many sides it has; -1 for one that touches the rim of the slice.
        shares: `[Q]` of the children of tiles that are cut: their area over the mean of their siblings.
        parents: `[Q]` the number of the tile whose child each of these is.
        jumps: `[W]` at each wall that layer l + 1 made: `|A - A'|` over the mean of `|A|` and `|A'|`, A and A' the maps
            on its two sides; empty without values.
    """

    depth: int
    sizes: np.ndarray
    cuts: np.ndarray
    children: np.ndarray
    sides: np.ndarray
    shares: np.ndarray
    parents: np.ndarray
    jumps: np.ndarray
    certainty: Certainty = "exact"

    def __repr__(self) -> str:
        return f"Level(depth {self.depth}: {len(self.sizes)} tiles, {self.cuts.mean():.3g} cuts each, {self.certainty})"

    @cached_property
    def exponent(self) -> float:
        """The a in the law `cuts = c size^a`, 0 if all tiles are cut alike (self-similar), 1 if cuts come with size.

        By Poisson regression of the cuts on the logarithm of the size, an estimate from these tiles; nan if none is cut
        or all are of one size.
        """
        logs = np.log(self.sizes)
        if not self.cuts.any() or np.ptp(logs) < 1e-12:
            return float("nan")
        centered = logs - logs.mean()
        slope, level = 0.0, float(np.log(self.cuts.mean()))
        for _ in range(100):
            mean = np.exp(np.clip(level + slope * centered, -50, 50))
            gradient = np.array([(self.cuts - mean).sum(), ((self.cuts - mean) * centered).sum()])
            cross = (mean * centered).sum()
            matrix = np.array([[mean.sum(), cross], [cross, (mean * centered**2).sum()]])
            step = np.linalg.lstsq(matrix, gradient, rcond=None)[0]
            step *= min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))
            level, slope = level + float(step[0]), slope + float(step[1])
            if np.abs(step).max() < 1e-10:
                break
        return slope


@dataclass(frozen=True, eq=False, repr=False)
class Subdivision(Result):
    """Level by level, how the layers of a network subdivide a slice; exact.

    Attributes:
        levels: One per depth, from the domain on.
    """

    levels: tuple[Level, ...]
    certainty: Certainty = "exact"

    def __repr__(self) -> str:
        exponents = ", ".join(f"{level.exponent:.2f}" for level in self.levels[1:])
        return f"Subdivision({len(self.levels)} levels, exponents {exponents or '-'}, {self.certainty})"

    def summary(self) -> str:
        """A table by depth."""
        rows = [("depth", "tiles", "cuts each", "children each", "exponent", "spread of shares", "median jump")]
        for level in self.levels:
            spread = f"{level.shares.std():.3g}" if len(level.shares) else "-"
            jump = f"{np.median(level.jumps):.3g}" if len(level.jumps) else "-"
            rows.append((str(level.depth), f"{len(level.sizes):,}", f"{level.cuts.mean():.3g}",
                         f"{level.children.mean():.3g}", f"{level.exponent:.3g}", spread, jump))  # fmt: skip
        return f"{table(rows)}\nExponent 0: every tile is cut alike; 1: cuts come with size alone.\n{self.assurance}"


def subdivision(tiling: Tiling) -> Subdivision:
    """How each layer of a network subdivides the tiles of those before it; see `Subdivision` and `Level`.

    Args:
        tiling: Of any dimension, complete.

    Cost: a few passes over its walls per depth.

    Example:
        >>> import torch, splinescope as ss, splinescope_research
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 9), torch.nn.ReLU(), torch.nn.Linear(9, 9), torch.nn.ReLU(),
        ...                           torch.nn.Linear(9, 1))
        >>> found = splinescope_research.subdivision(ss.tessellate(net, ss.Slice.axes([0.0, 0.0], (0, 1), -3, 3)))
        >>> [level.depth for level in found.levels]
        [0, 1]

    Reference: Balestriero, Humayun, Baraniuk, "On the Geometry of Deep Learning", which asks whether tilings are
    self-similar.
    """
    need_tiling(tiling)
    depths = np.array([site.depth for site in tiling.sites], np.int64)
    levels = [_level(tiling, depths <= d, depths == d + 1, d) for d in range(int(depths.max(initial=0)))]
    return Subdivision(tuple(levels), tiling.certainty)


def cuts_within(tiling: Tiling, within: Sequence[str], by: Sequence[str]) -> Level:
    """How the folds of the sites at paths `by` cut the tiles of those at `within`: `subdivision` between any two parts.

    The two need not be connected: tile two networks side by side (their outputs concatenated) to see how the folds of
    one cut the tiles of the other, with which they have nothing to do.
    """
    need_tiling(tiling)
    paths = [site.path for site in tiling.sites]
    within, by = check_names(within, "within"), check_names(by, "by")
    unknown = [path for path in (*within, *by) if path not in paths]
    if unknown:
        raise InputError(
            f"sites must be paths of the tiling's sites, got {unknown[0]!r}; there are: {', '.join(paths)}."
        )
    both = [path for path in by if path in within]
    if both or not by:
        what = f"{both[0]!r} in both" if both else "none in by"
        raise InputError(f"within and by must be different sites, at least one of them in by; got {what}.")
    old, new = (np.array([path in chosen for path in paths]) for chosen in (within, by))
    return _level(tiling, old, new, max((s.depth for s in tiling.sites if s.path in within), default=0))


def _level(tiling: Tiling, within: np.ndarray, by: np.ndarray, depth: int) -> Level:
    """Sites by masks: the tiles that those of `within` make, cut by the folds of those of `by`."""
    if not tiling.complete:
        raise InputError("tiling must be complete, got one that a limit stopped: tiles are missing.")
    walls = tiling.walls
    inner = np.flatnonzero(walls.sites >= 0)
    pairs, numbers = walls.tiles[inner], walls.cuts[inner]
    old, made = within[walls.sites[inner]], by[walls.sites[inner]]
    parent, child = (connected(tiling.count, *pairs[joined].T) for joined in (~old, ~old & ~made))
    sizes, parts = (np.bincount(which, tiling.areas) for which in (parent, child))
    cuts = _distinct(parent[pairs[made, 0]], numbers[made], len(sizes))
    above = np.zeros(len(parts), np.int64)
    above[child] = parent
    children = np.bincount(above, minlength=len(sizes))
    around = np.concatenate([parent[pairs[old, 0]], parent[pairs[old, 1]]])
    sides = _distinct(around, np.tile(numbers[old], 2), len(sizes))
    sides[parent[walls.tiles[walls.sites < 0].max(1)]] = -1
    parents = above[children[above] > 1]
    shares = (parts * children[above] / sizes[above])[children[above] > 1]
    return Level(depth, sizes ** (1 / tiling.dimension), cuts, children, sides, shares, parents,
                 _jumps(tiling, pairs[made]), tiling.certainty)  # fmt: skip


def _distinct(owner: np.ndarray, numbers: np.ndarray, count: int) -> np.ndarray:
    """`[count]` how many different numbers each owner has."""
    found = np.unique(np.stack([owner, numbers], 1), axis=0) if len(owner) else np.zeros((0, 2), np.int64)
    return np.bincount(found[:, 0].astype(np.int64), minlength=count)


def _jumps(tiling: Tiling, pairs: np.ndarray) -> np.ndarray:
    """`[E]` relative difference of the maps on the two sides of walls; empty without values."""
    if tiling.values is None:
        return np.zeros(0)
    slopes = tiling.slopes().reshape(tiling.count, -1)
    a, b = slopes[pairs[:, 0]], slopes[pairs[:, 1]]
    size = 0.5 * (np.linalg.norm(a, axis=1) + np.linalg.norm(b, axis=1))
    return np.linalg.norm(a - b, axis=1) / np.where(size > 0, size, 1.0)
