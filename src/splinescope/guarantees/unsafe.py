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
    """The unsafe tiles of one search, as they stream by."""

    view: Slice
    polytopes: list[np.ndarray] = field(default_factory=list)
    volumes: list[float] = field(default_factory=list)
    clauses: list[int] = field(default_factory=list)

    @classmethod
    def merged(cls, view: Slice, pieces: Sequence[Collected]) -> Collected:
        """Of the parts of one slice."""
        lists = [[one for piece in pieces for one in getattr(piece, name)] for name in cls._LISTS]
        return cls(view, *lists)

    _LISTS: ClassVar[tuple[str, ...]] = ("polytopes", "volumes", "clauses")

    def take(self, leaf: Leaf) -> None:
        """Keep the tiles of a leaf on which some clause is met at every corner."""
        assert leaf.values is not None
        tiles = leaf.tiles
        highs = np.maximum.reduceat(leaf.values[tiles.corners], tiles.offsets[:-1], axis=0)
        lows = np.minimum.reduceat(leaf.values[tiles.corners], tiles.offsets[:-1], axis=0)
        tolerance = 1e-9 * np.abs(leaf.values).max(initial=0.0)
        met = (highs <= tolerance) & (lows < 0)
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
    at which a clause is met or missed by less than 1e-9 of its largest value may be on either side.

    Attributes:
        view: The slices of the parts that the property is about: one, or boxes of its conditions on inputs that do not
            overlap.
        polytopes: Per polytope its corners `[n, d]`, in coordinates of its slice.
        parts: `[P]` which slice each lies in.
        clauses: `[P]` a clause, of those that are about its slice, which it meets.
        volumes: `[P]` their d-volumes.
        volume: Of all of them together.
        share: `volume` as a share of that of the slices in `view`.
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
        whole = sum(c.view.size for c in collected)
        total = float(volumes.sum())
        return cls(
            tuple(c.view for c in collected), tuple(p for c in collected for p in c.polytopes), parts,
            np.array([n for c in collected for n in c.clauses], int), volumes, total, total / whole if whole else 0.0,
        )  # fmt: skip
