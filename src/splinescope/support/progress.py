"""Progress of long work, one convention for all parts: `progress=None`, True, False or the caller's own function.

The function is called with the share done, from 0 to 1, and what the work is at ("1,200 tiles"). None says nothing for
3 seconds; then it shows a bar on a terminal, a rewritten line in a notebook, or a line now and then in a file. True
shows a bar at once, False nothing. SPLINESCOPE_PROGRESS=0 silences all but the caller's own function. Of calls inside
each other, the outer one tells.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import InputError

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

T = TypeVar("T")

Progress = Callable[[float, str], None]
"""What long work calls with the share done, from 0 to 1, and what it is at."""

Share = Callable[[float], None]
"""Told the share done: what `sharing` hands to the work."""

PATIENCE = 3.0
"""Seconds that work may take before the default says anything."""
_BETWEEN_LINES = {"notebook": 0.5, "log": 15.0}  # seconds


def check_progress(progress: Any) -> None:
    """Refuse what is neither a function nor True, False or None."""
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise InputError(f"progress must be True, False, None or a function, got {progress!r}.")


def silenced() -> bool:
    """Whether whoever runs this process wants to hear nothing."""
    return os.environ.get("SPLINESCOPE_PROGRESS") == "0"


class _Thread(threading.local):
    tellers = 0


_HERE = _Thread()


@contextmanager
def telling(progress: Progress | bool | None, what: str) -> Iterator[Progress]:
    """A function to call as the work goes on: the caller's own, a bar's (see this module's text), or a silent one."""
    with _teller(progress, what) as tell:
        _HERE.tellers += 1
        try:
            yield tell
        finally:
            _HERE.tellers -= 1


@contextmanager
def _teller(progress: Progress | bool | None, what: str) -> Iterator[Progress]:
    check_progress(progress)
    if progress is None and _HERE.tellers:
        progress = False
    if callable(progress):
        yield progress
    elif progress is False or silenced():
        yield lambda share, now: None
    elif progress is None or _place() != "terminal":  # rich draws no bar into a file or pipe until all is over
        patient = _Patient(what)
        try:
            yield patient.update
        finally:
            patient.stop()
    else:
        with _bar(transient=False) as bar:
            task = bar.add_task(what, total=1.0, now="")
            yield lambda share, now: bar.update(task, completed=share, now=now)


@contextmanager
def sharing(progress: Progress | bool | None, what: str) -> Iterator[Share]:
    """As `telling`, for work that has nothing to say but the share done."""
    with telling(progress, what) as tell:
        yield lambda share: tell(share, what)


def stepping(items: Sequence[T], progress: Progress | bool | None, what: str) -> Iterator[T]:
    """The items one by one; before each the share done is told, as by `sharing`."""
    with _teller(progress, what) as tell:  # counts as no outer call: a loop that is left may stay open
        for i, item in enumerate(items):
            tell(i / len(items), what)
            yield item


def _bar(*, transient: bool) -> Bar:
    from rich.console import Console
    from rich.progress import Progress as Bar

    return Bar(*Bar.get_default_columns(), "{task.fields[now]}", console=Console(stderr=True), transient=transient)


def _place() -> str:
    """Where progress would be seen: "notebook", "terminal" or "log"."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None and hasattr(shell, "kernel"):
        return "notebook"
    return "terminal" if sys.stderr.isatty() else "log"


class _Patient:
    """Nothing until the work has taken `PATIENCE`, then what suits the place."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._next = time.monotonic() + PATIENCE
        self._bar: Bar | None = None
        self._line: Any = None

    def update(self, share: float, now: str) -> None:
        """Tell the share done and what the work is at."""
        if self._bar is None and time.monotonic() < self._next:
            return
        place = _place()
        if place == "terminal":
            if self._bar is None:
                self._bar = _bar(transient=True)
                self._bar.start()
                self._bar.add_task(self._what, total=1.0, now=now)
            self._bar.update(self._bar.task_ids[0], completed=share, now=now)
            return
        self._next = time.monotonic() + _BETWEEN_LINES[place]
        self._say(place, f"{self._what}: {share:.0%}{f', {now}' if now not in ('', self._what) else ''}")

    def _say(self, place: str, text: str) -> None:
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
