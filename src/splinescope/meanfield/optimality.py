"""Global optimality: the first variation of the loss, its certificate, and the separation condition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree
from torch import Tensor

from ..support.checks import check_positive, check_whole
from ..support.display import Result
from ..support.errors import InputError
from .data import Data, float_tensor
from .functions import LossLike, as_loss, check_labels
from .manifold import Manifold
from .measure import ParticleMeasure
from .networks import TwoLayer, TwoLayerBN, check_pair
from .velocity import field_at, outputs


def _on_manifold(net: TwoLayer, manifold: Manifold) -> TwoLayer:
    """The network with neurons on Omega: the twin of a batch-norm network, or a plain one that is there already."""
    if isinstance(net, TwoLayerBN):
        return net.twin(manifold.covariance)
    gap = (manifold.norm(net.b) - 1).abs().max().item()
    if gap > 1e-6:
        raise InputError(f"a plain net must have b^T Sigma b = 1 for all neurons, got a deviation of {gap:.3g}.")
    return net


def first_variation(net: TwoLayer, data: Data, a: Any, b: Any, loss: LossLike = "squared") -> Tensor:
    """`dL/drho (a, b) = a E[l'(f(x), y) sigma(b . x)]` at neurons a (K,), b (K, d), normalized here; `f` is the net."""
    check_pair(net, data)
    a, b = float_tensor(a, "a").to(net.b), float_tensor(b, "b").to(net.b)
    if a.ndim != 1 or b.shape != (len(a), net.dimension):
        raise InputError(
            f"a and b must have shapes (K,) and (K, {net.dimension}), got {tuple(a.shape)} and {tuple(b.shape)}."
        )
    manifold = Manifold(data.covariance)
    pull = _loss_slope(_on_manifold(net, manifold), data, loss)
    h, _ = field_at(manifold.normalize(b), pull, data, net.activation)
    return a * h


def _loss_slope(net: TwoLayer, data: Data, loss: LossLike) -> Tensor:
    the_loss = as_loss(loss)
    check_labels(the_loss, data.y)
    return the_loss.slope(outputs(net.a, net.b, data, net.activation), data.y)


@dataclass(frozen=True, repr=False)
class Certificate(Result):
    """How far a network is from global optimality.

    The first variation is `a h(b)` with `h(b) = E[l' sigma(b . x)]`, linear in the free amplitude `a`: it is
    non-negative everywhere exactly if `h` vanishes on Omega. So the network is optimal, for a loss convex in
    `f`, if and only if `largest` is zero.

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
        """`L(f) - L(f*) <= slack + budget * largest` if the mean absolute amplitude of `f*` is `budget`.

        By convexity, `L(f) - L(f*) <= E[l' (f - f*)]`; the second term is an average of `a h` over the
        neurons of `f*`. As exact as `largest`.
        """
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

    In two dimensions `starts` points of an even grid of angles, otherwise random directions; the best 32 of
    them are improved by `refine` steps of Riemannian gradient ascent. Costs O((starts + 32 refine) N d).
    """
    check_pair(net, data)
    manifold = Manifold(data.covariance)
    twin = _on_manifold(net, manifold)
    pull = _loss_slope(twin, data, loss)

    def field(b: Tensor) -> tuple[Tensor, Tensor]:
        return field_at(b, pull, data, net.activation)

    check_whole(starts, "starts")
    check_whole(refine, "refine", least=0)
    b = manifold.normalize(_directions(net.dimension, starts, generator).to(net.b))
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


def _directions(d: int, count: int, generator: torch.Generator | None) -> Tensor:
    if d == 2:
        angle = torch.arange(count, dtype=torch.float64) * (2 * torch.pi / count)
        return torch.stack([angle.cos(), angle.sin()], dim=1)
    return torch.randn(count, d, generator=generator, dtype=torch.float64)


def separates(net: TwoLayer, *, radius: float, probes: int = 1024, generator: torch.Generator | None = None) -> bool:
    """Whether the neurons, thickened to balls of `radius`, separate `a = -infinity` from `a = +infinity`.

    Theorem 5 asks this of the support of the initial measure. Finitely many neurons never separate; balls
    around them do if they are dense enough. Probed on 65 amplitudes or more times `probes` directions: the
    condition fails if uncovered probes connect the lowest level to the highest. Exact up to the probe spacing
    in two dimensions (even grid), an estimate above (random directions, each joined to its 2 d nearest).

    Example:
        >>> angles = torch.arange(64) * (2 * torch.pi / 64)
        >>> ring = TwoLayer(torch.zeros(64), torch.stack([angles.cos(), angles.sin()], 1))
        >>> separates(ring, radius=0.2), separates(ring, radius=0.01)
        (True, False)
    """
    radius = check_positive(radius, "radius")
    check_whole(probes, "probes", least=2 * net.dimension + 1)
    rho = ParticleMeasure.of(net)
    u = _directions(net.dimension, probes, generator).numpy()
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    top = float(np.abs(rho.a).max()) + 2 * radius
    a = np.linspace(-top, top, max(65, int(np.ceil(4 * top / radius)) + 1))
    # chord of the ball's angle: a Euclidean tree in (a, u) is exact for the chordal distance
    tree = cKDTree(np.column_stack([rho.a, rho.u]))
    points = np.column_stack([np.repeat(a, probes), np.tile(u, (len(a), 1))])
    free = np.asarray(tree.query(points, distance_upper_bound=radius)[0]) > radius
    ring = np.asarray(cKDTree(u).query(u, k=(3 if net.dimension == 2 else 2 * net.dimension + 1))[1])
    here = np.repeat(np.arange(probes), ring.shape[1] - 1)
    there = ring[:, 1:].ravel()
    rows = np.arange(len(a))[:, None] * probes
    around = np.stack([(rows + here).ravel(), (rows + there).ravel()])
    upwards = np.stack([np.arange(len(points) - probes), np.arange(probes, len(points))])
    pairs = np.concatenate([around, upwards], axis=1)
    pairs = pairs[:, free[pairs[0]] & free[pairs[1]]]
    graph = coo_matrix((np.ones(pairs.shape[1]), (pairs[0], pairs[1])), shape=(len(points), len(points)))
    label = connected_components(graph, directed=False)[1]
    return not bool(np.isin(label[:probes][free[:probes]], label[-probes:][free[-probes:]]).any())
