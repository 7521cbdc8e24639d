"""What tiles can be coloured by: one number or one class per tile, with its label and colour range."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._checks import check_choice
from .._errors import InputError

if TYPE_CHECKING:
    from ..tiling import Tiling


@dataclass(frozen=True)
class Quantity:
    """One number per tile.

    Attributes:
        name: How it is asked for.
        label: What stands beside the colour bar.
        values: `[K]`.
        log: Colours follow its logarithm.
        categories: Names of the values 0, 1, ... if it is a class; None if it is a number.
    """

    name: str
    label: str
    values: np.ndarray
    log: bool = False
    categories: tuple[str, ...] | None = None

    @property
    def limits(self) -> tuple[float, float]:
        """Ends of the colour range: the 1st and 99th percentile on a logarithmic scale, else the extremes."""
        values = self.values[self.values > 0] if self.log else self.values
        if not len(values):
            return (1.0, 1.0) if self.log else (0.0, 0.0)
        low, high = np.quantile(values, [0.01, 0.99]) if self.log else (values.min(), values.max())
        return float(low), float(high)


def tile_quantity(tiling: Tiling, name: str, *, output: int = 0) -> Quantity:
    """One number per tile, ready to be drawn.

    Args:
        tiling: The tiling.
        name: "slope" (spectral norm of the map on the slice: the local Lipschitz constant), "area", "depth" (of
            the deepest fold along the tile's walls; 0 if none), "class" (largest output at the mean of the
            corners; the sign of a single output), "value" (that of `output` there) or "active" (units on their
            positive side; needs the network).
        output: Which output "value" shows.
    """
    check_choice(name, "color", tuple(QUANTITIES))
    if name == "value":
        return _value(tiling, output)
    return QUANTITIES[name](tiling)


def available(tiling: Tiling) -> list[str]:
    """Names of the quantities that this tiling can give, with or without its outputs and its network."""
    values = tiling.values is not None
    network = tiling.network is not None and tiling.network.fingerprint() == tiling.fingerprint
    needs = {"slope": values or network, "class": values or network, "value": values, "active": network}
    return [name for name in QUANTITIES if needs.get(name, True)]


def _slope(tiling: Tiling) -> Quantity:
    return Quantity("slope", "slope norm ‖A‖₂", tiling.slope_norms(), log=True)


def _area(tiling: Tiling) -> Quantity:
    return Quantity("area", "area" if tiling.dimension == 2 else "length", tiling.areas, log=True)


def _depth(tiling: Tiling) -> Quantity:
    deepest = np.maximum.reduceat(corner_depths(tiling), tiling.tiles.offsets[:-1]) if tiling.count else np.zeros(0)
    return Quantity("depth", "depth of deepest wall", deepest.astype(float))


def _class(tiling: Tiling) -> Quantity:
    classes = tiling.classes().astype(float)
    if tiling.values is not None and tiling.values.shape[1] == 1:
        return Quantity("class", "sign", classes, categories=("−", "+"))
    count = tiling.values.shape[1] if tiling.values is not None else int(classes.max(initial=0)) + 1
    return Quantity("class", "class", classes, categories=tuple(map(str, range(count))))


def _value(tiling: Tiling, output: int = 0) -> Quantity:
    if tiling.values is None:
        raise InputError("the tiling stores no outputs (over 64 numbers each): tile a model that returns fewer.")
    count = tiling.values.shape[1]
    if not 0 <= output < count:
        raise InputError(f"output must be in [0, {count}), got {output}.")
    offsets, corners = tiling.tiles.offsets, tiling.tiles.corners
    means = np.add.reduceat(tiling.values[corners, output], offsets[:-1]) / np.diff(offsets)
    return Quantity("value", "output" if count == 1 else f"output {output}", means)


def _active(tiling: Tiling) -> Quantity:
    return Quantity("active", "active units", tiling.active_units().astype(float))


QUANTITIES: dict[str, Callable[[Tiling], Quantity]] = {
    "slope": _slope,
    "area": _area,
    "depth": _depth,
    "class": _class,
    "value": _value,
    "active": _active,
}


def corner_depths(tiling: Tiling) -> np.ndarray:
    """`[M]` depth of the fold that leads from each corner to the next; 0 on the domain's boundary."""
    depths = np.concatenate([np.full(site.units, site.depth) for site in tiling.sites] + [np.zeros(1, int)])
    return depths[tiling.corner_labels]  # label -1 picks the zero at the end
