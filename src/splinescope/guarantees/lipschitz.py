"""`lipschitz`: the exact Lipschitz constant of a network, over a set or over all of space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..network import SplineNetwork
from ..network.program import Affine, Fold, Program, Tournament
from ..support.display import Certainty, Result, brief, table
from ..support.errors import InputError, LimitReached
from ..support.progress import Progress, check_progress
from ..tiling.cells.hull import MOST_DIMENSIONS, unit_box
from ..tiling.engine.options import Options
from ..tiling.measures.differentiate import block_rows, blocks, jacobians, outputs
from ..tiling.measures.maps import inner_points, iterate_slopes
from ..tiling.networks import checked_network
from ..tiling.slice import Slice
from ..tiling.tessellate import tile
from ..tiling.tiling import Tiling
from .models import as_network, renamed
from .sets import view_of

_NEAR = 1e-6  # of the largest: norms read off corners that are this close are taken again by the network
_SURELY = 4096  # tiles that are taken again at most


@dataclass(frozen=True, eq=False, repr=False)
class Lipschitz(Result):
    """A Lipschitz constant, and the tile where it is attained.

    Attributes:
        constant: The largest norm of a slope.
        norm: 1, 2 or infinity: that of inputs and outputs.
        point: An input inside the tile, of the network's input shape.
        slope: `[C, D]` A of the tile's map `A x + c` in the whole input space.
        offset: `[C]` c of that map.
        tiles: How many tiles there are.
        where: The set, in words.
    """

    constant: float
    norm: float
    point: np.ndarray
    slope: np.ndarray
    offset: np.ndarray
    tiles: int
    where: str
    certainty: Certainty = field(default="exact", kw_only=True)

    def __repr__(self) -> str:
        return f"Lipschitz({self.constant:.12g} in the {self.norm:g}-norm over {self.where}, {self.certainty})"

    def summary(self) -> str:
        """The constant, of what it is, and where."""
        rows = [
            ("constant", f"{self.constant:.15g}"), ("norm", f"{self.norm:g}"), ("over", self.where),
            ("attained at", brief(self.point) if self.point.size > 8 else str(self.point.tolist())),
            ("tiles", f"{self.tiles:,}"),
        ]  # fmt: skip
        return f"{table(rows)}\n{self.assurance} Pre-activations below 1e-12 of their terms count as zero."


def lipschitz(
    model: nn.Module | SplineNetwork,
    over: Any = None,
    norm: float = 2,
    *,
    max_tiles: int | None = None,
    time_limit: float | None = None,
    progress: Progress | bool | None = None,
) -> Lipschitz:
    """The exact Lipschitz constant of a network over a set of up to eight dimensions, or over all of space::

        L = max over tiles of ||A||,    ||A|| = max of |A v|_p / |v|_p,    v along the set

    A piecewise-affine network is continuous, so that on a convex set the largest slope is the smallest L with
    `|f(x) - f(y)|_p <= L |x - y|_p` for all x and y of the set. Over all of space the network is tiled on rays:
    `F(x, s) = s f(x / s)` is linear on the cone over every tile, so the sides of a box about the origin in D + 1
    dimensions meet all tiles, those without bounds too.

    Args:
        model: A torch module in eval mode, the result of `trace` or `load`, or a file. Before any ending (softmax).
        over: A `Slice`, a pair (low, high) of corners of a box (sides of zero length are fixed inputs), or None for all
            of space: of at most eight inputs, and of folds through zero (ReLU, leaky ReLU, abs, max).
        norm: 1, 2 or `np.inf`; on sets whose directions are not coordinate axes 2 alone.
        max_tiles, time_limit, progress: As in `tessellate`; in all of space limits are for each side of the box.

    Raises:
        LimitReached: There are more tiles than that; no constant is known then.

    Cost: a tiling, and 2 D + 1 of them for all of space.

    Example:
        >>> import torch, splinescope as ss
        >>> net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        >>> everywhere, near = ss.guarantees.lipschitz(net), ss.guarantees.lipschitz(net, (-1.0, 1.0))
        >>> bool(everywhere.constant >= near.constant > 0)
        True
    """
    check_progress(progress)
    if isinstance(norm, bool) or norm not in (1, 2, np.inf):
        raise InputError(f"norm must be 1, 2 or infinity, got {norm!r}.")
    network = as_network(model, over)
    program = network.program()
    if over is None:
        views, where, tiled = _sides(int(np.prod(program.input_shape))), "all of space", _on_rays(program)
    else:
        view = view_of(over, program.input_shape)
        if not isinstance(view, Slice):
            raise InputError("over must have an input that is free: a single point has no differences.")
        network, tiled = checked_network(network, view)
        views, where = [view], f"a set of {view.dimension} dimensions"
    best: tuple[float, np.ndarray, np.ndarray, np.ndarray] | None = None
    tiles = 0
    for view in views:
        options = Options(max_tiles=max_tiles, time_limit=time_limit, progress=progress)
        tiling, stopped = tile(network, tiled, view, options)
        if stopped is not None:
            raise LimitReached(f"{stopped}: the constant over the whole set is not known.", tiling)
        tiles += tiling.count
        found = _largest(tiling, program, float(norm), None if over is None else _frame(view, float(norm)))
        if best is None or found[0] > best[0]:
            best = found
    assert best is not None
    return Lipschitz(best[0], float(norm), *best[1:], tiles, where)


def _sides(size: int) -> list[Slice]:
    """Sides of a box about the origin in one dimension more, but the one where the last coordinate s is -1."""
    if size > MOST_DIMENSIONS:
        raise InputError(
            f"all of space is tiled up to {MOST_DIMENSIONS} inputs, the network has {size}: give a set in over."
        )
    box, axes = unit_box(size), np.eye(size + 1)
    up = box.copy()  # s goes from 0 (infinitely far) to 1
    up[:, -1] = (up[:, -1] + 1.0) / 2.0
    sides = [Slice(sign * axes[i], np.delete(axes, i, 0), up) for i in range(size) for sign in (-1.0, 1.0)]
    return [Slice(axes[-1], axes[:size], box), *sides]


def _frame(view: Slice, norm: float) -> np.ndarray:
    """`[d, d]` M such that the norm of `A M` is that of the slope A, in slice coordinates, along the set."""
    basis = view.basis.reshape(view.dimension, -1)
    if norm == 2:
        return np.asarray(np.linalg.inv(np.linalg.cholesky(basis @ basis.T)).T)
    if (np.count_nonzero(basis, axis=1) != 1).any() or (np.count_nonzero(basis, axis=0) > 1).any():
        raise InputError(f"norm {norm:g} along a set needs directions that are coordinate axes: use norm 2.")
    return np.diag(1.0 / np.abs(basis).max(1))


def _largest(
    tiling: Tiling, program: Program, norm: float, frame: np.ndarray | None
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """The largest norm, a point of its tile, and that tile's map; without a frame the tiling is one of rays."""
    basis = tiling.view.basis.reshape(tiling.dimension, -1)
    tiles = np.arange(tiling.count)
    if frame is not None:  # what corners tell is close: only the largest are taken again
        rough = np.empty(tiling.count)
        for numbers, a in iterate_slopes(tiling):
            rough[numbers] = norms_of(a @ frame, norm)
        tiles = np.flatnonzero(rough >= (1.0 - _NEAR) * np.nanmax(rough))
        tiles = tiles[np.argsort(-rough[tiles], kind="stable")[:_SURELY]]
    best: tuple[float, int] = (-1.0, 0)
    for part in blocks(len(tiles), block_rows(program)):
        slopes = _jacobians(tiling, tiles[part], frame is None)[0]
        norms = norms_of(slopes if frame is None else slopes @ basis.T @ frame, norm)
        if norms.max() > best[0]:
            best = (float(norms.max()), int(tiles[part][norms.argmax()]))
    slopes, points, offsets = _jacobians(tiling, np.array([best[1]]), frame is None)
    return best[0], points[0].reshape(program.input_shape), slopes[0], offsets[0]


