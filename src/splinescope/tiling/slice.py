"""Slices: affine windows on a network's input space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch

from ..support.checks import as_float64_array, as_points, check_choice, check_generator, check_positive, check_whole
from ..support.display import Shown
from ..support.errors import InputError
from .cells.hull import MOST_DIMENSIONS, Hull, hull, unit_box


@dataclass(frozen=True, eq=False, repr=False)
class Slice(Shown):
    """An affine window `x = origin + t @ basis` on input space, with t in a convex domain.

    Attributes:
        origin: The input at t = 0, of the network's input shape (an image stays an image).
        basis: `[d, *input shape]`, 1 to 8 linearly independent directions.
        domain: Two numbers (left, right) if d = 1; `[n, 2]` corners of a convex polygon, counter-clockwise, if d = 2;
            beyond, `[n, d]` points whose convex hull is meant, of which the corners are kept.
        anchors: `[m, d]` slice coordinates of points worth marking (the points a slice was laid through).

    The named constructors use orthonormal directions, so that lengths and areas in the slice are those of the
    input space; with a basis of your own they are measured in slice coordinates.

    Example:
        >>> Slice.axes([0.0, 0.0], (0, 1), -3, 3)
        Slice(2-D in inputs of shape (2,), 4 corners, area 36)
    """

    origin: np.ndarray
    basis: np.ndarray
    domain: np.ndarray
    anchors: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))

    def __post_init__(self) -> None:
        origin = _as_coordinates(self.origin, "origin")
        basis = as_float64_array(self.basis, "basis")
        domain = _as_coordinates(self.domain, "domain")
        if origin.ndim == 0 or origin.size == 0:
            raise InputError(f"origin must have the network's input shape, of at least one number, got {origin.shape}.")
        if basis.shape == origin.shape:
            basis = basis[None]
        if basis.shape[1:] != origin.shape or not 1 <= len(basis) <= MOST_DIMENSIONS:
            raise InputError(
                f"basis must have shape (d, *origin.shape) = (d, {', '.join(map(str, origin.shape))}) with 1 to "
                f"{MOST_DIMENSIONS} directions, got {basis.shape}."
            )
        flat = basis.reshape(len(basis), -1)
        _check_scale(np.abs(flat).max(initial=0.0), "the rows of basis")
        singular = np.linalg.svd(flat, compute_uv=False)
        if singular[-1] <= 1e-12 * singular[0] or singular[0] == 0.0:
            raise InputError("basis must have linearly independent, non-zero rows; these span too little.")
        if domain.ndim and len(domain) > 1:
            _check_scale(np.ptp(domain, axis=0).max(initial=0.0), "the sides of domain")
        domain = _checked_domain(domain, len(basis))
        anchors = as_float64_array(self.anchors, "anchors")
        if anchors.size == 0:
            anchors = np.zeros((0, len(basis)))
        if anchors.ndim != 2 or anchors.shape[1] != len(basis):
            raise InputError(f"anchors must have shape (m, {len(basis)}), got {anchors.shape}.")
        for name, value in (("origin", origin), ("basis", basis), ("domain", domain), ("anchors", anchors)):
            value = value.copy()
            value.flags.writeable = False
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        size = {1: "length", 2: "area"}.get(self.dimension, "volume")
        what = f"{self.dimension}-D in inputs of shape {self.input_shape}"
        return f"Slice({what}, {len(self.domain)} corners, {size} {self.size:.6g})"

    @property
    def dimension(self) -> int:
        """Number of directions, 1 to 8."""
        return len(self.basis)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one network input."""
        return self.origin.shape

    @property
    def size(self) -> float:
        """Length (1-D), area (2-D) or volume of the domain, in slice coordinates."""
        if self.dimension == 1:
            return float(self.domain[1, 0] - self.domain[0, 0])
        return _signed_area(self.domain) if self.dimension == 2 else self.hull.volume

    @cached_property
    def hull(self) -> Hull:
        """The facets of a domain of three or more dimensions, with the corners that lie on each."""
        return hull(self.domain)

    def inputs(self, points: Any) -> np.ndarray:
        """Network inputs `[N, *input_shape]` at slice coordinates `points` `[N, d]`."""
        return placed(self, as_points(points, self.dimension))

    def coordinates(self, x: Any) -> np.ndarray:
        """Slice coordinates `[N, d]` of the points of the slice's plane nearest to inputs `x` `[N, *input_shape]`."""
        x = as_float64_array(x, "x")
        if x.shape[1:] != self.input_shape:
            raise InputError(f"x must have shape (N, {', '.join(map(str, self.input_shape))}), got {x.shape}.")
        flat = (x - self.origin).reshape(len(x), -1)
        basis = self.basis.reshape(self.dimension, -1)
        return np.linalg.solve(basis @ basis.T, basis @ flat.T).T

    @classmethod
    def through(
        cls, *points: Any, pad: float = 0.0, shape: Literal["box", "simplex", "square", "triangle"] = "box"
    ) -> Slice:
        """The flat through d + 1 inputs (the plane through three, the space through four...); they are its anchors.

        Args:
            points: Two to nine points, each of the network's input shape (no batch axis).
            pad: Margin, as a fraction of the size, added on every side.
            shape: "box" ("square"): a box of equal sides about the points; "simplex" ("triangle"): what they span.
        """
        check_choice(shape, "shape", ("box", "simplex", "square", "triangle"))
        dimension, names = len(points) - 1, ", ".join(f"p{i}" for i in range(len(points)))
        if not 1 <= dimension <= MOST_DIMENSIONS:
            raise InputError(f"through takes 2 to {MOST_DIMENSIONS + 1} points, got {len(points)}.")
        given = [_as_coordinates(p, f"p{i}") for i, p in enumerate(points)]
        if len({p.shape for p in given}) > 1:
            raise InputError(f"{names} must have one shape, got {', '.join(str(p.shape) for p in given)}.")
        _check_pad(pad)
        origin = sum(given[1:], given[0]) / float(len(given))
        edges = np.stack([(p - given[0]).reshape(-1) for p in given[1:]])
        where = {1: "be different", 2: "not lie on one line"}.get(dimension, "not lie in a flat of fewer dimensions")
        basis = _orthonormal(edges, f"{names} must {where}", "p0 and p1 are equal")
        t = np.stack([basis @ (p - origin).reshape(-1) for p in given])
        if shape in ("triangle", "simplex"):
            domain = t * (1.0 + pad)
        else:
            low, high = t.min(0), t.max(0)
            half = 0.5 * float((high - low).max()) * (1.0 + 2.0 * pad)
            domain = (low + high) / 2.0 + half * unit_box(dimension)
        if dimension == 1:
            domain = np.sort(domain, axis=0)
        elif dimension == 2 and _signed_area(domain) < 0:
            domain = domain[::-1]
        return cls(origin, basis.reshape(dimension, *origin.shape), domain, t)

    @classmethod
    def segment(cls, a: Any, b: Any, *, pad: float = 0.0) -> Slice:
        """The line from input a (t = 0) to input b (t = their distance), longer by `pad` times that on both ends."""
        a, b = _as_coordinates(a, "a"), _as_coordinates(b, "b")
        if a.shape != b.shape:
            raise InputError(f"a and b must have one shape, got {a.shape} and {b.shape}.")
        _check_pad(pad)
        _check_scale(np.abs(b - a).max(initial=0.0), "the distance of a and b")
        length = float(np.linalg.norm((b - a).reshape(-1)))
        if length == 0.0:
            raise InputError("a and b must be different points, got the same point twice (a slice of zero length).")
        return cls(a, ((b - a) / length)[None], np.array([-pad, 1.0 + pad]) * length, np.array([[0.0], [length]]))

    @classmethod
    def box(
        cls, center: Any, directions: Any = None, half_width: float = 1.0, *, generator: torch.Generator | None = None
    ) -> Slice:
        """A box (segment, square, cube...) of the given half width about a point.

        Args:
            center: A network input; it is the anchor.
            directions: `[d, *input shape]`, orthonormalized in order; or how many random ones, two if None.
            half_width: Half the side, in units of the input space.
            generator: Source of the random directions.
        """
        center = _as_coordinates(center, "center")
        half_width = check_positive(half_width, "half_width")
        check_generator(generator)
        if directions is None or isinstance(directions, (int, np.integer)):
            count = 2 if directions is None else check_whole(directions, "directions", most=MOST_DIMENSIONS)
            if center.size < count:
                raise InputError(f"a {count}-D slice needs inputs of at least {count} numbers, got {center.size}.")
            directions = torch.randn(count, center.size, generator=generator, dtype=torch.float64)
        flat = as_float64_array(directions, "directions")
        if flat.size and flat.ndim:
            flat = flat.reshape(1, -1) if flat.shape == center.shape else flat.reshape(len(flat), -1)
        if flat.ndim != 2 or not 1 <= len(flat) <= MOST_DIMENSIONS or flat.shape[1] != center.size:
            expected = f"(d, {', '.join(map(str, center.shape))}) with 1 to {MOST_DIMENSIONS} directions"
            raise InputError(f"directions must have shape {expected}, got {np.shape(directions)}.")
        basis = _orthonormal(flat, "directions must be linearly independent").reshape(-1, *center.shape)
        return cls(center, basis, half_width * unit_box(len(basis)), np.zeros((1, len(basis))))

    @classmethod
    def axes(cls, center: Any, axes: int | Sequence[int], low: Any, high: Any) -> Slice:
        """A box along one to eight coordinate axes; slice coordinates are those input coordinates themselves.

        Args:
            center: A network input; the coordinates not in `axes` stay at its values.
            axes: One or more indices into the flattened input.
            low, high: Ends, one number or one per axis.
        """
        center = _as_coordinates(center, "center")
        given = np.atleast_1d(np.array(axes, dtype=object))
        whole = given.ndim == 1 and all(isinstance(i, (int, np.integer)) and not isinstance(i, bool) for i in given)
        if not whole or any(not -center.size <= i < center.size for i in given):
            raise InputError(f"axes must be indices into the flattened input of {center.size} numbers, got {axes!r}.")
        indices = [int(i) % center.size for i in given]
        if not 1 <= len(indices) <= MOST_DIMENSIONS or len(set(indices)) != len(indices):
            raise InputError(f"axes must be one to {MOST_DIMENSIONS} different indices, got {axes!r}.")
        lows, highs = _ends(low, "low", len(indices)), _ends(high, "high", len(indices))
        if not (lows < highs).all():
            raise InputError(f"low must be below high on every axis, got low={low!r}, high={high!r}.")
        origin = center.copy()
        anchor = origin.reshape(-1)[indices].copy()
        origin.reshape(-1)[indices] = 0.0
        basis = np.zeros((len(indices), center.size))
        basis[np.arange(len(indices)), indices] = 1.0
        corners = unit_box(len(indices))
        if len(indices) == 2:
            domain = lows + (corners + 1.0) / 2.0 * (highs - lows)
        else:
            domain = np.where(corners > 0, highs, lows)
        inside = (anchor >= lows).all() and (anchor <= highs).all()
        return cls(origin, basis.reshape(-1, *center.shape), domain, anchor[None] if inside else np.zeros((0, 0)))


