"""Level sets and decision boundaries of 3-D tilings, and surfaces of networks."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss

from .. import shapes3d
from ..cells.test_solids import cube, plain_mlp


@cache
def classifier() -> tuple[nn.Sequential, ss.SplineNetwork, ss.Tiling]:
    """Four classes that all win somewhere in the cube."""
    net = plain_mlp(3, 14, 12, 4)
    points = torch.from_numpy(np.random.default_rng(0).uniform(-1, 1, (500, 3)))
    with torch.no_grad():
        net[-1].bias -= net(points).mean(0)
    traced = ss.trace(net, points[:2])
    return net, traced, ss.tessellate(traced, cube(3, 1.0))


def test_level_sets_are_closed_exact_and_oriented() -> None:
    tiling = ss.tessellate(shapes3d.Octahedron().double(), cube(3, 2.0))
    mesh = tiling.level_set(0.0)
    assert len(mesh) == 8
    assert mesh.closed
    assert (mesh.euler, mesh.components) == (2, 1)
    assert mesh.area == pytest.approx(4 * np.sqrt(3))
    assert mesh.volume == pytest.approx(4 / 3)
    assert (np.einsum("fd,fd->f", mesh.vectors, mesh.centroids()) > 0).all()  # outward, where f is larger
    assert tiling.margin([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0]]) == pytest.approx([1 / np.sqrt(3), 1.0])
    assert np.array_equal(tiling.locate(mesh.centroids()), mesh.tiles)


@pytest.mark.parametrize(
    ("shape", "area", "volume", "euler"),
    [(shapes3d.Torus, 12.0, 1.5, 0), (shapes3d.HollowBall, 4 * np.sqrt(3) * (1.25**2 + 0.75**2), None, 4)],
)
def test_surfaces_lie_on_facets_too(shape: type[nn.Module], area: float, volume: float | None, euler: int) -> None:
    """The sides of a square ring are folds of the network: its zero set lies on walls."""
    mesh = ss.space.level_set(shape().double(), (-2.0, 2.0))
    assert mesh.closed
    assert mesh.euler == euler
    assert mesh.area == pytest.approx(area)
    if volume is not None:
        assert mesh.volume == pytest.approx(volume)


def test_a_surface_is_the_level_set_of_the_whole_tiling() -> None:
    _, traced, tiling = classifier()
    for output, level in ((0, 0.0), (2, 0.05)):
        whole = tiling.level_set(level, output)
        mesh = ss.space.level_set(traced, (-1.0, 1.0), level, output=output)
        assert len(mesh) == len(whole)
        assert mesh.area == pytest.approx(whole.area, rel=1e-12)
        at = np.concatenate([mesh.vertices, mesh.centroids()])
        scale = np.abs(tiling.values[:, output]).max()
        assert np.abs(tiling.outputs(at)[:, output] - level).max() <= 1e-10 * scale


def test_tiles_that_the_level_cannot_meet_are_dropped() -> None:
    """With a level far from all outputs nothing is left after a few bounds; the surface is empty."""
    _, traced, tiling = classifier()
    top = float(tiling.values[:, 0].max())
    assert len(ss.space.level_set(traced, (-1.0, 1.0), top + 1.0)) == 0
    with pytest.raises(ss.LimitReached):
        ss.space.level_set(traced, (-1.0, 1.0), 0.0, max_tiles=20)
    few = ss.space.level_set(traced, (-1.0, 1.0), top - 1e-3, max_tiles=tiling.count // 4)
    assert len(few) > 0


def test_a_decision_boundary_ties_two_classes_and_has_no_gaps() -> None:
    _, _, tiling = classifier()
    mesh = tiling.decision_boundary()
    outputs = tiling.outputs(mesh.centroids())
    ordered = np.sort(outputs, 1)
    assert np.abs(ordered[:, -1] - ordered[:, -2]).max() < 1e-14
    assert np.array_equal(np.sort(np.argsort(outputs, 1)[:, -2:], 1), mesh.classes)
    edges, faces = mesh.edges
    middle = mesh.vertices[edges].mean(1)
    on_cube = (np.abs(np.abs(middle) - 1) < 1e-12).any(1)
    assert ((faces == 1) == on_cube).all()
    assert (faces == 3).any()  # where three classes meet


def test_volumes_of_regions_come_out_of_their_surfaces() -> None:
    """Divergence theorem: a region's boundary inside the cube plus its share of the cube's faces encloses it."""
    _, _, tiling = classifier()
    points = np.random.default_rng(3).uniform(-1, 1, (40000, 3))
    winners = tiling.outputs(points).argmax(1)
    walls, sides = np.random.default_rng(4).uniform(-1, 1, (6, 20000, 3)), []
    for side, wall in enumerate(walls):
        wall[:, side % 3] = 1.0 if side < 3 else -1.0
        sides.append(tiling.outputs(wall).argmax(1))
    mesh = tiling.decision_boundary()
    for c in np.unique(winners):
        own = mesh.around(int(c))
        inner = float((own.centroids() * own.vectors).sum() / 3)
        outer = sum(4.0 * np.mean(side == c) / 3 for side in sides)
        assert inner + outer == pytest.approx(8 * np.mean(winners == c), abs=0.08)


@pytest.mark.parametrize("ending", [".ply", ".obj", ".stl", ".glb"])
def test_exported_meshes_come_back_watertight(ending: str, tmp_path: Path) -> None:
    trimesh = pytest.importorskip("trimesh")
    mesh = ss.space.level_set(shapes3d.Torus().double(), (-2.0, 2.0))
    mesh.save(tmp_path / f"ring{ending}")
    back = trimesh.load(tmp_path / f"ring{ending}", force="mesh")
    assert back.is_watertight
    assert back.volume == pytest.approx(1.5, rel=1e-14 if ending == ".obj" else 1e-6)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"ring{ending}"]
    with pytest.raises(ss.InputError, match="ending"):
        mesh.save(tmp_path / "ring.xyz")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: ss.space.level_set(t.network, ss.Slice.axes(np.zeros(3), (0, 1), -1, 1)), "3-D slice"),
        (lambda t: ss.space.level_set(t.network, 1.0), "pair"),
        (lambda t: ss.space.level_set(t.network, (-1.0, 1.0), output=7), "output"),
        (lambda t: ss.space.level_set(t.network, (-1.0, 1.0), [0.0, 1.0]), "one number"),
        (lambda t: t.level_set(0.0).volume, "closed"),
    ],
)
def test_bad_boxes_and_levels_are_refused(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ss.InputError, match=message):
        call(classifier()[2])


def test_boundaries_of_more_dimensions_say_what_they_need() -> None:
    tiling = ss.tessellate(plain_mlp(4, 5, 2), cube(4, 1.0))
    for call in (tiling.decision_boundary, lambda: tiling.level_set(0.0)):
        with pytest.raises(ss.InputError, match="3-D"):
            call()
