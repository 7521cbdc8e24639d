"""How large the terms are that cancel in a network's output: what every rounding on the way is relative to."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .program import Affine, Fold, Program, walked

_STEP = 2.0**-40  # above float64's own roundings, small enough to be linear
_TRIALS = 4


def cancelling_terms(program: Program, x: Tensor, finish: Callable[[Tensor], Tensor | None] = lambda y: y) -> float:
    """Size of the terms that cancel in the outputs at `x`, behind `finish`, by what roundings do to them.

    Each affine step is moved by `_STEP` of its own terms, at random signs. Sums of absolute weights over all layers
    would bound it too, but by far too much in a deep network.
    """
    generator = torch.Generator().manual_seed(0)

    def rounded(step: Affine | Fold, inputs: list[Tensor]) -> Tensor:
        result = step.run(*inputs)
        if isinstance(step, Fold):
            return result
        terms = step.magnitude(*(value.abs() for value in inputs))
        signs = torch.randint(0, 2, terms.shape, generator=generator, dtype=torch.float64) * 2 - 1
        return result + _STEP * signs * terms

    x = x.to(torch.float64)
    with torch.no_grad():
        exact, moved = finish(program.forward(x)), 0.0
        for _ in range(_TRIALS):
            found = finish(walked(program.steps, {program.input: x}, {program.output}, rounded)[program.output])
            if exact is not None and found is not None and exact.numel():
                moved = max(moved, float((found - exact).abs().nan_to_num(0.0, 0.0, 0.0).amax()))
    return moved / _STEP
