"""A tiling in numbers: a summary, a comparison of two."""

from __future__ import annotations

from dataclasses import dataclass
from math import log10
from typing import TYPE_CHECKING

import numpy as np

from ...support.display import CERTAINTIES, table
from ...support.errors import InputError
from ..approximation import TilingResult
from . import graph, maps, tile_shapes
from .folds import folds_per_length, need_tiling, sizes_by_layer
from .region_counts import crofton_constant, zaslavsky

if TYPE_CHECKING:
    from ..tiling import Tiling

Number = float | int | bool


@dataclass(frozen=True, eq=False, repr=False)
class Summary(TilingResult):
    """Numbers of a tiling by name: `as_dict()` for programs, a table in print."""

    rows: tuple[tuple[str, Number], ...]

    def as_dict(self) -> dict[str, Number]:
        """Name -> number, ready for JSON."""
        return dict(self.rows)

    def __getitem__(self, name: str) -> Number:
        return self.as_dict()[name]

    def __repr__(self) -> str:
        return f"Summary({_text(self['tiles'])} tiles, {len(self.rows)} numbers, {self.certainty})"

    def summary(self) -> str:
        """The table."""
        rows = table([(name, _text(value)) for name, value in self.rows])
        return rows if self.certainty == "exact" else f"{rows}\n{self.assurance}"

    __str__ = summary


@dataclass(frozen=True, eq=False, repr=False)
class TilingComparison(TilingResult):
    """Two summaries side by side.

    Attributes:
        a: Summary of the first tiling.
        b: Summary of the second.
        same_slice: Whether they lie on the same window of the same input space.
        same_network: Whether they come from networks with the same structure and parameters.
    """

    a: Summary
    b: Summary
    same_slice: bool
    same_network: bool

    def as_dict(self) -> dict[str, dict[str, Number | None]]:
        """Name -> {"a", "b", "ratio"}; None where one of them has no such number, or a is zero."""
        a, b = self.a.as_dict(), self.b.as_dict()
        numbers: dict[str, dict[str, Number | None]] = {}
        for name in a | b:
            both = name in b and not isinstance(b[name], bool) and bool(a.get(name))
            numbers[name] = {"a": a.get(name), "b": b.get(name), "ratio": b[name] / a[name] if both else None}
        return numbers

    def __repr__(self) -> str:
        tiles = f"{_text(self.a['tiles'])} against {_text(self.b['tiles'])} tiles"
        same = [what for what, ok in (("slice", self.same_slice), ("network", self.same_network)) if ok]
        return f"TilingComparison({tiles}, same {' and '.join(same) or 'nothing'}, {self.certainty})"

    def summary(self) -> str:
        """What is the same, and the table."""
        slices = "The slices are the same" if self.same_slice else "The slices differ"
        networks = "the networks are the same" if self.same_network else "the networks differ"
        cells = [(n, *(_text(v[k]) for k in ("a", "b", "ratio"))) for n, v in self.as_dict().items()]
        rows = table([("quantity", "a", "b", "b / a"), *cells])
        sure = "" if self.certainty == "exact" else f"\n{self.assurance}"
        return f"{slices}, {networks}.\n{rows}{sure}"

    __str__ = summary


def summary(tiling: Tiling) -> Summary:
    """The main numbers, as a table (`print`) and as a dict (`.as_dict()`).

    The upper bound on tiles is the product over layers of Zaslavsky's count: on each tile of the layers before, a
    layer of n cuts is an arrangement of at most n lines. It holds for every kind of fold, and with skip connections.
    """
    d = tiling.dimension
    size = {1: "length", 2: "area"}.get(d, "volume")
    depths = sorted({site.depth for site in tiling.sites})
    cuts = [sum(site.cuts for site in tiling.sites if site.depth == depth) for depth in depths]
    rows: list[tuple[str, Number]] = [
        ("complete", tiling.complete),
        ("dimension", d),
        ("tiles", tiling.count),
        ("vertices", len(tiling.vertices)),
        ("walls", len(tiling.walls)),
        ("units", sum(site.units for site in tiling.sites)),
        ("log10 of the upper bound on tiles", sum(log10(zaslavsky(n, d)) for n in cuts)),
        (f"slice {size}", tiling.view.size),
    ]
    for depth, count in graph.counts_by_depth(tiling).items():
        if depth:
            rows.append((f"tiles of the first {'layer' if depth == 1 else f'{depth} layers'}", count))
    areas = tiling.areas
    if tiling.count:
        rows += _spread(size, areas, None)
        if d > 1:
            rows += [("mean sides", float(tiling.sides.mean())), ("most sides", int(tiling.sides.max()))]
        if d == 2:
            rows += _spread("eccentricity", tile_shapes.eccentricities(tiling), areas)
        if d <= 2:
            rows += _spread("inradius", tile_shapes.inradii(tiling), areas)
        if tiling.values is not None or tiling.frozen is not None:
            rows += _spread("slope", maps.slope_norms(tiling), areas)
    if d > 1:
        kind = {2: "length", 3: "area"}.get(d, "volume")
        sizes = sizes_by_layer(tiling)
        rows += [(f"fold {kind}, layer {depth}", x) for depth, x in sizes.items()]
    met = folds_per_length(tiling) if d == 1 else crofton_constant(d) * sum(sizes.values()) / tiling.view.size
    rows.append(("folds met per unit length of a line", met))
    return Summary(tuple(rows), certainty=tiling.certainty)


def compare_tilings(a: Tiling, b: Tiling) -> TilingComparison:
    """Two tilings side by side, e.g. of a network at initialization and after training.

    The numbers are those of `Tiling.summary`, with the ratio b to a; the slices may differ (`same_slice` says so),
    their dimension may not.

    Example:
        >>> print(compare_tilings(before, after))    # doctest: +SKIP
    """
    need_tiling(a, "a")
    need_tiling(b, "b")
    if a.dimension != b.dimension:
        raise InputError(f"tilings must have one dimension to be compared, got {a.dimension} and {b.dimension}.")
    parts = ("origin", "basis", "domain")
    same = all(np.array_equal(getattr(a.view, part), getattr(b.view, part)) for part in parts)
    weaker = max(a.certainty, b.certainty, key=CERTAINTIES.index)
    return TilingComparison(summary(a), summary(b), same, a.fingerprint == b.fingerprint, certainty=weaker)


def _spread(name: str, values: np.ndarray, weights: np.ndarray | None) -> list[tuple[str, Number]]:
    """Mean, median and extremes; for a weighted quantity also the mean over the slice instead of over tiles."""
    by_size = [] if weights is None else [(f"mean {name} by size", float(np.average(values, weights=weights)))]
    return [
        (f"mean {name}", float(values.mean())),
        *by_size,
        (f"median {name}", float(np.median(values))),
        (f"least {name}", float(values.min())),
        (f"largest {name}", float(values.max())),
    ]


def _text(value: Number | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
