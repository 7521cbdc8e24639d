import numpy as np
import pytest

from ... import cases


@pytest.mark.parametrize("name", cases.CASES)
def test_degrees_count_the_walls_to_other_tiles(name: str) -> None:
    tiling = cases.tiling(name)
    graph = tiling.dual_graph()
    neighbours: list[set[int]] = [set() for _ in range(tiling.count)]
    for a, b in tiling.walls.tiles:
        if a >= 0 and b >= 0:
            neighbours[a].add(int(b))
            neighbours[b].add(int(a))
    starts, indices = graph.neighbors()
    for tile, expected in enumerate(neighbours):
        assert set(indices[starts[tile] : starts[tile + 1]]) == expected
    np.testing.assert_array_equal(graph.degrees, [len(n) for n in neighbours])


def test_networkx_sees_the_same_connected_graph() -> None:
    networkx = pytest.importorskip("networkx", reason="an extra")
    tiling = cases.tiling("two layers")
    graph = tiling.dual_graph().to_networkx()
    assert networkx.is_connected(graph)
    assert [graph.degree[k] for k in range(tiling.count)] == tiling.dual_graph().degrees.tolist()


def test_neighbours_across_a_wall_differ_in_activations() -> None:
    """One unit switches across a wall of one layer."""
    tiling = cases.tiling("one layer")
    active = tiling.active_units()
    edges = tiling.dual_graph().edges
    assert (np.abs(active[edges[:, 0]] - active[edges[:, 1]]) == 1).all()
