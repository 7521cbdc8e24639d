"""Finished tiles on disk: written as they come and put together leaf by leaf: a result may be larger than memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..cells.solids import Solids, kind_of
from .assemble import Join, LeafSizes
from .chunk import Leaf
from .mesh import Mesh


@dataclass(frozen=True)
class _Place:
    """Where a leaf is in the file, and what it has: arrays one after the other."""

    path: tuple[int, ...]
    start: int
    rows: LeafSizes
    kinds: tuple[tuple[np.dtype, tuple[int, ...]], ...]


class Spool:
    """Takes leaves as a list does, into one file of a folder."""

    def __init__(self, folder: Path, domain: np.ndarray) -> None:
        self._folder, self._domain = folder, domain
        self._file = (folder / "leaves").open("w+b")
        self._places: list[_Place] = []

    def close(self) -> None:
        self._file.close()

    def append(self, leaf: Leaf) -> None:
        tiles = leaf.tiles
        solid = (tiles.masks, tiles.facet_offsets) if isinstance(tiles, Solids) else ()
        values = np.empty((0, 0)) if leaf.values is None else leaf.values
        arrays = (leaf.names, leaf.points, values, tiles.offsets, tiles.corners, tiles.labels, *solid)
        self._file.seek(0, os.SEEK_END)  # behind what was there, wherever it was read last
        kinds = tuple((array.dtype, array.shape) for array in arrays)
        self._places.append(_Place(leaf.path, self._file.tell(), LeafSizes.from_leaf(leaf), kinds))
        for array in arrays:
            self._file.write(np.ascontiguousarray(array).data)

    def leaves(self) -> Iterator[Leaf]:
        """What was taken, in the order of the paths, one at a time."""
        self._file.flush()
        for place in sorted(self._places, key=lambda place: place.path):
            self._file.seek(place.start)
            names, points, values, *lists = (
                np.fromfile(self._file, kind, int(np.prod(shape))).reshape(shape) for kind, shape in place.kinds
            )
            yield Leaf(place.path, names, points, values if place.rows.outputs else None, kind_of(self._domain)(*lists))

    def assembled(self) -> Mesh:
        """The mesh that `assemble` makes of these leaves, bit for bit, in mapped files of the folder."""
        with ExitStack() as stack:

            def place(name: str, kind: tuple[type, tuple[int, ...]]) -> _Filed:
                return stack.enter_context(closing(_Filed(self._folder / name, kind)))

            join = Join(self._domain, LeafSizes.joined([place.rows for place in self._places]), place)
            for leaf in self.leaves():
                join.add(leaf)
            self._file.close()
            (self._folder / "leaves").unlink()
            return join.mesh()


class _Filed:
    """An array in a file that is written part by part."""

    def __init__(self, path: Path, kind: tuple[type, tuple[int, ...]]) -> None:
        self._file, self._kind = path.open("w+b"), kind

    def close(self) -> None:
        self._file.close()

    def write(self, part: np.ndarray) -> None:
        self._file.write(np.ascontiguousarray(part, self._kind[0]).data)

    def written(self) -> np.ndarray:
        self._file.flush()
        dtype, row = self._kind
        if self._file.tell() == 0:
            return np.zeros((0, *row), dtype)
        return np.asarray(np.memmap(self._file.name, dtype, "r")).reshape(-1, *row)

    finished = written