def placed(view: Slice, points: np.ndarray) -> np.ndarray:
    """`Slice.inputs` of points that need no checking."""
    flat = view.origin.reshape(-1) + points @ view.basis.reshape(view.dimension, -1)
    return flat.reshape(len(points), *view.input_shape)


def _check_pad(pad: float) -> None:
    if not (isinstance(pad, (int, float, np.number)) and 0 <= pad <= 1e100):
        raise InputError(f"pad must be a number >= 0, got {pad!r}.")


def _as_coordinates(value: Any, name: str) -> np.ndarray:
    """Numbers whose squares and their sums are numbers, too."""
    array = as_float64_array(value, name)
    if (largest := np.abs(array).max(initial=0.0)) > 1e100:
        raise InputError(f"{name} must have numbers up to 1e100, got {largest:.3g}: scale the inputs.")
    return array


def _check_scale(size: float, name: str) -> None:
    """Refuse sizes whose squares vanish or overflow; zero is for the caller to refuse in its own words."""
    if size != 0.0 and not 1e-100 <= size <= 1e100:
        raise InputError(f"{name} must have sizes from 1e-100 to 1e100, got {size:.3g}: scale the inputs.")


def _ends(value: Any, name: str, count: int) -> np.ndarray:
    """One number per axis, from one for all or one each."""
    ends = _as_coordinates(value, name)
    if ends.shape not in ((), (1,), (count,)):
        raise InputError(f"{name} must be one number or one per axis ({count}), got shape {ends.shape}.")
    return np.broadcast_to(ends, (count,))


