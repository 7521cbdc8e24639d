"""`Approximation`: how far the tiled network is from a smooth one it stands for, and what that makes of results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ..support.display import Certainty, Result


@dataclass(frozen=True, eq=False, repr=False)
class Approximation(Result):
    """The tiled network has interpolants in place of smooth activations; all numbers are absolute, on its outputs.

    Attributes:
        tolerance: What was asked for.
        bound: Largest difference that is possible on the slice (proven, but for rounding).
        deviation: Largest difference that was measured: at vertices, in the middle of tiles and at random points.
        basis: Which of them was brought below the tolerance: "bound", or "deviation" where the bound is hopeless.
        elements: `[cuts]` element of its site's output that each cut bends; cuts as in `Walls.cuts`.
        knots: `[cuts]` the pre-activation at which it bends; NaN where the network folds by itself (ReLU, max).
    """

    tolerance: float
    bound: float
    deviation: float
    basis: Literal["bound", "deviation"]
    elements: np.ndarray
    knots: np.ndarray

    @property
    def certainty(self) -> Certainty:
        return "bound" if self.basis == "bound" else "estimate"

    @property
    def assurance(self) -> str:
        if self.basis == "bound":
            return f"Within {self.bound:.3g} of the smooth network everywhere on the slice: proven."
        return (
            f"Within {self.deviation:.3g} of the smooth network wherever it was measured; what is proven is "
            f"{self.bound:.3g}."
        )


@dataclass(frozen=True, eq=False, repr=False)
class TilingResult(Result):
    """A result read off a tiling: exact for the tiled network, and as sure of the model as the tiling is.

    Attributes:
        certainty: That of the tiling; "exact" unless it was made within a tolerance.
    """

    certainty: Certainty = field(default="exact", kw_only=True)

    @property
    def assurance(self) -> str:
        if self.certainty == "exact":
            return super().assurance
        how = "proven" if self.certainty == "bound" else "measured"
        return f"Of a network that is {how} to be within the tolerance of the smooth one, not of that one itself."
