"""`ComplexityMonitor`: local complexity while a network trains."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from .._checks import check_positive, require
from .._errors import InputError
from ._journal import Journal, Record
from ._result import LocalComplexity
from ._sites import Forward, evaluating
from .humayun2024_frame import NotNumbersError
from .local_complexity import local_complexity
from .schedules import LogSpaced, Schedule


class ComplexityMonitor:
    """Measures local complexity at chosen steps of a training loop and writes it down.

    Args:
        model: The network in training. It is left as found by every measurement.
        points: `[N, *input shape]`, or several such sets by name ("train", "test").
        radius: As for `local_complexity`.
        method: "frame" or "distance".
        directions: Number of directions of the frame, or the directions; the same at all steps.
        schedule: When to measure: `LogSpaced(10)` by default; `Every(n)`, `At([...])`.
        metrics: More numbers by name: functions of the model, called in eval mode without gradients.
        out: Folder for `complexity.jsonl`, `complexity.csv` and snapshots. If it holds records of an interrupted run
            with the same settings, they are continued; records at or beyond the first step seen now are replaced.
        tensorboard: A `SummaryWriter` or a log folder.
        snapshots: Save the parameters in `out` at every measurement, for `timeline`.
        budget: Largest share of the time that measuring may take, e.g. 0.02. A due measurement that would exceed it is
            put off until it is affordable; the very first one is always made (the state before training cannot be
            seen later) and its time is paid back.
        forward: How to call the model, as for `local_complexity`.

    Example:
        >>> monitor = ComplexityMonitor(model, x, radius=0.05, out="run1")    # doctest: +SKIP
        >>> for step, batch in enumerate(loader):                             # doctest: +SKIP
        ...     monitor.step(step)      # before the update: step 0 is the state before training
        ...     train_on(batch)
        >>> monitor.overhead                                                  # doctest: +SKIP
        0.012
    """

    def __init__(
        self,
        model: nn.Module,
        points: Tensor | Mapping[str, Tensor],
        *,
        radius: float,
        method: Literal["frame", "distance"] = "frame",
        directions: int | Any | None = None,
        schedule: Schedule | None = None,
        metrics: Mapping[str, Callable[[nn.Module], float]] | None = None,
        out: str | os.PathLike[str] | None = None,
        tensorboard: Any = None,
        snapshots: bool = False,
        budget: float | None = None,
        forward: Forward | None = None,
    ) -> None:
        if budget is not None and not 0 < budget <= 1:
            raise InputError(f"budget must be a share in (0, 1] or None, got {budget!r}.")
        if snapshots and out is None:
            raise InputError("snapshots need a folder: give out=.")
        self.model = model
        self._sets = dict(points) if isinstance(points, Mapping) else {"points": points}
        self._how = {"radius": check_positive(radius, "radius"), "method": method, "directions": directions}
        self._forward = forward
        self._schedule = schedule or LogSpaced()
        self._metrics = dict(metrics or {})
        self._snapshots = snapshots
        self._budget = budget
        header = {"format": "splinescope.complexity", "version": 1, "radius": float(radius), "method": method,
                  "directions": directions if isinstance(directions, int | None) else len(directions),
                  "sets": {name: len(x) for name, x in self._sets.items()}}  # fmt: skip
        self._journal = None if out is None else Journal(out, header)
        self._records: list[Record] = [] if self._journal is None else self._journal.records
        self._writer, self._owns_writer = _summary_writer(tensorboard)
        self._due: int | None = None
        self._last: int | None = None
        self._started: float | None = None
        self._spent = 0.0
        self._latest = 0.0  # seconds the last measurement took

    @property
    def records(self) -> list[Record]:
        """What was measured: per record `step`, `seconds` spent on it, and per set its mean count (`train`), per site
        (`train/0 net.1`) and any metrics."""
        return list(self._records)

    @property
    def overhead(self) -> float:
        """Share of the time since the first step that went into measuring."""
        return 0.0 if self._started is None else self._spent / max(time.perf_counter() - self._started, 1e-12)

    def step(self, step: int) -> Record | None:
        """Tell the monitor where training is; measures if that is due (or overdue) and returns the record if so."""
        if self._last is None:
            self._begin(step)
        elif step <= self._last:
            return None
        self._last = step
        if self._due is None or step < self._due or not self._affordable():
            return None
        record = self.measure(step)
        self._due = self._schedule.next_after(step)
        return record

    def measure(self, step: int) -> Record:
        """Measure now, due or not."""
        start = time.perf_counter()
        self._started = self._started or start
        record: Record = {"step": int(step), "seconds": 0.0}
        for name, x in self._sets.items():
            record |= self._counts(name, x)
        with evaluating(self.model), torch.no_grad():
            for name, metric in self._metrics.items():
                record[name] = float(metric(self.model))
        self._latest = time.perf_counter() - start
        record["seconds"] = round(self._latest, 4)
        if self._journal is None:
            self._records.append(record)
        else:
            self._journal.append(record)
            if self._snapshots:
                self._journal.snapshot(self.model, step)
        if self._writer is not None:
            for name, value in record.items():
                if name not in ("step", "seconds"):
                    self._writer.add_scalar(f"complexity/{name}", value, step)
        self._spent += time.perf_counter() - start
        return record

    def close(self) -> None:
        """Flush the TensorBoard writer, and close it if the monitor opened it."""
        if self._writer is not None:
            self._writer.flush()
            if self._owns_writer:
                self._writer.close()

    def __enter__(self) -> ComplexityMonitor:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _begin(self, step: int) -> None:
        """The first step seen: where to continue, and what to forget if the run was set back."""
        if self._journal is not None:
            self._journal.forget_from(step)
            self._records = self._journal.records
        last = self._records[-1]["step"] if self._records else -1
        self._due = self._schedule.next_after(max(last, step - 1))
        self._started = time.perf_counter()

    def _affordable(self) -> bool:
        if self._budget is None or not self._latest or self._started is None:
            return True
        elapsed = time.perf_counter() - self._started
        return self._spent + self._latest <= self._budget * (elapsed + self._latest)

    def _counts(self, name: str, x: Tensor) -> Record:
        """Mean counts of one set, in all and per site; NaN where the network no longer gives numbers."""
        try:
            found: LocalComplexity = local_complexity(self.model, x, forward=self._forward, **self._how)  # type: ignore[arg-type]
        except NotNumbersError:
            return {name: math.nan}  # training has diverged; it is not the monitor that should end it
        means = found.counts.double().mean(0).tolist()
        sites = {f"{name}/{i} {site.path}": mean for i, (site, mean) in enumerate(zip(found.sites, means, strict=True))}
        return {name: sum(means), **sites}


def _summary_writer(target: Any) -> tuple[Any, bool]:
    """(writer, whether it is ours to close)."""
    if target is None or hasattr(target, "add_scalar"):
        return target, False
    require("tensorboard", "tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(target)), True
