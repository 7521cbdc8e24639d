"""One pass over the data: the outputs of the network and the forces on its neurons, block by block on all cores.

A block of data points meets all neurons at once, so its outputs, and with them the slopes of the loss, are complete
before the block is left: two matrix products per block, O(m N d) in total, memory O(m (d + rows)) per core.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import torch
from torch import Tensor

from ..support.errors import InputError
from .data import Data
from .functions import Activation

_Forces: TypeAlias = tuple[Tensor, Tensor]

CHUNK_BYTES = 8 * 2**20
"""Memory for one block of pre-activations (data points x neurons): it stays in the last cache while it is used."""
_MIN_ROWS = 96
"""Below this many data points per block the matrix products become memory-bound."""
_MOST_WORKERS = 8
"""Each has its own sums of all forces; with more cores each worker's products use several."""


def sweep(
    a: Tensor, b: Tensor, data: Data, activation: Activation, pull: Callable[[slice, Tensor], Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs `f` (N,) of the network a (m,), b (m, d) and the forces `h` (m,), `g` (m, d) on its neurons.

    `pull` is, given some points and the outputs there, how much each point pulls at the outputs: `w l'(f, y)`. The
    same bits every time for the same number of torch's threads, which are the cores used.
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
