"""How many folds there are in the whole input space: exact crossings of random lines, by Cauchy and Crofton."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from ..network import SplineNetwork, trace
from ..network.program import Site
from ..support.checks import as_float64_array, check_generator, check_module, check_positive, check_whole
from ..support.display import Certainty, Result, table
from ..support.errors import InputError
from ..support.progress import Progress, sharing
from ..support.worker_processes import by_rows
from ..tiling.engine.parts import packed_network, unpacked_network
from ..tiling.measures.crofton import crofton_constant
from ..tiling.slice import Slice
from .lines import PROBE_LINES, LineCounter

_BLOCK = 1024
"""Lines that are cut together: enough to be fast, few enough to tell how far it is."""


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
        rows.append(
            ("all", "", str(sum(s.units for s in self.sites)), f"{self.total:.4g}", f"{self.total_error:.2g}", "")
        )
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
    workers: int | None = None,
    progress: Progress | bool | None = None,
) -> FoldCensus:
    """How densely the folds of a network lie in its whole input space, near given points or in a box.

    A line is drawn by a uniform point of the region and a uniform direction, and cut off at the region's boundary; its
    crossings with all folds are counted exactly, by a 1-D tiling. The mean of crossings over length is an unbiased
    estimate of `c_D S / V`: S the (D-1)-volume of the folds in the region, V the region's volume,
    `c_D = crofton_constant(D)`. Where folds coincide, only the first in execution order counts.

    It tells how many folds there are and where, in thousands of dimensions too. It does not tell the number of tiles:
    that depends on how folds cross each other, which lines do not see.

    Args:
        model: A torch module, or the result of `trace` or `load`.
        where: With `radius`: points `[N, *input_shape]`, a ball about each. Without: a box (low, high), both of the
            input's shape; or two numbers, for all inputs: of a network from `trace` or `load`, or of a module
            whose first layer with parameters is linear.
        radius: Radius of the balls.
        lines: Lines per ball, or in the box; with `rtol` the number to start with.
        rtol: Draw more until the standard error of the total is at most this fraction of it, or `max_lines` are drawn.
        max_lines: The most lines per ball.
        generator: Source of the lines; torch's own by default.
        workers: Share the lines between so many processes (by joblib, which may send them to a cluster): the same
            numbers.
        progress: As in `tessellate`; with `rtol` the share is of `max_lines`, and may end early.

    Cost: one 1-D tiling per line, tens of microseconds each for small networks; all lines are cut together.

    Example:
        >>> import torch, splinescope as ss
        >>> net = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        >>> random = torch.Generator().manual_seed(0)
        >>> census = ss.space.fold_census(net, torch.zeros(1, 5), radius=2.0, generator=random)
        >>> census.densities.shape
        (1,)

    Reference: Santalo, "Integral Geometry and Geometric Probability", 1976; Hanin, Rolnick, "Complexity of linear
    regions in deep networks", 2019.
    """
    check_whole(lines, "lines", least=2)
    check_whole(max_lines, "max_lines", least=lines)
    check_generator(generator)
    if rtol is not None:
        check_positive(rtol, "rtol")
    region = _Balls(where, radius) if radius is not None else _Box(where, _input_shape(model))
    network = model if isinstance(model, SplineNetwork) else _traced(model, region.inside)
    if tuple(network.input_shape) != region.inside.shape[1:]:
        raise InputError(
            f"where must lie in the network's input space: inputs of shape {tuple(network.input_shape)} expected, "
            f"got {region.inside.shape[1:]}."
        )
    program = network.program()
    size = int(np.prod(program.input_shape))
    count: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    found: list[np.ndarray] = []
    wanted = lines
    with sharing(progress, "counting crossings") as share:
        while True:
            drawn = sum(part.shape[1] for part in found)
            starts, ends = region.lines(wanted - drawn, generator)
            count = count or _counting(network, starts, ends, workers)
            lengths = np.linalg.norm((ends - starts).reshape(len(starts), -1), axis=1, keepdims=True)
            block = _BLOCK if workers is None else len(starts)
            counts = []
            for i in range(0, len(starts), block):
                share((drawn + i / region.count) / (lines if rtol is None else max_lines))
                counts.append(count(starts[i : i + block], ends[i : i + block]))
            found.append((np.concatenate(counts) / lengths).reshape(region.count, wanted - drawn, -1))
            rates = np.concatenate(found, 1)  # [points, lines, sites]
            totals = rates.sum(2)
            by_point, spread = totals.mean(1), totals.std(1, ddof=1) / np.sqrt(wanted)
            error = np.sqrt((spread**2).sum()) / region.count
            if rtol is None or error <= rtol * by_point.mean() or wanted >= max_lines:
                break
            wanted = min(2 * wanted, max_lines)
    errors = np.sqrt((rates.var(1, ddof=1) / wanted).sum(0)) / region.count
    crossings = rates.mean((0, 1))
    return FoldCensus(program.sites, crossings, errors, by_point, spread, size, wanted, region.words)


def _counting(
    network: SplineNetwork, starts: np.ndarray, ends: np.ndarray, workers: int | None
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """What counts crossings `[n, sites]` of lines from starts to ends: here, or by so many processes."""
    if workers is None:
        return LineCounter(network.program(), starts, ends).count
    check_whole(workers, "workers")
    work = partial(_counts, packed_network(network), starts[:PROBE_LINES], ends[:PROBE_LINES])

    def count(starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        rows = [torch.from_numpy(starts), torch.from_numpy(ends)]
        return np.concatenate(by_rows(work, rows, workers=workers, what="lines"))

    return count


def _counts(
    model: np.ndarray, first_starts: np.ndarray, first_ends: np.ndarray, starts: Tensor, ends: Tensor
) -> np.ndarray:
    """Crossings of some lines, in a process of its own; the first lines of all set what counts as zero."""
    network = unpacked_network(model, Slice.segment(first_starts[0], first_ends[0]))
    return LineCounter(network.program(), first_starts, first_ends).count(starts.numpy(), ends.numpy())


def _input_shape(model: object) -> tuple[int, ...] | None:
    """The shape of one input, if the model tells: a traced network does, and a module whose first layer is linear."""
    if isinstance(model, nn.Module):
        first = next((m for m in model.modules() if next(m.parameters(recurse=False), None) is not None), None)
        return (first.in_features,) if isinstance(first, nn.Linear) else None
    return getattr(model, "input_shape", None)


def _traced(model: object, inside: np.ndarray) -> SplineNetwork:
    model = check_module(model)
    parameter = next(model.parameters(), None)
    example = torch.from_numpy(np.concatenate([inside[:1], inside[:1]]))
    return trace(model, example.to(parameter.dtype if parameter is not None else torch.get_default_dtype()))


class _Balls:
    """Balls of one radius about points; lines come in the order of the points."""

    def __init__(self, where: Any, radius: float) -> None:
        self._radius = check_positive(radius, "radius")
        self.inside = as_float64_array(where, "where")
        if self.inside.ndim < 2 or not self.inside.size:
            raise InputError(f"where must be points of shape (N, *input_shape), got {self.inside.shape}.")
        self.count = len(self.inside)
        about = "the point" if self.count == 1 else f"each of {self.count} points"
        self.words = f"the ball of radius {self._radius:.4g} about {about}"

    def lines(self, count: int, generator: torch.Generator | None) -> tuple[np.ndarray, np.ndarray]:
        """Both ends `[points * count, *input_shape]` of chords, each through a uniform point in a uniform direction."""
        centres = self.inside.reshape(self.count, -1)
        n, size = self.count * count, centres.shape[1]
        shares = torch.rand(n, 1, generator=generator, dtype=torch.float64).numpy() ** (1.0 / size)
        through = self._radius * shares * _directions(n, size, generator)
        directions = _directions(n, size, generator)
        along = np.einsum("nd,nd->n", through, directions)[:, None]
        away = np.einsum("nd,nd->n", through, through)[:, None]
        half = np.sqrt(np.maximum(along**2 + self._radius**2 - away, 0.0))
        origins = np.repeat(centres, count, 0) + through
        shape = (n, *self.inside.shape[1:])
        return (origins - (along + half) * directions).reshape(shape), (origins + (half - along) * directions).reshape(
            shape
        )


class _Box:
    """A box along the axes."""

    count = 1

    def __init__(self, where: Any, shape: tuple[int, ...] | None) -> None:
        if not isinstance(where, tuple) or len(where) != 2:
            raise InputError("where must be a pair (low, high) of inputs; for balls about points, give radius as well.")
        self._low, self._high = (as_float64_array(end, name) for end, name in zip(where, ("low", "high"), strict=True))
        if self._low.ndim == self._high.ndim == 0:
            if shape is None:
                raise InputError(
                    "two numbers are a box only where the input's shape is known: give trace(model, example), or low "
                    "and high as inputs."
                )
            self._low, self._high = np.full(shape, self._low), np.full(shape, self._high)
        if self._low.shape != self._high.shape or not (self._low < self._high).all():
            raise InputError(
                "low and high must have the input's shape, low below high everywhere, "
                f"got shapes {self._low.shape} and {self._high.shape}."
            )
        self.inside = ((self._low + self._high) / 2)[None]
        self.words = "the box"

    def lines(self, count: int, generator: torch.Generator | None) -> tuple[np.ndarray, np.ndarray]:
        low, high = self._low.reshape(-1), self._high.reshape(-1)
        shares = torch.rand(count, len(low), generator=generator, dtype=torch.float64).numpy()
        through = low + shares * (high - low)
        directions = _directions(count, len(low), generator)
        with np.errstate(divide="ignore"):
            times = np.stack([(low - through) / directions, (high - through) / directions])
        backward, forward = times.min(0).max(1, keepdims=True), times.max(0).min(1, keepdims=True)
        shape = (count, *self._low.shape)
        return (through + backward * directions).reshape(shape), (through + forward * directions).reshape(shape)


def _directions(count: int, size: int, generator: torch.Generator | None) -> np.ndarray:
    normal = torch.randn(count, size, generator=generator, dtype=torch.float64).numpy()
    return normal / np.linalg.norm(normal, axis=1, keepdims=True)
