import json

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch import nn

import splinescope as ss

from ... import cases


@pytest.mark.parametrize("name", cases.CASES)
def test_areas_sum_to_the_slice_and_weigh_the_centroids(name: str) -> None:
    tiling = cases.tiling(name)
    assert tiling.areas.sum() == pytest.approx(tiling.view.size, rel=1e-12)
    middle = (tiling.areas[:, None] * tiling.centroids()).sum(0) / tiling.areas.sum()
    domain = tiling.view.domain
    expected = domain.mean(0)  # of an interval, a triangle, a square
    np.testing.assert_allclose(middle, expected, atol=1e-12 * np.abs(domain).max())


@pytest.mark.parametrize("name", cases.planes())
def test_inradius_is_the_chebyshev_radius(name: str) -> None:
    """Against the linear program max r, n_i x + r <= b_i."""
    tiling = cases.tiling(name)
    radii = tiling.inradii()
    for tile in np.random.default_rng(0).permutation(tiling.count)[:15]:
        corners = tiling.tile(tile)
        scale = np.ptp(corners, axis=0).max()
        corners = (corners - corners[0]) / scale
        span = np.roll(corners, -1, axis=0) - corners
        normals = np.stack([span[:, 1], -span[:, 0]], 1) / np.linalg.norm(span, axis=1, keepdims=True)
        sides = np.concatenate([normals, np.ones((len(normals), 1))], 1)
        best = linprog([0, 0, -1], sides, (normals * corners).sum(1), bounds=[(None, None)] * 3)
        assert radii[tile] == pytest.approx(-best.fun * scale, rel=1e-6, abs=1e-8 * scale)


@pytest.mark.parametrize("name", cases.planes())
def test_eccentricity_is_that_of_random_points_of_the_tile(name: str) -> None:
    """The largest tile, sampled through the triangles of a fan."""
    tiling = cases.tiling(name)
    tile = int(tiling.areas.argmax())
    corners = tiling.tile(tile)
    generator = np.random.default_rng(0)
    fan = np.stack([np.stack([corners[0], corners[i], corners[i + 1]]) for i in range(1, len(corners) - 1)])
    edges = fan[:, 1:] - fan[:, :1]
    areas = np.abs(edges[:, 0, 0] * edges[:, 1, 1] - edges[:, 0, 1] * edges[:, 1, 0])
    chosen = generator.choice(len(fan), 100_000, p=areas / areas.sum())
    points = (generator.dirichlet(np.ones(3), 100_000)[:, :, None] * fan[chosen]).sum(1)
    small, large = np.linalg.eigvalsh(np.cov(points.T))
    # 1e5 points give variances to 0.5 percent; their ratio decides
    assert 1 - tiling.eccentricities()[tile] ** 2 == pytest.approx(small / large, rel=0.03)
    np.testing.assert_allclose(tiling.centroids()[tile], points.mean(0), atol=4 * np.sqrt(large / 100_000))


def test_shapes_of_a_square_and_a_line() -> None:
    square = cases.tiling("no hidden layer")
    assert square.eccentricities()[0] == pytest.approx(0, abs=1e-7)  # a square root of rounding
    assert square.inradii()[0] == pytest.approx(2.0, rel=1e-15)
    np.testing.assert_allclose(square.centroids(), [[0, 0]], atol=1e-15)
    assert square.sides[0] == 4
    line = cases.tiling("line")
    np.testing.assert_allclose(line.inradii(), line.areas / 2)
    with pytest.raises(ss.InputError, match="2-D"):
        line.eccentricities()


@pytest.mark.parametrize("name", ["two layers", "line"])
def test_quantities_are_the_methods_of_their_names(name: str) -> None:
    tiling = cases.tiling(name)
    expected = {
        "slope": tiling.slope_norms(),
        "area": tiling.areas,
        "class": tiling.classes(),
        "active": tiling.active_units(),
        "sides": tiling.sides,
        "inradius": tiling.inradii(),
    }
    for of, values in expected.items():
        np.testing.assert_array_equal(tiling.quantity(of).values, values)
    middle = tiling.view.inputs(np.array([tiling.tile(i).mean(0) for i in range(tiling.count)]))
    outputs = cases.model(name)(torch.from_numpy(middle)).detach().numpy()
    np.testing.assert_allclose(tiling.quantity("value", output=1).values, outputs[:, 1], atol=1e-12)  # one pass
    with pytest.raises(ss.InputError, match=r"one of 'slope', 'area', .* got 'color'"):
        tiling.quantity("color")


# ---- counts and bounds


def test_bounds_have_their_known_values() -> None:
    assert [ss.tiling.zaslavsky(n, d) for n, d in ((5, 1), (5, 2), (7, 2), (6, 3))] == [6, 16, 29, 42]
    with pytest.raises(ss.InputError, match="whole number"):
        ss.tiling.zaslavsky(2.5, 2)


