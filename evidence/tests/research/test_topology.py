"""Components, holes and voids of regions."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from tests.tiling import shapes3d
from tests.tiling.cells.test_solids import SMALL, cube, plain_mlp
from torch import Tensor, nn

import splinescope as ss
from splinescope_research import topology
from splinescope_research.folds.topology import refined


def space(shape: nn.Module) -> ss.Tiling:
    return ss.tessellate(shape.double(), cube(3, 2.0))


@pytest.mark.parametrize(
    ("shape", "below", "above"),
    [
        (shapes3d.Octahedron(), (1, 0, 0), (1, 0, 1)),  # a ball; around it, a ball with a void
        (shapes3d.Torus(), (1, 1, 0), (1, 1, 1)),
        (shapes3d.LinkedRings(), (2, 2, 0), (1, 2, 2)),
        (shapes3d.HollowBall(), (1, 0, 1), (2, 0, 1)),
    ],
    ids=["ball", "ring", "linked rings", "hollow ball"],
)
def test_betti_numbers_of_known_shapes(shape: nn.Module, below: tuple[int, ...], above: tuple[int, ...]) -> None:
    tiling = space(shape)
    found = topology(tiling)
    assert found["below"] == below
    assert found["above"] == above
    assert found.sizes.sum() == pytest.approx(64.0)


class Disc(nn.Module):
    """||x|_1 - 1| - 0.25 on a plane: a ring, with its inside and outside."""

    def forward(self, x: Tensor) -> Tensor:
        return (x.abs().sum(1, keepdim=True) - 1.0).abs() - 0.25


def test_a_ring_on_a_plane_has_a_gap() -> None:
    tiling = ss.tessellate(Disc().double(), ss.Slice.axes([0.0, 0.0], (0, 1), -2, 2))
    found = topology(tiling)
    assert found["below"] == (1, 1)
    assert found["above"] == (2, 1)
    assert found.sizes[0] == pytest.approx(2 * (1.25**2 - 0.75**2))
    assert topology(tiling, -0.3)["below"] == (0, 0)
    assert topology(tiling, 10.0)["below"] == (1, 0)


def rank(columns: list[int]) -> int:
    """Rank over GF(2) of columns given as bits."""
    pivots: dict[int, int] = {}
    for column in columns:
        while column:
            if column.bit_length() not in pivots:
                pivots[column.bit_length()] = column
                break
            column ^= pivots[column.bit_length()]
    return len(pivots)


def ranks_of_boundaries(cells: ss.Tiling, inside: np.ndarray) -> tuple[int, ...]:
    """b0 to bd of a union of closed cells, from the boundary maps of its faces over GF(2): dim ker - dim im.

    Faces are sets of vertices; an edge is what two facets of a cell share if that is two vertices.
    """
    faces: list[dict[frozenset[int], list[frozenset[int]]]] = [{} for _ in range(cells.dimension + 1)]
    for tile in np.flatnonzero(inside):
        corners = cells.tiles[tile].tolist()
        edges = [frozenset(pair) for pair in zip(corners, [*corners[1:], corners[0]], strict=True)]
        sides = edges
        if cells.dimension == 3:
            bits = cells.tiles.facet_bits[cells.tiles.offsets[tile] : cells.tiles.offsets[tile + 1], 0]  # type: ignore[attr-defined]
            on = (bits[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1) == 1
            sides = [frozenset(np.array(corners)[column].tolist()) for column in on.T if column.any()]
            edges = [a & b for a, b in combinations(sides, 2) if len(a & b) == 2]
            faces[2].update({side: [edge for edge in set(edges) if edge <= side] for side in sides})
        faces[-1][frozenset(corners)] = sides
        faces[1].update({edge: [frozenset([v]) for v in edge] for edge in edges})
        faces[0].update({frozenset([v]): [] for v in corners})
    numbers = [{face: i for i, face in enumerate(each)} for each in faces]
    ranks = [0]
    for number, each in zip(numbers[:-1], faces[1:], strict=True):
        ranks.append(rank([sum(1 << number[face] for face in below) for below in each.values()]))
    return tuple(len(each) - a - b for each, a, b in zip(faces, ranks, [*ranks[1:], 0], strict=True))


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("name", ["generic", "zero bias", "whole numbers"])
def test_betti_numbers_are_ranks_of_boundary_maps(name: str, d: int) -> None:
    """Also where parts of a region meet in a point or an edge only: there a grid tells another number."""
    net = SMALL[name](d)
    tiling = ss.tessellate(net, cube(d, 2.0))
    heights = tiling.outputs(tiling.vertices)[:, 0]
    for level in np.quantile(heights, [0.2, 0.5, 0.8]):
        found = topology(tiling, float(level))
        cells = refined(tiling, np.stack([np.zeros(len(heights)), heights - level], 1))
        below = cells.outputs(cells.centroids())[:, 0] <= level + 1e-9  # whole cells may lie at the level
        for region, inside in (("below", below), ("above", ~below)):
            assert (*found[region], 0) == ranks_of_boundaries(cells, inside)


def test_topology_says_what_it_needs() -> None:
    line = ss.tessellate(plain_mlp(4, 5, 2), ss.Slice.segment(np.zeros(4), np.ones(4)))
    with pytest.raises(ss.InputError, match="2-D or 3-D"):
        topology(line)
    for level, refusal in (("high", "must be numbers"), (np.nan, "finite"), ([0.0, 1.0], "one number")):
        with pytest.raises(ss.InputError, match=refusal):
            topology(space(shapes3d.Octahedron()), level)
    with pytest.raises(KeyError, match="below, above"):
        topology(space(shapes3d.Octahedron()))["inside"]
