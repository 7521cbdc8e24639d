"""A ball about an input in which its class is proven to win, by one linear relaxation of the whole network.

On a ball every value is `v0 + V t + E e` with t in the ball and each number of e in [-1, 1]: a zonotope. Affine steps
keep that form. Of a unit with pre-activations in [l, u], l < 0 < u, `relu(z)` lies between two parallel lines: it is
`s z + m + m e'` with s = u / (u - l), m = -s l / 2 and a new e'. A max exceeds one competitor by at most some D, and is
that competitor plus `D / 2 + D / 2 e'`.

Reference: Singh, Gehr, Mirman, Pueschel, Vechev, "Fast and effective robustness certification", 2018.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from ..network.program import Affine, Fold
from .affine_rows import RTOL, SCALE, Coordinates, RowReader, linear_rows

_NUMBERS = 1 << 25  # in the rows of a value: larger networks would take seconds a ball
_TRIALS = 40
_NARROW = 1e-3  # the radius is known to this factor
_ROUNDING = 1e-12  # of the widest range of a site: how far rounding may be off


def safe_radius(
    space: Coordinates, leads: Callable[[np.ndarray], np.ndarray], norm: float, most: float, stop: Callable[[], bool]
) -> float:
    """The radius of a ball about the origin in which all `leads` of the outputs are proven positive; 0 if none is.

    Args:
        space: Where the network is looked at.
        leads: Linear: from rows of outputs `[n, C]` to rows of what must stay positive.
        norm: 2 or infinity.
        most: Larger balls are not asked about.
        stop: Ends the search.
    """
    program = space.program
    widest = max([math.prod(program.input_shape), *(math.prod(fold.site.shape) for fold in program.folds)])
    if (1 + space.dimension + sum(site.units for site in program.sites)) * widest > _NUMBERS:
        return 0.0
    low, high = 0.0, most
    for _ in range(_TRIALS):
        if stop() or (math.isfinite(high) and high - low <= _NARROW * high):
            break
        radius = (low + high) / 2 if math.isfinite(high) else max(2 * low, 1.0)
        if _Zonotope(space, norm, radius).keeps(leads):
            low = radius
        else:
            high = radius
    return (1 - _ROUNDING) * low


class _Zonotope(RowReader):
    """Evaluates steps on the rows (v0, V, E); values made earlier have fewer rows of E."""

    def __init__(self, space: Coordinates, norm: float, radius: float) -> None:
        super().__init__(space.program, lambda cuts: np.zeros(0), space.zeros)
        self._space, self._norm, self._radius = space, norm, radius
        self._total = 1 + space.dimension

    def keeps(self, leads: Callable[[np.ndarray], np.ndarray]) -> bool:
        """Whether all leads are positive on the whole ball."""
        basis = np.eye(self._space.origin.size) if self._space.basis is None else self._space.basis
        rows = self.outputs(self._space.origin, basis)[0]
        rows[1:] *= SCALE
        middle, spread = self._range(leads(rows), RTOL * np.abs(rows[0]).max())
        return bool((middle > spread).all())

    def _range(self, rows: np.ndarray, zero: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        """Middle and half width of values on the ball, `[*shape]` of `[rows, *shape]`; `zero` is what rounding is."""
        straight, errors = rows[1 : 1 + self._space.dimension], rows[1 + self._space.dimension :]
        if self._norm == 2:
            steep = np.linalg.norm(straight, axis=0)
        else:
            ways = self._space.directions(straight.reshape(len(straight), -1).T)
            steep = np.abs(ways).sum(1).reshape(straight.shape[1:])
        spread = (self._radius * steep + np.abs(errors).sum(0)) / SCALE
        return rows[0], spread + zero + _ROUNDING * spread.max(initial=0.0)

    def _step(self, step: Affine | Fold, inputs: list[Tensor]) -> Tensor:
        most = max((len(value) for value in inputs), default=1)
        inputs = [_padded(value, most) for value in inputs]
        if isinstance(step, Affine):
            return linear_rows(step.run, inputs, most)
        if step.output in self._stages:
            return inputs[0] if step.output not in self._numbers else self._largest(step, inputs[0])
        middle, spread = self._range(linear_rows(step.cuts, inputs, most).numpy(), self._zeros[step.output])
        low, high = middle - spread, middle + spread
        slopes = np.where(low >= 0, 1.0, np.where(high <= 0, 0.0, high / np.maximum(2 * spread, 1e-300)))
        between = np.where((low < 0) & (high > 0), -slopes * low / 2, 0.0)
        rows = self._straight(step, inputs, slopes[None], most)
        return self._within(rows, step.elements, step.gains * between)

    def _largest(self, step: Fold, competitors: Tensor) -> Tensor:
        """The max of each window; of negated ones, if it is a min."""
        sign = float(step.gains[0])
        rows = sign * competitors.numpy()
        best = rows[0].argmax(0)[None]
        winners = np.take_along_axis(rows, best[None], 1)
        middle, spread = self._range(rows - winners, self._zeros[step.output])
        beyond = middle + spread
        np.put_along_axis(beyond, best, 0.0, 0)
        sizes = beyond.max(0) / 2
        return sign * self._within(torch.from_numpy(winners), np.arange(len(sizes)), sizes)

    def _within(self, rows: Tensor, elements: np.ndarray, sizes: np.ndarray) -> Tensor:
        """Values that may be off by up to twice `sizes`, to one side."""
        flat = _padded(rows, self._total).reshape(self._total, -1).numpy().copy()
        np.add.at(flat[0], elements, sizes)
        bent = np.flatnonzero(sizes)
        own = np.zeros((len(bent), flat.shape[1]))
        own[np.arange(len(bent)), elements[bent]] = SCALE * sizes[bent]
        self._total += len(bent)
        return torch.from_numpy(np.concatenate([flat, own])).reshape(self._total, *rows.shape[1:])


def _padded(rows: Tensor, most: int) -> Tensor:
    """Rows, zeros below them."""
    return torch.cat([rows, rows.new_zeros(most - len(rows), *rows.shape[1:])])
