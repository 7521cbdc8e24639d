"""The .nnet text format (K. Julian, Stanford 2016): dense ReLU networks with the ranges of their inputs."""

import itertools
import math
import re
from pathlib import Path

import torch
from torch import Tensor, nn

from splinescope.support.errors import FileFormatError


class Scale(nn.Module):
    """`x * factor + shift`: to normalized units, or back."""

    factor: Tensor
    shift: Tensor

    def __init__(self, factor: Tensor, shift: Tensor) -> None:
        super().__init__()
        self.register_buffer("factor", factor)
        self.register_buffer("shift", shift)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor + self.shift


def read_nnet(path: Path, *, normalized: bool) -> tuple[nn.Module, tuple[int, ...]]:
    """The network of a .nnet file in float64, and the shape of its input.

    Layout: `//` comments; layers, inputs, outputs, largest width; sizes; an unused flag; minima; maxima; means and
    ranges of the inputs and of the output; then per layer its weight rows and its biases.
    """
    rows = _rows(path)
    if len(rows) < 7:
        raise FileFormatError(f"{path}: expected 7 rows of sizes, ranges and means, got {len(rows)}.")
    layers, inputs, outputs, _ = (int(value) for value in rows[0][:4])
    sizes = [int(value) for value in rows[1]]
    if len(sizes) != layers + 1 or sizes[0] != inputs or sizes[-1] != outputs:
        raise FileFormatError(f"{path}: sizes {sizes} do not fit {layers} layers, {inputs} inputs, {outputs} outputs.")
    means, ranges = rows[5], rows[6]
    if len(means) != inputs + 1 or len(ranges) != inputs + 1 or 0.0 in ranges:
        raise FileFormatError(f"{path}: expected {inputs + 1} means and {inputs + 1} ranges that are not 0.")
    body = rows[7:]
    if len(body) != 2 * sum(sizes[1:]):
        raise FileFormatError(f"{path}: expected {2 * sum(sizes[1:])} rows of weights and biases, got {len(body)}.")
    modules = _dense(body, sizes)
    if not normalized:
        mean, span = torch.tensor(means, dtype=torch.float64), torch.tensor(ranges, dtype=torch.float64)
        modules.insert(0, Scale(1 / span[:-1], -mean[:-1] / span[:-1]))
        modules.append(Scale(span[-1], mean[-1]))
    return nn.Sequential(*modules), (inputs,)


def nnet_ranges(path: Path) -> list[tuple[float, float]]:
    """Minimum and maximum of each input of a .nnet file, in physical units; empty if the file says nothing of use."""
    rows = _rows(path)
    ranges = list(zip(rows[3], rows[4], strict=False))
    known = len(rows[3]) == len(rows[4]) == int(rows[0][1])
    return ranges if known and all(math.isfinite(high - low) and low < high for low, high in ranges) else []


def _rows(path: Path) -> list[list[float]]:
    """The numbers of every line that is no comment."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    lines = [line for line in lines if not line.lstrip().startswith("//")]
    return [[float(cell) for cell in re.split(r"[,\s]+", line.strip().strip(",")) if cell] for line in lines]


def _dense(body: list[list[float]], sizes: list[int]) -> list[nn.Module]:
    """Linear layers with ReLU between, from rows of numbers."""
    modules: list[nn.Module] = []
    start = 0
    for fan_in, fan_out in itertools.pairwise(sizes):
        weight = torch.tensor(body[start : start + fan_out], dtype=torch.float64)
        bias = torch.tensor(body[start + fan_out : start + 2 * fan_out], dtype=torch.float64)
        start += 2 * fan_out
        layer = nn.Linear(fan_in, fan_out, dtype=torch.float64, device="meta")
        layer.weight = nn.Parameter(weight.reshape(fan_out, fan_in))
        layer.bias = nn.Parameter(bias.reshape(fan_out))
        modules += [layer, nn.ReLU()]
    return modules[:-1]
