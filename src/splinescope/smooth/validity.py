"""`Validity`: how far from its point a local map still tells what the network does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..support.display import Result, table
from ..support.drawing import drawn


@dataclass(frozen=True, eq=False, repr=False)
class Validity(Result):
    """How far local maps are valid (measured).

    Attributes:
        paths: `[M]` which map: "" for the whole network, then the layers.
        radii: `[R]` distances from the point.
        error: `[M, R]` share of the network's change that the map gets wrong.
        sizes: `[M]` norm of each map's point, to compare radii with.
    """

    paths: tuple[str, ...]
    radii: np.ndarray
    error: np.ndarray
    sizes: np.ndarray
    certainty = "estimate"
    plot = drawn("smooth.plot_validity")

    def radius(self, error: float = 0.1) -> np.ndarray:
        """`[M]` the largest of the radii up to which the error stays within `error`; 0 where none does."""
        within = np.logical_and.accumulate(self.error <= error, axis=1).sum(1)
        return np.where(within > 0, self.radii[np.maximum(within - 1, 0)], 0.0)

    def summary(self) -> str:
        """A table: per map the norm of its point and the error at each radius."""
        rows = [("map", "point's norm", *(f"error at {radius:.3g}" for radius in self.radii))]
        for path, size, errors in zip(self.paths, self.sizes, self.error, strict=True):
            rows.append((path or "whole network", f"{size:.4g}", *(f"{error:.2%}" for error in errors)))
        return f"{table(rows)}\nError: share of the network's change that the map gets wrong. {self.assurance}"
