"""Batch norm early, none later: a norm that is merged into its neighbors while training goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.optim import Optimizer

from splinescope.network.readable import unwrap
from splinescope.network.watching.batch_statistics import Forward, batch_norms
from splinescope.network.watching.undisturbed import copied
from splinescope.support.checks import check_whole
from splinescope.support.display import Shown
from splinescope.support.errors import InputError
from splinescope.train import TrainingMonitor

from .merge_in_place import check_normed, input_rows, merged_in_place, run_on, statistics_rows
from .optimizer_groups import check_optimizer

_PATIENCE = 4  # records that the stretch must have
_TOLERANCE = 0.1  # how far the number may range on it, relative to its range so far
_SPAN = 2.0  # the stretch reaches back to the last half of training so far
_EARLIEST = 10  # step before which no stretch begins


class MergeAway(Shown):
    """Trains with batch norm first and without it later: merges it away at a step, or when a monitored number plateaus.

    It is told each step like a monitor. At the change the function stays what it was in evaluation mode; from then on
    nothing pulls the folds to the batch.

    `DistributedDataParallel` holds the parameters that it was built with: on every process wrap the model anew where
    `step` returns True.

    Args:
        model: With batch norm; changed in place once.
        optimizer: The one that trains it, or a function that returns it when it is needed.
        at: The step to merge at (or the first one told after it).
        plateau: `(monitor, name)`: merge when that monitor's number (a `ComplexityMonitor`'s "points", say) has moved
            and, over the last stretch of training, hardly moves any more; see `plateaued`.
        statistics: `[N, ...]` data to merge with, or a function that returns them then; running averages if None.
        x: `[N, ...]` rows of input on which it is seen that the outputs stay: of a copy at once, so that what cannot be
            merged is told before training, and of the model then; `statistics` if None. One of them is needed.
        forward: How to call the model on `x` and `statistics`, `(model, x) -> anything`; `model(x)` if None.

    Attributes:
        merged_at: The step of the change; None before it.

    Example:
        >>> import torch
        >>> net = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
        >>> optimizer = torch.optim.Adam(net.parameters())
        >>> schedule = MergeAway(net, optimizer, at=3, x=torch.randn(4, 2))
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
        statistics: Tensor | Callable[[], Tensor] | None = None,
        x: Any = None,
        forward: Forward | None = None,
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
        check_normed(model)
        if isinstance(optimizer, Optimizer):
            check_optimizer(optimizer, unwrap(model))
        self._plateau = plateau
        self.merged_at: int | None = None
        self._x, self._forward = None if x is None else input_rows(x), forward
        self._try()

    def _try(self) -> None:
        """Merge a copy, if there are rows to do it on: what cannot be merged is better told now than then."""
        module = unwrap(self._model)
        untold = [path for path, norm in batch_norms(module).items() if norm.running_mean is None]
        if untold and self._statistics is None:
            raise InputError(
                f"statistics must be rows of input to merge with, or a function that returns them, since {untold[0]} "
                "keeps no running averages (track_running_stats=False), got None."
            )
        if self._x is None and self._statistics is None:
            raise InputError("give x=, rows of input on which the outputs must stay what they were, or statistics=.")
        if self._x is not None and not untold:
            copy = copied(module)
            merged_in_place(copy, None, None, run_on(self._x, copy, self._forward), self._forward)

    def _shown(self) -> list[tuple[str, Any]]:
        when = ("at", self._at) if self._plateau is None else ("plateau", self._plateau[1])
        return [("model", type(self._model).__name__), when, ("merged_at", self.merged_at)]

    def step(self, step: int) -> bool:
        """Tell where training is; merges if that is due. Whether it did."""
        check_whole(step, "step", least=0)
        if self.merged_at is not None or not self._due(step):
            return False
        optimizer = self._optimizer if isinstance(self._optimizer, Optimizer) else self._optimizer()
        check_optimizer(optimizer, unwrap(self._model))
        statistics = None if self._statistics is None else self._rows()
        rows = statistics if self._x is None else self._x
        assert rows is not None  # one of them was asked for at the start
        run = run_on(rows, unwrap(self._model), self._forward)
        merged_in_place(self._model, optimizer, statistics, run, self._forward)
        self.merged_at = int(step)
        return True

    def finish(self, step: int) -> None:
        """Training is over: monitors measure then, this merges nothing any more."""

    def _rows(self) -> Tensor:
        """The data to merge with."""
        found = self._statistics() if callable(self._statistics) else self._statistics
        if found is None:
            raise InputError(
                "statistics must be rows of input or a function that returns them, got one that returns None."
            )
        return statistics_rows(found)

    def _due(self, step: int) -> bool:
        if self._plateau is None:
            assert self._at is not None
            return step >= self._at
        monitor, name = self._plateau
        records = monitor.records
        if records and name not in records[-1]:
            raise InputError(f"plateau must name a number of the monitor's records, got {name!r}; there are: "
                             f"{', '.join(records[-1])}.")  # fmt: skip
        return plateaued([record["step"] for record in records], [record[name] for record in records])


def plateaued(steps: Sequence[int], values: Sequence[float]) -> bool:
    """Whether a number recorded at ascending steps has moved, and over the last stretch hardly moves any more.

    The stretch reaches from the last record back to the last one at half of its step, further if it would hold fewer
    than 4 records. There is a plateau if it begins at step 10 or later and the largest and the smallest value on it
    differ by no more than a tenth of how far all values lie apart.

    Example:
        >>> steps, values = [0, 1, 2, 4, 8, 16, 32, 64, 128], [9.0, 9.0, 8.9, 8.0, 6.5, 5.0, 5.1, 5.0, 5.05]
        >>> plateaued(steps[:3], values[:3]), plateaued(steps, values)
        (False, True)
    """
    at, known = np.asarray(steps, dtype=float), np.asarray(values, dtype=float)
    early = np.flatnonzero(at <= at[-1] / _SPAN) if len(at) else at[:0]
    if not len(early) or len(at) < _PATIENCE:
        return False
    first = min(int(early[-1]), len(at) - _PATIENCE)
    finite = known[np.isfinite(known)]
    moved = float(np.ptp(finite)) if len(finite) else 0.0
    return bool(at[first] >= _EARLIEST and moved > 0 and np.ptp(known[first:]) <= _TOLERANCE * moved)
