"""Slices: affine windows on a network's input space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch

from .._checks import as_float64_array, check_choice, check_finite, check_generator, check_positive
from .._errors import InputError


@dataclass(frozen=True, eq=False)
class Slice:
    """An affine window `x = origin + t @ basis` on input space, with t in a convex domain.

    Attributes:
        origin: The input at t = 0, of the network's input shape (an image stays an image).
        basis: `[d, *input shape]`, d = 1 or 2 linearly independent directions.
        domain: `[n, 2]` corners of a convex polygon, counter-clockwise; or two numbers (left, right) if d = 1.
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
        if origin.ndim == 0:
            raise InputError("origin must have the network's input shape (at least one axis), got a single number.")
        if origin.size == 0:
            raise InputError(f"origin must be an input of at least one number, got shape {origin.shape}.")
        if basis.shape == origin.shape:
            basis = basis[None]
        if basis.shape[1:] != origin.shape or basis.shape[0] not in (1, 2):
            raise InputError(
                f"basis must have shape (1 or 2, *origin.shape) = (1 or 2, {', '.join(map(str, origin.shape))}), "
                f"got {basis.shape}."
            )
        flat = basis.reshape(len(basis), -1)
        _check_scale(np.abs(flat).max(initial=0.0), "the rows of basis")
        singular = np.linalg.svd(flat, compute_uv=False)
        if singular[-1] <= 1e-12 * singular[0] or singular[0] == 0.0:
            raise InputError(
                "basis must have linearly independent, non-zero rows; these span too little to be a slice."
            )
        if domain.ndim and len(domain) > 1:
            _check_scale(np.ptp(domain, axis=0).max(initial=0.0), "the sides of domain")
        domain = _checked_interval(domain) if len(basis) == 1 else _checked_polygon(domain)
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
        size = "length" if self.dimension == 1 else "area"
        what = f"{self.dimension}-D in inputs of shape {self.input_shape}"
        return f"Slice({what}, {len(self.domain)} corners, {size} {self.size:.6g})"

    @property
    def dimension(self) -> int:
        """1 or 2."""
        return len(self.basis)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one network input."""
        return self.origin.shape

    @property
    def size(self) -> float:
        """Length (1-D) or area (2-D) of the domain, in slice coordinates."""
        if self.dimension == 1:
            return float(self.domain[1, 0] - self.domain[0, 0])
        return _signed_area(self.domain)

    def inputs(self, t: Any) -> np.ndarray:
        """Network inputs `[N, *input_shape]` at slice coordinates `t` `[N, d]`."""
        t = as_float64_array(t, "t")
        if t.ndim != 2 or t.shape[1] != self.dimension:
            raise InputError(f"t must have shape (N, {self.dimension}), got {t.shape}.")
        flat = self.origin.reshape(-1) + t @ self.basis.reshape(self.dimension, -1)
        return flat.reshape(len(t), *self.input_shape)

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
        cls, p0: Any, p1: Any, p2: Any, *, pad: float = 0.0, shape: Literal["square", "triangle"] = "square"
    ) -> Slice:
        """The plane through three inputs; the points are its anchors.

        Args:
            p0: First point, of the network's input shape (no batch axis); likewise `p1` and `p2`.
            p1: Second point.
            p2: Third point.
            pad: Margin, as a fraction of the size, added on every side.
            shape: "square": a square about the three points; "triangle": the triangle they span.
        """
        check_choice(shape, "shape", ("square", "triangle"))
        points = [_as_coordinates(p, name) for p, name in ((p0, "p0"), (p1, "p1"), (p2, "p2"))]
        if not points[0].shape == points[1].shape == points[2].shape:
            raise InputError(f"p0, p1, p2 must have one shape, got {', '.join(str(p.shape) for p in points)}.")
        _check_pad(pad)
        origin = (points[0] + points[1] + points[2]) / 3.0
        edges = np.stack([(points[1] - points[0]).reshape(-1), (points[2] - points[0]).reshape(-1)])
        basis = _orthonormal(edges, "p0, p1, p2 must not lie on one line")
        t = np.stack([basis @ (p - origin).reshape(-1) for p in points])
        if shape == "triangle":
            domain = t * (1.0 + pad)
        else:
            low, high = t.min(0), t.max(0)
            half = 0.5 * float((high - low).max()) * (1.0 + 2.0 * pad)
            domain = (low + high) / 2.0 + half * _UNIT_SQUARE
        if _signed_area(domain) < 0:
            domain = domain[::-1]
        return cls(origin, basis.reshape(2, *origin.shape), domain, t)

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
        cls,
        center: Any,
        directions: Any = None,
        half_width: float = 1.0,
        *,
        generator: torch.Generator | None = None,
    ) -> Slice:
        """A square (or segment, for one direction) of the given half width about a point.

        Args:
            center: A network input; it is the anchor.
            directions: `[d, *input shape]`, d = 1 or 2, orthonormalised in order; two random ones if None.
            half_width: Half the side, in units of the input space.
            generator: Source of the random directions.
        """
        center = _as_coordinates(center, "center")
        half_width = check_positive(half_width, "half_width")
        check_generator(generator)
        if directions is None:
            if center.size < 2:
                raise InputError("a 2-D slice needs inputs of at least 2 numbers; give directions for a 1-D slice.")
            directions = torch.randn(2, center.size, generator=generator, dtype=torch.float64)
        flat = as_float64_array(directions, "directions")
        if flat.size:
            flat = flat.reshape(1, -1) if flat.shape == center.shape else flat.reshape(len(flat), -1)
        if flat.ndim != 2 or flat.shape[0] not in (1, 2) or flat.shape[1] != center.size:
            expected = f"(1 or 2, {', '.join(map(str, center.shape))})"
            raise InputError(f"directions must have shape {expected}, got {np.shape(directions)}.")
        basis = _orthonormal(flat, "directions must be linearly independent").reshape(-1, *center.shape)
        domain = half_width * (_UNIT_SQUARE if len(basis) == 2 else np.array([-1.0, 1.0]))
        return cls(center, basis, domain, np.zeros((1, len(basis))))

    @classmethod
    def axes(cls, center: Any, axes: int | Sequence[int], low: Any, high: Any) -> Slice:
        """A box along one or two coordinate axes; slice coordinates are those input coordinates themselves.

        Args:
            center: A network input; the coordinates not in `axes` stay at its values.
            axes: One or two indices into the flattened input.
            low: Lower ends, one number or one per axis.
            high: Upper ends, one number or one per axis.
        """
        center = _as_coordinates(center, "center")
        given = np.atleast_1d(np.array(axes, dtype=object))
        whole = given.ndim == 1 and all(isinstance(i, (int, np.integer)) and not isinstance(i, bool) for i in given)
        if not whole or any(not -center.size <= i < center.size for i in given):
            raise InputError(
                f"axes must be one or two indices into the flattened input of {center.size} numbers, got {axes!r}."
            )
        indices = [int(i) % center.size for i in given]
        if len(indices) not in (1, 2) or len(set(indices)) != len(indices):
            raise InputError(f"axes must be one or two different indices, got {axes!r}.")
        lows, highs = _ends(low, "low", len(indices)), _ends(high, "high", len(indices))
        if not (lows < highs).all():
            raise InputError(f"low must be below high on every axis, got low={low!r}, high={high!r}.")
        origin = center.copy()
        anchor = origin.reshape(-1)[indices].copy()
        origin.reshape(-1)[indices] = 0.0
        basis = np.zeros((len(indices), center.size))
        basis[np.arange(len(indices)), indices] = 1.0
        domain = np.stack([lows, highs])
        if len(indices) == 2:
            domain = lows + (_UNIT_SQUARE + 1.0) / 2.0 * (highs - lows)
        inside = (anchor >= lows).all() and (anchor <= highs).all()
        return cls(origin, basis.reshape(-1, *center.shape), domain, anchor[None] if inside else np.zeros((0, 0)))


_UNIT_SQUARE = np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])


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


def _orthonormal(rows: np.ndarray, refusal: str) -> np.ndarray:
    """Gram-Schmidt on one or two rows (each keeps its sense), refused if they are dependent."""
    for size in np.abs(rows).max(1, initial=0.0):
        _check_scale(size, "a direction of the slice")
    first = np.linalg.norm(rows[0])
    if first == 0.0:
        raise InputError(f"{refusal}: a direction of length zero came.")
    basis = [rows[0] / first]
    if len(rows) == 2:
        rest = rows[1] - (rows[1] @ basis[0]) * basis[0]
        rest = rest - (rest @ basis[0]) * basis[0]  # once more, for the digits
        if np.linalg.norm(rest) <= 1e-12 * np.linalg.norm(rows[1]) or not np.linalg.norm(rest):
            raise InputError(f"{refusal}: the slice would have zero area.")
        basis.append(rest / np.linalg.norm(rest))
    return np.stack(basis)


def _checked_interval(domain: np.ndarray) -> np.ndarray:
    if domain.size != 2:
        raise InputError(f"domain of a 1-D slice must be two numbers (left, right), got shape {domain.shape}.")
    domain = domain.reshape(2, 1)
    if not domain[0, 0] < domain[1, 0]:
        raise InputError(f"domain of a 1-D slice must have left < right, got {domain[:, 0].tolist()}.")
    return domain


def _checked_polygon(domain: np.ndarray) -> np.ndarray:
    """The polygon, refused unless it is convex, counter-clockwise and of positive area."""
    if domain.ndim != 2 or domain.shape[1] != 2 or len(domain) < 3:
        raise InputError(f"domain of a 2-D slice must be at least 3 corners of shape (n, 2), got {domain.shape}.")
    check_finite(domain, "domain")
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
    return domain


def _signed_area(polygon: np.ndarray) -> float:
    d = polygon - polygon[0]
    return 0.5 * float((d[1:-1, 0] * d[2:, 1] - d[1:-1, 1] * d[2:, 0]).sum())
