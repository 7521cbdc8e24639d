"""Tiles about an input: counts against arrangements, tilings of boxes and brute force; ways between inputs."""

import itertools
import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy.optimize import OptimizeResult, nnls
from torch import nn

import splinescope as ss
from splinescope.space import polytope
from splinescope.space.cell import cell_at
from splinescope.space.search import Tiles, by_hops
from splinescope.tiling.engine.time_limit import Clock
from splinescope.tiling.measures.region_counts import zaslavsky

from .. import cases
from .networks import conv, mlp, pooled, seeded


def box_tiling(net: nn.Module, center: np.ndarray, half_width: float) -> ss.Tiling:
    low, high = center - half_width, center + half_width
    return ss.tessellate(net, ss.Slice.axes(np.zeros(len(center)), range(len(center)), low, high))


def ball_count(net: nn.Module, center: np.ndarray, radius: float) -> int:
    """Tiles of the cube about a ball that the ball meets, by the distances of their corners' hulls."""
    tiling = box_tiling(net, center, 1.001 * radius)
    tiles = tiling.tiles.some(np.arange(tiling.count))
    found = 0
    for corners in np.split(tiling.vertices[tiles.corners], tiles.offsets[1:-1]):
        rows = np.vstack([(corners - center).T, np.full(len(corners), 100.0)])  # weights that add up to 1
        weights = nnls(rows, np.append(np.zeros(len(center)), 100.0))[0]
        found += bool(np.linalg.norm((weights / weights.sum()) @ (corners - center)) < radius)
    return found


