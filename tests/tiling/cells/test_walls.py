"""Walls are what a sort of all sides of tiles gives, and a summary takes little memory beside them."""

import tracemalloc

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.tiling import tiling as tilings
from splinescope.tiling.engine.mesh import half_edges, pair_half_edges
from splinescope.tiling.measures import folds, maps, tile_shapes
from tests import cases

PLANES = ["two layers", "max-pool", "zero bias", "duplicate units", "corner on a fold", "residual"]
BLOCKS = (
    (folds, "_WALLS_TOGETHER"), (tilings, "_WALLS_TOGETHER"), (tile_shapes, "_TILES_TOGETHER"), (maps, "_MOST_AT_ONCE"),
)  # fmt: skip


@pytest.fixture(scope="module")
def large() -> ss.Tiling:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)
    )
    return ss.tessellate(model, ss.Slice.axes([0.0, 0.0], (0, 1), -3.0, 3.0))


@pytest.mark.parametrize("name", PLANES)
def test_walls_are_the_sorted_sides_of_tiles(name: str) -> None:
    tiling = cases.tiling(name)
    offsets, corners = tiling.tiles.offsets, tiling.tiles.corners
    following, tile_of = half_edges(offsets, corners)
    first, second = pair_half_edges(offsets, corners)
    walls = tiling.walls
    np.testing.assert_array_equal(walls.ends, np.stack([corners[first], following[first]], 1))
    np.testing.assert_array_equal(walls.cuts, tiling.corner_labels[first])
    np.testing.assert_array_equal(walls.tiles[:, 0], tile_of[first])
    np.testing.assert_array_equal(walls.tiles[:, 1], np.where(second >= 0, tile_of[second], -1))


def test_a_summary_does_not_depend_on_how_much_is_taken_at_once(large: ss.Tiling, monkeypatch) -> None:
    whole = large.summary().as_dict()
    for module, name in BLOCKS:
        monkeypatch.setattr(module, name, 777)
    sites = large.walls.sites
    del large.__dict__["walls"]
    np.testing.assert_array_equal(large.walls.sites, sites)
    blocks = large.summary().as_dict()
    assert blocks.keys() == whole.keys()
    assert [blocks[key] for key in whole] == pytest.approx(list(whole.values()), rel=1e-12)
    lengths = large.folds().lengths_by_layer()
    assert [blocks[f"fold length, layer {depth}"] for depth in lengths] == pytest.approx(list(lengths.values()))


def test_a_summary_takes_few_bytes_for_each_tile(large: ss.Tiling, monkeypatch) -> None:
    large.summary()  # kernels are loaded
    for name in ("walls", "areas"):
        large.__dict__.pop(name, None)
    for module, name in BLOCKS:
        monkeypatch.setattr(module, name, 1024)
    tracemalloc.start()
    try:
        large.summary()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 130 * large.count, f"{peak / large.count:.0f} bytes a tile"
