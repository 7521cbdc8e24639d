"""`explore`, `tiles_in_ball`: the graph of tiles about an input, and exact local complexity in all dimensions."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from torch import nn

from ..network import SplineNetwork
from ..network.program import Site
from ..support.checks import check_index, check_positive, check_whole, require
from ..support.display import Certainty, Result, counted
from ..support.errors import InputError
from ..support.progress import Progress, telling
from ..tiling.measures.region_counts import zaslavsky
from .affine_rows import Pattern
from .cell import cell_at
from .polytope import UnresolvedError
from .search import Tiles, by_distance, by_hops
from .tile import Tile, checked_network, started

_EDGE = 1e-9  # of the radius: rounding hides whether a tile that begins so near to it meets the open ball


@dataclass(frozen=True, eq=False, repr=False)
class TileGraph(Result):
    """The tiles about an input, each once, and which of them share a facet.

    Attributes:
        x: `[*input_shape]` the input; tile 0 is its own.
        sites: The network's sites, in execution order.
        hops: `[K]` facets on a shortest way from tile 0, if they were explored by hops; else -1.
        distances: `[K]` distance of each tile from x, if they were explored by radius; else nan.
        complete: Whether these are all tiles that were asked for.
        stopped: Else what came first: a limit, or a tile whose walls are too close together for float64.
        ties: How many further tiles begin at the radius, up to rounding: they touch the ball, or meet it in a sliver.
    """

    x: np.ndarray
    sites: tuple[Site, ...]
    hops: np.ndarray
    distances: np.ndarray
    complete: bool
    stopped: str
    ties: int
    _tiles: Tiles = field(repr=False)

    @property
    def certainty(self) -> Certainty:
        """ "exact", or "bound" if a limit stopped it or tiles tie: there are at least so many tiles."""
        return "exact" if self.complete and not self.ties else "bound"

    @property
    def count(self) -> int:
        """How many tiles."""
        return len(self.hops)

    def __repr__(self) -> str:
        least = "" if self.certainty == "exact" else "at least "
        return f"TileGraph({least}{counted(self.count, 'tile')} of {counted(self.x.size, 'input')}, {self.certainty})"

    def pattern(self, tile: int) -> Pattern:
        """Per site, on which side of their folds the units are on a tile; for a max, who wins."""
        return self._tiles[check_index(tile, "tile", self.count)].rows.pattern

    def tile(self, tile: int) -> Tile:
        """One of the tiles, with its facets."""
        cell = self._tiles[check_index(tile, "tile", self.count)]
        return Tile(self.x, self.sites, cell.polytope.solve(), cell)

    @cached_property
    def _edges(self) -> np.ndarray:
        """`[E, 4]` both tiles, site and unit."""
        return np.array(self._tiles.edges(), np.int64).reshape(-1, 4)

    @property
    def edges(self) -> np.ndarray:
        """`[E, 2]` tiles that share a facet."""
        return self._edges[:, :2]

    @property
    def edge_units(self) -> np.ndarray:
        """`[E, 2]` site and unit of the fold between them."""
        return self._edges[:, 2:]

    def to_networkx(self) -> Any:
        """The graph as a `networkx.Graph`: nodes with `hops` and `distance`, edges with `site` and `unit`."""
        graph = require("networkx", "graph").Graph()
        for tile in range(self.count):
            graph.add_node(tile, hops=int(self.hops[tile]), distance=float(self.distances[tile]))
        for a, b, site, unit in self._edges.tolist():
            graph.add_edge(a, b, site=site, unit=unit)
        return graph

    def summary(self) -> str:
        """How many tiles, by hops or distance."""
        if (self.hops >= 0).all():
            layers = ", ".join(f"{n:,}" for n in np.bincount(self.hops))
            return f"{self!r}\nBy hops from the tile of x: {layers}.{_tied(self)}\n{self.assurance}"
        return f"{self!r}\nThe farthest is {np.nanmax(self.distances):.4g} from x.{_tied(self)}\n{self.assurance}"


@dataclass(frozen=True, eq=False, repr=False)
class BallTiles(Result):
    """How many tiles meet a ball about an input in the whole input space.

    Attributes:
        tiles: That number; where not `complete` or where tiles tie, at least so many.
        ties: How many further tiles begin at the radius, up to rounding: they touch the open ball, which is not
            counted, or meet it in a sliver. Where `complete`, there are at most `tiles + ties`.
        folds: Units whose fold meets the ball: what local complexity counts; where not `complete`, at least so many.
        units: All units of the network.
        radius: Of the ball.
        norm: 2 or infinity.
        input_size: D.
        complete: Whether all were counted.
        stopped: Else what came first: a limit, or a tile whose walls are too close together for float64.
    """

    tiles: int
    ties: int
    folds: int
    units: int
    radius: float
    norm: float
    input_size: int
    complete: bool
    stopped: str

    @property
    def certainty(self) -> Certainty:
        """ "exact", or "bound" if a limit stopped it or tiles tie: there are at least so many."""
        return "exact" if self.complete and not self.ties else "bound"

    @property
    def least(self) -> int:
        """folds + 1: at least so many tiles are there with so many folds, if no two of them coincide."""
        return self.folds + 1

    @property
    def most(self) -> int:
        """Zaslavsky's number for so many hyperplanes in D dimensions: a bound where no fold bends in the ball."""
        return zaslavsky(self.folds, max(1, min(self.folds, self.input_size)))

    def summary(self) -> str:
        """The count between its bounds."""
        least = "" if self.certainty == "exact" else "at least "
        tiles, folds = least + counted(self.tiles, "tile"), f"{self.folds:,} of {self.units:,} folds pass through it"
        few = counted(self.least, "tile")
        bounds = f": at least {few} if no two coincide, and at most {self.most:.4g} if none bends there"
        return (
            f"The ball of radius {self.radius:.4g} (norm {self.norm:g}) meets {tiles}.{_tied(self)}\n"
            f"{least.capitalize()}{folds}{'' if least else bounds}.\n{self.assurance}"
        )


