"""Walls between polygons: found by passes over them, and tiles joined across them."""

from __future__ import annotations

from splinescope.support.compile import jit


@jit
def list_walls(offsets, corners, heads, following, higher):
    """Enter each wall into the list of its lower end, ascending by its higher one; how many there are."""
    count = 0
    for tile in range(len(offsets) - 1):
        start, stop = offsets[tile], offsets[tile + 1]
        for c in range(start, stop):
            a, b = corners[c], corners[c + 1 if c + 1 < stop else start]
            low, high = min(a, b), max(a, b)
            # lists hold the few walls of one vertex: a walk is cheaper than hashing or sorting all walls
            before, wall = -1, heads[low]
            while wall >= 0 and higher[wall] < high:
                before, wall = wall, following[wall]
            if wall >= 0 and higher[wall] == high:
                continue
            higher[count] = high
            following[count] = wall
            if before < 0:
                heads[low] = count
            else:
                following[before] = count
            count += 1
    return count


@jit
def rank_walls(heads, following, ranks):
    """Number the walls through all lists."""
    rank = 0
    for head in heads:
        wall = head
        while wall >= 0:
            ranks[wall] = rank
            rank += 1
            wall = following[wall]


@jit
def fill_walls(offsets, corners, labels, heads, following, higher, ranks, ends, tiles, cuts):
    for tile in range(len(offsets) - 1):
        start, stop = offsets[tile], offsets[tile + 1]
        for c in range(start, stop):
            a, b = corners[c], corners[c + 1 if c + 1 < stop else start]
            low, high = min(a, b), max(a, b)
            wall = heads[low]
            while higher[wall] != high:
                wall = following[wall]
            at = ranks[wall]
            if tiles[at, 0] < 0:  # the first tile gives the wall its direction, and has it on its left
                ends[at, 0], ends[at, 1], tiles[at, 0], cuts[at] = a, b, tile, labels[c]
            elif tiles[at, 1] < 0:
                tiles[at, 1] = tile


@jit
def join_tiles(tiles, sites, depths, depth, parents):
    """Join tiles across the walls of one depth in a forest of tiles; by how many there are fewer trees then.

    `depths` has the depth of each site, and at its end that of the boundary.
    """
    joined = 0
    for wall in range(len(tiles)):
        if depths[sites[wall]] != depth or tiles[wall, 0] < 0 or tiles[wall, 1] < 0:
            continue
        a, b = tiles[wall, 0], tiles[wall, 1]
        while parents[a] != a:
            parents[a] = parents[parents[a]]  # path halving keeps the trees flat
            a = parents[a]
        while parents[b] != b:
            parents[b] = parents[parents[b]]
            b = parents[b]
        if a != b:
            parents[max(a, b)] = min(a, b)
            joined += 1
    return joined
