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
from ..support.threads import ALONE
from .data import Data
from .functions import Activation

_Forces: TypeAlias = tuple[Tensor, Tensor]

CHUNK_BYTES = 8 * 2**20
"""Memory for one block of pre-activations (data points x neurons): it stays in the last cache while it is used."""
_MIN_ROWS = 96
"""Below this many data points per block the matrix products become memory-bound."""
_BITS_FROM = 256
"""Neurons from which tables of 256 sums are worth making."""
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
        worker = _worker(a, b, activation, starts.step)
        for start in starts[first::step]:
            points = slice(start, start + starts.step)
            x = data.x[points]
            f[points] = worker.outputs(x)
            worker.add(pull(points, f[points]), x)
        return worker.forces()

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
    rows -= rows % 32 if rows > 32 else 0  # whole cache lines for the products, whole tables for the bits
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


def _worker(a: Tensor, b: Tensor, activation: Activation, rows: int) -> _TableWorker | _SignWorker:
    """Adds up forces: `add` what a block of points does to all neurons after their `outputs` were asked for."""
    if activation.leak is not None and b.dtype == torch.float64 and b.device.type == "cpu" and len(b) >= _BITS_FROM:
        return _SignWorker(a, b, activation.leak, rows)
    return _TableWorker(a, b, activation, rows)


class _TableWorker:
    """Any activation, on any device: a table of `sigma`, then `sigma'`, for points times neurons, in one buffer."""

    def __init__(self, a: Tensor, b: Tensor, activation: Activation, rows: int) -> None:
        self._a, self._b, self._activation = a, b, activation
        self._buffer = b.new_empty(rows, len(b))
        self._h, self._g = torch.zeros_like(a), b.new_zeros(b.shape[::-1])  # g transposed: a third faster to add to

    def outputs(self, x: Tensor) -> Tensor:
        self._value = self._buffer[: len(x)]
        torch.mm(x, self._b.T, out=self._value)
        self._slope_of = self._activation.evaluate(self._value)
        return self._value @ self._a / len(self._a)

    def add(self, pull: Tensor, x: Tensor) -> None:
        self._h += pull @ self._value
        self._g.addmm_((pull[:, None] * x).T, self._slope_of())  # from here on the values are gone

    def forces(self) -> _Forces:
        return self._h, self._g.T.contiguous()


class _SignWorker:
    """ReLU and leaky ReLU on the CPU: `leak z + (1 - leak) max(z, 0)`, whose slopes are signs, kept as bits.

    The linear part needs no neuron by neuron work, and `h_k = b_k . g_k` because `sigma(z) = sigma'(z) z`.
    """

    def __init__(self, a: Tensor, b: Tensor, leak: float, rows: int) -> None:
        with ALONE:
            from . import _kernels  # loads numba, which the other activations do not need

        self._kernels, self._leak, self._b = _kernels, leak, b
        self._amplitudes, self._linear = a.contiguous().numpy(), leak * (a @ b)
        self._z, self._f = b.new_empty(rows, len(b)), b.new_empty(rows)
        self._codes = torch.empty(_kernels.code_rows(rows), len(b), dtype=torch.uint8).numpy()
        width = b.shape[1]
        self._columns = [slice(j, min(j + _kernels.COLUMNS, width)) for j in range(0, width, _kernels.COLUMNS)]
        self._sums = [b.new_zeros(len(b), c.stop - c.start) for c in self._columns]
        self._tables = [b.new_empty(_kernels.TABLES, 256, s.shape[1]).numpy() for s in self._sums]
        self._total = b.new_zeros(width)

    def outputs(self, x: Tensor) -> Tensor:
        z, f = self._z[: len(x)], self._f[: len(x)]
        torch.mm(x, self._b.T, out=z)
        self._kernels.pack_signs(z.numpy(), self._amplitudes, f.numpy(), self._codes)
        return ((1 - self._leak) * f + x @ self._linear) / len(self._b)

    def add(self, pull: Tensor, x: Tensor) -> None:
        vectors = pull[:, None] * x
        self._total += vectors.sum(0)
        codes = self._codes[: self._kernels.code_rows(len(x))]
        for columns, tables, sums in zip(self._columns, self._tables, self._sums, strict=True):
            self._kernels.add_sums(vectors[:, columns].contiguous().numpy(), codes, tables, sums.numpy())

    def forces(self) -> _Forces:
        g = self._sums[0] if len(self._sums) == 1 else torch.cat(self._sums, 1)
        g.mul_(1 - self._leak).add_(self._leak * self._total)
        return torch.einsum("kd,kd->k", self._b, g), g
