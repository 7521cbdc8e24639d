"""Neurons as a probability measure on `R x Omega`, and distances between such measures."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from splinescope.meanfield.networks import TwoLayer
from splinescope.support.checks import as_float64_array
from splinescope.support.display import Shown
from splinescope.support.errors import InputError

ASSIGNMENT_LIMIT = 2048
"""Largest number of atoms for which scipy's exact assignment (cubic in the worst case) is used."""


@dataclass(frozen=True, repr=False)
class ParticleMeasure(Shown):
    """`rho = (1/m) sum_k delta(a_k, u_k)`: amplitudes and unit directions `u_k = b_k / ||b_k||`.

    Directions stand for points of Omega by the isometry with the sphere, so distances need no Sigma.

    Attributes:
        a: Shape (m,), float64.
        u: Shape (m, d), rows of length 1.
    """

    a: Any
    u: Any

    def __post_init__(self) -> None:
        amplitudes, directions = as_float64_array(self.a, "a"), as_float64_array(self.u, "u")
        if directions.ndim != 2 or amplitudes.shape != directions.shape[:1] or directions.size == 0:
            raise InputError(
                f"a and u must have shapes (m,) and (m, d) with m, d >= 1, got {amplitudes.shape} and "
                f"{directions.shape}."
            )
        lengths = np.linalg.norm(directions, axis=1, keepdims=True)
        if not (lengths > 0).all():
            raise InputError("u must have no zero rows: a neuron of length 0 has no direction.")
        object.__setattr__(self, "a", amplitudes)
        object.__setattr__(self, "u", directions / lengths)

    @classmethod
    def of(cls, net: TwoLayer) -> ParticleMeasure:
        """The measure of a network's neurons; the function does not see their lengths, nor does the measure."""
        return cls(net.a, net.b)

    def __len__(self) -> int:
        return len(self.a)


def pairwise_distance(mu: ParticleMeasure, nu: ParticleMeasure) -> np.ndarray:
    """Distances between atoms, shape (m, n): `sqrt(da^2 + du^2)`, `du` the angle."""
    for measure in (mu, nu):
        if not isinstance(measure, ParticleMeasure):
            raise InputError(
                f"measures must be ParticleMeasures, got {type(measure).__name__}; ParticleMeasure.of(net) makes one."
            )
    if mu.u.shape[1] != nu.u.shape[1]:
        raise InputError(f"measures must share a dimension, got {mu.u.shape[1]} and {nu.u.shape[1]}.")
    chord = np.sqrt(np.maximum(2 - 2 * mu.u @ nu.u.T, 0.0))
    # the inner product loses half of the digits for near neighbors: there take the difference itself
    near = np.nonzero(chord < 1e-3)
    chord[near] = np.linalg.norm(mu.u[near[0]] - nu.u[near[1]], axis=1)
    angle = 2 * np.arcsin(np.minimum(chord / 2, 1.0))
    distance: np.ndarray = np.hypot(mu.a[:, None] - nu.a[None, :], angle)
    return distance


def _transport(cost: np.ndarray) -> float:
    """Optimal transport cost between uniform measures on m and n atoms with cost matrix (m, n); exact."""
    m, n = cost.shape
    atoms = math.lcm(m, n)
    if atoms <= ASSIGNMENT_LIMIT:
        full = np.repeat(np.repeat(cost, atoms // m, axis=0), atoms // n, axis=1)
        rows, columns = linear_sum_assignment(full)
        return float(full[rows, columns].mean())
    import ot  # a second to load, for large measures alone

    # POT's default of 1e5 iterations stops early from about a thousand atoms on
    return float(ot.emd2(np.full(m, 1 / m), np.full(n, 1 / n), cost, numItermax=10_000_000))


def wasserstein2(mu: ParticleMeasure, nu: ParticleMeasure) -> float:
    """The Wasserstein-2 distance, exact: `W2^2 = min over couplings of E[da^2 + du^2]`, `du` the angle on the sphere.

    By assignment (atoms are repeated to a common multiple of the sizes) up to 2048 atoms, beyond by the network simplex
    of POT. Memory O(m n).

    Args:
        mu, nu: Uniform measures; their sizes may differ.

    Example:
        >>> one = ParticleMeasure([0.0], [[1.0, 0.0]])
        >>> round(wasserstein2(one, ParticleMeasure([0.0], [[0.0, 2.0]])), 6)
        1.570796
    """
    return math.sqrt(max(0.0, _transport(pairwise_distance(mu, nu) ** 2)))


def bounded_lipschitz(mu: ParticleMeasure, nu: ParticleMeasure) -> float:
    """`sup { int f d(mu - nu) : |f| <= 1, Lip(f) <= 1 }`, exact: by duality the transport cost of `min(dist, 2)`."""
    return _transport(np.minimum(pairwise_distance(mu, nu), 2.0))
