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
from ..support.display import Certainty, Result
from ..support.errors import InputError, LimitReached
from ..support.progress import Progress, check_progress
from ..tiling.cells.hull import MOST_DIMENSIONS, unit_box
from ..tiling.engine.options import Options
from ..tiling.measures.differentiate import jacobians, outputs
from ..tiling.measures.maps import inner_points
from ..tiling.measures.tile_shapes import UNIT
from ..tiling.networks import checked_network
from ..tiling.slice import Slice
from ..tiling.tessellate import tile
from ..tiling.tiling import Tiling
from .models import as_network, renamed
from .sets import view_of
from .slopes import Largest, Measure, largest, through_zero

_EXACT = 1e-6  # of the constant: more that slivers may have makes it a bound from below


@dataclass(frozen=True, eq=False, repr=False)
class Lipschitz(Result):
    """A Lipschitz constant, and the tile where it is attained.

    Attributes:
        constant: The largest norm of a slope.
        rounding: A proven bound: some slope has at least `constant - rounding`, none more than `constant + rounding`.
            It is large, and `certainty` "bound", where float64 leaves open whether steep slivers exist: where more
            folds meet in a point than there are dimensions, as those of duplicate units or without biases, or where a
            fold lies along the boundary of the set.
        norm: 1, 2 or infinity: that of inputs and outputs.
        point: An input inside the tile, of the network's input shape.
        slope: `[C, D]` A of the tile's map `A x + c` in the whole input space.
        offset: `[C]` c of that map.
        tiles: How many tiles there are.
        where: The set, in words.
    """

    constant: float
    rounding: float
    norm: float
    point: np.ndarray
    slope: np.ndarray
    offset: np.ndarray
    tiles: int
    where: str
    certainty: Certainty = field(default="exact", kw_only=True)

    def _shown(self) -> list[tuple[str, Any]]:
        shown = ("constant", "rounding", "norm", "where", "point", "tiles")
        return [(name, getattr(self, name)) for name in shown]


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
    where = "all of space"
    rays = _on_rays(program) if over is None else None
    if rays is not None:
        views, tiled = _sides(int(np.prod(program.input_shape))), rays
    else:  # without constants every tile is a cone, and meets a box about the origin
        view = view_of((-1.0, 1.0) if over is None else over, program.input_shape)
        if not isinstance(view, Slice):
            raise InputError("over must have an input that is free: a single point has no differences.")
        network, tiled = checked_network(network, view)
        views, where = [view], where if over is None else f"a set of {view.dimension} dimensions"
    found: list[tuple[Largest, Tiling]] = []
    for view in views:
        options = Options(max_tiles=max_tiles, time_limit=time_limit, progress=progress, rows="plain")
        tiling, stopped = tile(network, tiled, view, options)
        if stopped is not None:
            raise LimitReached(f"{stopped}: the constant over the whole set is not known.", tiling)
        along, loose = _directions(view, float(norm), rays is not None)
        found.append((largest(tiling, tiled, along, _norms(float(norm), loose)), tiling))
    best, tiling = max(found, key=lambda one: one[0].value)
    high, low = max(one.high for one, _ in found), max(one.low for one, _ in found)
    rounding = max(high - best.value, best.value - low)
    own, point = tiling.program("slopes"), tiling.view.inputs(inner_points(tiling, np.array([best.tile])))
    slope = jacobians(own, point)[0]
    if rays is not None:  # F = A x + c s
        point, slope, offset = point[:, :-1] / point[:, -1:], slope[:, :-1], slope[:, -1]
    else:
        offset = outputs(own, point)[0] - slope @ point.reshape(-1)
    return Lipschitz(
        best.value, rounding, float(norm), point.reshape(program.input_shape), slope, offset,
        sum(tiling.count for _, tiling in found), where,
        certainty="exact" if rounding <= _EXACT * best.value else "bound",
    )  # fmt: skip


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


def _directions(view: Slice, norm: float, rays: bool) -> tuple[np.ndarray, float]:
    """Orthonormal directions `[d, *input_shape]` of a set (of rays: of the inputs), and by what share they are not."""
    basis = view.basis.reshape(view.dimension, -1)
    if rays:
        return np.eye(basis.shape[1])[:-1].reshape(-1, *view.input_shape), 0.0
    if (np.count_nonzero(basis, axis=1) == 1).all() and (np.count_nonzero(basis, axis=0) <= 1).all():
        return np.sign(view.basis), 0.0
    if norm != 2:
        raise InputError(f"norm {norm:g} along a set needs directions that are coordinate axes: use norm 2.")
    along = np.linalg.solve(np.linalg.cholesky(basis @ basis.T), basis)
    off = np.abs(along @ along.T - np.eye(len(along))).sum(1).max() + 4 * along.size * UNIT
    return along.reshape(view.basis.shape), float(off)


def _norms(norm: float, loose: float) -> Measure:
    """Norms of slopes along orthonormal directions, which may be off by the share `loose`."""

    def measure(slopes: np.ndarray, radii: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found, size = np.linalg.norm(slopes, norm, axis=(1, 2)), slopes.shape[1] * slopes.shape[2]
        more = np.linalg.norm(radii, None if norm == 2 else norm, axis=(1, 2))
        return found, 1.01 * more + (loose + 16 * (size + 16) * UNIT) * found

    return measure


def _on_rays(program: Program) -> Program | None:
    """`F(x, s) = s f(x / s)` for s > 0: `A x + c s` on the cone over a tile with the map `A x + c`.

    None if no step has a constant: then `f(s x) = s f(x)`. The last of D + 1 inputs is s. A fold that bends elsewhere
    than through zero (a ReLU6) has no such form.
    """
    size = int(np.prod(program.input_shape))
    random = torch.Generator().manual_seed(0)
    x = torch.randn(2, *program.input_shape, generator=random, dtype=torch.float64)
    bases: dict[str, Tensor] = {}
    with torch.no_grad():
        for step, inputs, _ in program.walk(x):
            if isinstance(step, Fold) and not through_zero(step, inputs):
                where = program.paths.get(step.output) or "model"
                raise InputError(
                    f"all of space needs folds through zero, as those of ReLU, abs and max; {where} ({step.site.op}) "
                    "bends elsewhere: give a box in over."
                )
            if isinstance(step, Affine):
                bases[step.output] = step.run(*(torch.zeros_like(value[:1]) for value in inputs))
    if not any(base.any() for base in bases.values()):
        return None

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


def _scaled(run: Callable[..., Tensor], base: Tensor, shift: float) -> Callable[..., Tensor]:
    """The step with its constant times s: `run(...) + (s + shift) base`."""

    def scaled(*values: Tensor) -> Tensor:
        s = values[-1].reshape(len(values[-1]), *(1,) * (base.dim() - 1))
        return run(*values[:-1]) + (s + shift) * base

    return scaled
