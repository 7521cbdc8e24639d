"""Volumes of sign classes: exact, bounded, sampled."""

import math

import numpy as np
import pytest
from scipy import stats

from splinescope import InputError
from splinescope_research import sign_classes
from splinescope_research.random_layers.sign_classes import _cap_volume


def circle(n: int) -> np.ndarray:
    turn = 2 * np.pi * np.arange(n) / n
    return np.stack([np.cos(turn), np.sin(turn)], axis=1)


@pytest.mark.parametrize("n", [3, 11])
def test_odd_polygon_has_twice_as_many_classes_as_points(n: int) -> None:
    classes = sign_classes(circle(n))
    assert classes.count == 2 * n
    assert classes.gamma == pytest.approx(1 / (2 * n), rel=1e-12)


def test_orthogonal_points_have_orthants() -> None:
    classes = sign_classes(np.eye(3))
    assert np.allclose(classes.volumes, 1 / 8, atol=1e-15)
    assert sign_classes(np.eye(5)[:, :4][:4]).upper >= 1 / 16  # four points of rank 4: bounds hold 1/16
    assert sign_classes(np.eye(4)).lower <= 1 / 16


def test_classes_of_the_sphere_cover_it_and_have_covers_count() -> None:
    x = np.random.default_rng(0).standard_normal((9, 3))
    classes = sign_classes(x)
    assert classes.count == 2 * sum(math.comb(8, i) for i in range(3))
    assert classes.volumes.sum() == pytest.approx(1, abs=1e-12)


def test_degenerate_great_circles_share_their_crossings() -> None:
    x = np.vstack([np.eye(3), [[1, 1, 0], [1, 1, 1], [2, 0, 0], [0, -1, 0]]])  # repeated and antipodal ones too
    classes = sign_classes(x)
    assert classes.volumes.sum() == pytest.approx(1, abs=1e-12)
    assert classes.count == 18


def test_sampled_volumes_agree_with_exact_ones() -> None:
    x = np.random.default_rng(1).standard_normal((6, 3))
    exact = sign_classes(x)
    volume = dict(zip(map(tuple, exact.signs.tolist()), exact.volumes, strict=True))
    draws = 200_000
    sampled = sign_classes(x, method="monte_carlo", draws=draws)
    for signs, share in zip(map(tuple, sampled.signs.tolist()), sampled.volumes, strict=True):
        p = volume[signs]
        assert abs(share - p) < 5 * math.sqrt(p * (1 - p) / (draws / 2)) + 1e-5  # five standard errors
    assert exact.gamma <= sampled.upper


def test_sampled_upper_end_is_clopper_pearson() -> None:
    sampled = sign_classes(np.random.default_rng(1).standard_normal((6, 3)), method="monte_carlo", draws=2000)
    hits = round(sampled.gamma * 1000)
    interval = stats.binomtest(hits, 1000, alternative="less").proportion_ci(0.99, method="exact")
    assert sampled.upper == pytest.approx(interval.high, rel=1e-9)


def test_inscribed_caps_have_their_area() -> None:
    angle = np.array([0.1, 0.7, 1.5])
    assert _cap_volume(angle, 2) == pytest.approx(angle / np.pi)
    assert _cap_volume(angle, 3) == pytest.approx((1 - np.cos(angle)) / 2)


def test_bounds_enclose_gamma_and_list_every_class() -> None:
    x = np.random.default_rng(2).standard_normal((6, 3))
    exact, bounds = sign_classes(x), sign_classes(x, method="bounds")
    assert {tuple(s) for s in exact.signs.tolist()} == {tuple(s) for s in bounds.signs.tolist()}
    assert bounds.lower <= exact.gamma <= bounds.upper
    volume = dict(zip(map(tuple, exact.signs.tolist()), exact.volumes, strict=True))
    assert all(v <= volume[tuple(s)] for s, v in zip(bounds.signs.tolist(), bounds.volumes, strict=True))


@pytest.mark.parametrize("n", [5, 10])
def test_three_points_bound_gamma_sharply_in_space(n: int) -> None:
    x = np.random.default_rng(n).standard_normal((n, 3))
    gamma, bounds = sign_classes(x).gamma, sign_classes(x, method="bounds")
    assert bounds.lower <= gamma <= bounds.upper < 1.001 * gamma  # the smallest polygons are triangles


def test_bad_arguments_are_named() -> None:
    with pytest.raises(InputError, match="point 1 is"):
        sign_classes([[1.0, 0.0], [0.0, 0.0]])
    with pytest.raises(InputError, match="rank at most 3, got rank 4"):
        sign_classes(np.eye(4), method="exact")
