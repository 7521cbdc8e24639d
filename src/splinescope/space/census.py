"""How many folds there are in the whole input space: exact crossings of random lines, by Cauchy and Crofton."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from ..network import SplineNetwork, trace
from ..network.program import Program, Site
from ..support.checks import as_float64_array, check_generator, check_module, check_positive, check_whole
from ..support.display import Certainty, Result, table
from ..support.errors import InputError
from ..support.progress import Progress, sharing
from ..support.threads import one_torch_thread
from ..tiling.cells.tiles import OUTSIDE, Tiles
from ..tiling.engine.advance import Engine
from ..tiling.engine.assemble import assemble
from ..tiling.engine.options import CHUNK_BYTES
from ..tiling.engine.plan import make_plan
from ..tiling.engine.schedule import Work
from ..tiling.engine.time_limit import Clock
from ..tiling.measures.region_counts import crofton_constant

_BLOCK = 1024  # lines that are cut together: enough to be fast, few enough to tell how far it is
_BLOCK_BYTES = 64 << 20  # of their ends
_PROBES = 32  # lines that set the scale below which a pre-activation is zero, as in `tessellate`
_RTOL = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class FoldCensus(Result):
    """Folds of a network in a region of its whole input space, from exact crossings of random lines.

    Attributes:
        sites: The S sites, in execution order.
        crossings: `[S]` folds that a random line meets per unit of its length, on average over the region.
        errors: `[S]` their standard errors.
        by_point: `[N]` crossings of all sites per unit length in the ball about each point (one row for a box).
        by_point_errors: `[N]` their standard errors.
        input_size: D, the dimension of the input space.
        lines: How many lines were drawn for each point (or in the box).
        region: The region, in words.
    """

    sites: tuple[Site, ...]
    crossings: np.ndarray
    errors: np.ndarray
    by_point: np.ndarray
    by_point_errors: np.ndarray
    input_size: int
    lines: int
    region: str
    certainty: ClassVar[Certainty] = "estimate"

    def __repr__(self) -> str:
        return f"FoldCensus({self.total:.4g} ± {self.total_error:.2g} folds per unit length in {self.region}, estimate)"

    @property
    def total(self) -> float:
        """Folds of all sites that a random line meets per unit length."""
        return float(self.by_point.mean())

    @property
    def total_error(self) -> float:
        """Standard error of `total`."""
        return float(np.sqrt((self.by_point_errors**2).sum()) / len(self.by_point))

    @property
    def densities(self) -> np.ndarray:
        """`[S]` (D-1)-volume of each site's folds per D-volume of the region: crossings over `crofton_constant(D)`."""
        return self.crossings / crofton_constant(self.input_size)

    @property
    def density_errors(self) -> np.ndarray:
        """`[S]` standard errors of `densities`."""
        return self.errors / crofton_constant(self.input_size)

    def summary(self) -> str:
        """Crossings and densities by site."""
        rows = [("site", "op", "units", "folds per length", "± ", "per unit and length")]
        for site, mean, error in zip(self.sites, self.crossings, self.errors, strict=True):
            path = site.path or "-"
            rows.append((path, site.op, str(site.units), f"{mean:.4g}", f"{error:.2g}", f"{mean / site.units:.4g}"))
        units = str(sum(s.units for s in self.sites))
        rows.append(("all", "", units, f"{self.total:.4g}", f"{self.total_error:.2g}", ""))
        return f"{self!r}\n{table(rows)}\nEach crossing is exact; the mean is over {self.lines} random lines per point."


