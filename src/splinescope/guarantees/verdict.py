"""`Verdict` and `UnsafeSet`: what `verify` answers, and all of the inputs that violate a property."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..support.display import Certainty, Result
from ..support.drawing import drawn
from ..tiling.engine.chunk import Leaf
from ..tiling.measures.tile_shapes import UNIT, shape_rounding
from ..tiling.slice import Slice
from .rounding import least_share
from .witness import Witness

_UNSURE = 0.1  # share of an unsafe set's volume: more in doubt makes it a bound


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
        """A bound if it is undecided, or holds by more than the difference to the network whose tiles decided."""
        decided = self.witness is not None or (self.holds is not None and self._exactly is not None)
        return "exact" if decided else "bound"

    @property
    def margin(self) -> float:
        """How far from a violation: the minimum over the set of the largest excess of a clause's constraints.

        Exact up to `rounding`, positive where the property holds; found when first asked for, at some ten times the
        cost of the verdict. Of a violated property it is that at the witness, or with `complete` the minimum.
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


@dataclass
class Collected:
    """The unsafe tiles of one search, as they stream by."""

    view: Slice
    error: np.ndarray  # [clauses] a bound of the rounding of their values
    strict: np.ndarray  # [clauses] whether equality is safe
    whole: float | None = None  # volume of the set, where the slice is a box about several that overlap
    rounding: float = 0.0
    # the most volume in doubt of one tile, its clause, where the clause's values are closest
    doubt: tuple[float, int, np.ndarray | None] = (0.0, 0, None)
    polytopes: list[np.ndarray] = field(default_factory=list)
    volumes: list[float] = field(default_factory=list)
    clauses: list[int] = field(default_factory=list)

    @classmethod
    def merged(cls, view: Slice, pieces: Sequence[Collected]) -> Collected:
        """Of the parts of one slice."""
        lists = [[one for p in pieces for one in getattr(p, name)] for name in ("polytopes", "volumes", "clauses")]
        rounding = sum(piece.rounding for piece in pieces)
        doubt = max((piece.doubt for piece in pieces), key=lambda one: one[0])
        return cls(view, pieces[0].error, pieces[0].strict, pieces[0].whole, rounding, doubt, *lists)

    def take(self, leaf: Leaf) -> None:
        """Keep the tiles of a leaf on which some clause is met at every corner.

        Within rounding of zero everywhere on a tile is equality, which a strict clause does not meet.
        """
        assert leaf.values is not None
        tiles = leaf.tiles
        highs = np.maximum.reduceat(leaf.values[tiles.corners], tiles.offsets[:-1], axis=0)
        lows = np.minimum.reduceat(leaf.values[tiles.corners], tiles.offsets[:-1], axis=0)
        met = (highs <= self.error) & (~self.strict | (lows < -self.error))
        unsafe, d = np.asarray(met.any(1)), self.view.dimension
        # the share of a tile that may be on the other side of zero; of an unsafe one by the clause that leaves least
        left = np.where(met, least_share(-highs, -lows, self.error, d), 2.0)
        met_by = least_share(lows, highs, self.error, d)
        doubt = np.where(unsafe, left.min(1), met_by.sum(1).clip(max=1.0))
        clauses = np.where(unsafe, left.argmin(1), met_by.argmax(1))
        for some in (unsafe, ~unsafe & (doubt > 0)):
            chosen = tiles.chosen(some)
            if not len(chosen):
                continue
            volumes, errors = chosen.sizes(leaf.points), shape_rounding(chosen, leaf.points)[0]
            loose = doubt[some] * (volumes + errors)
            self.rounding += float((errors + loose).sum())
            if loose.max() > self.doubt[0]:
                tile = int(loose.argmax())
                corners = chosen.corners[chosen.offsets[tile] : chosen.offsets[tile + 1]]
                clause = int(clauses[some][tile])
                closest = corners[np.abs(leaf.values[corners, clause]).argmin()]
                self.doubt = (float(loose[tile]), clause, leaf.points[closest].copy())
            if some is unsafe:
                self.polytopes += np.split(leaf.points[chosen.corners], chosen.offsets[1:-1])
                self.volumes += volumes.tolist()
                self.clauses += met[some].argmax(1).tolist()


@dataclass(frozen=True, eq=False, repr=False)
class UnsafeSet(Result):
    """All inputs of a set that violate a property: convex polytopes that overlap in walls at most.

    Inputs at which a clause is met or missed by less than the verdict's `rounding` count as equal, so as unsafe unless
    the clause is strict.

    Attributes:
        view: The slices of the parts that the property is about; they do not overlap.
        polytopes: Per polytope its corners `[n, d]`, in coordinates of its slice.
        parts: `[P]` which slice each lies in.
        clauses: `[P]` a clause, of those that are about its slice, which it meets.
        volumes: `[P]` their d-volumes, each in the dimension of its slice.
        volume: Of all of them together that have the dimension of the set.
        share: `volume` as a share of that of the set.
        rounding: A proven bound of how far `volume` is off.
        certainty: "exact"; "bound" where rounding decides what is in the set: the verdict is a tie, or `rounding` is
            more than a tenth of the volume.
    """

    view: tuple[Slice, ...]
    polytopes: tuple[np.ndarray, ...]
    parts: np.ndarray
    clauses: np.ndarray
    volumes: np.ndarray
    volume: float
    share: float
    rounding: float
    certainty: Certainty = "exact"

    plot = drawn("guarantees.plot_unsafe")

    def __len__(self) -> int:
        return len(self.polytopes)

    def _shown(self) -> list[tuple[str, Any]]:
        return [("polytopes", len(self)), ("volume", self.volume), ("share", self.share)]

    @classmethod
    def joined(cls, collected: Sequence[Collected], tied: bool) -> UnsafeSet:
        """Of several searches."""
        parts = np.repeat(np.arange(len(collected)), [len(c.polytopes) for c in collected])
        volumes = np.array([v for c in collected for v in c.volumes])
        most = max((c.view.dimension for c in collected), default=0)
        full = np.array([c.view.dimension == most for c in collected], bool)
        whole = sum(c.view.size if c.whole is None else c.whole for c in collected if c.view.dimension == most)
        total = float(volumes[full[parts]].sum())
        rounding = float(sum(c.rounding for c in collected if c.view.dimension == most) + len(volumes) * UNIT * total)
        return cls(
            tuple(c.view for c in collected), tuple(p for c in collected for p in c.polytopes), parts,
            np.array([n for c in collected for n in c.clauses], int), volumes, total, total / whole if whole else 0.0,
            rounding, "bound" if tied or rounding > _UNSURE * total else "exact",
        )  # fmt: skip
