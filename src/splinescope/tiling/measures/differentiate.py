"""Outputs and derivatives of a network at many points, in float64 and in blocks of bounded memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce

import numpy as np
import torch
from torch import Tensor

from ...network.program import Fold, Program, walk
from ...support.derivatives import columns, pull_back, row_jacobians

BLOCK_BYTES = 64 << 20
"""Rough size of the rows that go through the network together."""
_TOGETHER = 32  # directions or units that are differentiated together


@contextmanager
def recording() -> Iterator[None]:
    """Gradients on, whatever mode the caller is in."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


def block_rows(program: Program) -> int:
    """How many inputs to run together: all values of one row are counted, though not all live at once."""
    numbers = int(np.prod(program.input_shape)) + int(np.prod(program.output_shape))
    numbers += sum(fold.site.units + int(np.prod(fold.site.shape)) for fold in program.folds)
    return int(np.clip(BLOCK_BYTES // (8 * numbers), 1, 2048))


def blocks(count: int, size: int) -> Iterator[slice]:
    """0..count in consecutive slices of at most `size`."""
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def outputs(program: Program, x: np.ndarray) -> np.ndarray:
    """`[N, C]` outputs at inputs `[N, *input_shape]`."""
    with torch.no_grad():
        return program.forward(torch.from_numpy(x)).reshape(len(x), -1).numpy()


def outputs_and_codes(program: Program, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`[N, C]` outputs and `[N]` 64-bit hashes of the activation patterns at inputs, in one pass."""
    patterns = []
    with torch.no_grad():
        for step, value in _walk(program, torch.from_numpy(x)):
            if step is not None:
                patterns.append((value > 0).numpy())
    return value.reshape(len(x), -1).numpy(), pattern_codes(patterns, len(x))


def pattern_codes(patterns: list[np.ndarray], count: int) -> np.ndarray:
    """`[N]` 64-bit hashes of activation patterns, given per fold as booleans `[N, U]`."""
    codes, first = np.zeros(count, np.uint64), 0
    for pattern in patterns:
        words = _packed(pattern)
        codes += _hashed(words, first).sum(1, dtype=np.uint64)
        first += words.shape[1]
    return codes


def _packed(pattern: np.ndarray) -> np.ndarray:
    """`[N, W]` 64-bit words of a boolean matrix `[N, U]`."""
    count = len(pattern)
    packed = np.zeros((count, -(-pattern.shape[1] // 64) * 8), np.uint8)
    packed[:, : -(-pattern.shape[1] // 8)] = np.packbits(pattern, axis=1)
    return packed.view(np.uint64)


def _hashed(words: np.ndarray, first: int) -> np.ndarray:
    """Each word mixed with its place (the rounds of splitmix64), so that sums tell patterns apart."""
    mixed = words + (np.arange(first + 1, first + 1 + words.shape[1], dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def directional_derivatives(program: Program, x: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """`[N, C, d]` derivatives of the outputs along `directions` `[d, *input_shape]`; one forward pass each."""
    return columns(program.forward, torch.from_numpy(x), torch.from_numpy(directions)[:, None]).mT.numpy()


def jacobians(program: Program, x: np.ndarray) -> np.ndarray:
    """`[N, C, D]` Jacobians at inputs `[N, *input_shape]`: min(C, D) passes through the network."""
    with recording():
        return row_jacobians(program.forward, torch.from_numpy(x)).numpy()


def cuts(program: Program, x: Tensor) -> Iterator[tuple[Fold, Tensor]]:
    """Each fold with its units' pre-activations `[N, U]` at a batch, in execution order."""
    for step, value in _walk(program, x):
        if isinstance(step, Fold):
            yield step, value


def _walk(program: Program, x: Tensor) -> Iterator[tuple[Fold | None, Tensor]]:
    """(fold, its pre-activations `[N, U]`) in execution order, then (None, the output)."""
    values = {program.input: x}
    for step, inputs, _ in walk(program.steps, values, {program.output}):
        if isinstance(step, Fold):
            yield step, step.cuts(*inputs)
    yield None, values[program.output]


def unit_distances(program: Program, x: np.ndarray) -> np.ndarray:
    """`[N, U]` distances `|z_k| / ||grad z_k||` to the units' folds, continued straight from each point's tile.

    Infinite for a unit that does not depend on the input near the point. min(D, U) passes through the network.
    """
    size, units = int(np.prod(program.input_shape)), sum(site.cuts for site in program.sites)
    batch = torch.from_numpy(x)

    def every(rows: Tensor) -> Tensor:
        return torch.cat([z for _, z in cuts(program, rows)], 1)

    with recording():
        if size <= units:
            ones = torch.eye(size, dtype=torch.float64).reshape(size, 1, *program.input_shape)
            parts = (columns(every, batch, part).square().sum(1) for part in ones.split(_TOGETHER))
            squares = reduce(torch.add, parts)
        else:
            pull, ones = pull_back(every, batch), torch.eye(units, dtype=torch.float64)
            parts = (pull(part.expand(len(x), -1, -1)) for part in ones.split(_TOGETHER))
            squares = torch.cat([part.square().sum(2) for part in parts], 1)
        norms, values = squares.detach().sqrt(), every(batch).detach()
    return torch.where(norms > 0, values.abs() / norms.clamp_min(torch.finfo(torch.float64).tiny), torch.inf).numpy()
