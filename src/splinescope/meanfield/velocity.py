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

In the last two the moving point is `n_k`. One pass over the data gives outputs and forces, block by block on all cores:
two matrix products per block, O(m N d) in total, memory O(m (d + rows)) per core.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from ..support.errors import InputError
from .data import Data
from .functions import Activation, Loss
from .manifold import Manifold

_Forces: TypeAlias = tuple[Tensor, Tensor]

CHUNK_BYTES = 8 * 2**20
"""Memory for one block of pre-activations (data points x neurons): it stays in the last cache while it is used."""
_MIN_ROWS = 96
"""Below this many data points per block the matrix products become memory-bound."""
_MOST_WORKERS = 8
"""Each has its own sums of all forces; with more cores each worker's products use several."""


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
    """Velocity of the normalized neurons (eq. 7): the image of eq. 6 under the derivative of `b -> b / ||b||_Sigma`."""
    b = n * (lengths / n.norm(dim=1))[:, None]
    a_velocity, b_velocity = euclidean_velocity(a, b, force, manifold.covariance)
    return a_velocity, manifold.differential(b, b_velocity)


def manifold_velocity(
    a: Tensor, n: Tensor, force: Forces, manifold: Manifold, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """Minus the Riemannian gradient of the plain network's loss on `R x Omega` (Theorem 2)."""
    return -force.h, -manifold.gradient(n, a[:, None] * force.g, scale=lengths)


def sweep(
    a: Tensor, b: Tensor, data: Data, activation: Activation, pull: Callable[[slice, Tensor], Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs `f` (N,) of the network a (m,), b (m, d) and the forces `h` (m,), `g` (m, d) on its neurons.

    `pull` gives `w l'(f, y)` at some points. The same bits every time for the same number of torch's threads.
    """
    starts = block_starts(b, data)
    f = a.new_empty(len(data.x))

    def work(first: int, step: int) -> _Forces:
        table = b.new_empty(starts.step, len(b))  # of sigma, then sigma', for points times neurons
        h, g = torch.zeros_like(a), b.new_zeros(b.shape[::-1])  # g transposed: a third faster to add to
        for start in starts[first::step]:
            points = slice(start, start + starts.step)
            x = data.x[points]
            sigma = torch.mm(x, b.T, out=table[: len(x)])
            slopes = activation.evaluate(sigma)
            f[points] = sigma @ a / len(a)
            pulls = pull(points, f[points])
            h += pulls @ sigma
            g.addmm_((pulls[:, None] * x).T, slopes())  # from here on the values are gone
        return h, g.T.contiguous()

    with torch.no_grad():
        parts = _in_threads(work, len(starts) if b.device.type == "cpu" else 1)
        h, g = parts[0]
        for more_h, more_g in parts[1:]:
            h += more_h
            g += more_g
    return f, h, g


def block_starts(b: Tensor, data: Data) -> range:
    """Where the blocks of data points for neurons `b` start; its step is their size."""
    if b.shape[1] != data.dimension:
        raise InputError(f"b must have {data.dimension} columns, like the data, got shape {tuple(b.shape)}.")
    rows = max(_MIN_ROWS, CHUNK_BYTES // (len(b) * b.element_size()))
    rows -= rows % 32 if rows > 32 else 0  # whole cache lines for the products
    return range(0, len(data.x), min(rows, len(data.x)))


def _in_threads(work: Callable[[int, int], _Forces], pieces: int) -> list[_Forces]:
    """`work(i, count)` for `count` workers that share the pieces, each in a thread with its part of the cores."""
    cores = torch.get_num_threads()
    count = min(cores, pieces, _MOST_WORKERS)
    if count == 1:
        return [work(0, 1)]

    inference = torch.is_inference_mode_enabled()  # known to this thread alone, like no_grad

    def alone(i: int) -> _Forces:
        torch.set_num_threads(cores // count)  # in this thread, and in those that start later
        with torch.inference_mode(inference), torch.no_grad():
            return work(i, count)

    try:
        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(alone, range(count)))
    finally:
        torch.set_num_threads(cores)
