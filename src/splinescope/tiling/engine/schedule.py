"""Schedules chunks: the newest first, on as many threads as there are, until none is left or a limit is reached.

A limit keeps chunks small, so that some tiles are finished long before it is reached. What a chunk holds never changes
which tiles there are (see `advance`).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Protocol

import torch

from ...support.progress import Progress
from ...support.threads import one_torch_thread
from .time_limit import Clock

_WORTH_SHARING = 2048  # tiles of a chunk that is split for an idle thread
_FEWEST_PIECES = 16  # that a chunk is cut into at once, however near a limit is


class Advances(Protocol):
    """An engine: of chunks it makes smaller ones or others that have met one more fold."""

    def advance(self, chunk: Any, split_in: int = 1, most: int | None = None) -> Sequence[Any]: ...
    def is_finished(self, chunk: Any) -> bool: ...


class Work:
    """Chunks still to do, newest first (which bounds the memory), and the leaves that are done.

    Attributes:
        leaves: What is finished, unless something else takes it; more than `max_tiles` tiles by one leaf at most.
        stopped: Which limit ended the work; None if it ran to its end.

    Time does not end the work before its first tiles, however late they come, unless `await_first` is False. It ends
    the work early enough for what follows, which takes `per_tile` seconds for each tile.
    """

    def __init__(
        self, engine: Advances, first: Any, size: float,
        max_tiles: int | None, clock: Clock, report: Progress | None,
        take: Callable[[Any], None] | None = None, await_first: bool = True, per_tile: float = 0.0,
    ) -> None:  # fmt: skip
        self._engine = engine
        self._queue: deque[Any] = deque()
        self.leaves: list[Any] = []
        self._keep = self.leaves.append if take is None else take
        self.stopped: str | None = None
        self._failure: BaseException | None = None
        self._busy = 0
        self._tiles = 0
        self._finished = 0.0
        self._size = size
        self._max_tiles = max_tiles
        self._clock = clock
        self._per_tile = per_tile
        self._least = 1 if await_first else 0  # tiles before time may end the work
        self._pace: dict[int, float] = {}  # by fold: seconds that a piece has taken there
        self._report = report
        self._changed = threading.Condition()
        self._take([] if first is None else [first])

    def run(self, threads: int) -> None:
        """Work until nothing is left or a limit is reached; helpers join once there is something to share."""
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

    def go_on(self) -> None:
        """Lift the limits until there are twice as many tiles; then `run` again."""
        self._least, self.stopped = 2 * self._tiles, None
        self._max_tiles = None if self._max_tiles is None else 2 * self._tiles

    def _step(self) -> None:
        self._take(self._advance(self._queue.pop()))

    def _advance(self, chunk: Any, split_in: int = 1) -> Sequence[Any]:
        """What comes of a chunk, cut into no more pieces at once than the limits have room for."""
        before = self._clock.now()
        results = self._engine.advance(chunk, split_in, self._room(chunk.stage))
        if len(results) == 1:  # which was cut, and not only split
            self._pace[chunk.stage] = (self._clock.now() - before) / results[0].count
        return results

    def _room(self, stage: int) -> int | None:
        """Into how many pieces a chunk before that fold may be cut at once; None: as many as memory holds."""
        rooms = []
        if self._max_tiles is not None:
            rooms.append(self._max_tiles - self._tiles)
        if self._clock.step is not None:
            # the first tiles as soon as can be; and a fold not met yet may cost a thousand times the one before
            known = self._tiles > 0 and stage in self._pace
            rooms.append(int(self._clock.step / max(self._pace[stage], 1e-9)) if known else _FEWEST_PIECES)
        return max(_FEWEST_PIECES, min(rooms)) if rooms else None

    def _worth_sharing(self) -> bool:
        return len(self._queue) > 1 or self._queue[-1].count >= _WORTH_SHARING

    def _help(self, threads: int) -> None:
        """One thread: take the newest chunk, advance it, put back what comes of it."""
        # both are settings of one thread, and this is a new one
        with one_torch_thread(), torch.no_grad():
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
                    results = self._advance(chunk, split_in=2 if share else 1)
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

    def _take(self, results: Sequence[Any]) -> None:
        for result in reversed(results):
            if not self._engine.is_finished(result):
                self._queue.append(result)
                continue
            self._keep(result)
            self._tiles += result.count
            if self._report is not None:
                last = not self._queue and self._busy <= 1  # whose size needs no measuring
                self._finished = 1.0 if last else self._finished + result.size / self._size
                self._report(min(self._finished, 1.0), f"{self._tiles:,} tiles")
        if self._queue and self.stopped is None:
            if self._max_tiles is not None and self._tiles >= self._max_tiles:
                at_least = self._tiles + sum(chunk.count for chunk in self._queue)
                self.stopped = f"max_tiles={self._max_tiles} reached: the slice has at least {at_least} tiles"
            elif self._clock.is_over_in(self._tiles * self._per_tile) and self._tiles >= self._least:
                self.stopped = self._clock.reached