def _orthonormal(rows: np.ndarray, refusal: str, zero: str = "the first is zero") -> np.ndarray:
    """Gram-Schmidt (each row keeps its sense), refused if rows are dependent (`zero`: if the first is zero)."""
    for size in np.abs(rows).max(1, initial=0.0):
        _check_scale(size, "a direction of the slice")
    first = np.linalg.norm(rows[0])
    if first == 0.0:
        raise InputError(f"{refusal}: {zero}.")
    basis = [rows[0] / first]
    for row in rows[1:]:
        rest = row
        for _ in range(2):  # once more, for the digits
            for direction in basis:
                rest = rest - (rest @ direction) * direction
        if np.linalg.norm(rest) <= 1e-12 * np.linalg.norm(row) or not np.linalg.norm(rest):
            raise InputError(f"{refusal}: the slice would have zero {'area' if len(rows) == 2 else 'volume'}.")
        basis.append(rest / np.linalg.norm(rest))
    return np.stack(basis)


def _checked_domain(domain: np.ndarray, dimension: int) -> np.ndarray:
    """The domain of a slice of that dimension, or an error that says what it should be."""
    if dimension == 1:
        if domain.size != 2 or not domain.reshape(-1)[0] < domain.reshape(-1)[1]:
            raise InputError(
                f"domain of a 1-D slice must be two numbers, left < right, got {domain.reshape(-1)[:4].tolist()} of "
                f"shape {domain.shape}."
            )
        return domain.reshape(2, 1)
    if domain.ndim != 2 or domain.shape[1] != dimension or len(domain) <= dimension:
        raise InputError(
            f"domain of a {dimension}-D slice must be at least {dimension + 1} "
            f"{'corners' if dimension == 2 else 'points'} of shape (n, {dimension}), got {domain.shape}."
        )
    if dimension > 2:
        return domain[hull(domain).corners]
    _check_polygon(domain)
    return domain