def _tied(found: TileGraph | BallTiles) -> str:
    """Names the ties of a search, and what stopped it."""
    more, ending = ("", "") if found.complete else ("At least ", f" Stopped: {found.stopped}")
    return (f" {more}{counted(found.ties, 'more tile')} at its edge, within rounding." if found.ties else "") + ending


def explore(
    model: nn.Module | SplineNetwork,
    x: Any,
    *,
    hops: int | None = None,
    radius: float | None = None,
    max_tiles: int | None = None,
    time_limit: float | None = None,
    progress: Progress | bool | None = None,
) -> TileGraph:
    """The tiles about an input in the whole input space, and which of them are neighbors; exact, each once.

    Without any limit all tiles of the network are found, bounded or not; their number grows like (units)^D.

    Args:
        model: A torch module, or the result of `trace` or `load`.
        x: One input, `[*input_shape]`.
        hops: Tiles at most so many facets away.
        radius: Tiles that meet the open ball of this radius about x (Euclidean), in order of distance. Those that
            begin at the radius, up to rounding, are not in the graph: `ties` counts them.
        max_tiles: Stop at so many tiles.
        time_limit: Stop after so many seconds.
        progress: As in `tessellate`.

    Returns:
        The graph; where something `stopped` it, `complete` is False and what is there is exact.

    Cost: about 0.1 ms a tile of a network with tens of units; in large ones what `tile_at` costs for each tile whose
    neighbors are asked for.

    Example:
        >>> import torch, splinescope as ss
        >>> net = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.ReLU(), torch.nn.Linear(5, 1))
        >>> ss.space.explore(net, torch.zeros(3)).count  # five planes in space: 1 + 5 + 10 + 10
        26
    """
    if hops is not None and radius is not None:
        raise InputError("give hops or radius, not both.")
    tiles, far, stopped, ties = _search(model, x, hops, radius, 2, max_tiles, time_limit, progress)
    tiles.forget(len(far))
    none, space = np.full(len(far), np.nan), tiles[0].space
    steps, distances = (far.astype(np.int64), none) if radius is None else (np.full(len(far), -1), far)
    return TileGraph(space.origin, space.program.sites, steps, distances, not stopped, stopped, ties, tiles)


