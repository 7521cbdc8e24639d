"""`UnsafeSet`: all of the inputs that violate a property, as convex polytopes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..support.display import Certainty, Result
from ..support.drawing import drawn
from ..tiling.engine.chunk import Leaf
from ..tiling.slice import Slice


@dataclass
class Collected:
    """The unsafe tiles of one search, as they stream by.

    Attributes:
        view: Where.
        error: `[clauses]` a bound of the rounding of their values.
        strict: `[clauses]` whether equality is safe.
        whole: Volume of the set, where it is not that of the slice: the slice is a box about several that overlap.
    """

    view: Slice
    error: np.ndarray
    strict: np.ndarray
    whole: float | None = None
    polytopes: list[np.ndarray] = field(default_factory=list)
    volumes: list[float] = field(default_factory=list)
    clauses: list[int] = field(default_factory=list)

    @classmethod
    def merged(cls, view: Slice, pieces: Sequence[Collected]) -> Collected:
        """Of the parts of one slice."""
        lists = [[one for piece in pieces for one in getattr(piece, name)] for name in cls._LISTS]
        return cls(view, pieces[0].error, pieces[0].strict, pieces[0].whole, *lists)

    _LISTS: ClassVar[tuple[str, ...]] = ("polytopes", "volumes", "clauses")

    def take(self, leaf: Leaf) -> None:
        """Keep the tiles of a leaf on which some clause is met at every corner.

        Within rounding of zero everywhere on a tile is equality, which a strict clause does not meet.
        """
        assert leaf.values is not None
        tiles = leaf.tiles
        highs = np.maximum.reduceat(leaf.values[tiles.corners], tiles.offsets[:-1], axis=0)
        lows = np.minimum.reduceat(leaf.values[tiles.corners], tiles.offsets[:-1], axis=0)
        met = (highs <= self.error) & (~self.strict | (lows < -self.error))
        chosen = np.flatnonzero(met.any(1))
        for i in chosen:
            one = tiles.part(int(i), int(i) + 1)
            points = leaf.points[one.corners]
            self.polytopes.append(points)
            self.volumes.append(one.size(leaf.points))
            self.clauses.append(int(np.argmax(met[i])))


@dataclass(frozen=True, eq=False, repr=False)
class UnsafeSet(Result):
    """All inputs of a set that violate a property: convex polytopes that overlap in walls at most.

    Exact up to rounding. That of the verdict is proven; that of volumes is not, and is some 1e-12 of the set's: inputs
    at which a clause is met or missed by less than the verdict's `rounding` count as equal, so as unsafe unless the
    clause is strict.

    Attributes:
        view: The slices of the parts that the property is about: one, or boxes of its conditions on inputs that do not
            overlap.
        polytopes: Per polytope its corners `[n, d]`, in coordinates of its slice.
        parts: `[P]` which slice each lies in.
        clauses: `[P]` a clause, of those that are about its slice, which it meets.
        volumes: `[P]` their d-volumes, each in the dimension of its slice.
        volume: Of all of them together that have the dimension of the set: what lies in slices of fewer has none.
        share: `volume` as a share of that of the set.
    """

    view: tuple[Slice, ...]
    polytopes: tuple[np.ndarray, ...]
    parts: np.ndarray
    clauses: np.ndarray
    volumes: np.ndarray
    volume: float
    share: float

    certainty: Certainty = "exact"

    plot = drawn("guarantees.plot_unsafe")

    def __len__(self) -> int:
        return len(self.polytopes)

    def _shown(self) -> list[tuple[str, Any]]:
        return [("polytopes", len(self)), ("volume", self.volume), ("share", self.share)]

    @classmethod
    def joined(cls, collected: Sequence[Collected]) -> UnsafeSet:
        """Of several searches."""
        parts = np.repeat(np.arange(len(collected)), [len(c.polytopes) for c in collected])
        volumes = np.array([v for c in collected for v in c.volumes])
        most = max((c.view.dimension for c in collected), default=0)
        full = np.array([c.view.dimension == most for c in collected], bool)
        whole = sum(c.view.size if c.whole is None else c.whole for c in collected if c.view.dimension == most)
        total = float(volumes[full[parts]].sum())
        return cls(
            tuple(c.view for c in collected), tuple(p for c in collected for p in c.polytopes), parts,
            np.array([n for c in collected for n in c.clauses], int), volumes, total, total / whole if whole else 0.0,
        )  # fmt: skip
