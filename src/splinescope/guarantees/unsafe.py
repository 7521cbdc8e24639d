"""`UnsafeSet`: all of the inputs that violate a property, as convex polytopes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..support.display import Certainty, Result
from ..support.drawing import drawn
from ..tiling.engine.chunk import Leaf
from ..tiling.measures.tile_shapes import UNIT, shape_rounding
from ..tiling.slice import Slice
from .rounding import least_share


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
    rounding: float = 0.0
    polytopes: list[np.ndarray] = field(default_factory=list)
    volumes: list[float] = field(default_factory=list)
    clauses: list[int] = field(default_factory=list)

    @classmethod
    def merged(cls, view: Slice, pieces: Sequence[Collected]) -> Collected:
        """Of the parts of one slice."""
        lists = [[one for piece in pieces for one in getattr(piece, name)] for name in cls._LISTS]
        rounding = sum(piece.rounding for piece in pieces)
        return cls(view, pieces[0].error, pieces[0].strict, pieces[0].whole, rounding, *lists)

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
        unsafe, d = np.asarray(met.any(1)), self.view.dimension
        # the share of a tile that may be on the other side of zero; of an unsafe one by the clause that leaves least
        doubt = np.where(
            unsafe, np.where(met, least_share(-highs, -lows, self.error, d), 1.0).min(1),
            least_share(lows, highs, self.error, d).sum(1),
        )  # fmt: skip
        for some in (unsafe, ~unsafe & (doubt > 0)):
            chosen = tiles.chosen(some)
            if not len(chosen):
                continue
            volumes, errors = chosen.sizes(leaf.points), shape_rounding(chosen, leaf.points)[0]
            self.rounding += float((errors + doubt[some] * (volumes + errors)).sum())
            if some is unsafe:
                self.polytopes += np.split(leaf.points[chosen.corners], chosen.offsets[1:-1])
                self.volumes += volumes.tolist()
                self.clauses += met[some].argmax(1).tolist()


@dataclass(frozen=True, eq=False, repr=False)
class UnsafeSet(Result):
    """All inputs of a set that violate a property: convex polytopes that overlap in walls at most.

    Exact up to rounding: inputs at which a clause is met or missed by less than the verdict's `rounding` count as
    equal, so as unsafe unless the clause is strict. What that and the arithmetic of volumes can do is proven.

    Attributes:
        view: The slices of the parts that the property is about: one, or boxes of its conditions on inputs that do not
            overlap.
        polytopes: Per polytope its corners `[n, d]`, in coordinates of its slice.
        parts: `[P]` which slice each lies in.
        clauses: `[P]` a clause, of those that are about its slice, which it meets.
        volumes: `[P]` their d-volumes, each in the dimension of its slice.
        volume: Of all of them together that have the dimension of the set: what lies in slices of fewer has none.
        share: `volume` as a share of that of the set.
        rounding: A proven bound of how far `volume` is off.
        certainty: "exact"; "bound" where the verdict is a tie, since rounding decides what is in the set: `volume` is
            off by `rounding` at most.
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
    def joined(cls, collected: Sequence[Collected], certainty: Certainty) -> UnsafeSet:
        """Of several searches."""
        parts = np.repeat(np.arange(len(collected)), [len(c.polytopes) for c in collected])
        volumes = np.array([v for c in collected for v in c.volumes])
        most = max((c.view.dimension for c in collected), default=0)
        full = np.array([c.view.dimension == most for c in collected], bool)
        whole = sum(c.view.size if c.whole is None else c.whole for c in collected if c.view.dimension == most)
        total = float(volumes[full[parts]].sum())
        rounding = sum(c.rounding for c in collected if c.view.dimension == most) + len(volumes) * UNIT * total
        return cls(
            tuple(c.view for c in collected), tuple(p for c in collected for p in c.polytopes), parts,
            np.array([n for c in collected for n in c.clauses], int), volumes, total, total / whole if whole else 0.0,
            float(rounding), certainty,
        )  # fmt: skip
