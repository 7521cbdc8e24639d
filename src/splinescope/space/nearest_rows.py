"""The hyperplanes nearest to an input, for networks whose halfspaces do not fit into memory together.

The pattern of the tile is read once. Then the input directions go through the network in blocks, twice: the first time
only the steepness of every unit adds up, which gives all distances; the second time the rows of the nearest are kept.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .affine_rows import SCALE, Coordinates, Cuts, LocalRows, Pattern, RowReader, at_origin, owners

_BLOCK = 1 << 23  # numbers of the widest site in a block of directions: 64 MB

Take = Callable[[Cuts, np.ndarray, np.ndarray, int], None]
"""Takes units of a site, their rows `[1 + r, n]`, which of the site's they are, and their rival."""


def nearest_rows(
    space: Coordinates, count: int, direction: np.ndarray, tell: Callable[[float], None]
) -> tuple[LocalRows, tuple[tuple[int, int], ...], float]:
    """The rows of the nearest units on the tile of the origin, the folds through it, and how far they reach.

    Args:
        space: All input directions.
        count: How many rows to keep.
        direction: `[D]` of length 1: units that are zero at the origin take its side.
        tell: Told the share done.

    Returns:
        Rows; (site, unit) on folds; the distance of the nearest hyperplane that was left out (inf if none was).
    """
    on: list[tuple[int, int]] = []
    patterns = Coordinates(space.program, space.origin, direction[None]).rows(at_origin(np.ones(1), on)).patterns
    flattest = np.zeros(len(space.program.sites))  # per site, how large a slope is that is only rounding
    # per unit: the sum of squares of its slopes, value at the origin, how large a zero may be; its site, unit and rival
    sizes = [np.zeros((3, 0))]
    who = [np.zeros((0, 3), np.int64)]

    def measure(start: int) -> Take:
        again = iter(sizes[1:])

        def take(cuts: Cuts, rows: np.ndarray, units: np.ndarray, rival: int) -> None:
            flattest[cuts.site] = max(flattest[cuts.site], cuts.flat[0] / SCALE)
            squares = ((rows[1:] / SCALE) ** 2).sum(0)
            if start:
                next(again)[0] += squares
            else:
                sizes.append(np.stack([squares, rows[0], cuts.zero[units]]))
                who.append(owners(cuts.site, cuts.rows.shape[-1], rival)[units])

        return take

    _blocks(space, patterns, measure, lambda share: tell(share / 2))
    (squares, values, zero), owner = np.concatenate(sizes, 1), np.concatenate(who)
    steep = np.sqrt(squares)
    moves = steep > flattest[owner[:, 0]]
    values = np.where(np.abs(values) > zero, values, 0.0)
    flat = ~moves & (values == 0)
    distances = np.where(moves, values / np.where(moves, steep, 1.0), np.inf)
    order = np.argsort(distances, kind="stable")[: min(count + 1, int(moves.sum()))]
    kept, reach = np.sort(order[:count]), float(distances[order[count]]) if len(order) > count else np.inf
    normals = np.zeros((len(kept), space.origin.size))

    def choose(start: int) -> Take:
        place = 0

        def take(cuts: Cuts, rows: np.ndarray, units: np.ndarray, rival: int) -> None:
            nonlocal place
            first, last = np.searchsorted(kept, [place, place + len(units)])
            own = rows[1:, kept[first:last] - place] / SCALE
            normals[first:last, start : start + len(own)] = own.T
            place += len(units)

        return take

    slopes, outputs = _blocks(space, patterns, choose, lambda share: tell((1 + share) / 2))
    found = LocalRows(
        tuple(part[0] for part in patterns), distances[kept], normals / steep[kept, None], owner[kept], owner[flat],
        outputs, slopes,
    )  # fmt: skip
    return found, tuple(on), reach


def _blocks(
    space: Coordinates, patterns: Pattern, make: Callable[[int], Take], tell: Callable[[float], None]
) -> tuple[np.ndarray, np.ndarray]:
    """Send all directions through the network, from each block's first on; slopes `[C, D]` and values of outputs."""
    size = space.origin.size
    widest = max((fold.site.units for fold in space.program.folds), default=1)
    together = max(1, min(size, _BLOCK // max(widest, size)))
    slopes = []
    for start in range(0, size, together):
        tell(start / size)
        reader = _Reader(space.program, lambda cuts: patterns[cuts.site], space.zeros)
        reader.take = make(start)
        out = reader.outputs(space.origin, np.eye(min(together, size - start), size, start))[0]
        slopes.append(out[1:].T)
    return np.hstack(slopes), out[0].copy()


class _Reader(RowReader):
    """Hands on rows instead of keeping them."""

    take: Take

    def _keep(self, cuts: Cuts, rows: np.ndarray, valid: np.ndarray, rival: int) -> None:
        self.take(cuts, rows[0][:, valid[0]], np.flatnonzero(valid[0]), rival)
