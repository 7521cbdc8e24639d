"""Two attacks: projected gradient descent, and a random search that needs no gradient.

Small on purpose: torchattacks and foolbox pin old packages, and have no margin-maximizing PGD on any shape of input.
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

Norm = Literal["linf", "l2"]
Scores = Callable[[Tensor], Tensor]
"""Inputs `[n, *shape]` to class scores `[n, C]`, C >= 2."""


def margins(scores: Tensor, labels: Tensor) -> Tensor:
    """`[n]` score of the right class minus the best other one: negative where the point is misclassified."""
    right = scores.gather(1, labels[:, None])[:, 0]
    others = scores.scatter(1, labels[:, None], -torch.inf)
    return right - others.amax(1)


def project(delta: Tensor, epsilon: float, norm: Norm) -> Tensor:
    """The nearest point (L2; for L-inf too) of the ball of radius epsilon, row by row."""
    if norm == "linf":
        return delta.clamp(-epsilon, epsilon)
    lengths = delta.flatten(1).norm(dim=1).clamp_min(1e-30)
    return delta * (epsilon / lengths).clamp_max(1.0).reshape(-1, *(1,) * (delta.dim() - 1))


def random_start(x: Tensor, epsilon: float, norm: Norm, generator: torch.Generator) -> Tensor:
    """A uniform point of the L-inf ball, or of the L2 ball."""
    noise = _randn(x, generator)
    if norm == "linf":
        return epsilon * torch.erf(noise / 2**0.5)  # a Gaussian through its distribution function is uniform
    size = noise[0].numel()
    radii = torch.rand(len(x), generator=generator, dtype=torch.float64).to(x) ** (1.0 / size)
    return _to_sphere(noise, epsilon) * radii.reshape(-1, *(1,) * (x.dim() - 1))


def pgd(
    scores: Scores, x: Tensor, labels: Tensor, epsilon: float, *, norm: Norm, steps: int, restarts: int,
    bounds: tuple[float, float] | None, generator: torch.Generator, to_the_end: bool = False,
) -> Tensor:  # fmt: skip
    """Adversarial points `[n, *shape]`: per point the one of lowest margin met (the point itself included).

    Steps of 2.5 epsilon / steps from the point and from random starts. Stops when all points are broken, unless
    `to_the_end`: points for another model should lie deep inside the wrong class.
    """
    best, lowest = x.clone(), torch.full((len(x),), torch.inf, dtype=x.dtype, device=x.device)
    for start in range(restarts):
        delta = torch.zeros_like(x) if start == 0 else random_start(x, epsilon, norm, generator)
        for step in range(steps + 1):
            moved = _inside(x + delta, bounds).detach().requires_grad_(step < steps)
            with torch.set_grad_enabled(step < steps):
                values = scores(moved)
            margin = margins(values.detach(), labels)
            better = margin < lowest
            lowest[better], best[better] = margin[better], moved.detach()[better]
            if step == steps or (not to_the_end and bool((lowest < 0).all())):
                break
            with torch.enable_grad():
                (gradient,) = torch.autograd.grad(-margins(values, labels).sum(), moved)
            uphill = gradient.sign() if norm == "linf" else _to_sphere(gradient, 1.0)
            delta = project((moved - x).detach() + 2.5 * epsilon / steps * uphill, epsilon, norm)
    return best


def random_search(
    scores: Scores, x: Tensor, labels: Tensor, epsilon: float, *, norm: Norm, queries: int,
    bounds: tuple[float, float] | None, generator: torch.Generator,
) -> Tensor:  # fmt: skip
    """Adversarial points `[n, *shape]` by random proposals that are kept if they lower the margin; no gradients.

    As in the Square attack (Andriushchenko et al., 2020): start at a random corner of the ball; a proposal moves a
    random share of the coordinates to other extreme values, a share that shrinks from 1/2 with the queries.
    """
    best, lowest = x.clone(), margins(scores(x), labels)
    current, height = best.clone(), torch.full_like(lowest, torch.inf)
    for query in range(queries):
        if query % max(1, queries // 4) == 0:  # four starts
            proposal = x + project(
                epsilon * _randn(x, generator).sign() * (1e30 if norm == "l2" else 1.0), epsilon, norm
            )
            height.fill_(torch.inf)
        else:
            share = 0.5 * (1.0 - (query % max(1, queries // 4)) / max(1, queries // 4))
            moves = torch.rand(x.shape, generator=generator).to(x.device) < max(share, 1.0 / max(1, x[0].numel()))
            if norm == "linf":
                proposal = torch.where(moves, x + epsilon * _randn(x, generator).sign(), current)
            else:
                step = epsilon * moves * _randn(x, generator) / max(1, x[0].numel()) ** 0.5
                proposal = x + _to_sphere(current - x + step, epsilon)
        proposal = _inside(proposal, bounds)
        margin = margins(scores(proposal), labels)
        kept = margin < height
        height[kept], current[kept] = margin[kept], proposal[kept]
        better = height < lowest
        lowest[better], best[better] = height[better], current[better]
        if bool((lowest < 0).all()):
            break
    return best


def _to_sphere(delta: Tensor, epsilon: float) -> Tensor:
    lengths = delta.flatten(1).norm(dim=1).clamp_min(1e-30)
    return delta * (epsilon / lengths).reshape(-1, *(1,) * (delta.dim() - 1))


def _inside(x: Tensor, bounds: tuple[float, float] | None) -> Tensor:
    return x if bounds is None else x.clamp(*bounds)


def _randn(like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(like.shape, generator=generator, dtype=torch.float32).to(like)