def fold_census(
    model: nn.Module | SplineNetwork,
    where: Any,
    *,
    radius: float | None = None,
    lines: int = 256,
    rtol: float | None = None,
    max_lines: int = 1 << 16,
    generator: torch.Generator | None = None,
    progress: Progress | bool | None = None,
) -> FoldCensus:
    """How densely the folds of a network lie in its whole input space, near given points or in a box.

    A line through a uniform point of the region in a uniform direction, cut off at the region's boundary, has its
    crossings with all folds counted exactly, by a 1-D tiling. The mean of crossings over length is an unbiased estimate
    of `c_D S / V`: S the (D-1)-volume of the folds in the region, V the region's volume, `c_D = crofton_constant(D)`.
    Where folds coincide, only the first in execution order counts. The number of tiles does not follow: lines do not
    see how folds cross each other.

    Args:
        model: A torch module, or the result of `trace` or `load`.
        where: With `radius`: points `[N, *input_shape]`, a ball about each. Without: a box (low, high), both of the
            input's shape; or two numbers, where the input's shape is known.
        radius: Radius of the balls.
        lines: Lines per ball, or in the box; with `rtol` the number to start with.
        rtol: Draw more until the standard error of the total is at most this fraction of it, or `max_lines` are drawn.
        max_lines: The most lines per ball.
        generator: Source of the lines; torch's own by default.
        progress: As in `tessellate`; with `rtol` the share is of `max_lines`, and may end early.

    Cost: one 1-D tiling per line, tens of microseconds each for small networks; all lines are cut together.

    Example:
        >>> import torch, splinescope as ss
        >>> net = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        >>> random = torch.Generator().manual_seed(0)
        >>> ss.space.fold_census(net, torch.zeros(1, 5), radius=2.0, generator=random).densities.shape
        (1,)

    Reference: Santalo, "Integral Geometry and Geometric Probability", 1976; Hanin, Rolnick, "Complexity of linear
    regions in deep networks", 2019.
    """
    check_whole(lines, "lines", least=2)
    check_whole(max_lines, "max_lines", least=lines)
    check_generator(generator)
    if rtol is not None:
        check_positive(rtol, "rtol")
    low, high = (_points(where),) * 2 if radius is not None else _box(where, _input_shape(model))
    count, shape = (len(low) if radius is not None else 1), low.shape[1:]
    if radius is not None:
        radius = check_positive(radius, "radius")
        about = "the point" if count == 1 else f"each of {count} points"
        region = f"the ball of radius {radius:.4g} about {about}"
    else:
        region = "the box"
    network = model if isinstance(model, SplineNetwork) else trace(check_module(model), (low[:1] + high[:1]) / 2)
    if tuple(network.input_shape) != shape:
        raise InputError(
            f"where must lie in the network's input space: inputs of shape {tuple(network.input_shape)} expected, "
            f"got {shape}."
        )
    program = network.program()
    size = int(np.prod(shape))
    counter: _LineCounter | None = None
    found: list[np.ndarray] = []
    wanted = lines
    with sharing(progress, "counting crossings") as share:
        while True:
            drawn = sum(part.shape[1] for part in found)
            more = count * (wanted - drawn)
            if radius is None:
                starts, ends = _lines_in_box(low.reshape(-1), high.reshape(-1), more, generator)
            else:
                starts, ends = _chords(np.repeat(low.reshape(count, -1), wanted - drawn, 0), radius, generator)
            counter = counter or _LineCounter(program, starts, ends)
            lengths = np.linalg.norm(ends - starts, axis=1, keepdims=True)
            block = max(16, min(_BLOCK, _BLOCK_BYTES // (16 * max(size, 1))))
            counts = []
            for i in range(0, more, block):
                share((drawn + i / count) / (lines if rtol is None else max_lines))
                counts.append(counter.count(starts[i : i + block], ends[i : i + block]))
            found.append((np.concatenate(counts) / lengths).reshape(count, wanted - drawn, -1))
            rates = np.concatenate(found, 1)  # [points, lines, sites]
            totals = rates.sum(2)
            by_point, spread = totals.mean(1), totals.std(1, ddof=1) / np.sqrt(wanted)
            error = np.sqrt((spread**2).sum()) / count
            if rtol is None or error <= rtol * by_point.mean() or wanted >= max_lines:
                break
            wanted = min(2 * wanted, max_lines)
    errors = np.sqrt((rates.var(1, ddof=1) / wanted).sum(0)) / count
    return FoldCensus(program.sites, rates.mean((0, 1)), errors, by_point, spread, size, wanted, region)


def _input_shape(model: object) -> tuple[int, ...] | None:
    """The shape of one input, if the model tells: a traced network does, and a module whose first layer is linear."""
    if isinstance(model, nn.Module):
        first = next((m for m in model.modules() if next(m.parameters(recurse=False), None) is not None), None)
        return (first.in_features,) if isinstance(first, nn.Linear) else None
    return getattr(model, "input_shape", None)


def _points(where: Any) -> np.ndarray:
    points = as_float64_array(where, "where")
    if points.ndim < 2 or not points.size:
        raise InputError(f"where must be points of shape (N, *input_shape), got {points.shape}.")
    return points


def _box(where: Any, shape: tuple[int, ...] | None) -> tuple[np.ndarray, np.ndarray]:
    """Low and high, `[1, *input_shape]` each."""
    if not isinstance(where, tuple) or len(where) != 2:
        raise InputError("where must be a pair (low, high) of inputs; for balls about points, give radius as well.")
    low, high = (as_float64_array(end, name) for end, name in zip(where, ("low", "high"), strict=True))
    if low.ndim == high.ndim == 0:
        if shape is None:
            raise InputError(
                "two numbers are a box only where the input's shape is known: give trace(model, example), or low and "
                "high as inputs."
            )
        low, high = np.full(shape, low), np.full(shape, high)
    if low.shape != high.shape or not (low < high).all():
        raise InputError(
            "low and high must have the input's shape, low below high everywhere, "
            f"got shapes {low.shape} and {high.shape}."
        )
    return low[None], high[None]


def _chords(centers: np.ndarray, radius: float, generator: torch.Generator | None) -> tuple[np.ndarray, np.ndarray]:
    """Both ends `[n, D]` of a chord of each ball, through a uniform point in a uniform direction."""
    n, size = centers.shape
    shares = torch.rand(n, 1, generator=generator, dtype=torch.float64).numpy() ** (1.0 / size)
    through = radius * shares * _directions(n, size, generator)
    directions = _directions(n, size, generator)
    along = np.einsum("nd,nd->n", through, directions)[:, None]
    away = np.einsum("nd,nd->n", through, through)[:, None]
    half = np.sqrt(np.maximum(along**2 + radius**2 - away, 0.0))
    origins = centers + through
    return origins - (along + half) * directions, origins + (half - along) * directions


def _lines_in_box(
    low: np.ndarray, high: np.ndarray, count: int, generator: torch.Generator | None
) -> tuple[np.ndarray, np.ndarray]:
    shares = torch.rand(count, len(low), generator=generator, dtype=torch.float64).numpy()
    through = low + shares * (high - low)
    directions = _directions(count, len(low), generator)
    with np.errstate(divide="ignore"):
        times = np.stack([(low - through) / directions, (high - through) / directions])
    backward, forward = times.min(0).max(1, keepdims=True), times.max(0).min(1, keepdims=True)
    return through + backward * directions, through + forward * directions


def _directions(count: int, size: int, generator: torch.Generator | None) -> np.ndarray:
    normal = torch.randn(count, size, generator=generator, dtype=torch.float64).numpy()
    return normal / np.linalg.norm(normal, axis=1, keepdims=True)


class _LineCounter:
    """Counts the crossings of segments with the folds of one network; the first segments set what counts as zero."""

    def __init__(self, program: Program, starts: np.ndarray, ends: np.ndarray) -> None:
        self._program = program
        starts, ends = starts[:_PROBES], ends[:_PROBES]
        probes = np.concatenate([starts, ends, (starts + ends) / 2]).reshape(-1, *program.input_shape)
        with one_torch_thread(), torch.no_grad():
            self._plan = make_plan(program, torch.from_numpy(probes), _RTOL, "plain")
        self._site_starts = np.cumsum([0, *(site.cuts for site in program.sites)])

    def count(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """`[n, sites]` crossings inside segments `[n, D]`; where folds coincide, only the first in execution order."""
        n, program = len(starts), self._program
        coordinates = np.tile([[0.0], [1.0]], (n, 1))
        segments = Tiles(
            np.arange(0, 2 * n + 1, 2), np.arange(2 * n, dtype=np.int32), np.full(2 * n, OUTSIDE, np.int32)
        )
        engine = Engine(self._plan, program.output, CHUNK_BYTES)
        inputs = np.stack([starts, ends], 1).reshape(2 * n, -1)
        with one_torch_thread(), torch.no_grad():
            first = engine.start(inputs, program.input, program.input_shape, coordinates, segments)
            work = Work(engine, first, float(n), None, Clock(), None)
            work.run(1)
            labels = assemble(work.leaves, coordinates[:2]).tiles.labels[::2]  # what made the left end of each interval
        lines, inner = np.cumsum(labels == OUTSIDE) - 1, labels != OUTSIDE
        sites = np.searchsorted(self._site_starts, labels[inner], side="right") - 1
        counts = np.zeros((n, len(program.sites)), np.int64)
        np.add.at(counts, (lines[inner], sites), 1)
        return counts
