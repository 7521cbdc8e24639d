"""Finished tiles on disk: written as they come and put together leaf by leaf: a result may be larger than memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ...support.errors import SplinescopeError
from .. import kernels
from ..cells.tiles import OUTSIDE, Tiles
from .assemble import SAME_NAME, SAME_PLACE, without_unreal
from .chunk import Leaf
from .mesh import Mesh

_FIRST_TABLE = 1 << 16  # entries of the table of vertices, which grows with them
_FULL = 0.75  # of its entries


@dataclass(frozen=True)
class _Place:
    """Where a leaf is in the file, and how many vertices, outputs, tiles and corners it has."""

    path: tuple[int, ...]
    start: int
    vertices: int
    outputs: int
    tiles: int
    corners: int


class Spool:
    """Takes leaves as a list does, into one file of a folder.

    Only lines and planes: their tiles are lists of corners.
    """

    def __init__(self, folder: Path, dimension: int) -> None:
        self._folder, self._dimension = folder, dimension
        self._file: BinaryIO = (folder / "leaves").open("w+b")
        self._places: list[_Place] = []

    def close(self) -> None:
        self._file.close()

    def append(self, leaf: Leaf) -> None:
        outputs = 0 if leaf.values is None else leaf.values.shape[1]
        tiles = leaf.tiles
        self._file.seek(0, os.SEEK_END)  # behind what was there, wherever it was read last
        self._places.append(
            _Place(leaf.path, self._file.tell(), len(leaf.names), outputs, len(tiles), len(tiles.corners))
        )
        for array, dtype in (
            (leaf.names, np.uint64), (leaf.points, np.float64), (leaf.values, np.float64),
            (tiles.offsets, np.int64), (tiles.corners, np.int32), (tiles.labels, np.int32),
        ):  # fmt: skip
            if array is not None:
                self._file.write(np.ascontiguousarray(array, dtype).data)

    def leaves(self) -> Iterator[Leaf]:
        """What was taken, in the order of the paths, one at a time."""
        self._file.flush()
        for place in sorted(self._places, key=lambda place: place.path):
            self._file.seek(place.start)

            def read(dtype: type, *shape: int) -> np.ndarray:
                return np.fromfile(self._file, dtype, int(np.prod(shape))).reshape(shape)

            names, points = read(np.uint64, place.vertices), read(np.float64, place.vertices, self._dimension)
            values = read(np.float64, place.vertices, place.outputs) if place.outputs else None
            offsets = read(np.int64, place.tiles + 1)
            yield Leaf(
                place.path, names, points, values,
                Tiles(offsets, read(np.int32, place.corners), read(np.int32, place.corners)),
            )  # fmt: skip

    def assembled(self, domain: np.ndarray) -> Mesh:
        """The mesh that `assemble` makes of these leaves, bit for bit, in mapped files of the folder."""
        files = {
            name: (self._folder / name).open("w+b") for name in ("points", "values", "offsets", "corners", "labels")
        }
        try:
            count, outputs, unreal = self._number(files, SAME_PLACE * float(np.ptp(domain, axis=0).max()))
        finally:
            for file in files.values():
                file.close()
            self._file.close()
        (self._folder / "leaves").unlink()
        lists = (("offsets", np.int64), ("corners", np.int32), ("labels", np.int32))
        tiles = Tiles(*(self._mapped(name, dtype) for name, dtype in lists))
        values = self._mapped("values", np.float64, count, outputs) if outputs else None
        mesh = Mesh(self._mapped("points", np.float64, count, self._dimension), values, tiles)
        return without_unreal(mesh, domain, True) if unreal else mesh

    def _number(self, files: Mapping[str, BinaryIO], apart: float) -> tuple[int, int, bool]:
        """Fill the files; how many vertices and outputs there are, and whether any wall is unreal."""
        table, entries = np.empty(_FIRST_TABLE, np.uint64), np.full(_FIRST_TABLE, -1, np.int32)
        count, corners, outputs, unreal = 0, 0, 0, False
        files["offsets"].write(np.zeros(1, np.int64).data)
        for leaf in self.leaves():
            while count + len(leaf.names) > _FULL * len(table):
                table, entries = _larger(table, entries)
            numbers, firsts = np.full(len(leaf.names), -1, np.int32), np.empty(len(leaf.names), np.int64)
            more = kernels.number_vertices(leaf.names, leaf.tiles.corners, table, entries, count, numbers, firsts)
            new = firsts[: more - count]
            files["points"].write(leaf.points[new].data)
            files["points"].flush()
            if leaf.values is not None:
                outputs = leaf.values.shape[1]
                files["values"].write(leaf.values[new].data)
            count = more
            known = self._mapped("points", np.float64, count, self._dimension)
            if kernels.farthest(known, numbers, leaf.points) > apart:
                raise SplinescopeError(SAME_NAME)
            files["offsets"].write((leaf.tiles.offsets[1:] + corners).data)
            files["corners"].write(numbers[leaf.tiles.corners].data)
            files["labels"].write(leaf.tiles.labels.data)
            corners += len(leaf.tiles.corners)
            unreal = unreal or bool((leaf.tiles.labels < OUTSIDE).any())
        return count, outputs, unreal

    def _mapped(self, name: str, dtype: type, *shape: int) -> np.ndarray:
        path = self._folder / name
        if path.stat().st_size == 0:
            return np.zeros(shape or (0,), dtype)
        return np.asarray(np.memmap(path, dtype, "r", shape=shape or None))


def _larger(table: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A table of twice the size with the same entries."""
    keys, values = np.empty(2 * len(table), np.uint64), np.full(2 * len(table), -1, np.int32)
    kernels.enter_again(table, numbers, keys, values)
    return keys, values
