"""A network at many neighbouring points of a slice at once: its ops run on a few basis rows, not on every point.

    value at point n = coefficients[n] @ basis,      coefficients = (1, t - centre, a_1, a_2, ...)

with a_j the positive parts of the units that take both signs at these points; all else is affine in them. For points
of some hundred tiles the basis has about a hundred rows. Sums of r terms are rounded to r eps |coefficients| |basis|.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from ..network._program import Fold, Program, Seal, live_after
from .slice import Slice

_SCALE = 2.0**40  # linear parts are (f(scale x) - f(0)) / scale: the constants of f cost no digits
_EPS = float(np.finfo(float).eps)


class Together:
    """A program at points `t` `[N, d]` of a slice.

    Attributes:
        coefficients: `[N, r]`.
        output: `[r, C]` the basis of the outputs, flattened.
        patterns: Per fold `[N, U]` booleans: where a unit is positive by more than rounding.
    """

    def __init__(self, program: Program, view: Slice, t: np.ndarray) -> None:
        middle = t.mean(0, keepdims=True)
        self.coefficients = torch.from_numpy(np.concatenate([np.ones((len(t), 1)), t - middle], 1))
        self.patterns: list[np.ndarray] = []
        first = np.concatenate([view.inputs(middle), view.basis])
        values = {program.input: torch.from_numpy(first)}
        with torch.no_grad():
            for step, needed in zip(program.steps, live_after(program.steps, {program.output}), strict=True):
                if isinstance(step, Seal):
                    continue
                given = [self._all_rows(values[name]) for name in step.inputs]
                values[step.output] = self._cross(step, given) if isinstance(step, Fold) else _through(step.run, given)
                values = {name: value for name, value in values.items() if name in needed}
            self.output = self._all_rows(values[program.output]).flatten(1)

    def _all_rows(self, basis: Tensor) -> Tensor:
        """With zeros for the units that have bent other values since."""
        missing = self.coefficients.shape[1] - len(basis)
        return torch.cat([basis, basis.new_zeros(missing, *basis.shape[1:])]) if missing else basis

    def _cross(self, fold: Fold, given: list[Tensor]) -> Tensor:
        """The basis of a fold's output; units with both signs become coefficients of their own."""
        cuts = _through(fold.cuts, given)
        low, high = self.coefficients.amin(0), self.coefficients.amax(0)
        middle, reach = (low + high) / 2 @ cuts, (high - low) / 2 @ cuts.abs()
        open_ = torch.nonzero(middle.abs() <= (1 + 1e-9) * reach + 1e-300).flatten()
        z = self.coefficients @ cuts[:, open_]
        noise = len(cuts) * _EPS * (self.coefficients.abs() @ cuts[:, open_].abs())
        positive = z > noise
        pattern = (middle > 0).expand(len(z), -1).clone()
        pattern[:, open_] = positive
        self.patterns.append(pattern.numpy())
        both = positive.any(0) & ~positive.all(0)
        always = middle > 0
        always[open_] = positive.all(0)
        gains, elements = torch.from_numpy(np.array(fold.gains)), torch.from_numpy(np.array(fold.elements))
        shape = fold.run(*(value[:1] for value in given)).shape[1:]

        def flat_part(*x: Tensor) -> Tensor:
            bent = gains * fold.cuts(*x).clamp_min(0.0)
            return fold.run(*x).flatten(1).index_add(1, elements, bent, alpha=-1)

        basis = _through(flat_part, given)
        basis.index_add_(1, elements[always], gains[always] * cuts[:, always])
        units = open_[both]
        rows = basis.new_zeros(len(units), basis.shape[1])
        rows[torch.arange(len(units)), elements[units]] = gains[units]
        self.coefficients = torch.cat([self.coefficients, torch.where(positive, z, 0.0)[:, both]], 1)
        return torch.cat([basis, rows]).unflatten(1, shape)


def _through(run: Callable[..., Tensor], given: list[Tensor]) -> Tensor:
    """The basis behind an affine op: its first row with constants, the others without."""
    rows = [torch.cat([value[:1], _SCALE * value[1:], torch.zeros_like(value[:1])]) for value in given]
    made = run(*rows)
    return torch.cat([made[:1], (made[1:-1] - made[-1:]) / _SCALE])
