from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

from splinescope import InputError
from splinescope_research import wasserstein2
from splinescope_research.meanfield.particle_measure import ParticleMeasure, bounded_lipschitz, pairwise_distance


def measure(m: int, seed: int, d: int = 3) -> ParticleMeasure:
    rng = np.random.default_rng(seed)
    return ParticleMeasure(rng.standard_normal(m), rng.standard_normal((m, d)))


def test_w2_is_the_best_of_all_permutations() -> None:
    mu, nu = measure(6, 0), measure(6, 1)
    cost = pairwise_distance(mu, nu) ** 2
    best = min(cost[range(6), p].mean() for p in itertools.permutations(range(6)))
    assert wasserstein2(mu, nu) == pytest.approx(np.sqrt(best), rel=1e-12)


def test_w2_is_a_distance() -> None:
    mu, nu, xi = (measure(10, seed) for seed in range(3))
    assert wasserstein2(mu, mu) == 0
    assert wasserstein2(mu, nu) == pytest.approx(wasserstein2(nu, mu), rel=1e-12)
    assert wasserstein2(mu, xi) <= wasserstein2(mu, nu) + wasserstein2(nu, xi)


def test_w2_of_a_small_rotation_is_its_angle() -> None:
    angles = np.linspace(0, 2 * np.pi, 7, endpoint=False)
    mu, nu = (ParticleMeasure(np.zeros(7), np.column_stack([np.cos(p), np.sin(p)])) for p in (angles, angles + 1e-7))
    assert wasserstein2(mu, nu) == pytest.approx(1e-7, rel=1e-6)


def test_bounded_lipschitz_solves_its_defining_program() -> None:
    """max sum f (mu - nu) over |f| <= 1 and |f_i - f_j| <= dist_ij, as a linear program over the atoms."""
    mu, nu = measure(5, 4), measure(7, 5)
    every = ParticleMeasure(np.concatenate([mu.a, nu.a]), np.concatenate([mu.u, nu.u]))
    distance = pairwise_distance(every, every)
    pairs = list(itertools.permutations(range(12), 2))
    rows = np.zeros((len(pairs), 12))
    for row, (i, j) in zip(rows, pairs, strict=True):
        row[i], row[j] = 1, -1
    gain = np.concatenate([np.full(5, 1 / 5), np.full(7, -1 / 7)])
    best = linprog(-gain, rows, [distance[p] for p in pairs], bounds=[(-1, 1)] * 12)
    assert bounded_lipschitz(mu, nu) == pytest.approx(-best.fun, rel=1e-7)


def test_bad_measures_are_refused() -> None:
    with pytest.raises(InputError, match="zero rows"):
        ParticleMeasure([1.0], [[0.0, 0.0]])
    with pytest.raises(InputError, match="a must be finite"):
        ParticleMeasure([np.nan], [[1.0, 0.0]])
    with pytest.raises(InputError, match="share a dimension"):
        wasserstein2(measure(3, 0, d=2), measure(3, 0, d=3))
    with pytest.raises(InputError, match=r"ParticleMeasure\.of\(net\)"):
        wasserstein2(measure(3, 0), "measure")
    with pytest.raises(InputError, match="m, d >= 1"):
        ParticleMeasure(np.zeros(0), np.zeros((0, 2)))
