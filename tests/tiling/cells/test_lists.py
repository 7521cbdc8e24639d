"""Lists in one array are the lists they stand for, and cells made of them the polygons."""

import itertools

import numpy as np

from splinescope.tiling.cells import lists
from splinescope.tiling.cells.lists import CornerLists

LISTS = [[4, 1, 7], [], [2], [5, 5, 0, 3]]
OFFSETS, ENTRIES = np.array([0, 3, 3, 4, 8]), np.array([4, 1, 7, 2, 5, 5, 0, 3])


def test_lists_in_one_array_are_the_lists() -> None:
    np.testing.assert_array_equal(lists.offsets_of([len(one) for one in LISTS]), OFFSETS)
    assert lists.owners(OFFSETS).tolist() == [i for i, one in enumerate(LISTS) for _ in one]
    after = [one[(k + 1) % len(one)] for one in LISTS for k in range(len(one))]
    assert ENTRIES[lists.following(OFFSETS)].tolist() == after
    assert ENTRIES[lists.backward(OFFSETS)].tolist() == [entry for one in LISTS for entry in one[::-1]]
    order = np.array([3, 0, 3, 1])
    own, places = lists.places_of(OFFSETS, order)
    assert [ENTRIES[places][a:b].tolist() for a, b in itertools.pairwise(own)] == [LISTS[i] for i in order]
    np.testing.assert_array_equal(
        lists.joined_offsets([OFFSETS, OFFSETS]), lists.offsets_of([len(one) for one in LISTS * 2])
    )
    full = lists.offsets_of([3, 1, 4])
    some = [[4, 1, 7], [2], [5, 5, 0, 3]]
    assert lists.reduced(np.maximum, ENTRIES, full).tolist() == [max(one) for one in some]
    np.testing.assert_allclose(lists.means(ENTRIES[:, None] * [1.0, 2.0], full)[:, 1], [2 * np.mean(o) for o in some])


def test_no_lists_at_all_are_no_special_case() -> None:
    nothing = CornerLists(np.zeros(1, np.int64), np.zeros(0, np.int32))
    assert lists.following(nothing.offsets).shape == lists.backward(nothing.offsets).shape == (0,)
    assert nothing.edges().shape == (0, 2)
    assert nothing.corner_means(np.zeros((5, 3))).shape == (0, 3)
    assert nothing.corner_ranges(np.zeros(5)).shape == (0, 2)
    assert nothing.fans()[0].shape == (0, 3)


def test_fans_fill_their_polygons() -> None:
    angles = np.sort(np.random.default_rng(0).random((2, 6)), 1) * 2 * np.pi
    points = np.concatenate([np.stack([np.cos(a), np.sin(a)], 1)[:n] for a, n in zip(angles, (6, 4), strict=True)])
    cells = CornerLists(np.array([0, 6, 10]), np.arange(10))
    triangles, owner = cells.fans()
    assert owner.tolist() == [0, 0, 0, 0, 1, 1]
    a, b, c = points[triangles].swapaxes(0, 1)
    u, v = b - a, c - a
    areas = 0.5 * (u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0])
    assert (areas > 0).all()
    np.testing.assert_allclose(np.bincount(owner, areas), cells.sizes(points), rtol=1e-12)
    ends = points[cells.edges()]
    around = 0.5 * (ends[:, 0, 0] * ends[:, 1, 1] - ends[:, 0, 1] * ends[:, 1, 0])  # about the origin
    np.testing.assert_allclose(np.bincount(cells.owners(), around), cells.sizes(points), rtol=1e-12)


def test_things_are_in_one_group_if_a_chain_of_pairs_joins_them() -> None:
    """Also where a pair is given more often than a byte counts."""
    first = np.array([0, 4, 2] + [5] * 256)
    second = np.array([3, 0, 2] + [6] * 256)
    group = lists.connected(8, first, second)
    assert group[0] == group[3] == group[4]
    assert group[5] == group[6]
    assert len(np.unique(group)) == 5
    assert np.unique(group).tolist() == list(range(5))
    assert lists.connected(0, np.zeros(0, int), np.zeros(0, int)).tolist() == []
