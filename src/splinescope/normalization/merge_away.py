"""Batch norm early, none later: a norm that is merged into its neighbours while training goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import Optimizer

from .._checks import as_rows, check_positive, check_whole
from .._display import Shown
from .._errors import InputError
from ..complexity._statistics import set_statistics_
from ..network.export import unwrap
from ..train import TrainingMonitor, evaluating
from ._data import raw_batches
from .folding import merge_batchnorm
from .plateau import plateaued


@torch.no_grad()
def merge_batchnorm_(
    model: nn.Module, *, optimizer: Optimizer | None = None, statistics: Tensor | None = None, x: Any = None
) -> tuple[str, ...]:
    """Merge the batch norms of a model away in place, in the middle of training; in evaluation the function stays.

    The tensors of the layers that take them up keep their identity, so an optimiser goes on with them. What it
    remembers of those (moments) belonged to other coordinates and is forgotten; norms leave it, biases that had
    to be made join the group of their layer's weight.

    Args:
        model: In training or evaluation mode, which it keeps.
        optimizer: The one that trains the model.
        statistics: `[N, ...]` data whose mean and variance the norms are merged with; their running averages if None.
        x: As for `merge_batchnorm`.

    Returns:
        Paths of the layers whose parameters changed.

    Example:
        >>> net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU())
        >>> merge_batchnorm_(net)
        ('0',)
    """
    module = unwrap(model)
    norms = {path: norm for path, norm in module.named_modules() if isinstance(norm, _BatchNorm)}
    if not norms:
        raise InputError("model must have batch norm modules, found none: nothing to merge.")
    if "" in norms:
        raise InputError("model must contain its batch norms, got a batch norm itself: it cannot be replaced in place.")
    if optimizer is not None and not isinstance(optimizer, Optimizer):
        raise InputError(
            f"optimizer must be the torch optimizer that trains the model, got {type(optimizer).__name__}."
        )
    if optimizer is not None and not _held(optimizer) & {id(p) for p in module.parameters()}:
        raise InputError("optimizer must be the one that trains the model, got one that holds none of its parameters.")
    if statistics is not None:
        (rows,) = raw_batches(as_rows(statistics, "statistics"))
        set_statistics_(module, rows)
    with evaluating(module):
        merged = merge_batchnorm(module, x)
    changed = []
    for path, made in merged.named_modules():
        own = module.get_submodule(path) if path not in norms else None
        if own is None or not _differ(own, made):
            continue
        changed.append(path)
        for name, value in made.named_parameters(recurse=False):
            mine = getattr(own, name)
            if mine is None:
                mine = nn.Parameter(torch.zeros_like(value), requires_grad=own.get_parameter("weight").requires_grad)
                setattr(own, name, mine)
                _join(optimizer, mine, beside=own.get_parameter("weight"))
            mine.copy_(value)
            if optimizer is not None:
                optimizer.state.pop(mine, None)
    for path, norm in norms.items():
        parent, _, name = path.rpartition(".")
        replacement = merged.get_submodule(path).train(norm.training)
        setattr(module.get_submodule(parent), name, replacement)
        _leave(optimizer, list(norm.parameters()))
        for parameter in replacement.parameters():
            _join(optimizer, parameter, beside=None)
    return tuple(changed)


def _differ(own: nn.Module, made: nn.Module) -> bool:
    """Whether merging changed the parameters that a module itself owns."""
    before, after = (dict(m.named_parameters(recurse=False)) for m in (own, made))
    return before.keys() != after.keys() or any(not torch.equal(before[k], after[k]) for k in before)


def _join(optimizer: Optimizer | None, parameter: nn.Parameter, beside: nn.Parameter | None) -> None:
    """A new parameter into the group of another one, or the first."""
    if optimizer is None:
        return
    groups = optimizer.param_groups
    group = next((g for g in groups if beside is not None and any(p is beside for p in g["params"])), groups[0])
    group["params"].append(parameter)


def _held(optimizer: Optimizer) -> set[int]:
    return {id(p) for group in optimizer.param_groups for p in group["params"]}


def _leave(optimizer: Optimizer | None, parameters: list[nn.Parameter]) -> None:
    if optimizer is None:
        return
    gone = {id(p) for p in parameters}
    for group in optimizer.param_groups:
        group["params"] = [p for p in group["params"] if id(p) not in gone]
    for parameter in parameters:
        optimizer.state.pop(parameter, None)


class MergeAway(Shown):
    """Trains with batch norm first and without it later: merges it away at a step, or when a monitored number plateaus.

    It is told each step like a monitor, so `lightning_callback` and `trainer_callback` take it too. At the change the
    function stays what it was in evaluation mode; from then on nothing pulls the folds to the batch.

    Args:
        model: With batch norm; changed in place once.
        optimizer: The one that trains it, or a function that returns it when it is needed (in Lightning and Hugging
            Face, `lambda: trainer.optimizers[0]`, `lambda: trainer.optimizer`).
        at: The step to merge at (or the first one told after it).
        plateau: `(monitor, name)`: merge when that monitor's number (a `ComplexityMonitor`'s "points", say) has moved
            and, over the last stretch of training, hardly moves any more; see `plateaued`.
        patience: Number of records that the stretch must have.
        tolerance: How far the number may range on the stretch, relative to its range so far.
        span: The stretch reaches back to `1 / span` of the present step: 2 for the last half of training so far.
        earliest: Step before which no stretch begins.
        statistics: `[N, ...]` data to merge with; running averages if None.

    Attributes:
        merged_at: The step of the change; None before it.

    Example:
        >>> net = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
        >>> optimizer = torch.optim.Adam(net.parameters())
        >>> schedule = MergeAway(net, optimizer, at=3)
        >>> for step in range(5):
        ...     if schedule.step(step):
        ...         print("merged before step", step)
        ...     loss = net(torch.randn(16, 2)).square().mean()
        ...     optimizer.zero_grad(); loss.backward(); optimizer.step()
        merged before step 3

    Reference: Balestriero, Humayun, Baraniuk, "On the Geometry of Deep Learning", which asks for the best of both:
    batch norm's folds at the data early, their migration to the boundary late.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer | Callable[[], Optimizer],
        *,
        at: int | None = None,
        plateau: tuple[TrainingMonitor, str] | None = None,
        patience: int = 4,
        tolerance: float = 0.1,
        span: float = 2.0,
        earliest: int = 10,
        statistics: Tensor | None = None,
    ) -> None:
        if not isinstance(optimizer, Optimizer) and (not callable(optimizer) or isinstance(optimizer, nn.Module)):
            raise InputError(
                "optimizer must be the torch optimizer that trains the model, or a function that returns it (biases "
                f"that merging makes have to join it), got {type(optimizer).__name__}."
            )
        if (at is None) == (plateau is None):
            raise InputError("give either at=, a step, or plateau=, a monitor and the name of one of its numbers.")
        self._model, self._optimizer, self._statistics = model, optimizer, statistics
        self._at = None if at is None else check_whole(at, "at", least=0)
        if plateau is not None and not (
            isinstance(plateau, tuple) and len(plateau) == 2 and isinstance(plateau[0], TrainingMonitor)
        ):
            got = ", ".join(type(part).__name__ for part in plateau) if isinstance(plateau, tuple) else repr(plateau)
            raise InputError(f"plateau must be a pair (monitor, name of a number), got {got}.")
        unwrap(model)  # refuses what is no module before training begins
        self._plateau = plateau
        self._patience = check_whole(patience, "patience", least=2)
        self._tolerance = check_positive(tolerance, "tolerance")
        self._span, self._earliest = check_positive(span, "span"), check_whole(earliest, "earliest", least=0)
        if self._span <= 1:
            raise InputError(f"span must be above 1, the ratio of a later step to an earlier one, got {span!r}.")
        self.merged_at: int | None = None

    def _shown(self) -> list[tuple[str, Any]]:
        when = ("at", self._at) if self._plateau is None else ("plateau", self._plateau[1])
        return [("model", type(self._model).__name__), when, ("merged_at", self.merged_at)]

    def step(self, step: int) -> bool:
        """Tell where training is; merges if that is due. Whether it did."""
        check_whole(step, "step", least=0)
        if self.merged_at is not None or not self._due(step):
            return False
        optimizer = self._optimizer if isinstance(self._optimizer, Optimizer) else self._optimizer()
        merge_batchnorm_(self._model, optimizer=optimizer, statistics=self._statistics)
        self.merged_at = int(step)
        return True

    def finish(self, step: int) -> None:
        """Training is over: nothing is merged any more; monitors measure then."""

    def _due(self, step: int) -> bool:
        if self._at is not None:
            return step >= self._at
        assert self._plateau is not None
        monitor, name = self._plateau
        records = monitor.records
        if records and name not in records[-1]:
            raise InputError(f"plateau must name a number of the monitor's records, got {name!r}; there are: "
                             f"{', '.join(records[-1])}.")  # fmt: skip
        steps, values = [record["step"] for record in records], [record[name] for record in records]
        return plateaued(
            steps, values, patience=self._patience, tolerance=self._tolerance, span=self._span, earliest=self._earliest
        )
