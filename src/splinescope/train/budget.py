"""When one more measurement is affordable: a share of the time, the first few on credit."""

from __future__ import annotations

from .._errors import InputError

EARLY = 10
"""Due measurements that are always made: what happens first cannot be seen later. Steps 0 to 13 of `LogSpaced(10)`."""


class Budget:
    """Keeps the share of time that goes into measuring within `share`, in the long run.

    The first `EARLY` measurements are made on credit; after them one is affordable if with it

        spent + price <= share (elapsed + price),

    everything since the first step counted but the preparation (what the first measurement took beyond the cheapest
    one: loading, compiling, caching), and the price that of the last one. So the credit is paid back by waiting, and a
    measurement that took longer than expected puts the next one off.

    Args:
        share: In (0, 1]; None for no limit.
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
