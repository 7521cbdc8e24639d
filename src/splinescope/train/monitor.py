"""`TrainingMonitor`: what all monitors of a training loop share: when to measure, records, files, the budget."""

from __future__ import annotations

import os
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import nn

from ..support.checks import check_module, check_whole
from ..support.display import Certainty, Result, table
from ..support.drawing import drawing
from ..support.errors import InputError
from ..support.evaluating import evaluating
from .journal import Journal, Record
from .loggers import Loggers
from .schedules import Budget, LogSpaced, Schedule

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHOWN = 20  # numbers in a summary
Metric = Callable[[nn.Module], Any]
"""A number of a model, several by name, or a result whose `means()` are such (a `TokenGeometry`)."""


class TrainingMonitor(Result, ABC):
    """Measures at chosen steps of a training loop and writes it down; subclasses say what.

    Args:
        model: The network in training. It is left as found by every measurement.
        header: What identifies the measurement; records in `out` are continued only if it is the same.
        schedule, metrics, out, logger, snapshots, budget, overwrite: As for `ComplexityMonitor`.
    """

    name: str
    """Names the files and the group in loggers."""
    drawn_as: str = "measured"
    """What the numbers are, on the vertical axis of `plot`."""

    def __init__(
        self, model: nn.Module, header: dict[str, Any], *, schedule: Schedule | None,
        metrics: Mapping[str, Metric] | None, out: str | os.PathLike[str] | None, logger: Any, snapshots: bool,
        budget: float | None, overwrite: bool = False,
    ) -> None:  # fmt: skip
        check_module(model, read=False)
        if snapshots and out is None:
            raise InputError("snapshots need a folder: give out=.")
        if schedule is not None and not hasattr(schedule, "next_after"):
            raise InputError(f"schedule must be LogSpaced(...), Every(n) or At([...]), got {schedule!r}.")
        self.model, self._snapshots, self._overwrite = model, snapshots, overwrite
        self._schedule, self._metrics, self._budget = schedule or LogSpaced(), dict(metrics or {}), Budget(budget)
        header = {"format": f"splinescope.{self.name}", "version": 3, **header}
        self._journal = None if out is None else Journal(out, header, self.name)
        self._records: list[Record] = [] if self._journal is None else self._journal.records
        self._loggers = Loggers(logger, self.name)
        self._due: int | None = None
        self._last: int | None = None
        self._went_back = False

    @abstractmethod
    def _measurements(self) -> Record:
        """The numbers of one measurement, by name."""

    @property
    def certainty(self) -> Certainty:
        """ "estimate", unless a monitor knows better."""
        return "estimate"

    @property
    def records(self) -> list[Record]:
        """Per record `step`, `seconds` spent, steps it is `late`, due ones it stands for (`skipped`), and numbers."""
        return list(self._records)

    @property
    def overhead(self) -> float:
        """Share of the time since the first step that went into measuring; `preparation` is left out of both."""
        return self._budget.overhead(time.perf_counter())

    @property
    def preparation(self) -> float:
        """Seconds that the first measurement took beyond the cheapest one: loading, compiling, caching."""
        return self._budget.preparation

    @property
    def skipped(self) -> int:
        """Measurements that were due and that the budget left out, those that are still put off among them."""
        waiting = 0 if self._due is None or self._last is None or self._last < self._due else 1
        return sum(record["skipped"] for record in self._records) + waiting + self._passed_over()

    def __repr__(self) -> str:
        steps = [record["step"] for record in self._records]
        seen = f"{len(steps)} records, steps {steps[0]} to {steps[-1]}" if steps else "no records yet"
        put_off = f", {self.skipped} skipped" if self.skipped else ""
        where = "" if self._journal is None else f", in {str(self._journal.folder)!r}"
        return f"{type(self).__name__}({type(self.model).__name__}, {seen}{put_off}{where})"

    def summary(self) -> str:
        """The course of each number over the steps measured so far, and what measuring cost."""
        if not self._records:
            return f"{self!r}\nNothing is measured yet: tell it the steps, monitor.step(0)."
        first, last = self._records[0], self._records[-1]
        names = [name for name in last if isinstance(last[name], float) and name != "seconds"]
        rows: list[tuple[str, ...]] = [("number", f"step {first['step']}", f"step {last['step']}", "least", "largest")]
        for name in names[:_SHOWN]:
            course = [record[name] for record in self._records if name in record]
            known = [value for value in course if value == value]
            ends = (f"{value:.4g}" for value in (course[0], course[-1]))
            rows.append((name, *ends, *(f"{of(known):.4g}" if known else "-" for of in (min, max))))
        more = f"\n... and {len(names) - _SHOWN} numbers more" if len(names) > _SHOWN else ""
        spent = sum(record["seconds"] for record in self._records)
        cost = f"{spent:.3g} s of measuring in {len(self._records)} records, {self.overhead:.1%} of the time"
        return f"{self!r}\n{table(rows)}{more}\n{self._what()} {cost}."

    def _what(self) -> str:
        """What the numbers are and how sure, as a sentence."""
        return "Estimates, as the metrics give them."

    def step(self, step: int) -> Record | None:
        """Tell the monitor where training is; measures if that is due (or overdue) and returns the record if so.

        Steps only count upwards: one that goes back is not measured, and the first such one is warned of.
        """
        check_whole(step, "step", least=0)
        if self._last is None:
            self._begin(step)
        elif step <= self._last:
            if step < self._last and not self._went_back:
                self._went_back = True
                warnings.warn(
                    f"{type(self).__name__} was told step {step} after step {self._last}; nothing is measured until "
                    f"steps pass {self._last}. Count steps on over epochs, or make a monitor for each run.",
                    stacklevel=2,
                )
            return None
        self._last = step
        if self._due is None or step < self._due or not self._budget.affordable(time.perf_counter()):
            return None
        return self._measured_late(step)

    def measure(self, step: int, *, late: int = 0, skipped: int = 0) -> Record:
        """Measure now, due or not; `late` and `skipped` say what the budget put off."""
        start = time.perf_counter()
        self._budget.begin(start)
        record: Record = {
            "step": int(step), "seconds": 0.0, "late": int(late), "skipped": int(skipped), **self._numbers()
        }  # fmt: skip
        record["seconds"] = round(time.perf_counter() - start, 4)
        if self._journal is None:
            self._records.append(record)
        else:
            self._journal.append(record)
            if self._snapshots:
                self._journal.snapshot(self.model, step)
        self._loggers.write(record)
        self._budget.spend(time.perf_counter() - start)
        return record

    def _measured_late(self, step: int) -> Record:
        """Measure now what was due at this step or before, or nothing that was due at all."""
        late = 0 if self._due is None else max(0, step - self._due)
        record = self.measure(step, late=late, skipped=self._passed_over())
        self._due = self._schedule.next_after(step)
        return record

    def _passed_over(self) -> int:
        """How many measurements fell due after the one that is due, up to now."""
        count, due = 0, self._due
        while due is not None and self._last is not None and due <= self._last:
            due = self._schedule.next_after(due)
            count += due is not None and due <= self._last
        return count

    def _numbers(self) -> Record:
        """The numbers of this monitor, and the metrics."""
        numbers = self._measurements()
        with evaluating(self.model), torch.no_grad():
            for name, metric in self._metrics.items():
                numbers |= _numbers_of(name, metric(self.model))
        return numbers

    def numbers(self, record: Record) -> dict[str, float]:
        """The numbers of a record under the names that loggers know them by: `complexity/train`."""
        return self._loggers.named(record)

    def plot(self, names: Sequence[str] | None = None, ax: Axes | None = None) -> Axes:
        """Draw these numbers, or groups of them ("tokens/nearest"), over the steps; None: each set or metric."""
        plot_records = drawing("timeline.plot_records")
        return plot_records(self.records, names, ax, label="measured" if self._metrics else self.drawn_as)

    def finish(self, step: int | None = None) -> Record | None:
        """Training is over, at this step (None: the last one told): measure that state, unless it was, and close."""
        if step is not None and self._last is None:
            self._begin(step)
        if step is not None:
            self._last = step if self._last is None else max(step, self._last)
        record = None
        if self._last is not None and not (self._records and self._records[-1]["step"] >= self._last):
            record = self._measured_late(self._last)
        self.close()
        return record

    def close(self) -> None:
        """Flush the loggers, and close those that the monitor opened."""
        self._loggers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _begin(self, step: int) -> None:
        """The first step seen: where to continue, and what to forget if the run was set back."""
        if self._journal is not None:
            steps = [record["step"] for record in self._records]
            if steps and step <= steps[0] and not self._overwrite:
                raise InputError(
                    f"{self._journal.folder} holds the records of another run (steps {steps[0]} to {steps[-1]}), and "
                    f"this one starts at step {step}: give another out=, start at a later step to continue that run, "
                    "or pass overwrite=True to replace its records and snapshots."
                )
            self._journal.forget_from(step)
            self._records = self._journal.records
        last = self._records[-1]["step"] if self._records else -1
        self._due = self._schedule.next_after(max(last, step - 1))
        self._budget.begin(time.perf_counter(), len(self._records))


def _numbers_of(name: str, found: Any) -> Record:
    """What a metric found, by name."""
    found = found.means() if hasattr(found, "means") else found
    try:
        if isinstance(found, Mapping):
            return {f"{name}/{key}": float(value) for key, value in found.items()}
        return {name: float(found)}
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"metrics must give a number or numbers by name, and {name!r} gave {type(found).__name__}: {error}."
        ) from error
