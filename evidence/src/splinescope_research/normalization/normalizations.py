"""Normalizations side by side: what each does to where a random network's folds pass."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from splinescope.network.readable import check_mode, unwrap
from splinescope.network.watching.intercept import Hooked
from splinescope.normalization import with_statistics
from splinescope.support.checks import as_rows, check_choice
from splinescope.support.display import Result
from splinescope.support.errors import InputError
from splinescope.support.progress import Progress, sharing
from splinescope.tiling import Slice
from splinescope.tiling.measures.folds import Raster

from ..folds.fold_density import FoldDensity

NORMALIZATIONS: dict[str, str] = {
    "none": "piecewise affine",
    "zero bias": "piecewise affine",
    "random bias": "piecewise affine",
    "batch": "piecewise affine (statistics held)",
    "layer": "no; layer 1: planes z_k = mean z",
    "instance": "no (4 units stand for positions); layer 1: planes z_k = group's mean z",
    "group": "no; layer 1: planes z_k = group's mean z",
    "RMS": "no; but every fold is that of zero bias",
    "weight": "piecewise affine",
    "spectral": "piecewise affine",
}
"""Name -> whether the network is piecewise affine, and which zero sets are exact planes where it is not."""


def normalized_mlp(
    widths: tuple[int, ...], normalization: str, *, generator: torch.Generator | None = None
) -> nn.Sequential:
    """A random ReLU network (He weights) with one of `NORMALIZATIONS` before each ReLU, in float64.

    All kinds draw the same weights from the same generator. Biases are zero, but for "none" (torch's default,
    uniform on +-1/sqrt(fan in)), "random bias" (standard normal), "weight" and "spectral" (as "none"). Group norm
    has 4 groups; instance norm, which needs positions, takes every 4 units as the positions of a channel.
    """
    check_choice(normalization, "normalization", tuple(NORMALIZATIONS))
    if any(width % 4 for width in widths[1:]) or len(widths) < 2:
        raise InputError(f"widths must be an input size and multiples of 4, got {widths}.")
    blocks = []
    for fan_in, width in itertools.pairwise(widths):
        with torch.random.fork_rng(devices=[]):
            linear = nn.Linear(fan_in, width, dtype=torch.float64)
        with torch.no_grad():
            linear.weight.normal_(0, math.sqrt(2 / fan_in), generator=generator)
            offsets = torch.randn(width, generator=generator, dtype=torch.float64)
            spread = torch.rand(width, generator=generator, dtype=torch.float64) * 2 - 1
            default = normalization in ("none", "weight", "spectral")
            linear.bias.copy_(offsets if normalization == "random bias" else spread * default / math.sqrt(fan_in))
        blocks.append(nn.Sequential(*_normalized(linear, width, normalization), nn.ReLU()))
    return nn.Sequential(*blocks)


def _normalized(linear: nn.Linear, width: int, normalization: str) -> list[nn.Module]:
    parametrizations = nn.utils.parametrizations
    makers: dict[str, Callable[[], nn.Module]] = {
        "batch": lambda: nn.BatchNorm1d(width, dtype=torch.float64),
        "layer": lambda: nn.LayerNorm(width, dtype=torch.float64),
        "instance": lambda: nn.GroupNorm(width // 4, width, dtype=torch.float64),
        "group": lambda: nn.GroupNorm(4, width, dtype=torch.float64),
        "RMS": lambda: nn.RMSNorm(width, dtype=torch.float64),
    }
    if normalization == "weight":
        return [parametrizations.weight_norm(linear)]
    if normalization == "spectral":
        with torch.random.fork_rng(devices=[]):  # its power iteration starts at random
            torch.manual_seed(0)
            return [parametrizations.spectral_norm(linear, n_power_iterations=50).eval()]
    return [linear, makers[normalization]()] if normalization in makers else [linear]


def sign_changes(model: nn.Module, x: Any, view: Slice, *, cells: int = 96) -> FoldDensity:
    """Per `nn.ReLU` module and cell of a 2-D slice, the number of units that change sign between the cell's corners.

    An estimate of fold density that needs no piecewise-affine network: a fold that enters and leaves a cell between
    the same two corners is missed. Layers are numbered from 1. Cost: one forward pass of (cells + 1)^2 rows.
    """
    if view.dimension != 2:
        raise InputError(f"sign changes need a 2-D slice, got a {view.dimension}-D one.")
    check_mode(unwrap(model))
    low, high = view.domain.min(0), view.domain.max(0)
    xs, ys = (np.linspace(low[i], high[i], cells + 1) for i in (0, 1))
    grid = np.stack(np.meshgrid(xs, ys), -1).reshape(-1, 2)
    rasters = {}
    for depth, z in enumerate(_relu_inputs(model, torch.from_numpy(view.inputs(grid))), 1):
        positive = (z > 0).reshape(cells + 1, cells + 1, -1)
        corners = [positive[i : i + cells, j : j + cells] for i in (0, 1) for j in (0, 1)]
        every = corners[0] & corners[1] & corners[2] & corners[3]
        some = corners[0] | corners[1] | corners[2] | corners[3]
        rasters[depth] = Raster((some & ~every).sum(-1).double().numpy(), xs, ys)
    if not rasters:
        raise InputError("model must have nn.ReLU modules that run, found none; fold_density reads functions, too.")
    return FoldDensity.about(x, view, rasters, "estimate", None)


def _relu_inputs(model: nn.Module, x: Tensor) -> Iterator[Tensor]:
    """Inputs of the ReLU modules at a batch, `[N, U]` each, in order of execution."""
    seen: list[Tensor] = []
    relus = [module for module in model.modules() if isinstance(module, nn.ReLU)]

    def keep(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        seen.append(inputs[0].flatten(1))

    with torch.no_grad(), Hooked(before=[(relu, keep) for relu in relus]):
        model(x.to(next(model.parameters(), x)))
    yield from seen


@dataclass(frozen=True, repr=False)
class NormalizationRow(Result):
    """One normalization's row.

    Attributes:
        name: A key of `NORMALIZATIONS`.
        exact: Whether its networks are piecewise affine, and what is exact where not.
        ratios: `[L]` per layer, density of folds near the data over far from it (by sign changes).
        splits: `[L]` per layer, share of the units with data on both sides of their fold.
    """

    name: str
    exact: str
    ratios: np.ndarray
    splits: np.ndarray
    certainty = "estimate"


def compare_normalizations(
    x: Tensor,
    view: Slice,
    *,
    depth: int = 5,
    width: int = 64,
    near: float = 0.25,
    far: float = 1.0,
    cells: int = 48,
    names: tuple[str, ...] = tuple(NORMALIZATIONS),
    seed: int = 0,
    progress: Progress | bool | None = None,
) -> list[NormalizationRow]:
    """Random networks that differ in their normalization alone: where their folds pass, against the data.

    Layer, instance, group and RMS norm depend on each input, so their networks are not piecewise affine: all kinds
    are measured by sign changes on one grid, which is fair to all. (With `freeze_statistics` they can be tiled.)

    Args:
        x: `[N, *input shape]` data; batch norm takes its statistics from it.
        view: A 2-D slice that shows the data and its surroundings.
        depth: Number of layers.
        width: Units per layer, a multiple of 4.
        near: Cells nearer than this to a data point are near.
        far: Cells further than this from all of them are far.
        cells: Cells of the grid along each side.
        names: Which normalizations.
        seed: Of the weights, the same for all kinds.
        progress: None: shown once it takes a few seconds; True, False, or a function of (share done, what it is at).

    Returns:
        One `NormalizationRow` per name.
    """
    data = as_rows(x, "x").double()
    rows = []
    with sharing(progress, "normalizations") as share:
        for number, name in enumerate(names):
            share(number / len(names))
            drawn = normalized_mlp(
                (data[0].numel(), *[width] * depth), name, generator=torch.Generator().manual_seed(seed)
            )
            model = with_statistics(drawn, data) if name == "batch" else drawn.eval()
            density = sign_changes(model, data, view, cells=cells)
            ratios = np.array([density.ratio(d, near=near, far=far) for d in density.rasters])
            splits = [float(((z > 0).any(0) & (z < 0).any(0)).double().mean()) for z in _relu_inputs(model, data)]
            rows.append(NormalizationRow(name, NORMALIZATIONS[name], ratios, np.array(splits)))
    return rows