class Saturated(nn.Module):
    """The largest of clamped values: where all saturate, the max compares constants that differ by rounding."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        values = (2 * self.layer(x)).clamp(-0.3, 0.7)
        return torch.cat([values.amax(1, keepdim=True), values], 1)


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_a_max_of_saturated_units_has_no_walls_of_rounding(seed):
    torch.manual_seed(seed)
    net = Saturated().double()
    found = ss.space.explore(net, np.full(2, 0.1))
    assert found.complete
    assert found.count == box_tiling(net, np.zeros(2), 900.0).count
    nearest = ss.tile_at(net, np.full(2, 300.0), nearest=1000)
    assert len(nearest.facets) == len(ss.tile_at(net, np.full(2, 300.0)).facets)


@pytest.mark.parametrize(("inputs", "units"), [(1, 4), (2, 5), (3, 6), (4, 5)])
def test_a_generic_layer_has_as_many_tiles_as_an_arrangement(inputs, units):
    found = ss.space.explore(mlp(inputs, units, 1), np.zeros(inputs))
    assert found.count == zaslavsky(units, inputs)
    assert found.complete


@pytest.mark.parametrize(("widths", "count"), [((4, 8, 1), 163), ((3, 6, 6, 1), 232)])
def test_all_of_space_has_as_many_tiles_as_relucent_finds(widths, count):
    """What relucent 1.0 counts for these networks (benchmarks/space.py); starts differ, the count does not."""
    for seed in range(2):
        x = np.random.default_rng(seed).standard_normal(widths[0])
        assert ss.space.explore(mlp(*widths), x).count == count


def test_an_input_too_far_from_all_folds_is_refused_rather_than_miscounted():
    net = mlp(3, 5, 4, 2)
    for scale in (1.0, 1e5):
        assert ss.space.explore(net, np.full(3, scale)).count == 110
    for scale in (1e8, 1e200):  # from the last two the bounded tiles would be lost
        with pytest.raises(ss.InputError, match="nearer to the folds"):
            ss.space.explore(net, np.full(3, scale))


def test_without_biases_no_input_is_too_far():
    net = mlp(3, 5, 4, 2)
    for layer in net[::2]:
        nn.init.zeros_(layer.bias)
    assert ss.space.explore(net, np.full(3, 1e12)).count == ss.space.explore(net, np.ones(3)).count


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_space_may_be_of_any_size(scale):
    """A single plane bounds tiles without any other wall to tell how far their inner points should lie."""
    for units in (1, 3):
        net = mlp(2, units, 1)
        with torch.no_grad():
            net[0].weight /= scale
        assert ss.space.explore(net, np.full(2, 0.1 * scale)).count == zaslavsky(units, 2)


@pytest.mark.parametrize(("inputs", "units"), [(3, 7), (5, 6)])
def test_parallel_planes_are_counted_by_deletion_and_restriction(inputs, units):
    """Three planes of a generic arrangement are parallel: each adds the cells of the others on it."""
    net = mlp(inputs, units, 1)
    with torch.no_grad():
        net[0].weight[1:3] = net[0].weight[0]
        net[0].bias[:3] = torch.tensor([-1.0, 0.5, 2.0])
    rest = units - 3
    expected = zaslavsky(rest, inputs) + 3 * zaslavsky(rest, inputs - 1)
    assert ss.space.explore(net, np.zeros(inputs)).count == expected


@pytest.mark.parametrize("name", ["residual", "dead units",
                                  "duplicate units", "zero bias", "bounded", "corner on a fold"])  # fmt: skip
def test_all_of_space_has_the_tiles_of_a_box_that_holds_all_vertices(name):
    net = cases.model(name)
    assert ss.space.explore(net, np.array([0.31, -0.17])).count == box_tiling(net, np.zeros(2), 1e4).count


def test_a_graph_has_every_facet_once_and_hops_are_distances_in_it():
    networkx = pytest.importorskip("networkx")
    found = ss.space.explore(mlp(2, 6, 5, 2), np.zeros(2))
    graph = found.to_networkx()
    lengths = networkx.single_source_shortest_path_length(graph, 0)
    assert [lengths[i] for i in range(found.count)] == found.hops.tolist()
    degrees = [len(found.tile(i).facets) for i in range(found.count)]
    assert degrees == [graph.degree[i] for i in range(found.count)]
    for (a, b), (site, unit) in zip(found.edges.tolist(), found.edge_units.tolist(), strict=True):
        assert found.pattern(a)[site][unit] != found.pattern(b)[site][unit]


def test_hops_reach_the_neighbors_and_their_neighbors():
    net = mlp(6, 8, 6, 2)
    tile = ss.tile_at(net, np.full(6, 0.1))
    one, two = (ss.space.explore(net, np.full(6, 0.1), hops=hops) for hops in (1, 2))
    assert one.count == 1 + len(tile.facets)
    patterns = {tuple(np.concatenate(t.pattern).tolist()) for n in tile.neighbors() for t in (n, *n.neighbors())}
    assert two.count == len(patterns)
    assert np.bincount(two.hops)[1] == len(tile.facets)


@pytest.mark.parametrize(("inputs", "radius"), [(2, 1.0), (3, 0.6), (4, 0.4)])
def test_a_cube_meets_as_many_tiles_as_its_tiling_has(inputs, radius):
    net = mlp(inputs, 8, 6, 2)
    x = np.full(inputs, 0.05)
    found = ss.space.tiles_in_ball(net, x, radius, norm=math.inf)
    assert found.tiles == box_tiling(net, x, radius).count
    assert found.certainty == "exact"


@pytest.mark.parametrize("inputs", [2, 3, 4, 6])
def test_a_ball_meets_the_tiles_of_its_cube_that_are_near_enough(inputs):
    net = mlp(inputs, 7, 5, 2)
    x = np.full(inputs, 0.2)
    found = ss.space.tiles_in_ball(net, x, 0.4)
    assert found.tiles == ball_count(net, x, 0.4)
    assert found.least <= found.tiles
    assert found.tiles == ss.space.explore(net, x, radius=0.4).count


@pytest.mark.parametrize("norm", [2, math.inf])
def test_a_tile_that_only_touches_the_open_ball_is_a_tie_and_not_in_it(norm):
    """Lines a x + b y = c with whole numbers: each that meets a convex open set adds a tile, and so does each crossing
    there once for every line but the first."""
    net, tied = mlp(2, 5, 1), 0
    for seed in range(12):
        rows = np.random.default_rng(seed).integers(-2, 3, (5, 3)).tolist()
        with torch.no_grad():
            net[0].weight.copy_(torch.tensor(rows)[:, :2])
            net[0].bias.copy_(torch.tensor(rows)[:, 2])
        lines = {tuple(Fraction(v, a or b) for v in (a, b, -c)) for a, b, c in rows if a or b}
        sizes = [c**2 / (a * a + b * b if norm == 2 else (abs(a) + abs(b)) ** 2) for a, b, c in lines]
        met = {}
        for (a, b, c), (d, e, f) in itertools.combinations(lines, 2):
            if a * e != b * d:
                x, y = (c * e - b * f) / (a * e - b * d), (a * f - c * d) / (a * e - b * d)
                met.setdefault((x, y), set()).update([(a, b, c), (d, e, f)])
        for (x, y), through in met.items():
            sizes += [x * x + y * y if norm == 2 else max(abs(x), abs(y)) ** 2] * (len(through) - 1)
        for radius in (1, 2):
            found = ss.space.tiles_in_ball(net, np.zeros(2), radius, norm=norm)
            at_edge = any(size == radius**2 for size in sizes)
            assert found.tiles == 1 + sum(size < radius**2 for size in sizes)
            assert (found.ties > 0, found.certainty) == (at_edge, "bound" if at_edge else "exact")
            assert ("at its edge, within rounding" in found.summary()) == at_edge
            if norm == 2:
                graph = ss.space.explore(net, np.zeros(2), radius=radius)
                assert (graph.count, graph.ties, graph.certainty) == (found.tiles, found.ties, found.certainty)
            tied += at_edge
    assert tied > 5


@pytest.mark.parametrize("make", [conv, pooled])
def test_tiles_of_images_are_met_once_each_and_are_those_of_the_network(make):
    """Each tile's own inner point has that tile; and samples see no others."""
    net, x = seeded(make), np.random.default_rng(1).standard_normal((1, 6, 6))
    found = ss.space.explore(net, x, radius=0.1)
    assert found.count > 5
    assert (np.diff(found.distances) >= -1e-12).all()
    for tile in range(found.count):
        cell = found._tiles[tile]
        own = ss.tile_at(net, cell.space.inputs(cell.center[None])[0], time_limit=1e-9)
        assert all((p == q).all() for p, q in zip(own.pattern, found.pattern(tile), strict=True))


