"""How good samples are: Fréchet distance."""

from __future__ import annotations

import torch
from torch import Tensor

from splinescope.support.checks import as_rows
from splinescope.support.errors import InputError


def frechet_distance(real: Tensor, samples: Tensor) -> float:
    """Squared Fréchet (2-Wasserstein) distance of Gaussians fitted to two sets: FID of rows of features.

        `|m1 - m2|^2 + tr(S1 + S2 - 2 (S1 S2)^(1/2))`

    Args:
        real: `[N, ...]`, flattened.
        samples: `[M, ...]`. The estimate is biased upwards for few rows: compare sets of one size.

    Cost: F^3.

    Example:
        >>> import torch
        >>> x = torch.randn(50, 2, generator=torch.Generator().manual_seed(0))
        >>> round(frechet_distance(x, x + 3.0), 6)
        18.0
    """
    x, y = _pair(real, samples)
    if min(len(x), len(y)) < 2:
        raise InputError(f"each set needs at least 2 rows for a covariance, got {len(x)} and {len(y)}.")
    first, second = torch.cov(x.T).reshape(x.shape[1], -1), torch.cov(y.T).reshape(y.shape[1], -1)
    values, vectors = torch.linalg.eigh(first)
    root = (vectors * values.clamp_min(0).sqrt()) @ vectors.T
    cross = torch.linalg.eigvalsh(root @ second @ root).clamp_min(0).sqrt().sum()
    distance = (x.mean(0) - y.mean(0)).square().sum() + first.trace() + second.trace() - 2 * cross
    return max(0.0, float(distance))


def _pair(real: Tensor, samples: Tensor) -> tuple[Tensor, Tensor]:
    """Both sets as float64 rows on the CPU, of one width."""
    x, y = (t.to("cpu", torch.float64).flatten(1) for t in (as_rows(real, "real"), as_rows(samples, "samples")))
    for name, rows in (("real", x), ("samples", y)):
        if not bool(rows.isfinite().all()):
            raise InputError(f"{name} must be finite, got {int((~rows.isfinite()).sum())} NaN or infinite values.")
    if x.shape[1] != y.shape[1]:
        raise InputError(f"real and samples must have rows of one size, got {x.shape[1]} and {y.shape[1]} numbers.")
    return x, y
