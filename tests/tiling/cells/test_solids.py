"""Tilings of three and more dimensions."""

from collections.abc import Callable
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import splinescope as ss
from splinescope.tiling.measures.differentiate import cuts

from .cell_reference import reference_cells


def plain_mlp(*widths: int) -> nn.Sequential:
    """Linear and ReLU layers with torch's own weights for seed 0, in float64."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1]).double()


def cube(dimension: int, half: float) -> ss.Slice:
    return ss.Slice.axes(np.zeros(dimension), tuple(range(dimension)), -half, half)


KNOWN = {
    (2, 20, 20, 20, 1): (3.0, 1109, 1171),
    (3, 16, 16, 16, 1): (1.0, 1373, 1812),
    (3, 20, 20, 20, 1): (3.0, 18259, 20186),
    (4, 16, 16, 1): (1.0, 6658, 10435),
    (5, 8, 8, 1): (1.0, 634, 2732),
}


@pytest.mark.parametrize("widths", KNOWN, ids=lambda w: "-".join(map(str, w)))
def test_counts_are_those_of_an_independent_computation(widths: tuple[int, ...]) -> None:
    half, cells, vertices = KNOWN[widths]
    tiling = ss.tessellate(plain_mlp(*widths), cube(widths[0], half))
    assert (tiling.count, len(tiling.vertices)) == (cells, vertices)


@pytest.mark.parametrize(("n", "d"), [(7, 3), (8, 4), (7, 5)])
def test_generic_hyperplanes_make_zaslavskys_number_of_cells(n: int, d: int) -> None:
    net = plain_mlp(d, n, 1)
    tiling = ss.tessellate(net, cube(d, 1e4))  # large enough that all meet inside
    assert tiling.count == ss.tiling.zaslavsky(n, d)
    assert tiling.check().ok


def _scaled(net: nn.Sequential, change: Callable[[nn.Linear], None]) -> nn.Sequential:
    with torch.no_grad():
        for layer in net[::2]:
            change(layer)
    return net


def _whole_numbers(layer: nn.Linear) -> None:
    layer.weight.copy_((4 * layer.weight).round())
    layer.bias.copy_((2 * layer.bias).round())


def _duplicate(layer: nn.Linear) -> None:
    if len(layer.weight) > 2:
        layer.weight[1], layer.bias[1] = layer.weight[0], layer.bias[0]
        layer.weight[2], layer.bias[2] = -3 * layer.weight[0], -3 * layer.bias[0]


def _along_edges(layer: nn.Linear) -> None:
    """Folds on faces of the cube, through its edges and corners, and through its center."""
    if layer.out_features == 5:
        d = layer.in_features
        layer.weight.zero_()
        layer.bias.zero_()
        layer.weight[0, 0], layer.bias[0] = 1.0, 1.0
        layer.weight[1, :2] = torch.tensor([1.0, -1.0])
        layer.weight[2, :2] = torch.tensor([1.0, 1.0])
        layer.weight[3], layer.bias[3] = 1.0, d - 1.0
        layer.weight[4], layer.bias[4] = torch.tensor([1.0, -2.0, 1.0, 0.5][:d]), 0.0


SMALL: dict[str, Callable[[int], nn.Sequential]] = {
    "generic": lambda d: plain_mlp(d, 5, 4, 1),
    "zero bias": lambda d: _scaled(plain_mlp(d, 5, 4, 1), lambda layer: layer.bias.zero_()),
    "duplicated units": lambda d: _scaled(plain_mlp(d, 6, 4, 1), _duplicate),
    "whole numbers": lambda d: _scaled(plain_mlp(d, 6, 5, 1), _whole_numbers),
    "along the cube's edges": lambda d: _scaled(plain_mlp(d, 5, 4, 1), _along_edges),
}


@pytest.mark.parametrize("d", [3, 4])
@pytest.mark.parametrize("name", SMALL)
def test_equal_to_rational_arithmetic(name: str, d: int) -> None:
    net = SMALL[name](d)
    tiling = ss.tessellate(net, cube(d, 1.0))
    exact = reference_cells(net, 1.0, exact=True)
    expected = [np.array([[float(x) for x in v.point] for v, _ in cell]) for cell in exact]
    found = [tiling.tile(i) for i in range(tiling.count)]
    assert len(found) == len(expected)
    assert len(tiling.vertices) == len({v.point for cell in exact for v, _ in cell})
    key = lambda points: tuple(np.round(points.mean(0), 9))  # noqa: E731
    for a, b in zip(sorted(found, key=key), sorted(expected, key=key), strict=True):
        assert len(a) == len(b)
        order_a, order_b = (np.lexsort(np.round(points, 9).T) for points in (a, b))
        assert np.abs(a[order_a] - b[order_b]).max() < 1e-12  # a few roundings of numbers of order one
    assert tiling.check().ok, str(tiling.check())


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter, self.block, self.leave = nn.Linear(3, 6), nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        return self.leave(x + torch.relu(self.block(x)))


def _image_space(d: int) -> ss.Slice:
    return ss.Slice.box(np.zeros((1, 6, 6)), d, 2.0, generator=torch.Generator().manual_seed(1))


STRUCTURED: dict[str, tuple[Callable[[], nn.Module], ss.Slice]] = {
    "plain": (
        lambda: nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)),
        cube(3, 2),
    ),
    "residual": (Residual, cube(3, 2.0)),
    "convolution": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 4), nn.ReLU(), nn.Linear(4, 3)
        ),
        _image_space(3),
    ),
    "max-pool": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 2, 3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 3)
        ),
        _image_space(3),
    ),
    "max-pool in 4-D": (
        lambda: nn.Sequential(nn.Conv2d(1, 1, 3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4, 3)),
        _image_space(4),
    ),
    "a simplex through four images": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(36, 9), nn.ReLU(), nn.Linear(9, 3)),
        ss.Slice.through(*np.random.default_rng(0).normal(size=(4, 1, 6, 6)), pad=0.2, shape="simplex"),
    ),
    "a hull of points": (
        Residual,
        ss.Slice([0.1, 0.2, 0.3], np.eye(3) + 0.2, np.random.default_rng(0).normal(size=(40, 3))),
    ),
}


@cache
def structured(name: str) -> ss.Tiling:
    make, view = STRUCTURED[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return ss.tessellate(make().double().eval(), view)


def inside(view: ss.Slice, count: int) -> np.ndarray:
    """Random points of a slice's domain."""
    return np.random.default_rng(1).dirichlet(np.ones(len(view.domain)), count) @ view.domain


