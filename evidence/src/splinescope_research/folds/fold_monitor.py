"""`FoldMonitor`: where the fold of every single unit is while a network trains, how fast it moves and what pulls it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from splinescope.complexity.linear_distance import heights_and_slopes
from splinescope.network.outputs import one_tensor
from splinescope.network.program import site_names
from splinescope.network.watching.batch_statistics import Statistics, choose, measured_with
from splinescope.network.watching.sites import Sites, sites_of
from splinescope.support.checks import as_rows, check_choice, check_whole
from splinescope.support.display import Result
from splinescope.support.errors import InputError
from splinescope.support.evaluating import evaluating
from splinescope.support.losses import named_loss
from splinescope.train import TrainingMonitor
from splinescope.train.journal import Record
from splinescope.train.monitor import Metric
from splinescope.train.schedules import BUDGET, Schedule

from .unit_pulls import loss_graph

_NEAREST = 10  # points at which the speed of a fold is taken
_HALVINGS = 30
_TRACKED = ("to_data", "to_boundary", "speed", "pull", "gradient")
_SAME = 1e-3  # relative, of gradients that are equal or differ by a factor of two


@dataclass(frozen=True, eq=False, repr=False)
class FoldPlaces(Result):
    """The folds of all U units at one step; distances are linearized: exact for the first site, estimates deeper.

    Attributes:
        step: The step.
        to_data: `[U]` distance to the nearest data point; inf where no point sees a slope.
        to_boundary: `[U]` distance to the nearest sampled point of the decision boundary; nan if there are none.
        speed: `[U]` how far the fold moved per step since the record before, mean over the data points nearest to it
            then; nan in the first record.
        pull: `[U]` mean over the data of `|d loss / d pre-activation|`, the loss that of one row; nan without a loss.
        gradient: `[U]` norm of the gradient of the mean loss by the unit's own parameters: those that lead to its
            pre-activation through no other fold and to no other unit of its site (a neuron's weights and bias, those of
            a batch norm behind them; of a convolution the channel's). Rows that pull against each other cancel here.
            Nan without a loss, and where a unit has none that are trained.
        pairs: How many points of the decision boundary were sampled: fewer than asked for where a class has few rows.
    """

    step: int
    to_data: np.ndarray
    to_boundary: np.ndarray
    speed: np.ndarray
    pull: np.ndarray
    gradient: np.ndarray
    pairs: int
    certainty = "estimate"


class FoldMonitor(TrainingMonitor):
    """Follows the fold of every unit through training.

    Same interface as `ComplexityMonitor`: `step`, `measure`, `records`, `overhead`, `close`; each record holds, per
    site, medians over its units of `to_data`, `to_boundary`, `speed`, `pull` and `gradient`, and in `pairs` how many
    points of the boundary were sampled. `tracks` keeps them unit by unit, a `FoldPlaces` for each record, and `track`
    has one of them through training. Nothing depends on the order of the rows.

    The signed distance of a point x to the fold of a unit is `z(x) / ||grad_x z(x)||` with z the pre-activation: exact
    for the first site (if what comes before it is affine), an estimate deeper, where folds bend.

    Args:
        model: The network in training. It is left as found by every measurement.
        x: `[N, *input shape]` data.
        y: Classes or targets, for `loss`.
        loss: A name ("cross_entropy", "mse", ...) or a function (outputs, y) -> loss, summed or averaged over rows;
            with it the pull on each unit and the norm of its gradient are measured. Which of both it is is seen by
            giving it all rows twice: pulls are those of one row's loss and gradients those of the mean in either case.
        pairs: The decision boundary is sampled between so many rows of `x` and others of another predicted class, by
            halving; it moves with the network. Which rows are paired is settled by a digest of their numbers, as if
            they were shuffled once. 0 for networks that do not classify.
        schedule, metrics, logger, budget: As for `ComplexityMonitor`.
        out: Folder for `folds.jsonl`; tracks are kept in memory only.
        statistics: For networks with batch norm: "data" (the default) measures with the statistics of `x`, "running"
            with the running averages, which lag behind the weights. Every record says which in `statistics`.

    Cost: about 2 D forward passes of `x` and of the boundary's points (D inputs), and two gradients.

    Example:
        >>> net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3))
        >>> monitor = FoldMonitor(net, torch.randn(20, 2))
        >>> monitor.measure(0)["0 1 relu/to_data"] >= 0
        True

    Reference: Balestriero, Humayun, Baraniuk, "On the Geometry of Deep Learning", on the migration of tiles.
    """

    name = "folds"

    def __init__(
        self,
        model: nn.Module,
        x: Any,
        y: Any = None,
        *,
        loss: str | Callable[[Tensor, Tensor], Tensor] | None = None,
        pairs: int = 100,
        schedule: Schedule | None = None,
        metrics: Mapping[str, Metric] | None = None,
        out: str | os.PathLike[str] | None = None,
        logger: Any = None,
        budget: float | None = BUDGET,
        statistics: Statistics | None = None,
    ) -> None:
        self._x = as_rows(x, "x")
        if len(self._x) < 3 or self._x.dim() < 2:  # by three rows it is seen where they lie
            raise InputError(f"x must hold at least 3 points, as rows (N, ...), got shape {tuple(self._x.shape)}.")
        if not bool(self._x.isfinite().all()):
            raise InputError(f"x must be finite, got {int((~self._x.isfinite()).sum())} NaN or infinite values.")
        if (loss is None) != (y is None):
            raise InputError("give both y and loss (for the pull on each unit), or neither.")
        known = None if loss is None else named_loss(loss)
        self._y = None if y is None else as_rows(y, "y")
        if self._y is not None and len(self._y) != len(self._x):
            raise InputError(f"y must have one row per point of x, {len(self._x)}, got {len(self._y)}.")
        self._loss: Any = loss if known is None else known.total
        self._pairs = check_whole(pairs, "pairs", least=0)
        self._order = _shuffled(self._x) if self._pairs else []
        self.tracks: list[FoldPlaces] = []
        self._before: np.ndarray | None = None
        self._at = 0
        self._statistics = choose(statistics, model, len(self._x))
        header = {"points": len(self._x), "pairs": pairs, "loss": loss is not None, "statistics": self._statistics}
        super().__init__(model, header, schedule=schedule, metrics=metrics, out=out, logger=logger, snapshots=False,
                         budget=budget)  # fmt: skip

    def _what(self) -> str:
        return "Medians over the units of a site; distances are estimates beyond the first site, where folds bend."

    def measure(self, step: int, *, late: int = 0, skipped: int = 0) -> Record:
        """Measure now, due or not."""
        self._at = int(step)
        return super().measure(step, late=late, skipped=skipped)

    def track(self, what: str) -> np.ndarray:
        """`[T, U]` one of "to_data", "to_boundary", "speed", "pull", "gradient" of every unit at every record."""
        check_choice(what, "what", _TRACKED)
        return np.array([getattr(places, what) for places in self.tracks])

    def _measurements(self) -> Record:
        norms = measured_with(self._statistics, self.model, self._x)
        with evaluating(self.model), norms, sites_of(self.model, self._x[:3], None) as net:
            rows = self._x.to(net.device, net.dtype)
            names = site_names(net.sites)
            numbers = [i for i in range(len(net.sites)) if not net.winner[i]]
            distances, self.sites = _signed_distances(net, rows, numbers)
            edge = _boundary(self.model, rows[self._order], self._pairs) if self._pairs else rows[:0]
            to_edge = np.abs(_signed_distances(net, edge, numbers)[0]).min(0) if len(edge) else None
            pulls = gradients = None
            if self._loss is not None and self._y is not None:
                targets, loss = self._y.to(net.device), self._loss
                graph = loss_graph(net, rows, lambda outputs: _of_each_row(loss, outputs, targets))
                by_unit, own = graph.pulls(), graph.own_gradients()
                pulls = torch.cat([by_unit[i].abs().double().mean(0) for i in numbers]).cpu().numpy()
                gradients = torch.cat([own[i] for i in numbers]).cpu().numpy()
        unknown = np.full(distances.shape[1], np.nan)
        speed = unknown
        if self._before is not None and self.tracks and self._before.shape == distances.shape:
            speed = _speeds(self._before, distances) / max(1, self._at - self.tracks[-1].step)
        places = FoldPlaces(self._at, np.abs(distances).min(0), unknown if to_edge is None else to_edge, speed,
                            unknown if pulls is None else pulls, unknown if gradients is None else gradients,
                            len(edge))  # fmt: skip
        self.tracks.append(places)
        self._before = distances
        record: Record = {"statistics": self._statistics, "pairs": len(edge)}
        for site in numbers:
            own = self.sites == site
            for what in _TRACKED:
                record[f"{names[site]}/{what}"] = _median(getattr(places, what)[own])
        return record


def _evaluated(loss: Callable[[Tensor, Tensor], Tensor], outputs: Tensor, y: Tensor) -> Tensor:
    """The user's loss; what it raises on its own account as one sentence about what it was given."""
    try:
        value = loss(outputs, y)
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        raise InputError(
            f"loss must take outputs of shape {tuple(outputs.shape)} and y of shape {tuple(y.shape)}; "
            f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
        ) from error
    if not isinstance(value, Tensor) or value.numel() != 1:
        got = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise InputError(f"loss must return one number, the sum or the mean over the rows, got {got}.")
    return value


