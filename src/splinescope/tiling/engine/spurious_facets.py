"""Removes facets of solid tiles that only losers of a max draw: tiles on both sides become one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...support.errors import SplinescopeError
from .. import kernels
from ..cells.lists import connected, owners
from ..cells.solids import Solids
from ..cells.tiles import OUTSIDE, Tiles
from .mesh import Mesh, check_joined, restored

_LOST = 1e-9  # of the slice's volume
_SAME_PLANE = 1e-9  # of the extent: a fold's facets within one tile lie on planes much farther apart, or on one


def without_spurious_facets(mesh: Mesh) -> Mesh:
    """Merge tiles across facets that both sides mark as spurious, and drop vertices that are then no corners."""
    solids = mesh.tiles
    assert isinstance(solids, Solids)
    leaders, inner, behind = _leaders(mesh, solids)
    tiles = np.arange(len(solids))
    alone = np.bincount(leaders, minlength=len(solids))[leaders] == 1
    vectors, centers = _planes(solids, mesh.points)
    extent = float(np.ptp(mesh.points, axis=0).max())
    extreme = np.zeros(len(mesh.points), bool)
    extreme[solids.corners[np.repeat(alone, np.diff(solids.offsets))]] = True
    merged = []  # corners, `[corners, facets]` whether a corner lies on a facet, labels
    members = tiles[~alone][np.argsort(leaders[~alone], kind="stable")]
    cuts = np.flatnonzero(np.diff(leaders[members])) + 1
    for group in np.split(members, cuts) if len(members) else []:
        slots = [np.arange(*solids.facet_offsets[tile : tile + 2]) for tile in group]
        corners = [solids.corners[slice(*solids.offsets[tile : tile + 2])] for tile in group]
        on = [_incidence(solids, tile) for tile in group]
        given = solids.labels, inner, behind, vectors, centers, mesh.points, extent
        ids, table, labels = _union(slots, corners, on, *given)
        table, labels = _only_facets(table, labels, mesh.points.shape[1])
        extreme[ids[_extreme(table)]] = True
        merged.append((ids, table, labels))
    packed = [solids.chosen(alone)]
    if merged:
        packed.append(_packed([(ids[extreme[ids]], table[extreme[ids]], labels) for ids, table, labels in merged]))
        _check_volume(solids.chosen(~alone), packed[-1], mesh.points)
    joined = Solids.joined(packed)
    firsts = np.concatenate([tiles[alone], np.unique(leaders[~alone])])
    ordered = joined.taken(np.argsort(firsts, kind="stable"))  # a merged tile stands where its first part stood
    ids = np.cumsum(extreme, dtype=np.int32) - np.int32(1)
    values = None if mesh.values is None else mesh.values[extreme]
    labels = restored(ordered.labels)
    return Mesh(mesh.points[extreme], values, replace(ordered, corners=ids[ordered.corners], labels=labels))


def _check_volume(parts: Tiles, merged: Tiles, points: np.ndarray) -> None:
    """Refuse merged tiles that are not as large as what they were made from."""
    lost = abs(float(parts.sizes(points).sum() - merged.sizes(points).sum()) / np.ptp(points, axis=0).prod())
    if not lost <= _LOST:
        raise SplinescopeError(
            f"tiles that became one, across walls between losers of a max, lost {lost:.2g} of the slice. "
            "Please report this network and slice."
        )


def _leaders(mesh: Mesh, solids: Solids) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each tile the first of those that it is merged with; which slots vanish between them; who is behind each."""
    first, second = twin_facets(solids)
    twins = first, second
    spurious = (solids.labels[first] < OUTSIDE) & (solids.labels[second] < OUTSIDE)  # both sides must agree
    first, second = first[spurious], second[spurious]
    inner = np.zeros(len(solids.labels), bool)
    inner[first] = inner[second] = True
    tile_of = owners(solids.facet_offsets)
    check_joined(mesh, tile_of[first], tile_of[second])
    component = connected(len(solids), tile_of[first], tile_of[second])
    _, leaders = np.unique(component, return_index=True)
    leaders = leaders[component]
    behind = np.full(len(solids.labels), -1)
    behind[twins[0]], behind[twins[1]] = leaders[tile_of[twins[1]]], leaders[tile_of[twins[0]]]
    return leaders, inner, behind


def twin_facets(solids: Solids) -> tuple[np.ndarray, np.ndarray]:
    """The slots of every facet that two tiles have, one on each side."""
    slots = len(solids.labels)
    keys, sizes = np.empty(slots, np.uint64), np.empty(slots, np.int32)
    kernels.facet_keys(solids.offsets, solids.corners, solids.masks, solids.facet_offsets, keys, sizes)
    order = np.argsort(keys, kind="stable")
    twin = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    return order[twin], order[twin + 1]


