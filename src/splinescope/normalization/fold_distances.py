"""How far the folds are from the data, and from where batch norm would put them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..network import SplineNetwork, trace
from ..network.program import Site
from ..support.display import Result, counted, table
from ..support.drawing import drawn
from ..support.errors import InputError
from ..support.progress import Progress, check_progress, sharing
from ..tiling.measures.differentiate import cuts
from ._data import first_row, row_blocks
from ._layers import Layer, layers, value_shapes


@dataclass(frozen=True, eq=False, repr=False)
class SiteDistances(Result):
    r"""Distances from data to the folds of one site, channel by channel.

    A channel is a unit of a dense layer, or all units of one channel of a convolution: they share their weights, and
    their positions count as data of one fold (one per hinge, where an activation has several).

    With pre-activation $z = \langle w, a\rangle + b$ over the layer's inputs $a$, the distance of a point to the
    fold in the layer's input space is $|z| / \|w\|$.

    Attributes:
        site: Where this is in the model; it counts single units.
        number: Of the site among all sites of the network.
        count: Number of pre-activations per channel: rows, times positions.
        norms: `[G]` $\|w\|$ (of the whole kernel, for a convolution).
        mean: `[G]` of z.
        deviation: `[G]` population standard deviation of z.
        lowest: `[G]` smallest z.
        highest: `[G]` largest z.
        closest: `[G]` smallest `|z|`.
        active: `[G]` share of z > 0.
    """

    site: Site
    number: int
    count: int
    norms: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray
    closest: np.ndarray
    active: np.ndarray
    certainty = "exact"

    def __repr__(self) -> str:
        return f"SiteDistances({self.name}, {len(self)} channels)"

    @property
    def name(self) -> str:
        """The site's name, as everywhere: number, path and op."""
        return f"{self.number} {self.site.label}"

    def __len__(self) -> int:
        return len(self.norms)

    def _per_norm(self, value: np.ndarray) -> np.ndarray:
        """Divided by the weights' norm; infinite (or zero) for a channel without weights, which has no fold."""
        nothing = np.where(value == 0, 0.0, np.inf)
        return np.divide(value, self.norms, out=nothing, where=self.norms > 0)

    @cached_property
    def offset(self) -> np.ndarray:
        r"""`[G]` $|\bar z| / \|w\|$: how far the fold is from where it would be closest to the data."""
        return self._per_norm(np.abs(self.mean))

    @cached_property
    def nearest(self) -> np.ndarray:
        """`[G]` distance of the data point closest to the fold, in the layer's input space."""
        return self._per_norm(self.closest)

    @cached_property
    def rms(self) -> np.ndarray:
        """`[G]` root mean square distance of the data to the fold, in the layer's input space."""
        return self._per_norm(np.hypot(self.mean, self.deviation))

    @cached_property
    def best_rms(self) -> np.ndarray:
        r"""`[G]` the same for the best offset, the mean: $\sigma / \|w\|$."""
        return self._per_norm(self.deviation)

    @property
    def objective(self) -> np.ndarray:
        r"""`[G]` total least squares $\sum z^2 / \|w\|^2$ of the fold as it is."""
        return self.count * self.rms**2

    @property
    def optimum(self) -> np.ndarray:
        r"""`[G]` the same after normalization, over all offsets with the direction held: $N \sigma^2 / \|w\|^2$."""
        return self.count * self.best_rms**2

    @property
    def splits(self) -> np.ndarray:
        """`[G]` whether data lies strictly on both sides of the fold."""
        return (self.lowest < 0) & (self.highest > 0)

    def by_bend(self, values: np.ndarray) -> np.ndarray:
        """`[bends, channels]` of `[G]` values: what bends twice (ReLU6, hardtanh) has two folds a channel."""
        bends, rest = divmod(self.site.units, math.prod(self.site.shape))
        return values.reshape(1 if rest else bends, -1)


@dataclass(frozen=True, eq=False, repr=False)
class FoldDistances(Result):
    """`SiteDistances` for every site but max-pools, in execution order, and their summary."""

    sites: tuple[SiteDistances, ...]
    certainty = "exact"
    plot = drawn("normalization.plot_fold_distances")

    def __repr__(self) -> str:
        channels = counted(sum(len(site) for site in self), "channel")
        return f"FoldDistances({counted(len(self), 'site')}, {channels})"

    def __len__(self) -> int:
        return len(self.sites)

    def __getitem__(self, index: int) -> SiteDistances:
        return self.sites[index]

    def __iter__(self) -> Iterator[SiteDistances]:
        return iter(self.sites)

    @property
    def names(self) -> list[str]:
        """The name of each site, with its number among all sites of the network (max-pools are left out here)."""
        return [site.name for site in self.sites]

    def records(self) -> list[dict[str, Any]]:
        """One dictionary a site: sizes, objective now and at its optimum (sums over channels), medians of distances."""
        return [
            {
                "site": s.name,
                "path": s.site.path,
                "op": s.site.op,
                "depth": s.site.depth,
                "units": s.site.units,
                "channels": len(s),
                "objective": float(s.objective.sum()),
                "optimum": float(s.optimum.sum()),
                "offset": float(np.median(s.offset)),
                "rms": float(np.median(s.rms)),
                "nearest": float(np.median(s.nearest)),
                "splits": float(s.by_bend(s.splits).any(0).mean()),
            }
            for s in self.sites
        ]

    def summary(self) -> str:
        """A table: per site the objective over its optimum, median distances, channels that split data."""
        medians = [f"median {key}" for key in ("offset", "rms", "nearest")]
        rows = [("site", "units", "channels", "objective/optimum", *medians, "split data")]
        for r in self.records():
            constant = r["optimum"] <= 1e-24 * r["objective"]  # deviations of 1e-12 of the offset are rounding
            ratio = np.inf if constant else r["objective"] / r["optimum"]
            distances = [f"{r[key]:.3g}" for key in ("offset", "rms", "nearest")]
            sizes = (str(r["units"]), str(r["channels"]))
            rows.append((r["site"], *sizes, f"{ratio:.3g}", *distances, f"{r['splits']:.0%}"))
        return f"{table(rows)}\n{self.assurance}"


