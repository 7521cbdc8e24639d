"""When the time that a call may take is over."""

from __future__ import annotations

import time

from ...support.compile import notice

_STEPS = 12  # into which the time is divided at least: a limit is exceeded by one step at most, or little more
_LONGEST_STEP = 0.8  # seconds
_SHORTEST_STEP = 0.02


class Clock:
    """The time a call may take, in seconds from now on; None: all there is.

    Attributes:
        step: Seconds that one step of the work should take at most; None if any will do.
    """

    def __init__(self, time_limit: float | None = None) -> None:
        self._time_limit = time_limit
        self._compiled_before = notice.seconds
        self._end = float("inf") if time_limit is None else self.now() + time_limit
        self.step = None if time_limit is None else min(max(time_limit / _STEPS, _SHORTEST_STEP), _LONGEST_STEP)

    @staticmethod
    def now() -> float:
        return time.monotonic()

    @property
    def left(self) -> float | None:
        """Seconds that are left; None if there is no limit."""
        return None if self._time_limit is None else max(self._end - self.now(), 0.0)

    @property
    def reached(self) -> str:
        """What an error says of this limit, and where the time went if a new machine's kernels took much of it."""
        compiled = notice.seconds - self._compiled_before
        words = f" ({compiled:.1f} s of it compiling kernels, once on this machine)"
        return f"time_limit={self._time_limit} s reached{words if compiled > (self.step or 0.0) else ''}"

    @property
    def is_over(self) -> bool:
        """Whether the time is over."""
        return self.is_over_in(0.0)

    def is_over_in(self, seconds: float) -> bool:
        """Whether the time will be over after so many seconds."""
        return self.now() + seconds > self._end
