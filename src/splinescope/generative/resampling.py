"""Drawing from weighted proposals, in the log domain."""

from __future__ import annotations

import torch
from torch import Tensor

from .._errors import InputError


def effective_size(log_weights: Tensor) -> float:
    """Kish's effective sample size `(sum w)^2 / sum w^2` of log weights `[N]`."""
    return float((2 * log_weights.logsumexp(0) - (2 * log_weights).logsumexp(0)).exp())


def resampled(log_weights: Tensor, n: int, replacement: bool, generator: torch.Generator) -> Tensor:
    """`[n]` indices drawn in proportion to the weights (sampling-importance-resampling).

    Without replacement by the Gumbel trick: the n largest of `log w + Gumbel noise` are n successive draws.
    """
    if replacement:
        cumulative = torch.softmax(log_weights, 0).cumsum(0)
        places = torch.rand(n, generator=generator, dtype=torch.float64) * cumulative[-1]
        return torch.searchsorted(cumulative, places, right=True).clamp_max(len(log_weights) - 1)
    distinct = int(log_weights.isfinite().sum())
    if n > distinct:
        raise InputError(f"n must be at most the {distinct} proposals of non-zero weight without replacement, got {n}.")
    noise = -torch.log(torch.empty_like(log_weights).exponential_(generator=generator))
    return (log_weights + noise).topk(n).indices


def rejected(log_weights: Tensor, n: int, generator: torch.Generator) -> tuple[Tensor, float]:
    """`[n]` indices of the first n proposals accepted with probability w / max w, and the share accepted."""
    accepted = (
        torch.rand(len(log_weights), generator=generator, dtype=torch.float64).log() < log_weights - log_weights.max()
    )
    chosen = accepted.nonzero()[:, 0]
    share = len(chosen) / len(log_weights)
    if n > len(chosen):
        raise InputError(
            f"n must be at most the {len(chosen)} proposals that rejection accepts out of {len(log_weights)}, "
            f"got {n}; a pool of about {int(n / max(share, 1 / len(log_weights)) * 1.2)} would do."
        )
    return chosen[:n], share
