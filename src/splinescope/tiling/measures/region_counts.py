"""Classical counts of the cells that folds can make."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import comb

from ...support.checks import check_whole
from ...support.errors import InputError


def zaslavsky(n: int, d: int, *, central: bool = False) -> int:
    """Cells of a generic arrangement of n hyperplanes in d dimensions: `sum_{j<=d} C(n, j)`.

    An upper bound for any one-layer network of n units, attained by generic weights. With all planes through one
    point (`central`, zero biases): `2 sum_{j<d} C(n - 1, j)`.

    Example:
        >>> zaslavsky(5, 2), zaslavsky(5, 2, central=True)
        (16, 10)

    Reference: Zaslavsky, "Facing up to arrangements", 1975.
    """
    [n] = _check(d, [n])
    if central:
        return 2 * sum(comb(n - 1, j) for j in range(d)) if n else 1
    return sum(comb(n, j) for j in range(d + 1))


def montufar(d: int, widths: Sequence[int]) -> int:
    """A lower bound on the largest number of pieces over all weights of a ReLU network on d inputs.

    `prod_{l<L} floor(n_l / d)^d * sum_{j<=d} C(n_L, j)`, for widths n_1..n_L all at least d. Constructed networks
    reach it; networks with random weights are far below.

    Example:
        >>> montufar(1, [5, 5, 5])
        150

    Reference: Montufar, Pascanu, Cho, Bengio, "On the number of linear regions of deep neural networks", 2014.
    """
    widths = _check(d, widths)
    if not widths:
        return 1
    if min(widths) < d:
        raise InputError(f"widths must all be at least the input dimension {d} for this bound, got {list(widths)}.")
    product = 1
    for width in widths[:-1]:
        product *= (width // d) ** d
    return product * zaslavsky(widths[-1], d)


def serra(d: int, widths: Sequence[int]) -> int:
    """An upper bound on the number of tiles of a ReLU network with the given widths on a d-dimensional slice.

    `sum prod_l C(n_l, j_l)` over all `0 <= j_l <= min(d, n_1 - j_1, ..., n_{l-1} - j_{l-1}, n_l)`: a tile on which
    few units are active hands on few dimensions.

    Example:
        >>> serra(1, [5, 5, 5]), serra(2, [5])
        (216, 16)

    Reference: Serra, Tjandraatmadja, Ramalingam, "Bounding and counting linear regions", 2018, theorem 1.
    """
    widths = _check(d, widths)

    @cache
    def count(layer: int, dimension: int) -> int:
        if layer == len(widths):
            return 1
        n = widths[layer]
        return sum(comb(n, j) * count(layer + 1, min(dimension, n - j)) for j in range(min(dimension, n) + 1))

    return count(0, d)


def _check(d: int, widths: Sequence[int]) -> list[int]:
    """The widths, refused unless they are whole numbers, like the dimension."""
    check_whole(d, "the dimension")
    try:
        given = list(widths)
    except TypeError as error:
        raise InputError(f"widths must be a list of whole numbers, got {widths!r}.") from error
    return [check_whole(width, "a number of units", least=0) for width in given]
