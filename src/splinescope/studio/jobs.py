"""Work beside the event loop: a bounded pool of jobs that can be cancelled."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from ..support.errors import SplinescopeError
from ..support.progress import Progress

TORCH = threading.RLock()
"""Held while a network is read or trained: torch's export is not made for several threads at a time."""


def fault(error: BaseException) -> str:
    """What a page is told of an error that it did not cause; the terminal gets the whole."""
    if isinstance(error, MemoryError):
        return "There is not enough memory for this."
    if isinstance(error, OSError) and error.strerror:
        return f"The system refused: {error.strerror}."
    logging.getLogger("splinescope").error("the studio failed at a request; please report this", exc_info=error)
    return "The studio failed at this request, by a fault of its own. Its terminal says more; please report that."


class Cancelled(Exception):
    """Raised inside a job that was cancelled, at its next report of progress."""


class Busy(SplinescopeError):
    """More jobs are waiting than the server takes."""


class Job:
    """One piece of work; `progress` is given to what does it, and ends it once `cancel` was called."""

    def __init__(self, report: Progress | None = None) -> None:
        self._report = report
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        self._cancelled.set()

    def progress(self, share: float, now: str) -> None:
        """Tell how far the work is; raises `Cancelled` if it is no longer wanted."""
        if self._cancelled.is_set():
            raise Cancelled
        if self._report is not None:
            self._report(share, now)


class Pool:
    """At most `workers` jobs at a time, at most `waiting` more in line; beyond that `Busy`."""

    def __init__(self, workers: int = 2, waiting: int = 16) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="studio")
        self._room = threading.BoundedSemaphore(workers + waiting)

    def submit(self, job: Job, work: Callable[[Job], Any]) -> Future[Any]:
        """Run `work(job)` when its turn comes."""
        if not self._room.acquire(blocking=False):
            raise Busy("the server has too much to do: wait for what is running, or cancel it.")

        def run() -> Any:
            try:
                job.progress(0.0, "")
                return work(job)
            finally:
                self._room.release()

        return self._pool.submit(run)

    def close(self) -> None:
        """Take no more jobs; those of pages are cancelled by their channels."""
        self._pool.shutdown(wait=False)
