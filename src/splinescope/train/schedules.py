"""When to measure during training: schedules over step numbers, and the budget that one more must keep within."""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from ..support.errors import InputError


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


EARLY = 10  # due measurements that are always made: what happens first cannot be seen later
BUDGET = 0.1  # share of the time: without a limit a small run would spend most of its time on measuring


class Budget:
    """Keeps the share of time that goes into measuring within `share`, in the long run.

    The first `EARLY` measurements are made on credit; after them one is affordable if with it
    `spent + price <= share (elapsed + price)`, everything since the first step counted but the preparation (what the
    first measurement took beyond the cheapest one: loading, compiling, caching). The price is that of the last one.
    """

    def __init__(self, share: float | None) -> None:
        if share is not None and not (isinstance(share, (int, float)) and 0 < share <= 1):
            raise InputError(f"budget must be a share in (0, 1] or None, got {share!r}.")
        self._share = share
        self._begun: float | None = None
        self._made = 0
        self._spent, self._first, self._cheapest = 0.0, 0.0, float("inf")
        self._price: float | None = None

    def begin(self, now: float, made: int = 0) -> None:
        """The clock starts, if it has not; `made` measurements of this run were made before it was interrupted."""
        if self._begun is None:
            self._begun, self._made = now, made

    def spend(self, seconds: float) -> None:
        """A measurement took this long."""
        self._first = seconds if self._price is None else self._first
        self._made += 1
        self._spent += seconds
        self._cheapest = min(self._cheapest, seconds)
        self._price = seconds

    @property
    def preparation(self) -> float:
        """Seconds of the first measurement beyond the cheapest one."""
        return 0.0 if self._price is None else self._first - self._cheapest

    def overhead(self, now: float) -> float:
        """Share of the time since the beginning that went into measuring, preparation left out of both."""
        if self._begun is None:
            return 0.0
        return (self._spent - self.preparation) / max(now - self._begun - self.preparation, 1e-12)

    def affordable(self, now: float) -> bool:
        """Whether one more measurement keeps within the budget, or is one of the first."""
        if self._share is None or self._made < EARLY or self._price is None or self._begun is None:
            return True
        elapsed = now - self._begun - self.preparation
        return self._spent - self.preparation + self._price <= self._share * (elapsed + self._price)