@pytest.mark.parametrize("seed", range(2))
def test_a_generic_layer_reaches_zaslavskys_count(seed: int) -> None:
    """On a square large enough to hold every crossing."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = cases.mlp(2, 7, 1).double()
    tiling = ss.tessellate(net, ss.Slice.axes([0.0, 0.0], (0, 1), -1e4, 1e4))
    assert tiling.count == ss.tiling.zaslavsky(7, 2)


@pytest.mark.parametrize("name", ["two layers", "four layers, one output", "line", "leaky", "dead units"])
def test_counts_by_depth_are_those_of_the_cut_off_networks(name: str) -> None:
    net, tiling = cases.model(name), cases.tiling(name)
    counts = tiling.counts_by_depth()
    assert counts[0] == 1
    assert counts[max(counts)] == tiling.count
    assert list(counts.values()) == sorted(counts.values())
    ends = [i for i, layer in enumerate(net) if isinstance(layer, nn.ReLU | nn.LeakyReLU)]
    for depth, end in enumerate(ends[:-1], 1):
        assert counts[depth] == ss.tessellate(nn.Sequential(*list(net)[: end + 1]), tiling.view).count
    assert tiling.count <= 10 ** tiling.summary()["log10 of the upper bound on tiles"] * (1 + 1e-9)


def test_mean_crossings_of_lines_are_cauchy_croftons() -> None:
    """2 L / (pi A) against counted crossings of random chords, drawn uniformly from all lines that meet the square."""
    tiling = cases.tiling("two layers")
    table = tiling.folds()
    generator = np.random.default_rng(0)
    angle, offset = generator.uniform(0, np.pi, 4000), generator.uniform(-2 * np.sqrt(2), 2 * np.sqrt(2), 4000)
    normals = np.stack([np.cos(angle), np.sin(angle)], 1)
    sides = np.sign(table.segments @ normals.T - offset)  # [F, 2, lines]
    crossings = (sides[:, 0] != sides[:, 1]).sum(0)
    reach = 2 * (np.abs(normals).sum(1))
    chords = np.zeros(4000)
    for i in np.flatnonzero(np.abs(offset) < reach):
        foot, along = offset[i] * normals[i], np.array([-normals[i, 1], normals[i, 0]])
        bounds = np.sort(np.stack([(-2 - foot) / along, (2 - foot) / along]), axis=0)
        chords[i] = max(0.0, bounds[1].min() - bounds[0].max())
    assert crossings.sum() / chords.sum() == pytest.approx(tiling.folds_per_length(), rel=0.05)  # 4000 lines: 2 percent


# ---- tables


@pytest.mark.parametrize("name", cases.CASES)
def test_summary_is_a_table_and_a_dict_of_plain_numbers(name: str) -> None:
    tiling = cases.tiling(name)
    summary = tiling.summary()
    numbers = json.loads(json.dumps(summary.as_dict(), allow_nan=False))
    assert numbers["tiles"] == tiling.count
    assert numbers["complete"] is True
    for key in numbers:
        assert key in str(summary)
    assert numbers["mean slope by size"] == pytest.approx(np.average(tiling.slope_norms(), weights=tiling.areas))


def test_comparison_gives_ratios() -> None:
    a, b = cases.tiling("one layer"), cases.tiling("two layers")
    comparison = ss.compare_tilings(a, b)
    assert comparison.same_slice
    assert not comparison.same_network
    rows = comparison.as_dict()
    assert rows["tiles"] == {"a": a.count, "b": b.count, "ratio": b.count / a.count}
    assert rows["fold length, layer 2"]["a"] is None
    assert rows["complete"]["ratio"] is None
    assert "fold length, layer 2" in str(comparison)
    assert "b / a" in str(comparison)
    assert ss.compare_tilings(a, a).same_network
    with pytest.raises(ss.InputError, match="dimension"):
        ss.compare_tilings(a, cases.tiling("line"))
    with pytest.raises(ss.InputError, match=r"b must be a Tiling .*got int"):
        ss.compare_tilings(a, 3)  # type: ignore[arg-type]


def test_an_incomplete_tiling_tells_about_what_it_has() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = cases.mlp(2, 40, 40, 3).double()
    with pytest.raises(ss.LimitReached) as stopped:
        ss.tessellate(net, cases.Square, max_tiles=60, chunk_bytes=1 << 12, threads=1)
    tiling = stopped.value.partial
    assert not tiling.complete
    summary = tiling.summary()
    assert summary["complete"] is False
    assert summary["tiles"] == tiling.count
    assert len(tiling.decision_boundary().polylines) <= len(tiling.decision_boundary())
    assert (tiling.locate([[10.0, 10.0]]) == -1).all()
    assert len(tiling.tiles_near([0.0, 0.0], 10.0)) == tiling.count
    tiling.folds(), tiling.bends(), tiling.pieces(), tiling.fold_raster(8)
