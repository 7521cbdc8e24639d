"""Classical counts: the cells that folds can make, the folds that lines meet."""

from __future__ import annotations

from math import comb, exp, lgamma, pi, sqrt

from ...support.checks import check_whole


def zaslavsky(n: int, d: int) -> int:
    """Cells of a generic arrangement of n hyperplanes in d dimensions: `sum_{j<=d} C(n, j)`.

    An upper bound for any one-layer network of n units, attained by generic weights.

    Example:
        >>> zaslavsky(5, 2)
        16

    Reference: Zaslavsky, "Facing up to arrangements", 1975.
    """
    n, d = check_whole(n, "n", least=0), check_whole(d, "d")
    return sum(comb(n, j) for j in range(d + 1))


def crofton_constant(dimension: int) -> float:
    """Mean crossings of a random line with a surface, per length of line and per unit of the surface's density.

    `E |cos| = G(d / 2) / (sqrt(pi) G((d + 1) / 2))` for the angle of a uniform direction with a fixed one: a surface
    of (d-1)-volume S in a volume V is crossed by isotropic random lines `E |cos| S / V` times per unit length.

    Reference: Santalo, "Integral Geometry and Geometric Probability", 1976 (Cauchy-Crofton formula).
    """
    d = check_whole(dimension, "dimension")
    return round(exp(lgamma(d / 2) - lgamma((d + 1) / 2)) / sqrt(pi), 15)