def test_limits_give_a_lower_bound_and_say_so():
    net = mlp(10, 12, 12, 2)
    whole = ss.space.tiles_in_ball(net, np.zeros(10), 0.25)
    some = ss.space.tiles_in_ball(net, np.zeros(10), 0.25, max_tiles=5)
    assert (some.tiles, some.certainty, some.complete) == (5, "bound", False)
    assert whole.tiles > 5
    assert "at least 5 tiles. Stopped: max_tiles=5 reached." in some.summary()
    graph = ss.space.explore(net, np.zeros(10), max_tiles=7)
    assert (graph.count, graph.certainty) == (7, "bound")
    assert len(graph.edges) >= 6
    none = ss.space.explore(net, np.zeros(10), time_limit=1e-9)
    assert (none.count, none.complete, none.stopped) == (1, False, "time_limit=1e-09 s reached.")


@pytest.mark.parametrize(("law", "limit", "late"), [("solve", {"hops": 2}, 3), ("is_facet", {"radius": 1.0}, 20)])
def test_a_tile_too_thin_for_float64_ends_a_search_with_what_is_proven(monkeypatch, law, limit, late):
    net, x, asked, own = mlp(4, 12, 12, 3), np.full(4, 0.1), itertools.count(), getattr(polytope.Polytope, law)

    def thin(self, *given):
        if next(asked) == late:
            raise polytope.UnresolvedError("too thin.")
        return own(self, *given)

    whole = ss.space.explore(net, x, **limit)
    monkeypatch.setattr(polytope.Polytope, law, thin)
    found = ss.space.explore(net, x, **limit)
    assert (found.certainty, "Stopped: too thin." in found.summary()) == ("bound", True)
    assert 1 < found.count < whole.count
    assert len(found.edges) >= found.count - 1


def test_a_linear_program_takes_no_longer_than_the_time_that_is_left(monkeypatch):
    net, x, now = mlp(12, 20, 20, 3), np.zeros(12), [0.0]

    def slow(*args, options, **kwargs):
        now[0] += options["time_limit"] + 1e-9
        return OptimizeResult(status=1)

    monkeypatch.setattr(Clock, "now", staticmethod(lambda: now[0]))
    monkeypatch.setattr(polytope, "linprog", slow)
    ball = ss.space.tiles_in_ball(net, x, 0.5, norm=np.inf, time_limit=1.0)
    assert (ball.stopped, ball.certainty, round(now[0], 6)) == ("time_limit=1.0 s reached.", "bound", 1.0)
    found = ss.space.boundary_distance(net, x[None], norm=np.inf, time_limit=1.0)
    assert (0 <= found.lower[0] < found.upper[0], round(now[0], 6)) == (True, 2.0)


def test_what_a_process_loads_once_is_no_part_of_a_time_limit(monkeypatch):
    now, net, x = [0.0], mlp(3, 5, 2), np.zeros(3)
    monkeypatch.setattr(Clock, "now", staticmethod(lambda: now[0]))
    monkeypatch.setattr("splinescope.space.tile.load_once", lambda: now.append(now.pop() + 100.0))
    assert ss.tile_at(net, x, time_limit=1.0).complete
    assert ss.space.explore(net, x, time_limit=1.0).complete
    assert ss.space.boundary_distance(net, x[None], time_limit=1.0).exact.all()
    assert now == [300.0]


