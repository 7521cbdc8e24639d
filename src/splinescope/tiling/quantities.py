"""One number or one class per tile, by name: what histograms count, colours show and exported tables hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._checks import check_choice, check_index
from .._errors import InputError

if TYPE_CHECKING:
    from .tiling import Tiling


@dataclass(frozen=True)
class Quantity:
    """One number per tile.

    Attributes:
        name: How it is asked for.
        label: What stands beside a colour bar or an axis.
        values: `[K]`; integers where it counts something.
        log: It is best seen on a logarithmic scale.
        areas: `[K]` areas of the tiles, for `limits`.
        categories: Names of the values 0, 1, ... if it is a class; None if it is a number.
    """

    name: str
    label: str
    values: np.ndarray
    log: bool = False
    categories: tuple[str, ...] | None = None
    areas: np.ndarray | None = None

    @property
    def limits(self) -> tuple[float, float]:
        """Ends of the colour range: the extremes; on a logarithmic scale, values that 1% of the area is beyond."""
        seen = self.values > 0 if self.log else np.ones(len(self.values), bool)
        values = self.values[seen]
        if not len(values):
            return (1.0, 1.0) if self.log else (0.0, 0.0)
        if not self.log or self.areas is None:
            return float(values.min()), float(values.max())
        order = np.argsort(values)
        share = np.cumsum(self.areas[seen][order])
        low, high = np.searchsorted(share, [0.01 * share[-1], 0.99 * share[-1]])
        return float(values[order[low]]), float(values[order[high]])


def tile_quantity(tiling: Tiling, name: str, *, output: int = 0) -> Quantity:
    """See `Tiling.quantity`."""
    check_choice(name, "a quantity of tiles", tuple(QUANTITIES))
    return _value(tiling, output) if name == "value" else QUANTITIES[name](tiling)


def available(tiling: Tiling) -> list[str]:
    """Names of the quantities that this tiling can give: in its dimension, with or without outputs and network."""
    values = tiling.values is not None
    network = tiling.frozen is not None
    given = {
        "slope": values or network,
        "class": values or network,
        "value": values,
        "active": network,
        "eccentricity": tiling.dimension == 2,
        "inradius": tiling.dimension <= 2,
    }
    return [name for name in QUANTITIES if given.get(name, True)]


def mean_values(tiling: Tiling, output: int) -> np.ndarray:
    """`[K]` one stored output at the mean of each tile's corners."""
    if tiling.values is None:
        raise InputError("the tiling stores no outputs (over 64 numbers each): tile a model that returns fewer.")
    check_index(output, "output", tiling.values.shape[1])
    if not tiling.count:
        return np.zeros(0)
    offsets, corners = tiling.tiles.offsets, tiling.tiles.corners
    return np.add.reduceat(tiling.values[corners, output], offsets[:-1]) / np.diff(offsets)


def corner_depths(tiling: Tiling) -> np.ndarray:
    """`[M]` depth of the fold that leads from each corner to the next (in a space: of each tile's facets); 0 on the
    domain's boundary."""
    depths = np.concatenate([np.full(site.cuts, site.depth) for site in tiling.sites] + [np.zeros(1, int)])
    return depths[tiling.corner_labels]  # label -1 picks the zero at the end


def _slope(tiling: Tiling) -> Quantity:
    return Quantity("slope", "slope norm ‖A‖₂", tiling.slope_norms(), log=True, areas=tiling.areas)


def _area(tiling: Tiling) -> Quantity:
    label = {1: "length", 2: "area"}.get(tiling.dimension, "volume")
    return Quantity("area", label, tiling.areas, log=True, areas=tiling.areas)


def _depth(tiling: Tiling) -> Quantity:
    starts = tiling.tiles.side_offsets[:-1]
    deepest = np.maximum.reduceat(corner_depths(tiling), starts) if tiling.count else np.zeros(0, int)
    return Quantity("depth", "depth of deepest wall", deepest)


def _class(tiling: Tiling) -> Quantity:
    classes = tiling.classes()
    if tiling.values is not None and tiling.values.shape[1] == 1:
        return Quantity("class", "sign", classes, categories=("−", "+"))
    count = tiling.values.shape[1] if tiling.values is not None else int(classes.max(initial=0)) + 1
    return Quantity("class", "class", classes, categories=tuple(map(str, range(count))))


def _value(tiling: Tiling, output: int = 0) -> Quantity:
    means = mean_values(tiling, output)
    alone = tiling.values is not None and tiling.values.shape[1] == 1
    return Quantity("value", "output" if alone else f"output {output}", means)


def _active(tiling: Tiling) -> Quantity:
    return Quantity("active", "active units", tiling.active_units())


def _sides(tiling: Tiling) -> Quantity:
    return Quantity("sides", "corners" if tiling.dimension <= 2 else "facets", tiling.sides)


def _eccentricity(tiling: Tiling) -> Quantity:
    return Quantity("eccentricity", "eccentricity", tiling.eccentricities())


def _inradius(tiling: Tiling) -> Quantity:
    return Quantity("inradius", "inradius", tiling.inradii(), log=True, areas=tiling.areas)


QUANTITIES: dict[str, Callable[[Tiling], Quantity]] = {
    "slope": _slope,
    "area": _area,
    "depth": _depth,
    "class": _class,
    "value": _value,
    "active": _active,
    "sides": _sides,
    "eccentricity": _eccentricity,
    "inradius": _inradius,
}
