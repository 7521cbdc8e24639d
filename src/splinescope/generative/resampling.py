"""Drawing by weights in the log domain: from a pool of proposals, or by Metropolis walks."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..support.checks import check_positive, check_whole
from ..support.errors import InputError
from ..support.progress import Progress, stepping
from .domains import LatentDomain


def effective_size(log_weights: Tensor) -> float:
    """Kish's effective sample size `(sum w)^2 / sum w^2` of log weights `[N]`."""
    return float((2 * log_weights.logsumexp(0) - (2 * log_weights).logsumexp(0)).exp())


def resampled(log_weights: Tensor, n: int, generator: torch.Generator) -> Tensor:
    """`[n]` indices drawn in proportion to the weights, with replacement (sampling-importance-resampling)."""
    cumulative = torch.softmax(log_weights, 0).cumsum(0)
    places = torch.rand(n, generator=generator, dtype=torch.float64) * cumulative[-1]
    return torch.searchsorted(cumulative, places, right=True).clamp_max(len(log_weights) - 1)


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


_WISHED = 0.3  # acceptance the step size is tuned to: near the best for random walks in several dimensions


@dataclass(frozen=True)
class Chains:
    """Where the chains stand.

    Attributes:
        latents: `[n, d]`.
        log_volume: `[n]` at them.
        acceptance: Share of proposals accepted after tuning.
    """

    latents: Tensor
    log_volume: Tensor
    acceptance: float = 1.0


def metropolis(
    evaluate: Callable[[Tensor], tuple[Tensor, Tensor]], domain: LatentDomain, start: Chains, steps: int,
    step_size: float | None, generator: torch.Generator, progress: Progress | bool | None,
) -> Chains:  # fmt: skip
    """Take `steps` Metropolis steps from `start` (of positive density); leaves the target law unchanged.

    `evaluate` turns latents `[n, d]` into (log volume `[n]`, log target `[n]`). Without a step size it is tuned over
    the first quarter of the steps (Robbins-Monro to an acceptance of 0.3), then held.
    """
    check_whole(steps, "steps")
    tuning = 0 if step_size is not None else max(1, steps // 4)
    size = check_positive(step_size, "step_size") if step_size is not None else 1.0 / domain.size**0.5
    z = start.latents
    volume, target = evaluate(z)
    taken = 0
    for step in stepping(range(steps), progress, "random walks"):
        proposed = domain.step(z, size, generator)
        new_volume, new_target = evaluate(proposed)
        accepted = torch.rand(len(z), generator=generator, dtype=torch.float64).log() < new_target - target
        z = torch.where(accepted[:, None], proposed, z)
        volume, target = torch.where(accepted, new_volume, volume), torch.where(accepted, new_target, target)
        rate = float(accepted.double().mean())
        if step < tuning:
            size *= float(torch.tensor(3.0 * (rate - _WISHED) / (1 + step) ** 0.5).exp())
        else:
            taken += int(accepted.sum())
    return Chains(z, volume, taken / max(1, (steps - tuning) * len(z)))