@pytest.mark.parametrize("name", STRUCTURED)
def test_structured_networks_pass_every_check(name: str) -> None:
    report = structured(name).check()
    assert report.ok
    assert not report.skipped
    assert "neighbors on average" in report.noted[0]


@pytest.mark.parametrize("name", STRUCTURED)
def test_the_map_of_a_located_tile_is_the_network_there(name: str) -> None:
    tiling = structured(name)
    points = inside(tiling.view, 2000)
    tiles = tiling.locate(points)
    assert (tiles >= 0).all()
    affine = np.einsum("kcd,kd->kc", tiling.slopes()[tiles], points) + tiling.offsets()[tiles]
    assert np.abs(affine - tiling.outputs(points)).max() < 1e-9
    assert np.array_equal(tiling.locate(tiling.centroids()), np.arange(tiling.count))
    assert (tiling.locate(tiling.view.domain.max(0) + np.eye(tiling.dimension)) == -1).all()


def test_walls_know_their_tiles_units_and_areas() -> None:
    tiling = structured("plain")
    walls = tiling.walls
    sizes = walls.sizes(tiling.vertices)
    outer = walls.cuts < 0
    assert sizes[outer].sum() == pytest.approx(6 * 16.0)  # the cube's surface
    assert ((walls.tiles >= 0).all(1) == ~outer).all()
    program = tiling.program("cuts")
    x = torch.from_numpy(tiling.view.inputs(walls.centers))
    z = np.concatenate([c.detach().numpy() for _, c in cuts(program, x)], 1)
    assert np.abs(z[np.flatnonzero(~outer), walls.cuts[~outer]]).max() < 1e-12
    closed = np.zeros((tiling.count, 3))  # the outward areas of a closed surface sum to zero
    np.add.at(closed, walls.tiles[:, 0], walls.vectors)
    np.add.at(closed, walls.tiles[~outer, 1], -walls.vectors[~outer])
    assert np.abs(closed).max() < 1e-12
    assert tiling.folds().lengths.sum() == pytest.approx(sizes[~outer].sum())


def test_facets_of_a_cube_are_counted_in_every_dimension() -> None:
    for d in (3, 4, 5):
        tiling = ss.tessellate(nn.Linear(d, 1).double(), cube(d, 1.0))
        assert len(tiling.walls) == 2 * d
        assert ("8 - 12 + 6 - 1 = 1" in str(tiling.check())) == (d == 3)
        assert tiling.areas == pytest.approx([2.0**d])
        assert tiling.walls.sizes(tiling.vertices) == pytest.approx(2.0 ** (d - 1))


def test_chunks_and_threads_change_no_bit() -> None:
    net = plain_mlp(3, 16, 16, 1)
    whole = ss.tessellate(net, cube(3, 1.0), threads=1)
    parts = ss.tessellate(net, cube(3, 1.0), threads=2, chunk_bytes=20_000)
    for name in ("vertices", "values", "corner_labels"):
        assert np.array_equal(getattr(whole, name), getattr(parts, name))
    for name in ("offsets", "corners", "facet_bits", "facet_offsets"):
        assert np.array_equal(getattr(whole.tiles, name), getattr(parts.tiles, name))


