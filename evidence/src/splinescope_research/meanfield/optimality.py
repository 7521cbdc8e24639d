"""Global optimality: the certificate of a network by the first variation of its loss."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from splinescope.meanfield.data import Data
from splinescope.meanfield.functions import Activation, LossLike, as_loss, check_labels
from splinescope.meanfield.networks import TwoLayer, TwoLayerBN, check_pair
from splinescope.meanfield.velocity import outputs, sweep
from splinescope.support.checks import check_positive, check_whole
from splinescope.support.display import Result
from splinescope.support.errors import InputError

from .ellipsoid import Manifold


def _on_manifold(net: TwoLayer, manifold: Manifold) -> TwoLayer:
    """The network with neurons on Omega: the twin of a batch-norm network, or a plain one that is there already."""
    if isinstance(net, TwoLayerBN):
        return net.twin(manifold.covariance)
    gap = (manifold.norm(net.b) - 1).abs().max().item()
    if gap > 1e-6:
        raise InputError(f"a plain net must have b^T Sigma b = 1 for all neurons, got a deviation of {gap:.3g}.")
    return net


def _loss_slope(net: TwoLayer, data: Data, loss: LossLike) -> Tensor:
    the_loss = as_loss(loss)
    check_labels(the_loss, data.y)
    return the_loss.slope(outputs(net.a, net.b, data, net.activation), data.y)


@dataclass(frozen=True, repr=False)
class Certificate(Result):
    """How far a network is from global optimality.

    The first variation is `a h(b)` with `h(b) = E[l' sigma(b . x)]`, linear in the free amplitude `a`: for a loss
    convex in `f` the network is optimal if and only if `h` vanishes on Omega, that is `largest` is zero.

    Attributes:
        largest: `max |h|` over Omega, as found: a lower bound of the true maximum, tight if the search was dense.
        direction: Where, shape (d,), on Omega.
        on_support: `max_k |a_k h(b_k)|`: zero at a stationary point.
        slack: `E[l' f] = mean_k a_k h(b_k)`.
        risk: The loss.
    """

    largest: float
    direction: Tensor
    on_support: float
    slack: float
    risk: float
    certainty = "bound"

    def gap_bound(self, budget: float) -> float:
        """`L(f) - L(f*) <= slack + budget * largest` if the mean absolute amplitude of `f*` is `budget`."""
        return self.slack + check_positive(budget, "budget") * self.largest


def certificate(
    net: TwoLayer,
    data: Data,
    loss: LossLike = "squared",
    *,
    starts: int = 512,
    refine: int = 40,
    generator: torch.Generator | None = None,
) -> Certificate:
    """Check global optimality (Theorem 5) by maximizing `|h|` over the manifold.

    From `starts` directions (in 2-D an even grid, else random) the best 32 take `refine` steps of Riemannian gradient
    ascent. Costs O((starts + 32 refine) N d).
    """
    check_pair(net, data)
    manifold = Manifold(data.covariance)
    twin = _on_manifold(net, manifold)
    pull = _loss_slope(twin, data, loss)

    def field(b: Tensor) -> tuple[Tensor, Tensor]:
        return field_at(b, pull, data, net.activation)

    check_whole(starts, "starts")
    check_whole(refine, "refine", least=0)
    b = manifold.normalize(search_directions(net.dimension, starts, generator).to(net.b))
    h, g = field(b)
    best = h.abs().topk(min(32, len(h))).indices
    b, h, g = b[best], h[best], g[best]
    step = torch.full_like(h, 0.1) / h.abs().max().clamp_min(torch.finfo(h.dtype).tiny)
    for _ in range(refine):
        uphill = manifold.gradient(b, g) * h.sign()[:, None]
        trial = manifold.exp(b, step[:, None] * uphill)
        h_trial, g_trial = field(trial)
        better = h_trial.abs() > h.abs()
        b, g = torch.where(better[:, None], trial, b), torch.where(better[:, None], g_trial, g)
        h = torch.where(better, h_trial, h)
        step = torch.where(better, 1.5 * step, 0.5 * step)
    at = int(h.abs().argmax())
    on_support = twin.a * field(twin.b)[0]
    value = as_loss(loss).value(outputs(twin.a, twin.b, data, net.activation), data.y)
    slack, risk = on_support.mean().item(), (data.weights @ value).item()
    return Certificate(h[at].abs().item(), b[at], on_support.abs().max().item(), slack, risk)


def search_directions(d: int, count: int, generator: torch.Generator | None) -> Tensor:
    if d == 2:
        angle = torch.arange(count, dtype=torch.float64) * (2 * torch.pi / count)
        return torch.stack([angle.cos(), angle.sin()], dim=1)
    return torch.randn(count, d, generator=generator, dtype=torch.float64)


def field_at(b: Tensor, slope_of_loss: Tensor, data: Data, activation: Activation) -> tuple[Tensor, Tensor]:
    """`h` (K,) and `g` (K, d) at neurons `b` (K, d) that feel given `l'` (N,) of some other network."""
    pulls = data.weights * slope_of_loss
    _, h, g = sweep(b.new_zeros(len(b)), b, data, activation, lambda points, _: pulls[points])
    return h, g