def _check_polygon(domain: np.ndarray) -> None:
    """Refuse a polygon that is not convex, counter-clockwise and of positive area."""
    edges = np.roll(domain, -1, 0) - domain
    following = np.roll(edges, -1, 0)
    turns = edges[:, 0] * following[:, 1] - edges[:, 1] * following[:, 0]
    lengths = np.linalg.norm(edges, axis=1)
    if (lengths == 0).any():
        raise InputError(f"domain must not repeat a corner; corner {int(np.argmin(lengths))} equals the next one.")
    area = _signed_area(domain)
    if abs(area) <= 1e-14 * lengths.max() ** 2:
        raise InputError(f"domain must have positive area, got corners on (almost) one line: area {area:.3g}.")
    if area < 0:
        raise InputError("domain must list its corners counter-clockwise, got them clockwise: reverse the list.")
    turning = np.arctan2(turns, (edges * following).sum(1)).sum()
    if (turns < -1e-12 * lengths * np.roll(lengths, -1)).any() or abs(turning - 2 * np.pi) > 1e-6:
        worst = (int(np.argmin(turns)) + 1) % len(domain)
        raise InputError(f"domain must be convex; it bends inwards (or crosses itself) at corner {worst}.")


def _signed_area(polygon: np.ndarray) -> float:
    d = polygon - polygon[0]
    return 0.5 * float((d[1:-1, 0] * d[2:, 1] - d[1:-1, 1] * d[2:, 0]).sum())
