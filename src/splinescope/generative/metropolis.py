"""Metropolis random walks in latent space, all chains in one batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .._checks import check_positive
from .._errors import InputError
from .._progress import Share
from .domains import LatentDomain

_WISHED = 0.3  # acceptance the step size is tuned to: near the best for random walks in several dimensions


@dataclass(frozen=True)
class Chains:
    """Where the chains stand.

    Attributes:
        latents: `[n, d]`.
        log_volume: `[n]` at them.
        acceptance: Share of proposals accepted after tuning.
        step_size: Of the steps after tuning, with which a walk goes on.
    """

    latents: Tensor
    log_volume: Tensor
    acceptance: float = 1.0
    step_size: float | None = None


def metropolis(
    evaluate: Callable[[Tensor], tuple[Tensor, Tensor]],
    domain: LatentDomain,
    start: Chains,
    steps: int,
    step_size: float | None,
    generator: torch.Generator,
    share: Share,
) -> Chains:
    """Take `steps` Metropolis steps from `start`; leaves the target law unchanged.

    A step proposes `domain.step` and accepts with probability min(1, target ratio). Without a step size it is tuned
    over the first quarter of the steps (Robbins-Monro to an acceptance of 0.3), then held.

    Args:
        evaluate: Latents `[n, d]` to (log volume `[n]`, log target `[n]`).
        domain: Where latents live.
        start: The chains; only positive-density latents.
        steps: How many; each costs one evaluation of all chains.
        step_size: In units of latent space.
        generator: Source of randomness.
        share: Told the share done.
    """
    if steps < 1:
        raise InputError(f"steps must be a whole number >= 1, got {steps!r}.")
    tuning = 0 if step_size is not None else max(1, steps // 4)
    size = check_positive(step_size, "step_size") if step_size is not None else 1.0 / domain.size**0.5
    z = start.latents
    volume, target = evaluate(z)
    taken = 0
    for step in range(steps):
        share(step / steps)
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
    return Chains(z, volume, taken / max(1, (steps - tuning) * len(z)), size)