def test_more_facets_than_a_word_holds() -> None:
    """A ball cut out by 150 random folds around it, and by nothing else."""
    torch.manual_seed(0)
    directions = torch.nn.functional.normalize(torch.randn(150, 3, dtype=torch.float64), dim=1)
    net = nn.Sequential(nn.Linear(3, 150), nn.ReLU(), nn.Linear(150, 1)).double()
    with torch.no_grad():
        net[0].weight.copy_(directions)
        net[0].bias.fill_(-1.0)
    tiling = ss.tessellate(net, cube(3, 1.2))
    ball = int(tiling.locate([[0.0, 0.0, 0.0]])[0])
    assert tiling.sides[ball] > 64
    assert tiling.areas[ball] == pytest.approx(4 / 3 * np.pi, rel=0.1)
    assert tiling.check().ok


def test_counts_by_depth_grow() -> None:
    tiling = structured("plain")
    counts = tiling.counts_by_depth()
    assert counts[2] == tiling.count
    assert counts[0] == 1 < counts[1] < counts[2]
    assert counts[1] <= ss.tiling.zaslavsky(8, 3)


def test_a_saved_solid_comes_back(tmp_path) -> None:  # type: ignore[no-untyped-def]
    tiling = structured("residual")
    tiling.save(tmp_path / "t.tiling")
    back = ss.load_tiling(tmp_path / "t.tiling", tiling.network)
    assert back.check().ok
    assert np.array_equal(back.tiles.facet_bits, tiling.tiles.facet_bits)
    assert np.array_equal(back.walls.tiles, tiling.walls.tiles)
    assert np.array_equal(back.areas, tiling.areas)


def test_a_solid_without_its_facets_is_refused(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from splinescope.support.archive import write_archive
    from splinescope.tiling.files import storage

    tiling = structured("residual")
    arrays = storage.mesh_arrays(tiling) | storage.slice_arrays(tiling.view)
    header = storage.tiling_header(tiling)
    damages = {
        "missing": {k: v for k, v in arrays.items() if k != "facet_bits"},
        "no corners": {**arrays, "facet_bits": np.zeros_like(arrays["facet_bits"])},
        "offsets": {**arrays, "facet_offsets": arrays["facet_offsets"][:-1]},
        "outside": {**arrays, "vertices": arrays["vertices"] + 5.0},
    }
    for name, damaged in damages.items():
        write_archive(tmp_path / name, storage.KIND, damaged, header)
        with pytest.raises(ss.FileFormatError, match=r"damaged|missing"):
            ss.load_tiling(tmp_path / name)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ss.Slice(np.zeros(3), np.eye(3), np.zeros((5, 3))), "positive volume"),
        (lambda: ss.Slice(np.zeros(3), np.eye(3), np.eye(3)), "at least 4 points"),
        (lambda: ss.Slice(np.zeros(9), np.eye(9), np.eye(9)), "1 to 8 directions"),
        (lambda: ss.Slice.through(*np.eye(4)[[0, 1, 2, 2]]), "p0, p1, p2, p3 must not lie"),
        (lambda: ss.Slice.through(np.eye(3)[0]), "2 to 9 points"),
        (lambda: ss.Slice.box(np.zeros(2), 3), "at least 3 numbers"),
        (lambda: ss.Slice.box(np.zeros(20), 9), "from 1 to 8"),
    ],
)
def test_slices_that_are_none_are_refused(make: Callable[[], ss.Slice], message: str) -> None:
    with pytest.raises(ss.InputError, match=message):
        make()


def test_what_needs_a_plane_or_a_space_says_so() -> None:
    tiling = structured("plain")
    for call in (
        tiling.bends, tiling.inradii, tiling.eccentricities, tiling.fold_raster,
        lambda: tiling.tiles_near([0.0, 0.0, 0.0], 1.0), lambda: tiling.walls.ends,
    ):  # fmt: skip
        with pytest.raises(ss.InputError, match=r"2-D|plane"):
            call()
    square = ss.tessellate(plain_mlp(2, 3, 1), cube(2, 1.0))
    with pytest.raises(ss.InputError, match="3 or more"):
        _ = square.moments


def test_a_limit_returns_whole_cells_marked_incomplete() -> None:
    net = plain_mlp(3, 16, 16, 1)
    with pytest.raises(ss.LimitReached, match="max_tiles=500") as caught:
        ss.tessellate(net, cube(3, 1.0), max_tiles=500, chunk_bytes=20_000)
    partial = caught.value.partial
    assert not partial.complete
    assert partial.check().ok
    assert partial.areas.sum() < partial.view.size


def test_options_of_a_plane_are_refused_in_words_when_cells_are_drawn():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).eval()
    tiling = ss.tessellate(net, ss.Slice.axes([0.0] * 3, (0, 1, 2), -1, 1))
    with pytest.raises(ss.InputError, match=r"drawn as cells.*got boundary"):
        tiling.plot(boundary=True)
