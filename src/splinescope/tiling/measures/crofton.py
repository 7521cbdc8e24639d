"""Lines and folds: what the crossings of random lines say about (d-1)-volumes."""

from __future__ import annotations

from math import exp, lgamma, pi, sqrt

from ...support.checks import check_whole


def crofton_constant(dimension: int) -> float:
    """Mean crossings of a random line with a surface, per length of line and per unit of the surface's density.

    `E |cos| = G(d / 2) / (sqrt(pi) G((d + 1) / 2))` for the angle of a uniform direction with a fixed one: a surface
    of (d-1)-volume S in a volume V is crossed by isotropic random lines `E |cos| S / V` times per unit length.

    Example:
        >>> crofton_constant(1), crofton_constant(3)
        (1.0, 0.5)

    Reference: Santalo, "Integral Geometry and Geometric Probability", 1976 (Cauchy-Crofton formula).
    """
    d = check_whole(dimension, "dimension")
    return round(exp(lgamma(d / 2) - lgamma((d + 1) / 2)) / sqrt(pi), 15)
