"""How good samples are: precision and recall, density and coverage, classes by a labeller, Fréchet distance."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..support.checks import as_rows
from ..support.display import Result
from ..support.errors import InputError

_CHUNK = 1024  # rows of a distance matrix held at once


@dataclass(frozen=True, repr=False)
class Fidelity(Result):
    """Nearest-neighbor measures of samples against real data.

    Attributes:
        precision: Share of samples within the k-th-neighbor ball of some real point (Kynkäänniemi et al. 2019).
        recall: Share of real points within the k-th-neighbor ball of some sample.
        density: Mean over samples of (number of real balls containing it) / k; may exceed 1 (Naeem et al. 2020).
        coverage: Share of real points whose ball holds a sample.
    """

    precision: float
    recall: float
    density: float
    coverage: float
    certainty = "estimate"


def fidelity(real: Tensor, samples: Tensor, *, k: int = 5) -> Fidelity:
    """Precision, recall, density and coverage of samples, by balls that reach to the k-th nearest neighbor.

    Args:
        real: `[N, ...]` data or features of it; flattened.
        samples: `[M, ...]` likewise.
        k: Which neighbor; k < N and k < M.

    Cost: N^2 + M^2 + N M distances, in blocks of 1024 rows.

    Example:
        >>> import torch
        >>> points = torch.rand(100, 2, generator=torch.Generator().manual_seed(0))
        >>> fidelity(points, points).coverage
        1.0
    """
    x, y = _pair(real, samples)
    if not 1 <= k < min(len(x), len(y)):
        raise InputError(f"k must be in [1, {min(len(x), len(y)) - 1}] (fewer than the points), got {k!r}.")
    real_radius, sample_radius = _radii(x, k), _radii(y, k)
    near = torch.zeros(len(y), dtype=torch.int64)  # per sample: real balls that contain it
    recalled, covered = 0, 0
    for start in range(0, len(x), _CHUNK):
        distance = torch.cdist(x[start : start + _CHUNK], y)
        inside = distance <= real_radius[start : start + _CHUNK, None]
        near += inside.sum(0)
        covered += int(inside.any(1).sum())
        recalled += int((distance <= sample_radius).any(1).sum())
    precision, density = float((near > 0).double().mean()), float(near.double().mean()) / k
    return Fidelity(precision, recalled / len(x), density, covered / len(x))


@dataclass(frozen=True, eq=False, repr=False)
class ClassHistogram(Result):
    """Classes of samples.

    Attributes:
        shares: `[C]` share of each class.
        entropy: `-sum p log p` in nats; log C for balanced classes.
        balance: `entropy / log C`, 1 for balanced classes.
    """

    shares: Tensor
    entropy: float
    balance: float
    certainty = "estimate"


def class_histogram(samples: Tensor, labeller: Callable[[Tensor], Tensor], *, batch_size: int = 256) -> ClassHistogram:
    """Classes of samples by a labeller that returns scores `[n, C]` (the largest wins).

    Example:
        >>> import torch
        >>> class_histogram(torch.eye(4), lambda x: x).shares
        tensor([0.2500, 0.2500, 0.2500, 0.2500], dtype=torch.float64)
    """
    samples = as_rows(samples, "samples")
    if len(samples) == 0:
        raise InputError("samples must have at least one row, got none.")
    with torch.no_grad():
        scores = torch.cat([labeller(samples[i : i + batch_size]) for i in range(0, len(samples), batch_size)])
    if scores.dim() != 2 or scores.shape[1] < 2:
        raise InputError(f"labeller must return scores of shape (n, classes), got {tuple(scores.shape)}.")
    if not bool(scores.isfinite().all()):
        raise InputError("labeller must return finite scores, got NaN or infinite values.")
    shares = torch.bincount(scores.argmax(1).cpu(), minlength=scores.shape[1]).double() / len(scores)
    entropy = float(torch.special.entr(shares).sum())
    return ClassHistogram(shares, entropy, entropy / math.log(len(shares)))


def frechet_distance(
    real: Tensor, samples: Tensor, *, features: Callable[[Tensor], Tensor] | None = None, batch_size: int = 256
) -> float:
    """Squared Fréchet (2-Wasserstein) distance of Gaussians fitted to two sets: FID through the features given.

        `|m1 - m2|^2 + tr(S1 + S2 - 2 (S1 S2)^(1/2))`

    Args:
        real: `[N, ...]`.
        samples: `[M, ...]`.
        features: Network from a batch to features `[n, F]`; the flattened inputs themselves if None. Numbers are
            comparable only between runs with the same features, N and M (the estimate is biased upwards for few).
        batch_size: Rows that go through `features` together.

    Cost: F^3.

    Example:
        >>> import torch
        >>> x = torch.randn(50, 2, generator=torch.Generator().manual_seed(0))
        >>> round(frechet_distance(x, x + 3.0), 6)
        18.0
    """
    named = ((real, "real"), (samples, "samples"))
    x, y = _pair(*(_through(features, as_rows(rows, name), batch_size) for rows, name in named))
    if min(len(x), len(y)) < 2:
        raise InputError(f"each set needs at least 2 rows for a covariance, got {len(x)} and {len(y)}.")
    first, second = torch.cov(x.T).reshape(x.shape[1], -1), torch.cov(y.T).reshape(y.shape[1], -1)
    values, vectors = torch.linalg.eigh(first)
    root = (vectors * values.clamp_min(0).sqrt()) @ vectors.T
    cross = torch.linalg.eigvalsh(root @ second @ root).clamp_min(0).sqrt().sum()
    distance = (x.mean(0) - y.mean(0)).square().sum() + first.trace() + second.trace() - 2 * cross
    return max(0.0, float(distance))


def _through(features: Callable[[Tensor], Tensor] | None, data: Tensor, batch: int) -> Tensor:
    if features is None:
        return data
    with torch.no_grad():
        return torch.cat([features(data[i : i + batch]) for i in range(0, len(data), batch)])


def _pair(real: Tensor, samples: Tensor) -> tuple[Tensor, Tensor]:
    """Both sets as float64 rows on the CPU, of one width."""
    x, y = (t.to("cpu", torch.float64).flatten(1) for t in (as_rows(real, "real"), as_rows(samples, "samples")))
    for name, rows in (("real", x), ("samples", y)):
        if not bool(rows.isfinite().all()):
            raise InputError(f"{name} must be finite, got {int((~rows.isfinite()).sum())} NaN or infinite values.")
    if x.shape[1] != y.shape[1]:
        raise InputError(f"real and samples must have rows of one size, got {x.shape[1]} and {y.shape[1]} numbers.")
    return x, y


def _radii(x: Tensor, k: int) -> Tensor:
    """`[N]` distance of each point to its k-th nearest neighbor other than itself."""
    parts = [torch.cdist(x[i : i + _CHUNK], x).kthvalue(k + 1, dim=1).values for i in range(0, len(x), _CHUNK)]
    return torch.cat(parts)