def test_no_kernel_is_compiled_within_a_time_limit():
    """In a new process: after `load_once`, searches and attacks add no signature to any compiled function."""
    code = """if True:
        import gc, math
        import numba, numpy as np, torch
        import splinescope as ss
        from splinescope.space.search import load_once
        from tests.space.networks import mlp, pooled

        def known():
            kernels = [f for f in gc.get_objects() if isinstance(f, numba.core.dispatcher.Dispatcher)]
            return {f.__name__: len(f.signatures) for f in kernels}

        load_once()
        before = known()
        for net, x in ((mlp(20, 30, 30, 3), np.zeros(20)), (pooled(), np.ones((1, 6, 6)))):
            ss.tile_at(net, x, time_limit=0.1)
            ss.tile_at(net, x, nearest=5, time_limit=0.1)
            for norm in (2, math.inf):
                ss.space.tiles_in_ball(net, x, 0.3, norm=norm, time_limit=0.1)
                ss.space.boundary_distance(net, x[None], norm=norm, time_limit=0.1)
        assert len(before) > 10 and known() == before, {k: v for k, v in known().items() if v != before.get(k)}
    """
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_straight_way_crosses_the_walls_of_the_line_tiling():
    net = mlp(6, 10, 8, 3)
    a, b = np.random.default_rng(0).standard_normal((2, 6))
    way = ss.space.walk(net, a, b)
    line = ss.tessellate(net, ss.Slice.segment(a, b))
    assert len(way.times) == line.count - 1
    places = np.sort(line.vertices[:, 0])
    np.testing.assert_allclose(way.times, places[1:-1] / places[-1], atol=1e-9)
    assert way.at_least <= len(way.shortest) <= len(way.times)


@pytest.mark.parametrize("seed", range(4))
def test_a_longer_way_crosses_the_same_folds_or_is_refused(seed):
    net, a = mlp(4, 8, 6, 3, seed=seed), np.array([0.1, 0.2, -0.3, 0.4])
    far, farther = (ss.space.walk(net, a, length * np.array([-1.0, -2.0, 3.0, -4.5]), max_tiles=1)
                    for length in (1e6, 1e11))  # fmt: skip
    assert far.crossings == farther.crossings
    for length in (1e14, 1e300):
        with pytest.raises(ss.InputError, match="b is too far away"):
            ss.space.walk(net, a, np.full(4, length))


def test_a_shortest_way_is_a_shortest_path_of_the_whole_graph():
    networkx = pytest.importorskip("networkx")
    net = mlp(2, 6, 6, 2, seed=3)
    graph = ss.space.explore(net, np.array([-4.0, -3.0]))
    for end in np.random.default_rng(0).standard_normal((4, 2)) * 3:
        way = ss.space.walk(net, np.array([-4.0, -3.0]), end)
        goal = ss.tile_at(net, end)
        number = next(i for i in range(graph.count)
                      if all((p == q).all() for p, q in zip(graph.pattern(i), goal.pattern, strict=True)))  # fmt: skip
        assert way.certainty == "exact"
        assert len(way.shortest) == networkx.shortest_path_length(graph.to_networkx(), 0, number)


def test_a_ball_cut_short_claims_no_upper_bound_and_coinciding_folds_no_lower_one() -> None:
    net = mlp(3, 8, 6, 2)
    some, every = (ss.space.tiles_in_ball(net, np.zeros(3), 5.0, max_tiles=most) for most in (5, None))
    assert every.tiles > some.most
    assert every.folds > some.folds
    assert "at most" not in some.summary()
    assert f"At least {some.folds} of 14 folds" in some.summary()
    twice = mlp(2, 2, 1)
    with torch.no_grad():
        twice[0].weight[1], twice[0].bias[1] = -twice[0].weight[0], -twice[0].bias[0]
    ball = ss.space.tiles_in_ball(twice, np.zeros(2), 50.0)
    assert (ball.tiles, ball.folds) == (2, 2)
    assert "at least 3 tiles if no two coincide" in ball.summary()


def test_a_limit_is_seen_while_one_tile_is_read(monkeypatch):
    """The facets of one tile among many units in hundreds of dimensions take longer than any limit."""
    monkeypatch.setattr(polytope, "_AT_ONCE", 1)
    torch.manual_seed(0)
    network = ss.trace(nn.Sequential(nn.Linear(2, 60), nn.ReLU(), nn.Linear(60, 1)), torch.zeros(2, 2))
    tiles, asked = Tiles(cell_at(network.program(), np.zeros(2))), itertools.count()
    list(by_hops(tiles, lambda: next(asked) > 0))
    assert (tiles[0].polytope.state < 0).any()
    tiles[0].walls()
    assert (tiles[0].polytope.state >= 0).all()
