"""When to measure during training: schedules over step numbers, without state of their own."""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from .._errors import InputError


class Schedule(Protocol):
    """Step numbers at which something is due."""

    def next_after(self, step: int) -> int | None:
        """The first due step beyond `step` (-1: from the start); None if there is none left."""


@dataclass(frozen=True)
class LogSpaced:
    """Step 0 and the steps round(10^(k / per_decade)): equal steps on a logarithmic axis.

    Example:
        >>> schedule, step = LogSpaced(4), -1
        >>> [step := schedule.next_after(step) for _ in range(8)]
        [0, 1, 2, 3, 6, 10, 18, 32]
    """

    per_decade: int = 10

    def __post_init__(self) -> None:
        if self.per_decade < 1:
            raise InputError(f"per_decade must be a whole number >= 1, got {self.per_decade!r}.")

    def next_after(self, step: int) -> int:
        if step < 0:
            return 0
        k = max(0, len(str(step)) - 1) * self.per_decade  # 10^(k / per_decade) <= step, or 1
        while (due := round(10 ** (k / self.per_decade))) <= step:
            k += 1
        return due


@dataclass(frozen=True)
class Every:
    """Every n-th step, from 0."""

    steps: int

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise InputError(f"steps must be a whole number >= 1, got {self.steps!r}.")

    def next_after(self, step: int) -> int:
        return (step // self.steps + 1) * self.steps if step >= 0 else 0


class At:
    """The given steps."""

    def __init__(self, steps: Iterable[int]) -> None:
        self._steps = sorted({int(step) for step in steps})

    def next_after(self, step: int) -> int | None:
        place = bisect.bisect_right(self._steps, step)
        return self._steps[place] if place < len(self._steps) else None
