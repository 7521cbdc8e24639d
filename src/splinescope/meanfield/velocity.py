r"""Closed-form velocities of the neurons, no automatic differentiation.

All velocities are in mean-field time: the gradient flow of the parameters themselves, `theta' = -dL/dtheta`,
is the same motion slowed down by the width `m`. With `l' = dl/df` and `n_k = b_k / ||b_k||_Sigma`, everything
is made of

.. math:: h_k = E[l'\,\sigma(n_k\cdot x)], \qquad g_k = E[l'\,\sigma'(n_k\cdot x)\, x].

============  =======================================================================  ===================
dynamics      velocity of `b_k` (that of `a_k` is `-h_k` in all of them)                 paper
============  =======================================================================  ===================
"plain"       `-a_k g_k` (with `n_k` replaced by `b_k`)                                  no batch norm
"euclidean"   `-a_k (I - Sigma n_k n_k^T) g_k / ||b_k||_Sigma`                           eq. 6, corrected
"normalized"  `-a_k ||n_k||^2/||b_k||^2 (I - n_k n_k^T Sigma)(I - Sigma n_k n_k^T) g_k`  eq. 7, corrected
"manifold"    `-G^+ (a_k g_k)`, the Riemannian gradient                                  Theorem 2
============  =======================================================================  ===================

In the last two the moving point is `n_k`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .data import Data
from .functions import Activation, Loss
from .manifold import Manifold
from .sweep import block_starts, sweep


@dataclass(frozen=True)
class Forces:
    """What the data does to each neuron.

    Attributes:
        h: `E l' sigma(n_k . x)`, shape (m,): the first variation of the loss at amplitude 1.
        g: `E l' sigma'(n_k . x) x`, shape (m, d): its derivative in `n_k`.
        risk: The loss `E l(f(x), y)`.
    """

    h: Tensor
    g: Tensor
    risk: float


def forces(a: Tensor, b: Tensor, data: Data, activation: Activation, loss: Loss) -> Forces:
    """Forces on the neurons of the plain network a (m,), b (m, d); with batch norm b are the normalized ones."""

    def pull(points: slice, f: Tensor) -> Tensor:
        return data.weights[points] * loss.slope(f, data.y[points])

    f, h, g = sweep(a, b, data, activation, pull)
    return Forces(h, g, (data.weights @ loss.value(f, data.y)).item())


def field_at(b: Tensor, slope_of_loss: Tensor, data: Data, activation: Activation) -> tuple[Tensor, Tensor]:
    """`h` (K,) and `g` (K, d) at neurons `b` (K, d) that feel given `l'` (N,) of some other network."""
    pulls = data.weights * slope_of_loss
    _, h, g = sweep(b.new_zeros(len(b)), b, data, activation, lambda points, _: pulls[points])
    return h, g


def outputs(a: Tensor, b: Tensor, data: Data, activation: Activation) -> Tensor:
    """`f(x) = (1/m) sum_k a_k sigma(b_k . x)` at all data points, shape (N,), in blocks."""
    starts = block_starts(b, data)
    return torch.cat([activation.value(x @ b.T) @ a / len(a) for x in data.x.split(starts.step)])


def plain_velocity(a: Tensor, force: Forces) -> tuple[Tensor, Tensor]:
    """Velocity without batch norm."""
    return -force.h, -a[:, None] * force.g


def euclidean_velocity(a: Tensor, b: Tensor, force: Forces, covariance: Tensor) -> tuple[Tensor, Tensor]:
    """Velocity of the batch-norm network in its own weights (eq. 6); `force` at (a, normalized b)."""
    norm = ((b @ covariance) * b).sum(1, keepdim=True).sqrt()
    n = b / norm
    push = force.g - (n @ covariance) * (n * force.g).sum(1, keepdim=True)
    return -force.h, -a[:, None] * push / norm


def normalized_velocity(
    a: Tensor, n: Tensor, force: Forces, manifold: Manifold, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """Velocity of the normalized neurons of a batch-norm network whose `||b_k||` are `lengths` (eq. 7).

    Computed as what it is, the image of eq. 6 at `b_k = lengths_k n_k / ||n_k||` under the derivative of
    `b -> b / ||b||_Sigma`; that this is the Riemannian gradient below is Theorem 2.
    """
    b = n * (lengths / n.norm(dim=1))[:, None]
    a_velocity, b_velocity = euclidean_velocity(a, b, force, manifold.covariance)
    return a_velocity, manifold.differential(b, b_velocity)


def manifold_velocity(
    a: Tensor, n: Tensor, force: Forces, manifold: Manifold, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """Minus the Riemannian gradient of the plain network's loss on `R x Omega` (Theorem 2)."""
    return -force.h, -manifold.gradient(n, a[:, None] * force.g, scale=lengths)