def _of_each_row(loss: Callable[[Tensor, Tensor], Tensor], outputs: Tensor, y: Tensor) -> Tensor:
    """The sum over rows of a loss that is their sum or their mean, which giving all rows twice doubles or leaves."""
    value, alone = _evaluated(loss, outputs, y), outputs.detach().requires_grad_()
    (once,) = torch.autograd.grad(_evaluated(loss, alone, y), alone)
    (twice,) = torch.autograd.grad(_evaluated(loss, torch.cat([alone, alone]), torch.cat([y, y])), alone)
    near = _SAME * float(once.norm())
    if float((twice - once).norm()) <= near:  # both halves together: a mean stays
        return value * len(outputs)
    if float((twice - 2 * once).norm()) <= near:
        return value
    raise InputError("loss must be a sum or a mean over the rows, got one that is neither: rows given twice change it "
                     "otherwise.")  # fmt: skip


def _signed_distances(net: Sites, x: Tensor, numbers: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """`[n, U]` z / ||grad z|| of the units of these sites, inf where there is no slope, and `[U]` their sites."""
    size = x[0].numel()
    basis = torch.eye(size, dtype=x.dtype, device=x.device).reshape(size, *x.shape[1:])
    with torch.no_grad():
        heights, squares = heights_and_slopes(net, x, basis.split(16))
    slopes = {i: squares[i].double().sqrt() for i in numbers}
    signed = [torch.where(slopes[i] > 0, heights[i].double() / slopes[i], torch.inf) for i in numbers]
    columns = [distances.reshape(len(x), -1) for distances in signed]
    return torch.cat(columns, 1).cpu().numpy(), np.repeat(numbers, [column.shape[1] for column in columns])


def _speeds(before: np.ndarray, now: np.ndarray) -> np.ndarray:
    """`[U]` mean change of the signed distance at the points that were nearest; nan where one has no slope."""
    near = np.argpartition(np.abs(before), min(_NEAREST, len(before)) - 1, axis=0)[:_NEAREST]
    first, second = np.take_along_axis(before, near, 0), np.take_along_axis(now, near, 0)
    seen = np.isfinite(first) & np.isfinite(second)
    moved = np.where(seen, np.abs(np.where(seen, second, 0.0) - np.where(seen, first, 0.0)), np.nan)
    return np.where(seen.all(0), moved.mean(0), np.nan)


def _shuffled(x: Tensor) -> list[int]:
    """Places of the rows in an order that is as good as random and depends on their numbers alone."""
    rows = x.detach().cpu().double().flatten(1).numpy()
    digests = [blake2b(row.tobytes()).digest() for row in rows]
    return sorted(range(len(rows)), key=digests.__getitem__)


@torch.no_grad()
def _boundary(model: nn.Module, x: Tensor, pairs: int) -> Tensor:
    """Points where the predicted class changes, by halving ways from rows to the next one of another class."""
    scores = one_tensor(model(x.clone()))
    if scores.dim() != 2 or scores.shape[1] < 2:
        raise InputError("model must return scores [N, C] of at least two classes; else give pairs=0.")
    classes = scores.argmax(1)
    chosen = _partners(classes.tolist())[:pairs]
    if not chosen:
        return x[:0]
    a, b = x[[i for i, _ in chosen]].clone(), x[[j for _, j in chosen]].clone()
    start = classes[[i for i, _ in chosen]]
    for _ in range(_HALVINGS):
        middle = 0.5 * (a + b)
        same = (one_tensor(model(middle.clone())).argmax(1) == start).reshape(-1, *[1] * (x.dim() - 1))
        a, b = torch.where(same, middle, a), torch.where(same, b, middle)
    return a


def _partners(classes: list[int]) -> list[tuple[int, int]]:
    """Each row with the next one, round the list, of another class; each two rows once."""
    count, after = len(classes), [-1] * len(classes)
    for i in range(2 * count - 1, -1, -1):  # from the end of a second round
        here, following = i % count, (i + 1) % count
        after[here] = following if classes[following] != classes[here] else after[following]
    pairs = dict.fromkeys((min(i, j), max(i, j)) for i, j in enumerate(after) if j >= 0)
    return list(pairs)


def _median(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else float("nan")
