"""Progress of long work, one convention for all parts: `progress=None`, True, False or the caller's own function.

None, the default, says nothing for the first few seconds; then it shows a bar on a terminal, a line that is rewritten
in a notebook, or a line now and then where stderr is a file. True shows a bar at once, False nothing. The environment
variable SPLINESCOPE_PROGRESS=0 silences the default everywhere.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ._errors import InputError

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_Report = TypeVar("_Report", bound=Callable[..., None])

PATIENCE = 3.0
"""Seconds that work may take before the default says anything."""
_BETWEEN_LINES = {"notebook": 0.5, "log": 15.0}  # seconds


def check_progress(progress: Any) -> None:
    """Refuse what is neither a function nor True, False or None."""
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise InputError(f"progress must be True, False, None or a function, got {progress!r}.")


@contextmanager
def reporter(
    progress: _Report | bool | None,
    what: str,
    on_bar: Callable[[Progress, TaskID], _Report],
    columns: tuple[str, ...] = (),
    total: float | None = None,
    **fields: Any,
) -> Iterator[_Report | None]:
    """What to call as the work goes on (see this module's text); None where nothing is to be shown.

    Args:
        progress: The caller's choice, or its own function, which is then given back.
        what: Name of the work, beside the bar.
        on_bar: Makes, from a bar and its task, the function to call; of the bar it uses `update`.
        columns: Added to rich's own, as format strings of its task.
        total: The whole work, if it is known beforehand.
        fields: First values of fields that the columns show.
    """
    check_progress(progress)
    if callable(progress):
        yield progress
    elif progress is False or (progress is None and os.environ.get("SPLINESCOPE_PROGRESS") == "0"):
        yield None
    elif progress is None:
        patient = _Patient(what, columns, total, fields)
        try:
            yield on_bar(cast("Progress", patient), cast("TaskID", 0))
        finally:
            patient.stop()
    else:
        with _bar(columns, transient=False) as bar:
            yield on_bar(bar, bar.add_task(what, total=total, **fields))


def _bar(columns: tuple[str, ...], *, transient: bool) -> Progress:
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*Progress.get_default_columns(), *columns, console=Console(stderr=True), transient=transient)


def _place() -> str:
    """Where progress would be seen: "notebook", "terminal" or "log"."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None and hasattr(shell, "kernel"):
        return "notebook"
    return "terminal" if sys.stderr.isatty() else "log"


class _Patient:
    """Stands in for a bar: nothing until the work has taken `PATIENCE`, then what suits the place."""

    def __init__(self, what: str, columns: tuple[str, ...], total: float | None, fields: dict[str, Any]) -> None:
        self._what, self._columns, self._total, self._fields = what, columns, total, fields
        self._next = time.monotonic() + PATIENCE
        self._bar: Progress | None = None
        self._line: Any = None

    def update(self, task: int, *, completed: float, total: float | None = None, **fields: Any) -> None:
        """As rich's `Progress.update`."""
        self._total = self._total if total is None else total
        self._fields |= fields
        if self._bar is None and time.monotonic() < self._next:
            return
        place = _place()
        if place == "terminal":
            if self._bar is None:
                self._bar = _bar(self._columns, transient=True)
                self._bar.start()
                self._bar.add_task(self._what, total=self._total, **self._fields)
            self._bar.update(self._bar.task_ids[0], completed=completed, total=self._total, **self._fields)
            return
        self._next = time.monotonic() + _BETWEEN_LINES[place]
        self._say(place, completed)

    def _say(self, place: str, completed: float) -> None:
        share = f" {completed / self._total:.0%}" if self._total else ""
        parts = [column.format(task=SimpleNamespace(fields=self._fields)) for column in self._columns]
        text = f"{self._what}:{share}{''.join(f', {part}' for part in parts)}"
        if place == "log":
            print(text, file=sys.stderr, flush=True)
            return
        content = {"text/plain": text}
        if self._line is None:
            self._line = sys.modules["IPython"].display.display(content, raw=True, display_id=True)
        else:
            self._line.update(content, raw=True)

    def stop(self) -> None:
        """Take the bar or the line away."""
        if self._bar is not None:
            self._bar.stop()
        if self._line is not None:
            self._line.update({"text/plain": ""}, raw=True)


Share = Callable[[float], None]
"""What long work of known length calls with the share done, from 0 to 1."""


@contextmanager
def sharing(progress: Share | bool | None, what: str) -> Iterator[Share]:
    """A function to call with the share done: the caller's own, a bar, or one that does nothing (see `reporter`)."""

    def on_bar(bar: Progress, task: TaskID) -> Share:
        return lambda share: bar.update(task, completed=share)

    with reporter(progress, what, on_bar, total=1.0) as report:
        yield report if report is not None else lambda share: None


Told = Callable[[float, str], None]
"""What long work in named parts calls with the share done and what is being done."""


@contextmanager
def telling(progress: Told | bool | None, what: str) -> Iterator[Told]:
    """As `sharing`, for work that also says what it is at."""

    def on_bar(bar: Progress, task: TaskID) -> Told:
        return lambda share, now: bar.update(task, completed=share, now=now)

    with reporter(progress, what, on_bar, columns=("{task.fields[now]}",), total=1.0, now="") as report:
        yield report if report is not None else lambda share, now: None
