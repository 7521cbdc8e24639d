import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import splinescope as ss
from splinescope.network.program import Tournament, walked
from splinescope.tiling.measures.differentiate import cuts

from ... import cases


def test_a_wall_of_a_max_pool_names_the_window_whose_winner_changes() -> None:
    tiling = cases.tiling("max-pool")
    table = tiling.folds()
    program = tiling.network.program()
    (tournament,) = (step for step in program.steps if isinstance(step, Tournament))
    site = next(i for i, s in enumerate(tiling.sites) if s.op == "max_pool2d")
    rows = np.flatnonzero(table.sites == site)
    assert tiling.sites[site].units < tiling.sites[site].cuts
    inputs = torch.from_numpy(tiling.view.inputs(table.segments[rows].mean(1)))
    with torch.no_grad():
        values = walked(program.steps, {program.input: inputs}, {tournament.competitors})[tournament.competitors]
    best = values[np.arange(len(rows)), :, table.units[rows]].sort(1).values
    assert len(rows) > 0
    assert float((best[:, -1] - best[:, -2]).abs().max()) <= 1e-9 * float(values.abs().max())


@pytest.mark.parametrize("name", cases.CASES)
def test_the_unit_that_made_a_wall_is_zero_on_it(name: str) -> None:
    tiling = cases.tiling(name)
    table = tiling.folds()
    inputs = torch.from_numpy(tiling.view.inputs(table.segments.mean(1)))
    program = tiling.network.program()
    with torch.no_grad():
        first = 0
        for _, z in cuts(program, inputs):
            cut = tiling.walls.cuts[table.walls] - first
            rows = np.flatnonzero((cut >= 0) & (cut < z.shape[1]))
            on_fold = z[rows, cut[rows]].abs().numpy()
            assert on_fold.max(initial=0) <= 1e-9 * float(z.abs().max())
            first += z.shape[1]
        assert first == sum(site.cuts for site in tiling.sites)


@pytest.mark.parametrize("name", cases.planes())
def test_layers_share_out_the_walls_and_their_length(name: str) -> None:
    tiling = cases.tiling(name)
    table = tiling.folds()
    assert sum(table.lengths_by_layer().values()) == pytest.approx(table.lengths.sum(), rel=1e-12)
    boundary = tiling.walls.cuts < 0
    assert len(table) + boundary.sum() == len(tiling.walls)


def test_fold_length_of_one_layer_is_that_of_its_lines() -> None:
    """Each unit's line, clipped to the square by hand."""
    net, tiling = cases.model("one layer"), cases.tiling("one layer")
    total = 0.0
    for w, b in zip(net[0].weight.detach().numpy(), net[0].bias.detach().numpy(), strict=True):
        foot, along = -b * w / (w @ w), np.array([-w[1], w[0]]) / np.linalg.norm(w)
        bounds = np.sort(np.stack([(-2 - foot) / along, (2 - foot) / along]), axis=0)
        total += max(0.0, bounds[1].min() - bounds[0].max())
    assert tiling.folds().lengths.sum() == pytest.approx(total, rel=1e-12)


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 10_000))
def test_bends_follow_the_dihedral_formula(seed: int) -> None:
    """n+ = n- + v_k w_k; the angle between the two sides of the fold is pi - angle(n-, n+)."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = cases.mlp(2, 5, 2, 1).double()
    tiling = ss.tessellate(net, cases.Square)
    bends = tiling.bends()
    first, second = (net[i].weight.detach().numpy() for i in (0, 2))
    lengths = np.linalg.norm(np.diff(tiling.vertices[tiling.walls.ends], axis=1)[:, 0], axis=1)
    for vertex, unit, crossed, angle, walls in zip(
        bends.vertices, bends.cuts, bends.crossed, bends.angles, bends.walls, strict=True
    ):
        assert crossed < 5 <= unit
        active = first @ tiling.vertices[vertex] + net[0].bias.detach().numpy() > 0
        active[crossed] = False
        v = second[unit - 5]
        below = (v * active) @ first
        above = below + v[crossed] * first[crossed]
        cosine = below @ above / np.linalg.norm(below) / np.linalg.norm(above)
        expected = np.pi - np.arccos(np.clip(cosine, -1, 1))
        # vertices are right to about 1e-15, a wall's direction to that over its length; arccos is poor near pi
        assert abs(angle - expected) <= 3e-7 + 1e-13 / lengths[walls].min()


@pytest.mark.parametrize("name", ["two layers", "residual", "leaky", "convolution"])
def test_bends_are_where_a_fold_meets_one_of_an_earlier_layer(name: str) -> None:
    tiling = cases.tiling(name)
    bends = tiling.bends()
    assert len(bends.vertices) > 0
    firsts = np.cumsum([0, *(site.units for site in tiling.sites)])
    depth = np.array([tiling.sites[i].depth for i in np.searchsorted(firsts, bends.cuts, side="right") - 1])
    earlier = np.array([tiling.sites[i].depth for i in np.searchsorted(firsts, bends.crossed, side="right") - 1])
    assert (earlier < depth).all()
    assert (tiling.walls.ends[bends.walls] == bends.vertices[:, None, None]).any(2).all()


@pytest.mark.parametrize("name", cases.planes())
def test_raster_holds_the_whole_fold_length(name: str) -> None:
    tiling = cases.tiling(name)
    raster = tiling.fold_raster(7)
    assert raster.values.sum() == pytest.approx(tiling.folds().lengths.sum(), rel=1e-9)
    assert (raster.values >= 0).all()
    by_layer = sum(tiling.fold_raster(7, depth=d).values for d in np.unique(tiling.folds().depths).tolist())
    np.testing.assert_allclose(by_layer, raster.values if len(tiling.folds()) else 0, atol=1e-9)


def test_raster_puts_length_where_the_folds_are() -> None:
    """Cell by cell against points laid densely along every fold."""
    tiling = cases.tiling("two layers")
    raster = tiling.fold_raster(16)
    table = tiling.folds()
    share = (np.arange(4000) + 0.5) / 4000
    points = table.segments[:, :1] + share[None, :, None] * (table.segments[:, 1:] - table.segments[:, :1])
    weights = np.repeat(table.lengths / 4000, 4000)
    expected, _, _ = np.histogram2d(
        points[..., 1].ravel(), points[..., 0].ravel(), [raster.y_edges, raster.x_edges], weights=weights
    )
    crossings = 2 * len(table)  # each segment misplaces at most one sample length at each of its grid lines
    np.testing.assert_allclose(raster.values, expected, atol=crossings * table.lengths.max() / 4000 / 16)
    np.testing.assert_allclose(raster.density * 0.25**2, raster.values, rtol=1e-12)


def test_folds_on_a_line_are_its_points() -> None:
    tiling = cases.tiling("line")
    assert len(tiling.folds()) == tiling.count - 1
    assert tiling.fold_raster(10).values.sum() == tiling.count - 1
    with pytest.raises(ss.InputError, match="2-D"):
        tiling.bends()
    assert len(cases.tiling("one layer").bends().vertices) == 0  # folds of equal layers cross unbent