def _planes(solids: Solids, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per slot its area times its outward normal, and a point of it."""
    slots = np.arange(len(solids.labels))
    tile_of = owners(solids.facet_offsets)
    vectors, centers = np.empty((len(slots), points.shape[1])), np.empty((len(slots), points.shape[1]))
    lists = (solids.offsets, solids.corners, solids.masks, solids.facet_offsets)
    kernels.measure_facets(slots, tile_of, *lists, points, vectors, centers)
    return vectors, centers


def _incidence(solids: Solids, tile: int) -> np.ndarray:
    """`[corners, facets]` booleans from the masks of one tile."""
    masks = solids.masks[solids.offsets[tile] : solids.offsets[tile + 1]]
    bits = np.unpackbits(np.ascontiguousarray(masks).view(np.uint8), axis=1, bitorder="little")
    return bits[:, : solids.facet_offsets[tile + 1] - solids.facet_offsets[tile]].astype(bool)


def _union(
    slots: list[np.ndarray], corners: list[np.ndarray], on: list[np.ndarray], labels: np.ndarray, inner: np.ndarray,
    behind: np.ndarray, vectors: np.ndarray, centers: np.ndarray, points: np.ndarray, extent: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """The vertices of merged tiles on their common outline, the outline's facets they lie on, the facets' labels.

    Facets on one plane are one if they have one label or one tile behind them, as where different pairs of a max draw
    parts of a wall; the largest decide on planes and labels.
    """
    outer = [(k, f, slot) for k, own in enumerate(slots) for f, slot in enumerate(own) if not inner[slot]]
    areas = [np.linalg.norm(vectors[slot]) for *_, slot in outer]
    ids = np.unique(np.concatenate([corners[k][on[k][:, f]] for k, f, _ in outer]))
    place = {int(v): i for i, v in enumerate(ids)}
    planes: list[tuple[int, int, np.ndarray, float, np.ndarray]] = []
    for index in np.argsort(areas)[::-1]:
        k, f, slot = outer[index]
        vertices = corners[k][on[k][:, f]]
        label = int(labels[slot])
        label = -2 - label if label < OUTSIDE else label
        members = [place[int(v)] for v in vertices]
        for known, other, normal, height, column in planes:
            is_one = known == label or (other >= 0 and other == behind[slot])
            if is_one and np.abs(points[vertices] @ normal - height).max() <= _SAME_PLANE * extent:
                column[members] = True
                break
        else:
            normal = vectors[slot] / max(areas[index], 1e-300)
            column = np.zeros(len(ids), bool)
            column[members] = True
            planes.append((label, int(behind[slot]), normal, float(normal @ centers[slot]), column))
    return ids, np.stack([p[4] for p in planes], 1), np.array([p[0] for p in planes], np.int32)


def _only_facets(table: np.ndarray, labels: np.ndarray, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Leave out facets whose corners all lie on another one (slivers between two planes)."""
    shared = table.T.astype(np.int64) @ table
    sizes = np.diag(shared)
    inside = shared == sizes[:, None]
    order = np.arange(len(labels))
    covered = (inside & ((sizes[None] > sizes[:, None]) | (order[None] < order[:, None]))).any(1)
    keep = ~covered & (sizes >= dimension)
    return table[:, keep], labels[keep]


def _extreme(table: np.ndarray) -> np.ndarray:
    """Which points are corners: no other one lies on all their facets."""
    shared = table.astype(np.int64) @ table.T
    inside = shared == np.diag(shared)[:, None]
    np.fill_diagonal(inside, False)
    return ~inside.any(1)


def _packed(tiles: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> Solids:
    """Tiles from their corners, which facets these lie on, and the facets' labels."""
    corners, tables, labels = (list(part) for part in zip(*tiles, strict=True))
    words = (max(table.shape[1] for table in tables) + 63) // 64
    masks = []
    for table in tables:
        bits = np.zeros((len(table), 64 * words), np.uint8)
        bits[:, : table.shape[1]] = table
        masks.append(np.packbits(bits, axis=1, bitorder="little").view(np.uint64))
    return Solids(
        np.concatenate([[0], np.cumsum([len(c) for c in corners])]), np.concatenate(corners), np.concatenate(labels),
        np.concatenate(masks), np.concatenate([[0], np.cumsum([len(x) for x in labels])]),
    )  # fmt: skip