def tiles_in_ball(
    model: nn.Module | SplineNetwork,
    x: Any,
    radius: float,
    *,
    norm: float = 2,
    max_tiles: int | None = None,
    time_limit: float | None = None,
    progress: Progress | bool | None = None,
) -> BallTiles:
    """How many tiles meet the open ball about an input: local complexity as the survey defines it, in all dimensions.

    Exact: tiles are met in order of distance. Those that begin at the radius, up to rounding, are counted apart, as
    `ties`. Beside the count stand the number N of folds in the ball, N + 1 and Zaslavsky's bound.

    Args:
        model: A torch module, or the result of `trace` or `load`.
        x: One input, `[*input_shape]`.
        radius: Of the ball.
        norm: 2, or `math.inf` for a cube (a linear program per wall: slow beyond some 50 inputs).
        max_tiles, time_limit: Limits; what was counted by then is a proven lower bound, and `complete` is False.
        progress: As in `tessellate`.

    Example:
        >>> import torch, splinescope as ss
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 1))
        >>> ball = ss.space.tiles_in_ball(net, torch.zeros(4), 0.3)
        >>> ball.least <= ball.tiles <= ball.most
        True

    Reference: Balestriero, Humayun, Baraniuk, "On the Geometry of Deep Learning", on local complexity.
    """
    radius, norm = check_positive(radius, "radius"), check_norm(norm)
    tiles, far, stopped, ties = _search(model, x, None, radius, norm, max_tiles, time_limit, progress)
    sites = zip(*(tiles[number].rows.pattern for number in range(len(far))), strict=True)
    folds = sum(int((np.stack(patterns) != patterns[0]).any(0).sum()) for patterns in sites)
    space = tiles[0].space
    units = sum(site.units for site in space.program.sites)
    return BallTiles(len(far), ties, folds, units, radius, norm, space.origin.size, not stopped, stopped)


def _search(
    model: object, x: Any, hops: int | None, radius: float | None, norm: float, max_tiles: int | None,
    time_limit: float | None, progress: Progress | bool | None,
) -> tuple[Tiles, np.ndarray, str, int]:  # fmt: skip
    """Tiles; hops or distances of those asked for, `[K]`; what stopped it ("": nothing); how many tie at the radius."""
    for name, value in (("hops", hops), ("max_tiles", max_tiles)):
        if value is not None:
            check_whole(value, name)
    radius = None if radius is None else check_positive(radius, "radius")
    clock = started(time_limit)
    network, point = checked_network(model, x)
    tiles = Tiles(cell_at(network.program(), point))
    far: list[float] = []
    stopped, edge = "", 0.0 if radius is None else _EDGE * radius
    with telling(progress, "exploring") as tell:

        def stop() -> bool:
            tell(min(len(far) / max_tiles, 1.0) if max_tiles else len(far) / (len(far) + 1000), f"{len(far):,} tiles")
            return clock.is_over

        found = (
            by_hops(tiles, stop, hops)
            if radius is None
            else by_distance(tiles, norm, lambda: -1.0 if stop() else radius + edge, clock)
        )
        try:
            for number, away in found:
                if max_tiles is not None and number >= max_tiles:
                    stopped = f"max_tiles={max_tiles} reached."
                    break
                far.append(away)
        except UnresolvedError as error:
            if len(far) == 1 and not clock.is_over:
                raise
            stopped = str(error)
    if clock.is_over:
        stopped = f"{clock.reached}."
    inside = len(far) if radius is None else int(np.searchsorted(far, radius - edge))
    return tiles, np.array(far[:inside]), stopped, len(far) - inside


def check_norm(norm: float) -> float:
    """`norm` as 2.0 or inf; others are refused."""
    if not (np.isscalar(norm) and norm in (2, math.inf)):
        raise InputError(f"norm must be 2 or math.inf, got {norm!r}.")
    return float(norm)
