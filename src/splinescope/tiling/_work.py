"""Schedules chunks: the newest first, on as many threads as there are, until none is left or a limit is reached."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager

import torch

from .._progress import Progress, silenced
from . import kernels
from ._chunk import Chunk, Leaf
from ._engine import Engine

_WORTH_SHARING = 2048  # tiles of a chunk that is split for an idle thread


class Work:
    """Chunks still to do, newest first (which bounds the memory), and the leaves that are done.

    Attributes:
        leaves: What is finished, unless something else takes it.
        stopped: Which limit ended the work; None if it ran to its end.
    """

    def __init__(
        self, engine: Engine, first: Chunk | Leaf | None, size: float,
        max_tiles: int | None, time_limit: float | None, report: Progress | None,
        take: Callable[[Leaf], None] | None = None,
    ) -> None:  # fmt: skip
        self._engine = engine
        self._queue: deque[Chunk] = deque()
        self.leaves: list[Leaf] = []
        self._keep = self.leaves.append if take is None else take
        self.stopped: str | None = None
        self._failure: BaseException | None = None
        self._busy = 0
        self._tiles = 0
        self._finished = 0.0
        self._size = size
        self._max_tiles = max_tiles
        self._deadline = None if time_limit is None else time.monotonic() + time_limit
        self._time_limit = time_limit
        self._report = report
        self._changed = threading.Condition()
        self._take([] if first is None else [first])

    def run(self, threads: int) -> None:
        """Work until nothing is left or a limit is reached; helpers join once there is something to share."""
        with _announced_compilation():
            if self._queue:
                self._step()
        while self._queue and self.stopped is None and (threads == 1 or not self._worth_sharing()):
            self._step()
        if not self._queue or self.stopped is not None:
            return
        with ThreadPoolExecutor(threads) as pool:  # which waits for its threads, whatever happens
            try:
                helpers = [pool.submit(self._help, threads) for _ in range(threads)]
                while wait(helpers, 0.1).not_done:
                    pass
            except BaseException:  # Ctrl-C: let the helpers finish the chunk at hand, then pass it on
                with self._changed:
                    self.stopped = "interrupted"
                    self._changed.notify_all()
                raise
        if self._failure is not None:
            raise self._failure

    def _step(self) -> None:
        chunk = self._queue.pop()
        self._take(self._engine.advance(chunk))

    def _worth_sharing(self) -> bool:
        return len(self._queue) > 1 or self._queue[-1].count >= _WORTH_SHARING

    def _help(self, threads: int) -> None:
        """One thread: take the newest chunk, advance it, put back what comes of it."""
        torch.set_num_threads(1)
        with torch.no_grad():
            while True:
                with self._changed:
                    while not self._queue and self._busy and self.stopped is None:
                        self._changed.wait()
                    if not self._queue or self.stopped is not None:
                        self._changed.notify_all()
                        return
                    chunk = self._queue.pop()
                    self._busy += 1
                    idle = threads - self._busy - len(self._queue)
                share = idle > 0 and chunk.count >= _WORTH_SHARING
                try:
                    results = self._engine.advance(chunk, split_in=2 if share else 1)
                    with self._changed:
                        self._take(results)  # which writes and reports, and may fail too
                        self._busy -= 1
                        self._changed.notify_all()
                except BaseException as error:
                    with self._changed:
                        self._failure = error
                        self.stopped = "failed"
                        self._busy -= 1
                        self._changed.notify_all()
                    return

    def _take(self, results: list[Chunk | Leaf]) -> None:
        for result in reversed(results):
            if isinstance(result, Chunk):
                self._queue.append(result)
                continue
            self._keep(result)
            self._tiles += result.count
            if self._report is not None:
                last = not self._queue and self._busy <= 1  # whose size needs no measuring
                self._finished = 1.0 if last else self._finished + result.size / self._size
                self._report(min(self._finished, 1.0), f"{self._tiles:,} tiles")
        if self._max_tiles is not None:
            at_least = self._tiles + sum(chunk.count for chunk in self._queue)
            if at_least > self._max_tiles:
                self.stopped = f"max_tiles={self._max_tiles} reached: the slice has at least {at_least} tiles"
        if self._deadline is not None and self._queue and time.monotonic() > self._deadline:
            self.stopped = f"time_limit={self._time_limit} s reached"


@contextmanager
def _announced_compilation() -> Iterator[None]:
    """Say what the wait is for if the first cut of this process takes long: kernels are compiled once per machine."""
    if silenced() or kernels.split_polygons.overloads or kernels.split_intervals.overloads:
        yield
        return
    timer = threading.Timer(2.0, lambda: print("splinescope: compiling kernels (once)", file=sys.stderr, flush=True))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
