"""A network at many neighboring points of a slice at once, in factored form (see `rows_factored`): a few basis rows go
through its ops, not every point. For points of some hundred tiles these are about a hundred.
"""

import math
from itertools import pairwise
from weakref import WeakKeyDictionary

import numpy as np
import torch

from ...network.program import Fold, Program
from ..engine.basis import Basis
from ..engine.buffers import Buffers
from ..engine.crossing import crossed_basis, first_basis
from ..engine.rows_factored import box, touching
from ..engine.segments import Segment, cut_into_segments
from ..slice import Slice

_WIDE = 4096  # units, or _LONG numbers of an input: from here on points are worked out together
_LONG = 512
_WIDE_FOLDS = 192  # units of a mean fold: not on lines
_ON_LINES = 512  # points together: on a line there are as many basis rows as points
_SEGMENTS: WeakKeyDictionary[Program, list[Segment]] = WeakKeyDictionary()


def points_together(program: Program, view: Slice) -> int | None:
    """How many neighboring points to evaluate as one `ProgramAtPoints`; None if each is better off by itself."""
    most = _WIDE if view.dimension == 1 else min(_WIDE, _WIDE_FOLDS * len(program.folds))
    wide = sum(fold.site.cuts for fold in program.folds) > most or math.prod(program.input_shape) >= _LONG
    return (_ON_LINES if view.dimension == 1 else 2 * _ON_LINES) if wide else None


class ProgramAtPoints:
    """A program at points `t` `[N, d]` of a slice; value at point n = coefficients[n] @ basis.

    Attributes:
        coefficients: `[N, r]`.
        output: `[r, C]` the basis of the outputs, flattened.
        patterns: Per fold `[N, U]` booleans: where a unit is positive by more than rounding.
    """

    def __init__(self, program: Program, view: Slice, t: np.ndarray) -> None:
        middle = t.mean(0, keepdims=True)
        self.coefficients = np.concatenate([np.ones((len(t), 1)), t - middle], 1)
        self.patterns: list[np.ndarray] = []
        first = np.concatenate([view.inputs(middle), view.basis.reshape(-1, *view.input_shape)])
        with torch.no_grad():
            segments, buffers = _segments(program), Buffers()
            basis = first_basis(segments[0], first, program.input, buffers)
            for before, segment in pairwise(segments):
                assert segment.fold is not None
                basis = crossed_basis(before, segment, basis, *self._cross(segment.fold, basis), buffers)
        self.output = basis.rows(program.output)

    def _cross(self, fold: Fold, basis: Basis) -> tuple[np.ndarray, np.ndarray]:
        """Which units of a fold are positive throughout; and those with both signs, which become coefficients."""
        units, always, rounded = touching(*basis.cut_ranges(fold, *box(self.coefficients)), np.zeros(fold.site.units))
        cuts = basis.cuts(fold, units)
        z = self.coefficients @ cuts
        positive = z > rounded
        pattern = np.repeat(always[None], len(z), 0)
        pattern[:, units] = positive
        self.patterns.append(pattern)
        both = positive.any(0) & ~positive.all(0)
        always[units] = positive.all(0)
        self.coefficients = np.concatenate([self.coefficients, np.where(positive, z, 0.0)[:, both]], 1)
        return always, units[both]


def _segments(program: Program) -> list[Segment]:
    """The segments of a program with its output, however large."""
    if program not in _SEGMENTS:
        _SEGMENTS[program] = cut_into_segments(program, keep_output=True)
    return _SEGMENTS[program]
