"""How far the folds are from the data, and from where batch norm would put them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..network import SplineNetwork
from ..network.program import Program, Site, Smooth
from ..support.checks import check_choice
from ..support.display import Result, counted, table
from ..support.drawing import drawn
from ..support.errors import InputError, UnsupportedModelError
from ..support.progress import Progress, Share, check_progress, sharing
from ..support.worker_processes import by_rows
from ..tiling.measures.differentiate import cuts, unit_distances
from ._data import row_blocks, traced
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
        input_closest: `[G]` smallest distance in the network's input space, each exact within its point's tile;
            None unless asked for.
        input_mean: `[G]` mean of the finite ones of these distances; None unless asked for.
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
    input_closest: np.ndarray | None
    input_mean: np.ndarray | None
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
    model: nn.Module | SplineNetwork,
    x: Any,
    *,
    input_space: bool = False,
    workers: int | None = None,
    progress: Progress | bool | None = None,
) -> FoldDistances:
    r"""Distances from data to the fold of every unit, and how far each fold is from its total-least-squares optimum.

    For a unit with weights $w$ and pre-activations $z$ on the data, the sum of squared distances to its fold in the
    layer's input space is $\sum z^2/\|w\|^2 = N(\sigma^2 + \bar z^2)/\|w\|^2$; with the direction of $w$ held, the
    least value over the offset is $N\sigma^2/\|w\|^2$, reached where the fold passes through the mean, which is
    where batch norm puts it. The layer's inputs are the outputs of earlier folds that reach the unit (both ends of
    a skip connection); positions of a channel share one statistic. Stages of a max-pool have no offset and are left
    out. The fold of a smooth activation (GELU, SiLU, ...), as everywhere: where its unit is 0.

    Args:
        model: A module in evaluation mode, or a traced network. It is left as found.
        x: `[N, ...]`, or a loader of batches (or of tuples that start with one); read block by block.
        input_space: Also measure distances `|z| / ||grad z||` in the network's input space, exact within each
            point's tile (beyond it, the fold continued straight), so of piecewise-affine networks alone. Costs
            min(D, U) passes instead of one.
        workers: Share the rows between so many processes (by joblib, whose `parallel_config` may send them to dask or
            ray); means then agree to rounding, all else exactly. Worth it from some seconds of work.
        progress: As in `tessellate`; how far it is can be told of a tensor of rows, in this process.

    Returns:
        `FoldDistances`; exact up to rounding. Memory does not grow with the number of rows (with workers it does).

    Example:
        >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        >>> found = fold_distances(net, torch.randn(100, 2))
        >>> bool((found[0].objective >= found[0].optimum).all())
        True

    Reference: Balestriero, Humayun, Baraniuk, "On the Geometry of Deep Learning", equation (8).
    """
    check_progress(progress)
    program = _program(model, x, input_space)
    if workers is None:
        with sharing(progress, "fold distances") as share:
            blocks = row_blocks(x, program)
            running = _measured(program, _told(blocks, len(x), share) if isinstance(x, Tensor) else blocks, input_space)
    elif not isinstance(model, nn.Module):
        raise InputError("workers need the module itself, not a network that was read from it.")
    else:
        rows = torch.cat(list(row_blocks(x, program)))
        running = [_Running(layer) for layer in layers(program)]
        for part in by_rows(partial(_sums, model, input_space), [rows], workers=workers, what="rows"):
            for statistics, sums in zip(running, part, strict=True):
                statistics.sums = statistics.sums.with_(sums)
    shapes = value_shapes(program)
    return FoldDistances(tuple(statistics.result(shapes) for statistics in running))


def _told(blocks: Iterable[Tensor], rows: int, share: Share) -> Iterator[Tensor]:
    """The blocks; before each the share of rows behind it is told."""
    done = 0
    for block in blocks:
        share(done / rows)
        yield block
        done += len(block)


def _program(model: nn.Module | SplineNetwork, x: Any, input_space: bool) -> Program:
    """What the model does; without smooth activations where distances need tiles."""
    program = traced(model, x, smooth=not input_space).program()
    if input_space and (soft := [step.site.label for step in program.steps if isinstance(step, Smooth)]):
        raise UnsupportedModelError(
            f"distances in input space need a piecewise-affine network; this one was traced with {', '.join(soft)}."
        )
    return program


def _measured(program: Program, blocks: Iterable[Tensor], input_space: bool) -> list[_Running]:
    running = [_Running(layer) for layer in layers(program)]
    for block in blocks:
        with torch.no_grad():
            values = {fold.output: z for fold, z in cuts(program, block)}
        straight = _input_distances(program, block) if input_space else {}
        for statistics in running:
            name = statistics.layer.fold.output
            statistics.add(values[name], straight.get(name))
    return running


@torch.inference_mode(False)
def _sums(model: nn.Module, input_space: bool, rows: Tensor) -> list[_Sums]:
    """What one process finds of its rows, layer by layer."""
    program = _program(model, rows, input_space)
    return [statistics.sums for statistics in _measured(program, row_blocks(rows, program), input_space)]


@torch.inference_mode(False)  # gradients are taken
def point_distances(model: nn.Module | SplineNetwork, x: Any, *, space: str = "layer") -> list[np.ndarray]:
    """Distances from each point to each unit's fold: per site of `fold_distances`, `[N, U]` over single units.

    In the layer's input space, or in the network's (`space="input"`): exact in the point's tile of piecewise-affine
    networks. Infinite where a unit does not depend on the space's points.
    """
    check_choice(space, "space", ("layer", "input"))
    program = _program(model, x, space == "input")
    found, shapes = layers(program), value_shapes(program)
    norms = {layer.fold.output: torch.from_numpy(layer.weight_norms(shapes)[layer.groups]) for layer in found}
    parts: dict[str, list[Tensor]] = {name: [] for name in norms}
    for block in row_blocks(x, program):
        if space == "input":
            distances = _input_distances(program, block)
        else:
            with torch.no_grad():
                distances = {f.output: z.abs() / norms[f.output] for f, z in cuts(program, block) if f.output in norms}
        for name in parts:
            parts[name].append(distances[name].nan_to_num(nan=torch.inf, posinf=torch.inf))
    return [torch.cat(part).numpy() for part in parts.values()]


def _input_distances(program: Program, block: Tensor) -> dict[str, Tensor]:
    """Per fold `[N, U]` distances in the network's input space."""
    split = torch.from_numpy(unit_distances(program, block.numpy())).split([f.site.units for f in program.folds], 1)
    return {fold.output: part for fold, part in zip(program.folds, split, strict=True)}


