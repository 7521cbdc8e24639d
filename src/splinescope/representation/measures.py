"""Measures of one layer's representation of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..support.checks import as_float64_array
from ..support.display import Result
from ..support.errors import InputError

ANGLE_BINS = np.linspace(0, 180, 91)
"""Edges of the angle histogram, in degrees."""


@dataclass(frozen=True, repr=False)
class OddPoint(Result):
    """The point that stands furthest from the mean of the batch.

    Attributes:
        index: Which point of the batch.
        norm_ratio: Its length over the median length of the others.
        isolation: Its length over the longest of the others.
        angle: Between it and the mean of the others, in degrees.
        cluster_angle: Median angle between one of the others and their mean, in degrees: the tightness.
        cluster_spread: Root mean square distance of the others to their mean, over its length.
    """

    index: int
    norm_ratio: float
    isolation: float
    angle: float
    cluster_angle: float
    cluster_spread: float
    certainty = "exact"


@dataclass(frozen=True, repr=False)
class LayerGeometry(Result):
    """The representation `H` of a batch at one place of a network, `n` points of `d` numbers.

    Attributes:
        name: Module path (or "input", "output").
        op: What made it, e.g. "relu".
        n, d: Points, and numbers of one (of a convolution, channels times positions).
        epsilon: Relative rounding of the numbers it was computed in.
        norms: `[n]` lengths of the points.
        singular_values: `[min(n, d)]`, descending.
        odd: The odd point; None for fewer than three points.
        orthogonality_gap: `|H H^T / tr - I / n|_F`: 0 for orthogonal points of one length.
        angle_counts: `[90]` histogram of the pairwise angles over `ANGLE_BINS`.
        mean_angle: Mean pairwise angle in degrees.
        active_fraction: `[d]` share of the batch on which each unit is positive.
        participation: `[d]` share of the batch that carries each unit's energy, `(sum h^2)^2 / (n sum h^4)`;
            nan for a silent unit.
        sparsity: Share of entries that are exactly 0.
        projection: `[n, 2]` random projection, for pictures.
        gram: `[n, n]`, or None if it was not kept.
    """

    name: str
    op: str
    n: int
    d: int
    epsilon: float
    norms: np.ndarray
    singular_values: np.ndarray
    odd: OddPoint | None
    orthogonality_gap: float
    angle_counts: np.ndarray
    mean_angle: float
    active_fraction: np.ndarray
    participation: np.ndarray
    sparsity: float
    projection: np.ndarray
    gram: np.ndarray | None
    certainty = "exact"

    def __repr__(self) -> str:
        return f"LayerGeometry({self.name} {self.op}, {self.n} points in {self.d} numbers, rank {self.rank()})"

    def rank(self, rtol: float | None = None) -> int:
        """Number of singular values above `rtol` times the largest (default: rounding, as in torch)."""
        s = self.singular_values
        if s[0] == 0:
            return 0
        tolerance = self.epsilon * max(self.n, self.d) if rtol is None else rtol
        return int(np.count_nonzero(s > tolerance * s[0]))

    @cached_property
    def stable_rank(self) -> float:
        """`|H|_F^2 / |H|_2^2`."""
        s = self.singular_values
        return float(np.square(s).sum() / s[0] ** 2) if s[0] > 0 else 0.0

    @cached_property
    def effective_rank(self) -> float:
        """Exponential of the entropy of the normalized singular values (Roy and Vetterli 2007)."""
        s = self.singular_values[self.singular_values > 0]
        if len(s) == 0:
            return 0.0
        p = s / s.sum()
        return float(np.exp(-(p * np.log(p)).sum()))

    def angles(self) -> np.ndarray:
        """`[n (n-1) / 2]` pairwise angles in degrees (needs the Gram matrix); good to about 1e-6."""
        if self.gram is None:
            raise InputError("the Gram matrix was not kept: call representation_geometry(..., keep_gram=True).")
        return pairwise_angles(self.gram)


def pairwise_angles(gram: np.ndarray) -> np.ndarray:
    """Angles between the points of a Gram matrix, upper triangle, in degrees; nan where a point is zero."""
    norms = np.sqrt(np.diagonal(gram))
    i, j = np.triu_indices(len(gram), 1)
    products = norms[i] * norms[j]
    cosine = np.divide(gram[i, j], products, out=np.full_like(products, np.nan), where=products > 0)
    return np.degrees(np.arccos(np.clip(cosine, -1, 1)))


def odd_point(gram: Any) -> OddPoint | None:
    """The odd point and its cluster, from the `[n, n]` Gram matrix alone; None for fewer than three points."""
    gram = as_float64_array(gram, "gram")
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1]:
        raise InputError(f"gram must have shape (n, n), got {gram.shape}.")
    n = len(gram)
    if n < 3:
        return None
    squares = np.diagonal(gram)
    row_means = gram.mean(axis=1)
    index = int(np.argmax(squares - 2 * row_means))  # squared distance to the mean, up to a constant
    others = np.delete(np.arange(n), index)
    norms = np.sqrt(squares)
    to_mean = gram[:, others].mean(axis=1)  # inner products with the mean of the others
    mean_square = float(to_mean[others].mean())
    mean_norm = np.sqrt(max(mean_square, 0.0))

    def angle(points: np.ndarray) -> np.ndarray:
        lengths = norms[points] * mean_norm
        cosine = np.divide(to_mean[points], lengths, out=np.full(len(points), np.nan), where=lengths > 0)
        return np.degrees(np.arccos(np.clip(cosine, -1, 1)))

    spread = np.sqrt(max(float(squares[others].mean()) - mean_square, 0.0))
    angles = angle(others)
    return OddPoint(
        index=index,
        norm_ratio=_ratio(norms[index], float(np.median(norms[others]))),
        isolation=_ratio(norms[index], norms[others].max()),
        angle=float(angle(np.array([index]))[0]),
        cluster_angle=float(np.nanmedian(angles)) if np.isfinite(angles).any() else float("nan"),
        cluster_spread=_ratio(spread, float(mean_norm)),
    )


def _ratio(a: float, b: float) -> float:
    return float(a / b) if b > 0 else float("inf") if a > 0 else float("nan")


def measure(name: str, op: str, value: Tensor, *, keep_gram: bool, seed: int) -> LayerGeometry:
    """Measure one representation `[n, ...]`, flattened to `[n, d]`, in float64. Cost: O(n^2 d)."""
    h = value.detach().reshape(len(value), -1).to("cpu", torch.float64)
    n, d = h.shape
    if not torch.isfinite(h).all():
        raise InputError(f"the representation at {name} ({op}) must be finite, got nan or infinite values.")
    gram = (h @ h.T).numpy()
    singular_values = torch.linalg.svdvals(h).numpy()
    trace = float(np.trace(gram))
    angles = pairwise_angles(gram)
    angles = angles[np.isfinite(angles)]
    energy = h.square()
    fourth = energy.square().sum(dim=0)
    participation = energy.sum(dim=0).square() / (n * fourth)  # 0/0 is nan: silent
    plane = torch.randn(d, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) / d**0.5
    return LayerGeometry(
        name=name,
        op=op,
        n=n,
        d=d,
        epsilon=torch.finfo(value.dtype).eps,
        norms=np.sqrt(np.diagonal(gram)),
        singular_values=singular_values,
        odd=odd_point(gram),
        orthogonality_gap=float(np.linalg.norm(gram / trace - np.eye(n) / n)) if trace > 0 else float("nan"),
        angle_counts=np.histogram(angles, ANGLE_BINS)[0],
        mean_angle=float(angles.mean()) if len(angles) else float("nan"),
        active_fraction=(h > 0).double().mean(dim=0).numpy(),
        participation=participation.numpy(),
        sparsity=float((h == 0).double().mean()),
        projection=(h @ plane).numpy(),
        gram=gram if keep_gram else None,
    )
