"""`ComplexityMonitor`: local complexity while a network trains."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any, Literal

from torch import Tensor, nn

from ..network.watching.batch_statistics import Statistics, choose, measured_with
from ..network.watching.sites import Forward
from ..support.checks import as_rows, check_choice
from ..support.display import Certainty
from ..support.errors import InputError
from ..support.evaluating import evaluating
from ..train import TrainingMonitor
from ..train.journal import Record
from ..train.monitor import Metric
from ..train.schedules import BUDGET, Schedule
from ._result import LocalComplexity
from .humayun2024_frame import NotNumbersError
from .local_complexity import local_complexity
from .neighborhoods import Radius, as_radius


class ComplexityMonitor(TrainingMonitor):
    """Measures local complexity at chosen steps of a training loop and writes it down.

    Args:
        model: The network in training. It is left as found by every measurement.
        x: `[N, *input shape]`, or several such sets by name ("train", "test").
        radius: As for `local_complexity`; "auto" is chosen once, by the set "train" (or the first one).
        method: "frame" or "distance".
        directions: Number of directions of the frame, or the directions; the same at all steps.
        schedule: When to measure: `splinescope.train.LogSpaced(10)` by default; `splinescope.train.Every(n)`,
            `splinescope.train.At([...])`.
        metrics: More numbers by name: functions of the model, called in eval mode without gradients, that give a
            number, several by name, or a result with `means()`, e.g. `{"tokens": lambda m: token_geometry(m, ids)}`.
        out: Folder for `complexity.jsonl` and snapshots. Records of an interrupted run with the same
            settings are continued: those at or beyond the first step seen now are measured again.
        logger: Where the numbers also go: a folder or `SummaryWriter` (TensorBoard), a Weights & Biases run, the
            `mlflow` module, a logger of Lightning, a function of (numbers, step), or several in a list.
        snapshots: Save the parameters in `out` at every measurement, for `timeline`.
        budget: Largest share of the time that measuring may take in the long run; None for no limit, with records at
            the same steps on every machine. The first ten due measurements are always made, on credit. One that would
            exceed the budget is put off; its record says by how many steps it is `late` and how many others fell due
            meanwhile (`skipped`). Loading and compiling in the first one is not counted (`preparation`).
        forward: How to call the model, as for `local_complexity`.
        statistics: Of batch norm: "data" measures with the mean and variance of the data, as in training on all of
            it; "running" with the running averages, which lag behind the weights early in training. "data" by
            default, if there are at least two points. Metrics are called on the model as it is.
        statistics_from: `[M, *input shape]` the data for "data"; the set "train" by default, or the first one.
        overwrite: Replace records in `out`, if this run starts at or before their first step; refused otherwise.

    Example:
        >>> monitor = ComplexityMonitor(model, x, radius=0.05, out="run1")    # doctest: +SKIP
        >>> for step, batch in enumerate(loader):                             # doctest: +SKIP
        ...     monitor.step(step)      # before the update: step 0 is the state before training
        ...     train_on(batch)
        >>> monitor.overhead                                                  # doctest: +SKIP
        0.012
    """

    name = "complexity"
    drawn_as = "mean folds near a point"

    def __init__(
        self, model: nn.Module, x: Tensor | Mapping[str, Tensor], *, radius: Radius = "auto",
        method: Literal["frame", "distance"] = "frame", directions: int | Any | None = None,
        schedule: Schedule | None = None, metrics: Mapping[str, Metric] | None = None,
        out: str | os.PathLike[str] | None = None, logger: Any = None, snapshots: bool = False,
        budget: float | None = BUDGET, forward: Forward | None = None, statistics: Statistics | None = None,
        statistics_from: Tensor | None = None, overwrite: bool = False,
    ) -> None:  # fmt: skip
        given = x if isinstance(x, Mapping) else {"points": x}
        self._sets = {name: as_rows(rows, name) for name, rows in given.items()}
        if not self._sets or not all(len(rows) for rows in self._sets.values()):
            raise InputError("x must be one or more points, or sets of such by name; got none.")
        check_choice(method, "method", ("frame", "distance"))
        chosen = "train" if "train" in self._sets else next(iter(self._sets))
        first = self._sets[chosen]
        radius = as_radius(radius, first)
        self._how = {"radius": radius, "method": method, "directions": directions}
        self._forward = forward
        self._data = first if statistics_from is None else as_rows(statistics_from, "statistics_from")
        self._statistics = choose(statistics, model, len(self._data))
        header = {"radius": radius, "method": method,
                  "directions": directions if isinstance(directions, int | None) else len(directions),
                  "sets": {name: len(rows) for name, rows in self._sets.items()},
                  "statistics": self._statistics,
                  "statistics_from": chosen if statistics_from is None else "statistics_from"}  # fmt: skip
        super().__init__(model, header, schedule=schedule, metrics=metrics, out=out, logger=logger,
                         snapshots=snapshots, budget=budget, overwrite=overwrite)  # fmt: skip

    @property
    def certainty(self) -> Certainty:
        """ "bound" (frame: nothing is counted that is not there) or "estimate"; folds met first are exact in both."""
        return "bound" if self._how["method"] == "frame" else "estimate"

    def _what(self) -> str:
        sure = {
            "frame": "a lower bound (exact up to the first fold met)",
            "distance": "an estimate (exact up to the first fold met)",
        }[str(self._how["method"])]
        norms = "" if self._statistics == "none" else f", batch norm with {self._statistics} statistics"
        return f"Mean folds within {self._how['radius']:.4g} of a point by {self._how['method']!r}: {sure}{norms}."

    def _measurements(self) -> Record:
        """Per set its mean count (`train`), and per site (`train/0 net.1 relu`)."""
        record: Record = {"statistics": self._statistics}
        with measured_with(self._statistics, self.model, self._data, self._forward), evaluating(self.model):
            for name, x in self._sets.items():
                record |= self._counts(name, x)
        return record

    def _counts(self, name: str, x: Tensor) -> Record:
        """Mean counts of one set, in all and per site; NaN where the network no longer gives numbers."""
        try:
            found: LocalComplexity = local_complexity(self.model, x, forward=self._forward, progress=False, **self._how)  # type: ignore[arg-type]
        except NotNumbersError:
            return {name: math.nan}  # training has diverged; it is not the monitor that should end it
        means = found.counts.double().mean(0).tolist()
        sites = {f"{name}/{site}": mean for site, mean in zip(found.names, means, strict=True)}
        return {name: sum(means), **sites}
