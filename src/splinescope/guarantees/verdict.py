"""`Verdict`: what `verify` answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..support.display import Certainty, Result
from .unsafe import UnsafeSet
from .witness import Witness


@dataclass(frozen=True, eq=False, repr=False)
class Verdict(Result):
    """What `verify` found.

    Attributes:
        holds: True, False, or None where a limit ended the search or rounding leaves it open (`reason` says which).
        witness: If it does not hold, an input that shows it.
        rigorous: Whether rounding cannot have changed the verdict: what decides exceeds `rounding`.
        rounding: A proven bound of the rounding of all values that decide, in units of the constraints.
        margin_bound: If it holds, a proven number that the margin exceeds; with a witness, the margin there.
        reason: In words, how the verdict came about.
        tiles: How many tiles were looked at, at all folds together; `cells` of them were finished.
        seconds: Wall time of the search.
        unsafe: With `complete=True`, the unsafe set.
    """

    holds: bool | None
    witness: Witness | None
    rigorous: bool
    rounding: float
    margin_bound: float
    reason: str
    tiles: int
    cells: int
    seconds: float
    unsafe: UnsafeSet | None = None
    _exactly: Callable[[], tuple[float, np.ndarray | None]] | None = field(default=None, repr=False)

    @property
    def certainty(self) -> Certainty:
        return "exact" if self.holds is not None else "bound"

    @property
    def margin(self) -> float:
        """How far from a violation: the minimum over the set of the largest excess of a clause's constraints.

        Positive where the property holds. Exact up to `rounding`; found when first asked for, by a search of its own
        (some ten times the cost of the verdict). Of a violated property it is the margin at the witness, unless
        `complete` was asked for: then it is the minimum.
        """
        return self._nearest[0]

    @property
    def nearest(self) -> np.ndarray | None:
        """The input at which the margin is attained; None if no input meets the property's conditions on inputs."""
        return self._nearest[1]

    @cached_property
    def _nearest(self) -> tuple[float, np.ndarray | None]:
        if self._exactly is not None:
            return self._exactly()
        return self.margin_bound, None if self.witness is None else self.witness.x

    def _shown(self) -> list[tuple[str, Any]]:
        shown: list[tuple[str, Any]] = [("holds", self.holds), ("rigorous", self.rigorous), ("tiles", self.tiles)]
        return shown + ([("unsafe", self.unsafe.share)] if self.unsafe is not None else [])

    def summary(self) -> str:
        """The verdict in words."""
        lines = [self.reason]
        if self.witness is not None:
            lines.append(f"Witness: {np.array2string(self.witness.x.reshape(-1), precision=6, threshold=12)}.")
        lines.append(f"{self.tiles:,} tiles looked at, {self.cells:,} finished, {self.seconds:.2f} s.")
        return "\n".join(lines)
