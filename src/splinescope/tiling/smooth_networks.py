"""Tilings of smooth networks within a tolerance: interpolants for activations, an exact tiling of that network."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ..network import SplineNetwork
from ..network.interpolants import Curve, Interpolant, curve_of, interpolant
from ..network.program import Affine, Fold, Program, Site, Smooth
from ..network.ranges import Reach, reach
from ..support.checks import check_positive
from ..support.errors import SplinescopeError, UnsupportedModelError
from .approximation import Approximation
from .measures.differentiate import blocks
from .measures.maps import inner_points
from .slice import Slice
from .tiling import Tiling

_HOPELESS = 10.0  # times the knots that what is measured asks for: the bound is then a hundred times too large
_ROUNDS = 8
_PROBES = 2048
_NUMBERS = 1 << 18  # of one value at all points that are looked at together: 2 MB, and some ten such values


class Interpolated(SplineNetwork):
    """A smooth network with its activations interpolated on one slice; follows its module as any network does."""

    def __init__(self, smooth: SplineNetwork, errors: Mapping[str, float], corners: Tensor) -> None:
        self.__dict__.update(smooth.__dict__)
        self.errors, self._corners = dict(errors), corners
        self.sites = self.program().sites

    @property
    def derived(self) -> Callable[[SplineNetwork], SplineNetwork]:
        return partial(Interpolated, errors=self.errors, corners=self._corners)

    def program(self, replace: Mapping[str, Tensor] | None = None) -> Program:
        real = super().program(replace)
        curves = curves_of(real)
        ranges, _ = reach(real, curves, self.errors, self._corners)
        return interpolated(real, interpolants(curves, self.errors, ranges), ranges)


def tessellate_within(
    network: SplineNetwork, view: Slice, tolerance: float, tile: Callable[[SplineNetwork], Tiling]
) -> Tiling:
    """The tiling of a network within `tolerance` of a smooth one; see `tessellate`."""
    tolerance = check_positive(tolerance, "tolerance")
    real = network.program()
    curves = curves_of(real)
    if not curves:
        tiling = tile(network)
        assert tiling.frozen is not None
        return replace(tiling, approximation=Approximation(tolerance, 0.0, 0.0, "bound", *knots_of(tiling.frozen, {})))
    corners = torch.from_numpy(view.inputs(view.domain))
    errors, proven = planned_errors(real, curves, corners, tolerance)
    for _ in range(_ROUNDS):
        made = Interpolated(network, errors, corners)
        tiling = tile(made)
        assert tiling.frozen is not None
        ranges, _ = reach(real, curves, errors, corners)
        pieces = interpolants(curves, errors, ranges)
        _, bound = reach(real, curves, {name: piece.error for name, piece in pieces.items()}, corners)
        deviation = measured(real, tiling.frozen, tiling)
        if (bound if proven else deviation) <= tolerance:
            places = knots_of(tiling.frozen, pieces)
            found = Approximation(tolerance, bound, deviation, "bound" if proven else "deviation", *places)
            return replace(tiling, approximation=found)
        shrink = 0.7 * tolerance / (bound if proven else deviation)
        errors = {name: shrink * error for name, error in errors.items()}
    raise SplinescopeError(
        f"no knots were found that keep the network within {tolerance:g}: after {_ROUNDS} refinements it deviates by "
        f"{deviation:.2g}. Ask for a larger tolerance or a smaller slice."
    )


_curves: dict[tuple[str, str], Curve] = {}  # by op and arguments; each remembers its inflections


def curves_of(program: Program) -> dict[str, Curve]:
    """The curve of each smooth step, by its output; equal ones are one object."""
    found: dict[str, Curve] = {}
    for step in program.steps:
        if isinstance(step, Smooth):
            key = step.site.op, repr(sorted(step.arguments.items()))
            curve = _curves.get(key) or curve_of(step.site.op, step.run, step.arguments)
            if curve is None:
                raise UnsupportedModelError(f"{step.site.path or 'model'}: {step.site.op} has no interpolant.")
            _curves[key] = found[step.output] = curve
    return found


def planned_errors(
    program: Program, curves: Mapping[str, Curve], corners: Tensor, tolerance: float
) -> tuple[dict[str, float], bool]:
    """(how far each interpolant may be from its activation, whether the bound then proves the tolerance).

    To first order the bound is sum_l G_l eps_l, and a site of n_l elements costs n_l eps_l^(-1/2) knots: least cost at
    eps_l ~ (n_l / G_l)^(2/3). Where it takes over `_HOPELESS` times the knots that measuring asks for, those are used.
    """
    tiny = 1e-9 * tolerance
    base = dict.fromkeys(curves, 0.0)
    _, nothing = reach(program, curves, base, corners)
    gains, sizes = {}, {}
    for name in curves:
        ranges, bound = reach(program, curves, {**base, name: tiny}, corners)
        gains[name] = max((bound - nothing) / tiny, 1e-12)
        sizes[name] = len(ranges[name].low)
    weights = {name: (sizes[name] / gains[name]) ** (2 / 3) for name in curves}
    scale = tolerance / sum(gains[name] * weights[name] for name in curves)
    errors = {name: scale * weights[name] for name in curves}
    for _ in range(60):  # slopes on wider intervals may be larger
        bound = reach(program, curves, errors, corners)[1]
        if bound <= tolerance:
            break
        errors = {name: 0.95 * error * tolerance / bound for name, error in errors.items()}
    else:
        errors = dict.fromkeys(curves, tolerance)
    if not np.isfinite(bound):
        raise UnsupportedModelError("the values of this network on the slice have no finite bound: take a smaller one.")
    coarse = measured_errors(program, curves, corners, tolerance)
    follows = all(curve.jump <= errors[name] / 2 for name, curve in curves.items())
    fine_knots, coarse_knots = (sum(size * each[n] ** -0.5 for n, size in sizes.items()) for each in (errors, coarse))
    return (errors, True) if follows and fine_knots <= _HOPELESS * coarse_knots else (coarse, False)


def measured_errors(
    program: Program, curves: Mapping[str, Curve], corners: Tensor, tolerance: float
) -> dict[str, float]:
    """One error for all interpolants with which the network is seen to stay within half the tolerance."""
    weights = torch.from_numpy(np.random.default_rng(1).dirichlet(np.ones(len(corners)), size=_PROBES))
    points = torch.einsum("nc,c...->n...", weights, corners)
    error = tolerance
    jumps = {curve.jump: curve.name for curve in curves.values() if curve.jump}
    while not jumps or error >= max(jumps) / 10:
        errors = dict.fromkeys(curves, error)
        ranges, _ = reach(program, curves, errors, corners)
        near = interpolated(program, interpolants(curves, errors, ranges), ranges)
        if _difference(program, near, points) <= tolerance / 2:
            return errors
        error /= 3
    raise UnsupportedModelError(
        f"{jumps[max(jumps)]} as torch computes it jumps by {max(jumps):.1e} at its threshold: no knots keep a "
        f"continuous network within {tolerance:g} of it. Ask for a larger tolerance, or raise the threshold."
    )


def interpolants(
    curves: Mapping[str, Curve], errors: Mapping[str, float], ranges: Mapping[str, Reach]
) -> dict[str, Interpolant]:
    """One interpolant per smooth step; as wide as its values reach where it has no asymptotes."""
    found = {}
    for name, curve in curves.items():
        low = -np.inf if curve.left is not None else float(ranges[name].low.min()) - 1e-6
        high = np.inf if curve.right is not None else float(ranges[name].high.max()) + 1e-6
        found[name] = interpolant(curve, errors[name], low, high)
    return found


def interpolated(program: Program, pieces: Mapping[str, Interpolant], ranges: Mapping[str, Reach]) -> Program:
    """The program with each smooth step replaced by its interpolant; only knots that a unit can reach are folds."""
    steps = [
        _step(step, pieces[step.output], ranges[step.output]) if isinstance(step, Smooth) else step
        for step in program.steps
    ]
    lines = [f"{name} interpolated {piece.error!r} {len(piece.knots)}\n" for name, piece in pieces.items()]
    return replace(program, steps=tuple(steps), identity=(*program.identity, *lines))


def _step(step: Smooth, piece: Interpolant, seen: Reach) -> Affine | Fold:
    """The interpolant as a fold at the knots that each unit can reach: the engine reads slopes far from the slice."""
    slack = 1e-9 * (1 + np.abs(piece.knots))
    crossed = (piece.knots > seen.low[:, None] - slack) & (piece.knots < seen.high[:, None] + slack)
    number, elements = crossed.T.nonzero()
    shape = step.site.shape
    if not len(number):  # every unit stays between two knots
        place = np.searchsorted(piece.knots, seen.middle.reshape(-1).numpy())
        anchor = np.maximum(place - 1, 0)
        slope = torch.from_numpy(piece.slopes[place]).reshape(shape)
        offset = torch.from_numpy(piece.values[anchor] - piece.slopes[place] * piece.knots[anchor]).reshape(shape)
        return Affine(step.output, step.inputs, lambda x: x * slope + offset,
                      lambda m: m * slope.abs() + offset.abs())  # fmt: skip
    below = (piece.knots <= seen.low[:, None] - slack).sum(1)
    ends = torch.from_numpy(below).reshape(shape), torch.from_numpy(below + crossed.sum(1)).reshape(shape)
    knots = piece.knots[number]
    at = torch.from_numpy(knots)
    columns = torch.from_numpy(elements)

    def cuts(z: Tensor) -> Tensor:
        return z.reshape(len(z), -1).index_select(1, columns) - at

    def magnitude(m: Tensor) -> Tensor:
        return m.reshape(len(m), -1).index_select(1, columns) + at.abs()

    site = Site(step.site.path, step.site.op, shape, len(number), step.site.depth)
    return Fold(step.output, step.inputs, lambda x: piece(x, ends), cuts, magnitude,
                piece.gains[number].copy(), elements.astype(np.int64), site, knots)  # fmt: skip


def knots_of(program: Program, pieces: Mapping[str, Interpolant]) -> tuple[np.ndarray, np.ndarray]:
    """Element and knot of each cut of a program, over all folds; NaN where it folds by itself."""
    elements, knots = [np.empty(0, np.int64)], [np.empty(0)]
    for fold in program.folds:
        elements.append(fold.elements)
        zero = torch.zeros(1, *fold.site.shape, dtype=torch.float64)
        inner = fold.output in pieces
        knots.append(-fold.cuts(zero)[0].numpy() if inner else np.full(len(fold.elements), np.nan))
    return np.concatenate(elements), np.concatenate(knots)


def measured(real: Program, near: Program, tiling: Tiling, points: int = 20_000) -> float:
    """Largest difference of two networks: at random points, at (some) vertices and in the middle of (some) tiles.

    Interpolants touch their curves at knots, where vertices are, and are farthest between: in the middle of tiles.
    """
    generator = np.random.default_rng(0)

    def some(count: int) -> np.ndarray:
        return np.arange(count) if count <= points else generator.choice(count, points, replace=False)

    view = tiling.view
    inside = generator.dirichlet(np.ones(len(view.domain)), size=points) @ view.domain
    chosen = tiling.vertices[some(len(tiling.vertices))]
    middles = inner_points(tiling, some(tiling.count))
    places = np.concatenate([chosen, middles, inside])
    parts = blocks(len(places), _rows_at_once(real))
    return max(_difference(real, near, torch.from_numpy(view.inputs(places[part]))) for part in parts)


def _difference(real: Program, near: Program, x: Tensor) -> float:
    """Largest difference of two networks at points, a few at a time."""
    with torch.no_grad():
        return max(float((real.forward(p) - near.forward(p)).abs().max()) for p in x.split(_rows_at_once(real)))


def _rows_at_once(program: Program) -> int:
    """So many points that a value of all of them takes few MB."""
    widest = max(math.prod(step.site.shape) for step in program.steps if isinstance(step, Smooth))
    return max(1, _NUMBERS // max(widest, math.prod(program.input_shape)))
