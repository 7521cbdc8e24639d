"""The tile of an input in the whole input space, against linear programs, slices and the network itself."""

import numpy as np
import pytest
import torch
from scipy.optimize import OptimizeResult
from torch import nn

import splinescope as ss
from splinescope.network.program import units_of_cuts
from splinescope.plot.space import plot_tile
from splinescope.space import polytope
from splinescope.space.tile import Tile
from splinescope.tiling.measures.margin import edge_distances

from .. import cases
from .networks import Minimum, Skip, conv, facets_by_programs, mlp, pooled, random_network, seeded

NETWORKS = {
    "2-10-8": (mlp(2, 10, 8, 2), (2,)),
    "5-12-12-12": (mlp(5, 12, 12, 12, 3), (5,)),
    "30-20-20": (mlp(30, 20, 20, 3), (30,)),
    "100-30-30": (mlp(100, 30, 30, 3), (100,)),
    "skip": (seeded(Skip), (6,)),
    "convolution": (seeded(conv), (1, 6, 6)),
    "pooled": (seeded(pooled), (1, 6, 6)),
    "minimum": (seeded(Minimum), (7,)),
}


def random_input(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def outputs(net: nn.Module, x: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return net(torch.from_numpy(x)).reshape(len(x), -1).numpy()


def same(a: Tile, b: Tile) -> bool:
    return all((p == q).all() for p, q in zip(a.pattern, b.pattern, strict=True))


@pytest.mark.parametrize("block", range(20))
def test_facets_are_those_of_a_linear_program_over_all_units(block):
    for seed in range(10 * block, 10 * (block + 1)):
        net, shape = random_network(seed)
        tile = ss.tile_at(net, random_input(shape, seed))
        once = tile._cell.members  # a program over equal rows would take each for redundant
        first = [group[0] for group in once]
        expected = facets_by_programs(tile._cell.rows.normals[first], tile._cell.rows.heights[first])
        units = [frozenset(map(tuple, tile.halfspace_units[group].tolist())) for group in once]
        found = {frozenset(facet.coincide) for facet in tile.facets}
        assert found == {group for group, is_wall in zip(units, expected, strict=True) if is_wall}
        assert tile.certainty == "exact"


def test_each_halfspace_of_a_symmetric_polytope_is_decided_by_itself():
    """Rays from its center meet several walls at once."""
    for seed in range(60):
        random = np.random.default_rng(seed)
        rows = np.unique(random.integers(-1, 2, (8, 3)), axis=0)
        normals = rows[(rows != 0).any(1)] / np.linalg.norm(rows[(rows != 0).any(1)], axis=1, keepdims=True)
        heights = random.integers(1, 3, len(normals)).astype(float)
        about = polytope.Polytope.about
        found = [about(heights, normals, np.zeros(3)).is_facet(row) for row in range(len(heights))]
        assert (found == facets_by_programs(normals, heights)).all()


@pytest.mark.parametrize("name", [name for name in cases.CASES if "1e" not in name])
def test_every_case_has_the_map_of_the_network_and_positive_halfspaces(name):
    net, view = cases.model(name), cases.view(name)
    x = view.inputs((np.random.default_rng(1).dirichlet(np.ones(len(view.domain))) @ view.domain)[None])
    tile = ss.tile_at(net, x[0])
    np.testing.assert_allclose(tile.A @ x.reshape(-1) + tile.c, outputs(net, x)[0], atol=1e-12)
    assert (tile.normals @ x.reshape(-1) + tile.offsets > 0).all()
    assert tile.contains(x).all()
    expected = facets_by_programs(tile._cell.polytope.normals, tile._cell.polytope.heights)
    assert len(tile.facets) == expected.sum()


@pytest.mark.parametrize("name", NETWORKS)
def test_the_walls_that_a_plane_through_the_input_meets_are_facets(name):
    net, shape = NETWORKS[name]
    x = random_input(shape, 3)
    tile = ss.tile_at(net, x)
    walls = {unit for facet in tile.facets for unit in facet.coincide}
    tiling = ss.tessellate(net, ss.Slice.box(x, half_width=1.0, generator=torch.Generator().manual_seed(0)))
    own = int(tiling.locate(np.zeros((1, 2)))[0])
    met = tiling.walls
    cuts = met.cuts[(met.tiles == own).any(1) & (met.cuts >= 0)]
    assert len(cuts) >= 2
    assert set(zip(*(part.tolist() for part in units_of_cuts(tiling.sites, cuts)), strict=True)) <= walls


@pytest.mark.parametrize("name", NETWORKS)
def test_the_ball_about_the_input_reaches_the_nearest_fold(name):
    net, shape = NETWORKS[name]
    x = random_input(shape, 4)
    tile = ss.tile_at(net, x)
    program = ss.trace(net, torch.from_numpy(x[None])).program()
    edge = edge_distances(program, x[None])[0]
    assert tile.radius >= edge * (1 - 1e-9)
    if name not in ("pooled", "minimum"):  # there the margin is a bound: losers that meet are no wall
        assert tile.radius == pytest.approx(edge, rel=1e-9)
    assert tile.facets[0].distance == pytest.approx(tile.radius, rel=1e-9)


@pytest.mark.parametrize("name", NETWORKS)
def test_behind_a_facet_lies_the_tile_that_the_network_has_there(name):
    """A point behind each facet is read by itself; the way back leads home."""
    net, shape = NETWORKS[name]
    home = ss.tile_at(net, random_input(shape, 5))
    for facet in home.facets[:6]:
        tile = home.across(facet)
        inside = tile._cell.space.inputs(tile._cell.center[None])
        np.testing.assert_allclose(tile.A @ inside.reshape(-1) + tile.c, outputs(net, inside)[0], atol=1e-10)
        assert same(ss.tile_at(net, inside[0]), tile)
        assert not tile.contains(home.x[None]).any()
        back = [wall for wall in tile.facets if np.allclose(wall.normal, -facet.normal, atol=1e-9)]
        assert any(same(tile.across(wall), home) for wall in back)


def test_units_that_coincide_cross_together():
    net = cases.model("duplicate units")
    tile = ss.tile_at(net, np.array([0.3, 0.2]))
    together = next(facet for facet in tile.facets if (0, 0) in facet.coincide)
    assert {(0, 0), (0, 1), (0, 2)} <= set(together.coincide)
    assert (tile.across(together).pattern[0][:3] != tile.pattern[0][:3]).all()


def test_an_input_on_a_fold_gets_a_tile_beside_it_and_the_fold_is_named():
    net = mlp(3, 5, 2)
    x = np.zeros(3)
    with torch.no_grad():
        net[0].bias[2] = 0.0
    tile = ss.tile_at(net, x)
    assert tile.on_folds == ((0, 2),)
    assert tile.radius == 0
    assert (0, 2) in {unit for facet in tile.facets for unit in facet.coincide}
    assert tile.contains(x[None]).all()
    assert "lies on 1 fold" in tile.summary()


def test_a_network_without_folds_has_one_tile_and_no_walls():
    for nearest in (None, 5):
        tile = ss.tile_at(nn.Linear(3, 2).double(), np.zeros(3), nearest=nearest)
        assert tile.facets == ()
        assert tile.radius == np.inf
        assert not tile.bounded
        assert tile.neighbors() == []
        assert len(tile.summary()) > 50


@pytest.mark.parametrize("scale", ["scale 1e8", "scale 1e-8"])
def test_scale_does_not_matter(scale):
    plain, scaled = (ss.tile_at(cases.model(name), np.array([0.4, -0.3])) for name in ("two layers", scale))
    assert len(scaled.facets) == facets_by_programs(scaled._cell.rows.normals, scaled._cell.rows.heights).sum()
    assert plain.complete


def test_the_ball_about_an_input_on_a_fold_has_radius_zero_without_a_sign() -> None:
    for seed in range(8):
        net = mlp(3, 8, 2, seed=seed)
        nn.init.zeros_(net[0].bias)
        assert "radius 0 about" in repr(ss.tile_at(net, np.zeros(3)))


def test_balls_and_boundedness_of_a_square():
    """|x| and |y| below 1: the tile of zero is a square, one of (3, 0) a half strip."""
    net = nn.Sequential(nn.Hardtanh(), nn.Linear(2, 1)).double()
    square, strip = ss.tile_at(net, np.array([0.2, 0.1])), ss.tile_at(net, np.array([3.0, 0.0]))
    assert square.radius == pytest.approx(0.8)
    center, radius = square.largest_ball
    assert radius == pytest.approx(1.0)
    np.testing.assert_allclose(center, 0.0, atol=1e-9)
    assert (square.bounded, len(square.facets)) == (True, 4)
    assert (strip.bounded, len(strip.facets)) == (False, 3)
    assert [facet.distance for facet in strip.facets] == pytest.approx([1.0, 1.0, 2.0])


def test_a_facet_may_be_farther_than_its_hyperplane():
    """A wedge with x near one end: the far side's plane passes nearby, the facet does not."""
    for seed in range(3):
        tile = ss.tile_at(mlp(2, 10, 10, 2), random_input((2,), seed))
        for facet in tile.facets:
            assert facet.distance >= facet.plane_distance - 1e-9
            moved = facet.nearest[None]
            assert tile.contains(moved).all()
            assert np.linalg.norm(facet.nearest - tile.x) == pytest.approx(facet.distance)
            assert abs(float((facet.nearest - facet.point) @ facet.normal)) < 1e-9


def test_a_softmax_at_the_end_is_no_part_of_the_map_and_the_summary_says_so():
    net, x = mlp(3, 4, 2), np.zeros(3)
    bare, ended = ss.tile_at(net, x), ss.tile_at(nn.Sequential(net, nn.Softmax(1)), x)
    np.testing.assert_array_equal(ended.c, bare.c)
    assert ("before the softmax" in ended.summary(), "before the" in bare.summary()) == (True, False)


def test_a_box_cuts_the_tile_and_its_sides_are_facets():
    net = mlp(3, 4, 2)
    x = np.array([0.0, 0.5, 1.0])  # on two sides
    tile = ss.tile_at(net, x, box=(0, 1))
    assert tile.bounded
    assert tile.largest_ball[1] <= 0.5
    assert {facet.unit for facet in tile.facets if facet.site == -1} <= {0, 1, 2}
    sides = sum(facet.site == -1 for facet in tile.facets)
    np.testing.assert_allclose(tile.layer_shares(), np.array([len(tile.facets) - sides, sides]) / len(tile.facets))
    assert f"sides of the box  6      {sides} " in tile.summary()
    expected = facets_by_programs(tile._cell.polytope.normals, tile._cell.polytope.heights)
    assert len(tile.facets) == expected.sum()
    with pytest.raises(ss.InputError, match="side of the box"):
        tile.across(next(facet for facet in tile.facets if facet.site == -1))


def test_a_limit_leaves_some_halfspaces_undecided_and_says_so():
    tile = ss.tile_at(mlp(30, 20, 20, 3), random_input((30,), 0), time_limit=1e-9)
    whole = ss.tile_at(mlp(30, 20, 20, 3), random_input((30,), 0))
    assert not tile.complete
    assert tile.certainty == "bound"
    assert tile.undecided > 0
    units = {facet.coincide for facet in tile.facets}
    assert units < {facet.coincide for facet in whole.facets}
    assert "undecided" in tile.summary()
    assert tile.radius == whole.radius


def test_nothing_is_told_where_more_folds_pass_through_the_input_than_are_kept():
    net = mlp(3, 6, 2)
    with torch.no_grad():
        net[0].bias.zero_()
    few, more, whole = (ss.tile_at(net, np.zeros(3), nearest=count) for count in (3, 6, None))
    assert len(few.on_folds) == 6
    assert (few.reach, few.facets, few.complete) == (0.0, (), False)
    assert (more.reach, more.complete) == (np.inf, True)
    assert {facet.coincide for facet in more.facets} == {facet.coincide for facet in whole.facets}


def test_a_batch_of_one_is_one_input_and_of_two_is_refused():
    image = random_input((1, 6, 6), 0)
    for net, x in ((seeded(conv), image), (mlp(3, 4, 2), image[0, 0, :3])):
        tile, row = ss.tile_at(net, x), ss.tile_at(net, x[None])
        assert row.x.shape == tile.x.shape == x.shape
        assert row.radius == tile.radius
        assert tile.contains(x[None][:0]).shape == (0,)  # of no inputs none lies in it
    with pytest.raises(ss.InputError, match="one input, got 2 rows"):
        ss.tile_at(mlp(3, 4, 2), np.zeros((2, 3)))


@pytest.mark.parametrize("name", ["30-20-20", "convolution", "pooled", "minimum"])
def test_the_nearest_halfspaces_tell_all_facets_within_their_reach(name):
    net, shape = NETWORKS[name]
    x = random_input(shape, 6)
    whole, near = ss.tile_at(net, x), ss.tile_at(net, x, nearest=6)
    assert near.certainty == "bound"
    assert near.radius == pytest.approx(whole.radius)
    assert near.reach == pytest.approx(np.sort(whole.normals @ x.reshape(-1) + whole.offsets)[6])
    expected = {facet.coincide: facet.distance for facet in whole.facets if facet.distance < (1 - 1e-9) * near.reach}
    found = {facet.coincide: facet.distance for facet in near.facets}
    assert found == pytest.approx(expected)
    np.testing.assert_allclose(near.A, whole.A, atol=1e-12)
    np.testing.assert_allclose(near.c, whole.c, atol=1e-12)
    ways = np.random.default_rng(0).standard_normal((50, *shape))
    inside = near.contains(x + 0.3 * near.reach * ways)
    assert (whole.contains(x + 0.3 * near.reach * ways) >= inside).all()
    assert "were left out" in near.summary()
    all_of_it = ss.tile_at(net, x, nearest=10**6)
    assert all_of_it.certainty == "exact"
    assert {facet.coincide for facet in all_of_it.facets} == {facet.coincide for facet in whole.facets}


def test_a_program_that_the_solver_gives_up_is_no_answer(monkeypatch):
    """HiGHS loses its way in one of some thousands: that is neither an empty set nor one without bound."""
    tried = []

    def lost(*args, method, **kwargs):
        tried.append(method)
        return OptimizeResult(status=4, success=False, x=None, message="lost")

    tile = ss.tile_at(mlp(3, 8, 2), np.zeros(3))
    monkeypatch.setattr(polytope, "linprog", lost)
    with pytest.raises(ss.SplinescopeError, match="lost"):
        _ = tile.largest_ball
    assert tried == ["highs", "highs-ipm"]


NET, ZERO = mlp(3, 4, 2), np.zeros(3)
OWN = ss.tile_at(NET, ZERO)
WRONG = {
    "box must hold x": lambda: ss.tile_at(NET, ZERO, box=(0.5, 1)),
    r"one input of shape \(3,\), got \(4,\)": lambda: ss.tile_at(ss.trace(NET, torch.zeros(1, 3)), np.zeros(4)),
    "x must be finite": lambda: ss.tile_at(NET, np.array([0.0, np.nan, 1.0])),
    "x must be numbers .*, got complex numbers": lambda: OWN.contains(np.zeros((1, 3), complex)),
    r"x must have shape \(N, 3\)": lambda: OWN.contains(ZERO),
    "one of this tile's own facets": lambda: OWN.across(ss.tile_at(NET, ZERO).facets[0]),
    r"facet must be in \[0, 4\), got 'a'": lambda: OWN.across("a"),
    "b must be numbers": lambda: ss.space.walk(NET, ZERO, "b"),
    "hops or radius, not both": lambda: ss.space.explore(NET, ZERO, hops=1, radius=1.0),
    "hops must be a whole number >= 1, got -1": lambda: ss.space.explore(NET, ZERO, hops=-1),
    r"tile must be in \[0, 2\), got 2": lambda: ss.space.explore(NET, ZERO, max_tiles=2).tile(2),
    "radius must be a positive number, got 'x'": lambda: ss.space.tiles_in_ball(NET, ZERO, "x"),
    "norm must be 2 or math.inf": lambda: ss.space.tiles_in_ball(NET, ZERO, 1.0, norm=np.ones(2)),
    r"shape \(N, \*input_shape\)": lambda: ss.space.boundary_distance(NET, ZERO),
    "model must be a torch.nn.Module": lambda: ss.space.boundary_distance("a", np.zeros((0, 3))),
    "workers must be a whole number": lambda: ss.space.boundary_distance(NET, np.zeros((0, 3)), workers="a"),
}


@pytest.mark.parametrize("says", WRONG)
def test_wrong_input_is_refused_by_name(says):
    with pytest.raises(ss.InputError, match=says):
        WRONG[says]()


def test_pictures_show_walls_by_site_and_changes_of_images():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    ax = ss.tile_at(mlp(3, 5, 2), np.zeros(3)).plot()
    assert ax.get_ylabel() == "distance from x"
    ax = ss.tile_at(seeded(conv), random_input((1, 6, 6), 0)).plot(count=3)
    assert len(ax.images) == 4
    with pytest.raises(ss.InputError, match="tile must be"):
        plot_tile(None)
    matplotlib.pyplot.close("all")
