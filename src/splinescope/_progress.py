"""Progress of long work: a bar on stderr, or the caller's own function."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from ._errors import InputError

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_Report = TypeVar("_Report", bound=Callable[..., None])


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
    """What to call as the work goes on: nothing for False, a bar for True (None: only on a terminal).

    Args:
        progress: The caller's choice, or its own function, which is then given back.
        what: Name of the work, beside the bar.
        on_bar: Makes, from a bar and its task, the function to call.
        columns: Added to rich's own, as format strings of its task.
        total: The whole work, if it is known beforehand.
        fields: First values of fields that the columns show.
    """
    check_progress(progress)
    if callable(progress):
        yield progress
        return
    if progress is False or (progress is None and not sys.stderr.isatty()):
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(
        *Progress.get_default_columns(), *columns, console=Console(stderr=True), transient=progress is None
    ) as bar:
        yield on_bar(bar, bar.add_task(what, total=total, **fields))


Share = Callable[[float], None]
"""What long work of known length calls with the share done, from 0 to 1."""


@contextmanager
def sharing(progress: Share | bool | None, what: str) -> Iterator[Share]:
    """A function to call with the share done: the caller's own, a bar, or one that does nothing (see `reporter`)."""

    def on_bar(bar: Progress, task: TaskID) -> Share:
        return lambda share: bar.update(task, completed=share)

    with reporter(progress, what, on_bar, total=1.0) as report:
        yield report if report is not None else lambda share: None
