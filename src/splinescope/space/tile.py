"""`tile_at`: the tile of an input in the whole input space, its true walls and what lies behind them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from torch import nn

from ..network import SplineNetwork, trace
from ..network.program import Site, site_names
from ..network.readable import check_exact
from ..support.checks import as_float64_array, check_index, check_module, check_positive, check_whole
from ..support.display import Certainty, Result, counted, table
from ..support.drawing import drawing
from ..support.errors import InputError, UnsupportedModelError
from ..support.progress import Progress, check_progress, telling
from ..tiling.engine.time_limit import Clock
from .affine_rows import Coordinates, Pattern
from .cell import Cell, cell_at, nearest_cell
from .polytope import is_bounded, largest_ball
from .search import load_once

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class Facet(Result):
    """A wall of a tile: a unit's fold where it bounds the tile.

    Attributes:
        site: Number of the site whose fold it is (the first one, where folds coincide); -1: a side of the box.
        unit: Of that site; for the box, which input.
        rival: For a max, which competitor of the window takes over behind it; else -1.
        coincide: All (site, unit) whose folds lie along it.
        plane_distance: Distance of x to the facet's hyperplane.
        normal: `[*input_shape]` of length 1, into the tile.
        point: `[*input_shape]` an input inside the facet.
    """

    site: int
    unit: int
    rival: int
    coincide: tuple[tuple[int, int], ...]
    plane_distance: float
    normal: np.ndarray
    point: np.ndarray
    _tile: Tile = field(repr=False)
    _wall: int = field(repr=False)
    certainty: ClassVar[Certainty] = "exact"

    @cached_property
    def _nearest(self) -> tuple[float, np.ndarray]:
        far, change = self._tile._cell.distance(self._wall)
        assert change is not None
        return far, self._tile.x + change.reshape(self._tile.x.shape)

    @property
    def distance(self) -> float:
        """Distance of x to the facet itself, which may end before its hyperplane comes nearest."""
        return self._nearest[0]

    @property
    def nearest(self) -> np.ndarray:
        """`[*input_shape]` the input of the facet that is nearest to x."""
        return self._nearest[1]


@dataclass(frozen=True, eq=False, repr=False)
class Tile(Result):
    """The tile of an input in the whole input space: `{x' : normals x' + offsets >= 0}`.

    Attributes:
        x: `[*input_shape]` the input.
        sites: The network's S sites, in execution order.
        complete: Whether every halfspace was decided on; else `undecided` ones may be walls too.
        reach: With `nearest`, distance of the nearest hyperplane left out; nearer than that, facets are all there.
    """

    x: np.ndarray
    sites: tuple[Site, ...]
    complete: bool
    _cell: Cell = field(repr=False)
    reach: float = np.inf

    @property
    def certainty(self) -> Certainty:
        """ "exact", or "bound" if a limit left halfspaces out or undecided: the facets are some of the true ones."""
        return "exact" if self.complete else "bound"

    def __repr__(self) -> str:
        units, sides = np.bincount(self._cell.rows.owners[:, 0] < 0, minlength=2).tolist()
        where = f"{self.x.size} inputs, {counted(len(self.facets), 'facet')} of {units:,} units"
        where += f" and {sides:,} sides of the box" if sides else ""
        within = f" within {self.reach:.4g} of x" if np.isfinite(self.reach) else ""
        return f"Tile({where}{within}, ball of radius {self.radius:.4g} about x, {self.certainty})"

    @property
    def pattern(self) -> Pattern:
        """Per site `[U]`: which units are on their positive side (bool); for a max, who wins each window (int)."""
        return self._cell.rows.pattern

    @property
    def A(self) -> np.ndarray:
        """`[C, D]` matrix of the affine map that the network (before any softmax at its end) is on the tile."""
        return self._cell.space.directions(self._cell.rows.slopes)

    @property
    def c(self) -> np.ndarray:
        """`[C]` its constant: the network is `A x + c`."""
        return self._cell.rows.values - self.A @ self.x.reshape(-1)

    @cached_property
    def normals(self) -> np.ndarray:
        """`[n, D]` of length 1, into the tile: one row for each unit that is not constant on it, then the box."""
        return self._cell.space.directions(self._cell.rows.normals)

    @cached_property
    def offsets(self) -> np.ndarray:
        """`[n]` such that `normals @ x' + offsets` are the distances to the hyperplanes."""
        return self._cell.rows.heights - self.normals @ self.x.reshape(-1)

    @property
    def halfspace_units(self) -> np.ndarray:
        """`[n, 2]` site and unit of each row of `normals`; sides of the box have site -1."""
        return self._cell.rows.owners[:, :2]

    @cached_property
    def facets(self) -> tuple[Facet, ...]:
        """The true walls, nearest hyperplane first."""
        cell, shape = self._cell, self.x.shape
        polytope = cell.polytope
        walls = np.flatnonzero(polytope.state == 1)
        walls = walls[np.argsort(polytope.heights[walls], kind="stable")]
        normals = cell.space.directions(polytope.normals[walls])
        points = cell.space.inputs(polytope.points[walls])
        found = []
        for wall, normal, point in zip(walls.tolist(), normals, points, strict=True):
            units = cell.units(wall).tolist()
            site, unit, rival = units[0]
            coincide, far = tuple((s, u) for s, u, _ in units), max(float(polytope.heights[wall]), 0.0)
            found.append(Facet(site, unit, rival, coincide, far, normal.reshape(shape), point, self, wall))
        return tuple(found)

    @property
    def undecided(self) -> int:
        """How many halfspaces a limit left undecided."""
        return int((self._cell.polytope.state < 0).sum())

    @property
    def on_folds(self) -> tuple[tuple[int, int], ...]:
        """Folds that pass through x, as (site, unit): the tile is then one of several that meet there."""
        return self._cell.on

    @property
    def radius(self) -> float:
        """Radius of the largest ball about x in the tile: how far the affine map is the network itself."""
        return float(max(0.0, self._cell.polytope.heights.min(initial=np.inf)))

    @cached_property
    def largest_ball(self) -> tuple[np.ndarray, float]:
        """Center `[*input_shape]` and radius of a largest ball in the tile; inf if it holds balls of any size.

        With `nearest` it is that of the halfspaces kept: an upper bound.
        """
        center, radius = largest_ball(*self._cell.polytope.kept)
        return self._cell.space.inputs(center[None])[0], radius

    @cached_property
    def bounded(self) -> bool:
        """Whether the tile (in the box, if one was given) is bounded."""
        if self._cell.box is not None:
            return True
        return self.x.size == self._cell.space.dimension and is_bounded(self._cell.polytope.kept[0], self.x.size)

    def layer_shares(self) -> np.ndarray:
        """`[S]` share of the facets that belong to each site; with a box `[S + 1]`, its sides last."""
        layers = len(self.sites) + (self._cell.box is not None)
        sites = np.array([facet.site % layers for facet in self.facets], np.int64)
        return np.bincount(sites, minlength=layers) / max(1, len(sites))

    def contains(self, x: Any) -> np.ndarray:
        """`[N]` whether inputs `[N, *input_shape]` lie in the tile, walls included, up to rounding.

        With `nearest`, whether that is known: inputs beyond `reach` are not in it.
        """
        rows = as_float64_array(x, "x")
        if rows.shape[1:] != self.x.shape or rows.ndim == 0:
            raise InputError(f"x must have shape (N, {', '.join(map(str, self.x.shape))}), got {rows.shape}.")
        normals, heights = self._cell.polytope.kept
        above = self._cell.space.coordinates(rows) @ normals.T + heights
        size = 1e-12 * (1 + np.abs(rows).reshape(len(rows), self.x.size).max(1, initial=0.0))[:, None]
        far = np.linalg.norm((rows - self.x).reshape(len(rows), self.x.size), axis=1)
        return (above >= -size).all(1) & (far <= self.reach)

    def across(self, facet: Facet | int, *, progress: Progress | bool | None = None) -> Tile:
        """The tile behind a facet (or its number), seen from the same x: units along the facet change sides."""
        if not isinstance(facet, Facet):
            facet = self.facets[check_index(facet, "facet", len(self.facets))]
        if facet._tile is not self:
            raise InputError("facet must be one of this tile's own facets.")
        if facet.site < 0:
            raise InputError(f"facet must be a fold, got the side of the box at input {facet.unit}.")
        return _tile(self.x, self.sites, self._cell.across(facet._wall), Clock(), progress)

    def neighbors(self, *, progress: Progress | bool | None = None) -> list[Tile]:
        """The tiles behind all facets, in the order of `facets` (without the sides of a box)."""
        inner = [facet for facet in self.facets if facet.site >= 0]
        found = []
        with telling(progress, "neighbors") as tell:
            for i, facet in enumerate(inner):
                tell(i / len(inner), f"{i:,} of {len(inner):,} tiles")
                found.append(self.across(facet, progress=False))
        return found

    def summary(self) -> str:
        """Walls by site, balls, and how sure it is."""
        rows = [("site", "units", "facets", "share", "nearest")]
        names, units = [*site_names(self.sites), "sides of the box"], [site.units for site in self.sites]
        for number, share in enumerate(self.layer_shares()):
            own = [facet for facet in self.facets if facet.site in (number, number - len(names))]
            nearest = f"{own[0].plane_distance:.4g}" if own else "-"
            rows.append((names[number], str([*units, 2 * self.x.size][number]), str(len(own)), f"{share:.0%}", nearest))
        words = [f"{self!r}\n{table(rows)}"]
        if np.isfinite(self.reach):
            words.append(f"Hyperplanes farther than {self.reach:.4g} from x were left out: nearer, these are all.")
        else:
            edge = "Bounded" if self.bounded else "Unbounded"
            words.append(f"{edge}; the largest ball in it has radius {self.largest_ball[1]:.4g}.")
        if self.on_folds:
            words.append(f"x lies on {counted(len(self.on_folds), 'fold')}: this is one of the tiles that meet there.")
        if ending := self._cell.space.program.ending:
            words.append(f"A and c are the map before the {ending} at the end.")
        if self.undecided:
            words.append(f"{counted(self.undecided, 'halfspace')} undecided: there may be more facets.")
        return "\n".join([*words, self.assurance])

    def plot(self, *, count: int = 5, ax: Axes | None = None) -> Axes:
        """Draw the nearest facets: for images the change that crosses each fold, else their distances by site."""
        return drawing("space.plot_tile")(self, count=count, ax=ax)


def tile_at(
    model: nn.Module | SplineNetwork,
    x: Any,
    *,
    box: tuple[Any, Any] | None = None,
    nearest: int | None = None,
    time_limit: float | None = None,
    progress: Progress | bool | None = None,
) -> Tile:
    """The tile of one input in the whole input space: its exact map, its true walls, how far they are.

    The tile is the polytope `{x' : N x' + o >= 0}` with a row for each unit of each layer (for a max, one for each
    competitor that does not win). Few of these halfspaces are walls: a *facet* is one that the tile touches along.
    Exact, up to rounding: rays that meet them first prove facets, combinations of facets imply the other halfspaces.

    Args:
        model: A torch module, or the result of `trace` or `load`.
        x: One input, `[*input_shape]` or `[1, *input_shape]`. Where folds pass through x, the tile on one side of
            them is returned, and `on_folds` names them.
        box: Cut the tile to a box (low, high), numbers or inputs, which holds x. Its sides are facets with site -1. In
            hundreds of dimensions give a `time_limit` too.
        nearest: Keep only so many hyperplanes, the nearest to x, for networks whose halfspaces do not fit into memory.
            The result is exact within the tile's `reach`, which is 0 where more folds than that pass through x.
        time_limit: Seconds after which the halfspaces not looked at are left `undecided`; or one step more, such as
            the singular values of all halfspaces (0.3 s for 784-200x4 without a box).
        progress: As in `tessellate`.

    Raises:
        InputError: x does not fit, or the halfspaces would take over 1 GB (units times inputs): use `nearest` then.
        UnsupportedModelError: The model is not piecewise affine; all offending layers are named.

    Cost: a small problem of non-negative least squares per unit: some 0.5 CPU seconds for 784-200x4.

    Example:
        >>> import torch, splinescope as ss
        >>> net = torch.nn.Sequential(torch.nn.Linear(20, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
        >>> tile = ss.tile_at(net, torch.zeros(20))
        >>> len(tile.facets), tile.bounded
        (16, False)

    Reference: Clarkson, "More output-sensitive geometric algorithms", 1994, for the search of facets.
    """
    check_progress(progress)
    clock = started(time_limit)
    network, point = checked_network(model, x)
    program = network.program()
    if nearest is not None:
        if box is not None:
            raise InputError("give box or nearest, not both.")
        check_whole(nearest, "nearest")
        space = Coordinates(program, point)
        with telling(progress, "distances") as tell:
            cell, reach = nearest_cell(space, nearest, lambda share: tell(share, "of all folds"))
        return _tile(point, program.sites, cell, clock, progress, reach)
    limits = None if box is None else _as_box(box, point)
    cell = cell_at(program, point, limits)
    return _tile(point, program.sites, cell, clock, progress)


def started(time_limit: float | None) -> Clock:
    """The clock of a search: what a process loads and compiles only once is no part of its time."""
    if time_limit is not None:
        check_positive(time_limit, "time_limit")
        load_once()
    return Clock(time_limit)


def _tile(
    x: np.ndarray, sites: tuple[Site, ...], cell: Cell, clock: Clock, progress: Progress | bool | None,
    reach: float | None = None,
) -> Tile:  # fmt: skip
    polytope = cell.polytope
    with telling(progress, "facets") as tell:

        def stop(share: float) -> bool:
            tell(share, f"{int((polytope.state == 1).sum()):,} facets")
            return clock.is_over

        complete = polytope.solve(stop) if reach is None else cell.decide_within(reach, stop)
    if reach is None:
        return Tile(x, sites, complete, cell)
    return Tile(x, sites, complete and reach == np.inf and not (polytope.state < 0).any(), cell, reach)


def checked_network(model: object, x: Any, name: str = "x") -> tuple[SplineNetwork, np.ndarray]:
    """The network of a model and one input `[*input_shape]`, once they are found to fit."""
    point = as_float64_array(x, name)
    if isinstance(model, SplineNetwork):
        network = model
        if point.shape == (1, *network.input_shape):
            point = point[0]
    else:
        model = check_module(model)
        # Two axes are most often rows; where there are more, one input, or a batch of one.
        ways = {0: [point[None]], 1: [point[None]], 2: [point, point[None]]}.get(point.ndim, [point[None], point])
        refused: list[Exception] = []
        for batch in ways:
            try:
                network = trace(model, batch.copy())
            except (InputError, UnsupportedModelError) as error:
                refused.append(error)
            else:
                break
        else:
            raise refused[0]
        if len(batch) > 1:
            raise InputError(f"{name} must be one input, got {len(batch)} rows: shape {batch.shape}.")
        point = batch[0]
    if tuple(network.input_shape) != point.shape:
        raise InputError(f"{name} must be one input of shape {tuple(network.input_shape)}, got {point.shape}.")
    check_exact(network.program(), "`local_map` gives the affine map at a point.")
    return network, point


def _as_box(box: tuple[Any, Any], x: np.ndarray) -> np.ndarray:
    try:
        low, high = (np.broadcast_to(as_float64_array(end, "box"), x.shape).reshape(-1) for end in box)
    except (TypeError, ValueError) as error:
        raise InputError(f"box must be a pair of numbers or of inputs of shape {x.shape}, got {box!r}.") from error
    flat = x.reshape(-1)
    if not ((low < high) & (low <= flat) & (flat <= high)).all():
        raise InputError("box must hold x, and its low be below its high in every input.")
    return np.stack([low, high])