def _jacobians(tiling: Tiling, tiles: np.ndarray, rays: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Slopes `[k, C, D]` in the input space, points inside `[k, *input_shape]` and offsets `[k, C]` of some tiles."""
    program = tiling.program("slopes")
    points = tiling.view.inputs(inner_points(tiling, tiles))
    slopes = jacobians(program, points)
    if rays:  # F = A x + c s
        return slopes[:, :, :-1], points[:, :-1] / points[:, -1:], slopes[:, :, -1]
    return slopes, points, outputs(program, points) - np.einsum("kcd,kd->kc", slopes, points.reshape(len(points), -1))


def norms_of(matrices: np.ndarray, norm: float) -> np.ndarray:
    """`[k]` induced norms of `[k, m, n]` matrices for p = 1, 2 or infinity."""
    if norm == 2:
        return np.asarray(np.linalg.norm(matrices, 2, axis=(1, 2)))
    return np.asarray(np.abs(matrices).sum(1 if norm == 1 else 2).max(1))


def _on_rays(program: Program) -> Program:
    """`F(x, s) = s f(x / s)` for s > 0: `A x + c s` on the cone over a tile with the map `A x + c`.

    The last of D + 1 inputs is s. A fold that bends elsewhere than through zero (a ReLU6) has no such form.
    """
    size = int(np.prod(program.input_shape))
    random = torch.Generator().manual_seed(0)
    x = torch.randn(2, *program.input_shape, generator=random, dtype=torch.float64)
    bases: dict[str, Tensor] = {}
    with torch.no_grad():
        for step, inputs, _ in program.walk(x):
            if isinstance(step, Fold) and not _through_zero(step, inputs):
                where = program.paths.get(step.output) or "model"
                raise InputError(
                    f"all of space needs folds through zero, as those of ReLU, abs and max; {where} ({step.site.op}) "
                    "bends elsewhere: give a box in over."
                )
            if isinstance(step, Affine):
                bases[step.output] = step.run(*(torch.zeros_like(value[:1]) for value in inputs))

    def head(rays: Tensor) -> Tensor:
        return rays[:, :size].reshape(len(rays), *program.input_shape)

    def last(rays: Tensor) -> Tensor:
        return rays[:, size:]

    inner = renamed(program, "", "x of rays")
    steps: list[Affine | Fold | Tournament] = [
        Affine("x of rays", ("rays",), head, head), Affine("s of rays", ("rays",), last, last)
    ]  # fmt: skip
    for one in inner.steps:
        if isinstance(one, Affine) and (base := bases[one.output]).any():
            run, magnitude = _scaled(one.run, base, -1.0), _scaled(one.magnitude, base.abs(), 0.0)
            steps.append(Affine(one.output, (*one.inputs, "s of rays"), run, magnitude))
        else:
            steps.append(one)
    return Program(
        "rays", (size + 1,), inner.output, inner.output_shape, tuple(steps), paths=inner.paths, ops=inner.ops,
        identity=("rays", *program.identity),
    )  # fmt: skip


def _through_zero(fold: Fold, inputs: list[Tensor]) -> bool:
    """Whether a fold bends through zero alone: scaled inputs, however large or small, have the output scaled."""
    if fold.at is not None and np.any(fold.at):
        return False
    output = fold.run(*inputs)
    return all(torch.equal(fold.run(*(k * value for value in inputs)), k * output) for k in (2.0**-40, 2.0, 2.0**40))


def _scaled(run: Callable[..., Tensor], base: Tensor, shift: float) -> Callable[..., Tensor]:
    """The step with its constant times s: `run(...) + (s + shift) base`."""

    def scaled(*values: Tensor) -> Tensor:
        s = values[-1].reshape(len(values[-1]), *(1,) * (base.dim() - 1))
        return run(*values[:-1]) + (s + shift) * base

    return scaled