@torch.inference_mode(False)  # gradients are taken
def fold_distances(
    model: nn.Module | SplineNetwork, x: Any, *, progress: Progress | bool | None = None
) -> FoldDistances:
    r"""Distances from data to the fold of every unit, and how far each fold is from its total-least-squares optimum.

    For a unit with weights $w$ and pre-activations $z$ on the data, the sum of squared distances to its fold in the
    layer's input space is $\sum z^2/\|w\|^2 = N(\sigma^2 + \bar z^2)/\|w\|^2$; with the direction of $w$ held, the
    least value over the offset is $N\sigma^2/\|w\|^2$, reached where the fold passes through the mean, which is
    where batch norm puts it. The layer's inputs are the outputs of earlier folds that reach the unit (both ends of
    a skip connection); positions of a channel share one statistic. Stages of a max-pool have no offset and are left
    out. The fold of a smooth activation (GELU, SiLU, ...) is where its unit is 0.

    Args:
        model: A module in evaluation mode, or a traced network. It is left as found.
        x: `[N, ...]`, or a loader of batches (or of tuples that start with one); read block by block.
        progress: As in `tessellate`; only a tensor of rows has a known length.

    Returns:
        `FoldDistances`; exact up to rounding. Memory does not grow with the number of rows.

    Example:
        >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        >>> found = fold_distances(net, torch.randn(100, 2))
        >>> bool((found[0].objective >= found[0].optimum).all())
        True

    Reference: Balestriero, Humayun, Baraniuk, "On the Geometry of Deep Learning", equation (8).
    """
    check_progress(progress)
    program = trace(model, first_row(x), smooth=True).program()
    running = [_Running(layer) for layer in layers(program)]
    done = 0
    with sharing(progress, "fold distances") as share, torch.no_grad():
        for block in row_blocks(x, program):
            if isinstance(x, Tensor):
                share(done / len(x))
            values = {fold.output: z for fold, z in cuts(program, block)}
            for statistics in running:
                statistics.add(values[statistics.layer.fold.output])
            done += len(block)
    shapes = value_shapes(program)
    return FoldDistances(tuple(statistics.result(shapes) for statistics in running))


class _Running:
    """Statistics of one layer, block by block, by Chan, Golub and LeVeque's update."""

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        self.order = torch.from_numpy(np.argsort(layer.groups, kind="stable"))
        self.groups = len(layer.centers)
        if len(set(np.bincount(layer.groups, minlength=self.groups).tolist())) > 1:
            raise InputError(f"{layer.fold.site.path}: channels have unequal numbers of folds.")
        self.count = 0
        self.mean = self.squares = self.positive = torch.zeros(self.groups, dtype=torch.float64)
        self.lowest = self.closest = self.mean + torch.inf
        self.highest = -self.lowest

    def add(self, values: Tensor) -> None:
        # [n, G]: a group's units below each other
        z = values[:, self.order].reshape(len(values), self.groups, -1).transpose(1, 2).reshape(-1, self.groups)
        mean, total = z.mean(0), self.count + len(z)
        shift = mean - self.mean
        between = shift.square() * (self.count * len(z) / total)
        self.squares = self.squares + ((z - mean).square().sum(0) + between)
        self.mean = self.mean + shift * (len(z) / total)
        self.positive = self.positive + (z > 0).sum(0)
        self.lowest, self.highest = torch.minimum(self.lowest, z.amin(0)), torch.maximum(self.highest, z.amax(0))
        self.closest = torch.minimum(self.closest, z.abs().amin(0))
        self.count = total

    def result(self, shapes: dict[str, tuple[int, ...]]) -> SiteDistances:
        deviation, active = (self.squares / self.count).sqrt(), self.positive / self.count
        tensors = (self.mean, deviation, self.lowest, self.highest, self.closest, active)
        norms = self.layer.weight_norms(shapes)
        return SiteDistances(
            self.layer.fold.site, self.layer.number, self.count, norms, *(tensor.numpy() for tensor in tensors)
        )
