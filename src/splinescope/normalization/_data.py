"""Data in any common form, as float64 blocks of bounded size."""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from ..network.program import Program
from ..support.checks import as_rows, no_batch_axis, refuse_collections
from ..support.errors import InputError

BLOCK_BYTES = 64 << 20


def raw_batches(data: Any) -> Iterator[Tensor]:
    """The inputs of `data`: one tensor or array is one batch; a loader yields batches or (inputs, labels, ...)."""
    if data is None:
        raise InputError("data must be a tensor, an array or an iterable of batches, got None.")
    if isinstance(data, Dataset):
        refuse_collections(data, "data")  # its items are rows, not batches
    if isinstance(data, (Tensor, np.ndarray)):
        yield _floating(as_rows(data, "data"))
        return
    if not isinstance(data, Iterable):
        raise InputError(f"data must be a tensor, an array or an iterable of batches, got {type(data).__name__}.")
    for batch in data:
        yield _floating(batch[0] if isinstance(batch, (tuple, list)) else batch)


def _floating(batch: Any) -> Tensor:
    if not isinstance(batch, (Tensor, np.ndarray)):
        raise InputError(f"data must hold tensors or arrays (or tuples that start with one), got {type(batch)}.")
    tensor = torch.as_tensor(batch).detach().to("cpu")
    if not tensor.is_floating_point():
        raise InputError(f"data must hold floating-point numbers, got {tensor.dtype}.")
    if not bool(tensor.isfinite().all()):
        raise InputError(f"data must be finite, got {int((~tensor.isfinite()).sum())} NaN or infinite values.")
    return tensor


class Moments:
    """Mean and covariance (or variance) per channel of rows `[n, channels]`, batch by batch."""

    def __init__(self, *, whiten: bool = False) -> None:
        self.count, self.whiten = 0, whiten
        self.mean = self.scatter = self.largest = torch.zeros(1, dtype=torch.float64)

    def add(self, z: Tensor) -> None:
        z = z.cpu()
        mean, n = z.mean(0), len(z)
        total = self.count + n
        centered, shift = z - mean, mean - self.mean
        weight = self.count * n / total
        if self.whiten:
            self.scatter = self.scatter + centered.T @ centered + weight * torch.outer(shift, shift)
        else:
            self.scatter = self.scatter + centered.square().sum(0) + weight * shift.square()
        self.mean = self.mean + shift * (n / total)
        self.largest = torch.maximum(self.largest, z.abs().amax(0))
        self.count = total

    @property
    def covariance(self) -> Tensor:
        return self.scatter / self.count

    @property
    def deviation(self) -> Tensor:
        return (self.covariance.diagonal() if self.whiten else self.covariance).sqrt()


def first_row(data: Any) -> Tensor:
    """One row of the data, to trace a model with. A loader must be one that can be iterated again."""
    if isinstance(data, Iterator):
        raise InputError("data must be iterable more than once (a list, a tensor or a DataLoader), got an iterator.")
    for batch in raw_batches(data):
        if batch.ndim > 0 and len(batch):
            return batch[:1]
    raise InputError("data must hold at least one row, got none.")


def row_blocks(data: Any, program: Program) -> Iterator[Tensor]:
    """The rows of `data` in float64, in blocks small enough for all values of the network to fit in memory."""
    numbers = math.prod(program.input_shape) + sum(2 * fold.site.units for fold in program.folds)
    size = max(1, min(8192, BLOCK_BYTES // (8 * numbers)))
    for batch in raw_batches(data):
        if tuple(batch.shape[1:]) != tuple(program.input_shape):
            expected = ", ".join(map(str, program.input_shape))
            hint = no_batch_axis(batch.shape, program.input_shape, "x")
            raise InputError(f"data must have rows of shape ({expected}), got {tuple(batch.shape[1:])}{hint}.")
        for block in batch.split(size):
            yield block.to(torch.float64)
