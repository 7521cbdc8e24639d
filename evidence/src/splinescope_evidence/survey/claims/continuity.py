"""Continuity couples the affine maps of tiles: how many numbers are free on a network's own tiling."""

from __future__ import annotations

from typing import Any

import numpy as np

from splinescope.tiling import Slice, Tiling, tessellate
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.survey.claims.deep_bends import _he

SHAPES = ([4], [8], [16], [6, 6], [10, 10], [14, 14], [6, 6, 6], [10, 10, 10])


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    shapes, repeats = (SHAPES[3:4], 1) if size == "quick" else (SHAPES, 4)
    rows = []
    for number, widths in enumerate(shapes):
        if progress is not None:
            progress(number / len(shapes), "-".join(map(str, (2, *widths, 1))))
        for i in range(repeats):
            net = _he(seed + i, list(widths))
            tiling = tessellate(net, Slice.axes([0.0, 0.0], (0, 1), -4, 4), progress=False)
            free, gap = _free(tiling)
            rows.append({"layers": len(widths), "tiles": tiling.count, "free": free, "gap": gap,
                         "folds": _connected(tiling),
                         "parameters": sum(p.numel() for p in net.parameters())})  # fmt: skip
    off = max(abs(row["free"] - 3 - row["folds"]) for row in rows)
    largest = max(rows, key=lambda row: row["tiles"])
    share = largest["free"] / (3 * largest["tiles"])
    clear = min(row["gap"] for row in rows)
    return Outcome(
        {"rows": rows},
        (
            judged(
                "Continuity couples the affine maps of the tiles, so that networks are a small class. In the plane, "
                "3 + (connected folds) numbers are free of the three of each tile.",
                f"{len(rows)} networks of one to three layers, {min(row['tiles'] for row in rows)} to "
                f"{largest['tiles']} tiles: free numbers minus 3 minus folds at most {off}; in the largest tiling "
                f"{largest['free']} of {3 * largest['tiles']} numbers are free ({share:.1%}); the singular values that "
                f"count as zero lie below the others by a factor of {clear:.0e} or more",
                holds=[
                    Check("free numbers minus 3 minus connected folds, largest", float(off), "<", 0.5, "a count"),
                    Check("free share of the largest tiling", share, "<", 0.1, "'small'"),
                ],
                needs=[Check("factor between the singular values that are not 0 and those that are", clear, ">", 1e3,
                             "a rank must be clear")],
            ),
        ),
    )  # fmt: skip


def _free(tiling: Tiling) -> tuple[int, float]:
    """Dimension of the continuous functions that are affine on each tile, and how clear the rank is.

    Across a wall the gradient jumps by a multiple of the wall's normal. Around an inner vertex jumps add up to zero:
    two equations. Jumps that satisfy them, and one affine map, give a function.
    """
    walls = np.flatnonzero(tiling.walls.cuts >= 0)
    ends = tiling.walls.ends[walls]
    along = tiling.vertices[ends[:, 1]] - tiling.vertices[ends[:, 0]]
    normals = np.stack([-along[:, 1], along[:, 0]], 1) / np.linalg.norm(along, axis=1)[:, None]
    outside = np.unique(tiling.walls.ends[tiling.walls.cuts < 0])
    inner = np.setdiff1d(np.unique(ends), outside)
    matrix = np.zeros((2 * len(inner), len(walls)))
    for column, (pair, normal) in enumerate(zip(ends, normals, strict=True)):
        for end, sign in zip(pair, (1, -1), strict=True):
            place = np.searchsorted(inner, end)
            if place < len(inner) and inner[place] == end:
                matrix[2 * place : 2 * place + 2, column] = sign * normal
    if not len(inner):
        return 3 + len(walls), np.inf
    singular = np.zeros(len(walls))
    found = np.linalg.svd(matrix, compute_uv=False)
    singular[: len(found)] = found
    rank = int((singular > 1e-7).sum())
    beyond = singular[rank] if rank < len(singular) else 0.0
    return 3 + len(walls) - rank, float(singular[rank - 1] / max(beyond, 1e-16))


def _connected(tiling: Tiling) -> int:
    """Connected pieces of folds: walls of one cut that share a vertex belong together."""
    walls = np.flatnonzero(tiling.walls.cuts >= 0)
    ends, cuts = tiling.walls.ends[walls], tiling.walls.cuts[walls]
    root = list(range(len(walls)))

    def find(i: int) -> int:
        while root[i] != i:
            root[i] = root[root[i]]
            i = root[i]
        return i

    seen: dict[tuple[int, int], int] = {}
    for i, (pair, cut) in enumerate(zip(ends, cuts, strict=True)):
        for end in pair:
            other = seen.setdefault((int(end), int(cut)), i)
            root[find(i)] = find(other)
    return len({find(i) for i in range(len(walls))})


def draw(numbers: dict[str, Any]) -> Any:
    figure, (left, right) = subplots(2)
    for layers, marker in zip((1, 2, 3), "osv", strict=True):
        rows = [row for row in numbers["rows"] if row["layers"] == layers]
        left.plot(
            [row["folds"] for row in rows],
            [row["free"] for row in rows],
            marker,
            label=f"{layers} layer{'s' * (layers > 1)}",
        )
        right.loglog([row["tiles"] for row in rows], [row["free"] / 3 / row["tiles"] for row in rows], marker)
    most = max(row["folds"] for row in numbers["rows"])
    left.plot([0, most], [3, 3 + most], color="0.5", linewidth=1, label="3 + folds")
    left.set(xlabel="connected folds", ylabel="free numbers on the tiling")
    left.legend(frameon=False)
    right.set(xlabel="tiles", ylabel="free share of three numbers a tile")
    return figure


EXPERIMENT = Experiment("Continuity couples the maps of the tiles", run, draw, place="beside equation (5)")