@dataclass
class _Sums:
    """What is known of some rows at one layer, `[G]` each; two of them make that of both."""

    count: int
    mean: Tensor
    squares: Tensor  # of deviations from the mean
    positive: Tensor
    lowest: Tensor
    highest: Tensor
    closest: Tensor
    far: Tensor | None  # the rest: of distances in the network's input space
    far_sum: Tensor
    far_count: Tensor

    def with_(self, other: _Sums) -> _Sums:
        """Chan, Golub and LeVeque's update."""
        total = self.count + other.count
        shift = other.mean - self.mean
        far = other.far if self.far is None else self.far if other.far is None else torch.minimum(self.far, other.far)
        return _Sums(
            total,
            self.mean + shift * (other.count / total),
            self.squares + (other.squares + shift.square() * (self.count * other.count / total)),
            self.positive + other.positive,
            torch.minimum(self.lowest, other.lowest),
            torch.maximum(self.highest, other.highest),
            torch.minimum(self.closest, other.closest),
            far,
            self.far_sum + other.far_sum,
            self.far_count + other.far_count,
        )


class _Running:
    """Statistics of one layer, block by block."""

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        self.order = torch.from_numpy(np.argsort(layer.groups, kind="stable"))
        self.groups = len(layer.centers)
        sizes = np.bincount(layer.groups, minlength=self.groups)
        if len(set(sizes.tolist())) > 1:
            raise InputError(f"{layer.fold.site.path}: channels have unequal numbers of folds.")
        zeros = torch.zeros(self.groups, dtype=torch.float64)
        none = zeros + torch.inf
        self.sums = _Sums(0, zeros, zeros, zeros, none, -none, none, None, zeros, zeros)

    def _grouped(self, values: Tensor) -> Tensor:
        """`[n, G]`: a group's units below each other."""
        return values[:, self.order].reshape(len(values), self.groups, -1).transpose(1, 2).reshape(-1, self.groups)

    def add(self, values: Tensor, distances: Tensor | None) -> None:
        z = self._grouped(values)
        mean, none = z.mean(0), torch.zeros(self.groups, dtype=torch.float64)
        far, far_sum, far_count = None, none, none
        if distances is not None:
            d = self._grouped(distances)
            finite = d.isfinite()
            far, far_sum, far_count = d.amin(0), torch.where(finite, d, 0.0).sum(0), finite.sum(0).double()
        sums = _Sums(
            len(z), mean, (z - mean).square().sum(0), (z > 0).sum(0).double(),
            z.amin(0), z.amax(0), z.abs().amin(0), far, far_sum, far_count,
        )  # fmt: skip
        self.sums = self.sums.with_(sums)

    def result(self, shapes: dict[str, tuple[int, ...]]) -> SiteDistances:
        sums = self.sums
        far = far_mean = None
        if sums.far is not None:
            far = sums.far.numpy()
            far_mean = torch.where(sums.far_count > 0, sums.far_sum / sums.far_count.clamp_min(1), torch.inf).numpy()
        deviation, active = (sums.squares / sums.count).sqrt().numpy(), (sums.positive / sums.count).numpy()
        return SiteDistances(
            self.layer.fold.site, self.layer.number, sums.count, self.layer.weight_norms(shapes), sums.mean.numpy(),
            deviation, sums.lowest.numpy(), sums.highest.numpy(), sums.closest.numpy(), active, far, far_mean,
        )  # fmt: skip
