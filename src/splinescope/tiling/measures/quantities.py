"""One number or one class per tile, by name: register one more with `@quantity`, and pictures, pages, histograms and
the command line have it. docs/tiling.md tells what each is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ...support.checks import check_choice, check_index
from ...support.errors import InputError
from ..approximation import TilingResult
from ..cells.lists import reduced
from .folds import need_tiling

if TYPE_CHECKING:
    from ..tiling import Tiling

_CORNERS_TOGETHER = 1 << 20
_ROUNDING = 1e-13


@dataclass(frozen=True, eq=False, repr=False)
class Quantity(TilingResult):
    """One number per tile.

    Attributes:
        name: How it is asked for.
        label: What stands beside a color bar or an axis.
        values: `[K]`; integers where it counts something.
        log: It is best seen on a logarithmic scale.
        categories: Names of the values 0, 1, ... if it is a class; None if it is a number.
        areas: `[K]` areas of the tiles, for `limits`.
        steps: A whole number whose few values are best shown in as many colors.
    """

    name: str
    label: str
    values: np.ndarray
    log: bool = False
    categories: tuple[str, ...] | None = None
    areas: np.ndarray | None = None
    steps: bool = False

    @property
    def limits(self) -> tuple[float, float]:
        """Ends of the color range: the extremes; on a logarithmic scale, values that 1% of the area is beyond.

        A logarithm leaves out what is rounding beside the largest value: the slope of a flat tile, 1e-17 or so.
        """
        seen = self.values > (_ROUNDING * self.values.max(initial=0.0) if self.log else -np.inf)
        values = self.values[seen]
        if not len(values):
            return (1.0, 1.0) if self.log else (0.0, 0.0)
        if not self.log or self.areas is None:
            return float(values.min()), float(values.max())
        order = np.argsort(values)
        share = self.areas[seen][order]
        np.cumsum(share, out=share)
        low, high = np.searchsorted(share, [0.01 * share[-1], 0.99 * share[-1]])
        return float(values[order[low]]), float(values[order[high]])


Make = Callable[["Tiling", int], Quantity]
"""(tiling, number of an output) -> the quantity."""


@dataclass(frozen=True)
class Rule:
    """How a quantity is made, of which tilings, and whether it costs a pass through the network per tile."""

    make: Make
    given: Callable[[Tiling], bool]
    runs_network: bool


QUANTITIES: dict[str, Rule] = {}


def quantity(
    name: str, *, given: Callable[[Tiling], bool] = lambda tiling: True, runs_network: bool = False
) -> Callable[[Make], Make]:
    """Register a quantity: its function takes a tiling and the number of an output."""

    def register(make: Make) -> Make:
        QUANTITIES[name] = Rule(make, given, runs_network)
        return make

    return register


def tile_quantity(tiling: Tiling, name: str, *, output: int = 0) -> Quantity:
    """One number per tile by name, with its label and scale.

    Args:
        name: "slope" (spectral norm of the map on the slice: the local Lipschitz constant), "area", "class",
            "value" and others: a wrong name lists them all, docs/tiling.md says what each is.
        output: Which output "value" is of.
    """
    need_tiling(tiling)
    if name not in QUANTITIES:  # one that needs a plane, or outputs, says so itself
        check_choice(name, "a quantity of these tiles", tuple(available(tiling)))
    return replace(QUANTITIES[name].make(tiling, output), certainty=tiling.certainty)


def available(tiling: Tiling) -> list[str]:
    """Names of the quantities that this tiling can give: in its dimension, with or without outputs and network."""
    return [name for name, rule in QUANTITIES.items() if rule.given(tiling)]


def mean_values(tiling: Tiling, output: int) -> np.ndarray:
    """`[K]` one stored output at the mean of each tile's corners."""
    if tiling.values is None:
        raise InputError("the tiling stores no outputs (over 64 numbers each): tile a model that returns fewer.")
    check_index(output, "output", tiling.values.shape[1])
    return tiling.tiles.corner_means(tiling.values[:, output])


def corner_depths(tiling: Tiling) -> np.ndarray:
    """`[M]` depth of the fold that leads from each corner to the next (in a space: of each tile's facets); 0 on the
    domain's boundary."""
    ends = np.cumsum([0, *(site.cuts for site in tiling.sites)])
    depths = np.array([0, *(site.depth for site in tiling.sites)], np.int32)
    found = np.empty(len(tiling.corner_labels), np.int32)
    for start in range(0, len(found), _CORNERS_TOGETHER):
        part = slice(start, start + _CORNERS_TOGETHER)
        found[part] = depths[np.searchsorted(ends, tiling.corner_labels[part], side="right")]  # -1: before the first
    return found


def _has_outputs(tiling: Tiling) -> bool:
    return tiling.values is not None or tiling.frozen is not None


@quantity("slope", given=_has_outputs)
def _slope(tiling: Tiling, output: int) -> Quantity:
    return Quantity("slope", "slope norm ‖A‖₂", tiling.slope_norms(), log=True, areas=tiling.areas)


@quantity("area")
def _area(tiling: Tiling, output: int) -> Quantity:
    label = {1: "length", 2: "area"}.get(tiling.dimension, "volume")
    return Quantity("area", label, tiling.areas, log=True, areas=tiling.areas)


@quantity("depth")
def _depth(tiling: Tiling, output: int) -> Quantity:
    deepest = reduced(np.maximum, corner_depths(tiling), tiling.tiles.side_offsets)
    return Quantity("depth", "depth of deepest wall", deepest, steps=True)


@quantity("class", given=_has_outputs)
def _class(tiling: Tiling, output: int) -> Quantity:
    classes = tiling.classes()
    if tiling.values is not None and tiling.values.shape[1] == 1:
        return Quantity("class", "sign", classes, categories=("−", "+"))
    count = tiling.values.shape[1] if tiling.values is not None else int(classes.max(initial=0)) + 1
    return Quantity("class", "class", classes, categories=tuple(map(str, range(count))))


@quantity("value", given=lambda tiling: tiling.values is not None)
def _value(tiling: Tiling, output: int) -> Quantity:
    means = mean_values(tiling, output)
    alone = tiling.values is not None and tiling.values.shape[1] == 1
    return Quantity("value", "output" if alone else f"output {output}", means)


@quantity("active", given=lambda tiling: tiling.frozen is not None, runs_network=True)
def _active(tiling: Tiling, output: int) -> Quantity:
    return Quantity("active", "active units", tiling.active_units())


@quantity("sides")
def _sides(tiling: Tiling, output: int) -> Quantity:
    return Quantity("sides", "corners" if tiling.dimension <= 2 else "facets", tiling.sides, steps=True)


@quantity("eccentricity", given=lambda tiling: tiling.dimension == 2)
def _eccentricity(tiling: Tiling, output: int) -> Quantity:
    return Quantity("eccentricity", "eccentricity", tiling.eccentricities())


@quantity("inradius", given=lambda tiling: tiling.dimension <= 2)
def _inradius(tiling: Tiling, output: int) -> Quantity:
    return Quantity("inradius", "inradius", tiling.inradii(), log=True, areas=tiling.areas)
