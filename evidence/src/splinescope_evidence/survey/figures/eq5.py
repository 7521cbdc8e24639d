"""Equations (5), (6) and Figure 3: one affine map on each convex tile; the decision boundary is one folded line."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from splinescope.tiling import Slice, Tiling, tessellate
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots

HALF_SIDE = 3.0


def _network(seed: int, widths: tuple[int, ...]) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers: list[nn.Module] = []
        for a, b in pairwise(widths):
            layers += [nn.Linear(a, b), nn.ReLU()]
        net = nn.Sequential(*layers[:-1]).double().eval()
    with torch.no_grad():  # the two outputs tie at the origin, so that every network has a boundary to look at
        last = net[-1]
        assert isinstance(last, nn.Linear)
        last.bias.sub_(net(torch.zeros(1, widths[0], dtype=torch.float64))[0])
    return net


def _pattern(net: nn.Sequential, x: Tensor) -> np.ndarray:
    """`[N, U]` signs of all pre-activations, by running the layers one by one."""
    signs = []
    with torch.no_grad():
        for layer in list(net)[:-1]:
            if isinstance(layer, nn.ReLU):
                signs.append(x > 0)
            x = layer(x)
    return torch.cat(signs, 1).numpy()


def _points_inside(tiling: Tiling, rng: np.random.Generator, per_tile: int) -> tuple[np.ndarray, np.ndarray]:
    """Random points of every tile `[K per_tile, 2]` (mixtures of its corners), and their tiles."""
    points, tiles = [], []
    for k in range(tiling.count):
        corners = tiling.tile(k)
        points.append(rng.dirichlet(np.ones(len(corners)), size=per_tile) @ corners)
        tiles.append(np.full(per_tile, k))
    return np.concatenate(points), np.concatenate(tiles)


def _one(seed: int) -> dict[str, Any]:
    """A random network 2-20-20-20-2: maps, convexity and boundary of its tiling against the module itself."""
    net = _network(seed, (2, 20, 20, 20, 2))
    tiling = tessellate(net, Slice.axes([0.0, 0.0], (0, 1), -HALF_SIDE, HALF_SIDE), progress=False)
    rng = np.random.default_rng(seed)
    points, tiles = _points_inside(tiling, rng, 4)
    with torch.no_grad():
        truth = net(torch.from_numpy(points)).numpy()
    told = np.einsum("ncd,nd->nc", tiling.slopes()[tiles], points) + tiling.offsets()[tiles]
    scale = np.abs(truth).max()
    pattern = _pattern(net, torch.from_numpy(points)).reshape(tiling.count, 4, -1)
    middles = points.reshape(tiling.count, 4, 2)
    middle = _pattern(net, torch.from_numpy((middles[:, 0] + middles[:, 1]) / 2))
    # by mixtures only: points nearer to a wall than rounding can be on either side of it
    safe = tiling.inradii() > 1e-9
    same = (pattern == pattern[:, :1]).all((1, 2)) & (middle == pattern[:, 0]).all(1)
    codes = {row.tobytes() for row in np.packbits(pattern[safe, 0], axis=1)}
    boundary = tiling.decision_boundary()
    with torch.no_grad():
        ends = net(torch.from_numpy(boundary.segments.reshape(-1, 2))).numpy()
    return {
        "tiles": tiling.count,
        "error": float(np.abs(told - truth).max() / scale),
        "split patterns": int((~same & safe).sum()),
        "repeated patterns": int(safe.sum()) - len(codes),
        "tie": float(np.abs(ends[:, 0] - ends[:, 1]).max(initial=0.0) / scale),
        "segments": len(boundary.segments),
        "bends off folds": _bends_off_folds(tiling),
        "offset as printed": _offset_error(net, tiling, 1.0),
        "offset": _offset_error(net, tiling, -1.0),
    }


def _offset_error(net: nn.Sequential, tiling: Tiling, sign: float) -> float:
    """How far ends of the first layer's folds are from the offset `sign b / |w|` along w, at most."""
    first = net[0]
    assert isinstance(first, nn.Linear)
    weight, bias = first.weight.detach().numpy(), first.bias.detach().numpy()
    length = np.linalg.norm(weight, axis=1)
    units = tiling.walls.cuts
    own = (units >= 0) & (units < len(bias))
    units, ends = units[own], tiling.vertices[tiling.walls.ends[own]]
    along = np.einsum("ned,nd->ne", ends, weight[units] / length[units, None])
    return float(np.abs(along - sign * (bias / length)[units, None]).max())


def _bends_off_folds(tiling: Tiling) -> int:
    """How many inner corners of the boundary's lines lie on no wall: a folded line bends at folds only."""
    off = 0
    scale = HALF_SIDE
    walls = tiling.vertices[tiling.walls.ends]
    for _, line in tiling.decision_boundary().polylines:
        for a, b, c in zip(line[:-2], line[1:-1], line[2:], strict=True):
            u, v = b - a, c - b
            turn = abs(u[0] * v[1] - u[1] * v[0]) / max(np.linalg.norm(u) * np.linalg.norm(v), 1e-300)
            if turn > 1e-6 and _distance_to_segments(b, walls) > 1e-9 * scale:
                off += 1
    return off


def _distance_to_segments(point: np.ndarray, segments: np.ndarray) -> float:
    start, along = segments[:, 0], segments[:, 1] - segments[:, 0]
    length = np.maximum((along**2).sum(1), 1e-300)
    t = np.clip(((point - start) * along).sum(1) / length, 0, 1)
    return float(np.sqrt((((start + t[:, None] * along) - point) ** 2).sum(1)).min())


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    count = 2 if size == "quick" else 20
    rows = []
    for i in range(count):
        if progress is not None:
            progress(i / count, f"network {i + 1} of {count}")
        rows.append(_one(1000 * seed + i))
    shown = tessellate(
        _network(1000 * seed, (2, 20, 20, 20, 2)),
        Slice.axes([0.0, 0.0], (0, 1), -HALF_SIDE, HALF_SIDE),
        progress=False,
    )

    def worst(name: str) -> float:
        return float(max(row[name] for row in rows))

    tiles, segments = sum(row["tiles"] for row in rows), sum(row["segments"] for row in rows)
    rounding = "float64 rounding of sums of some 20 terms, with room for thin tiles"
    claims = (
        judged(
            "Equation (5): on each tile the network is one affine map A x + c.",
            f"largest relative error {worst('error'):.1e} at 4 random points in each of {tiles} tiles of {count} "
            "networks 2-20-20-20-2",
            holds=[Check("largest relative error", worst("error"), "<", 1e-9, rounding)],
        ),
        judged(
            "Figure 3: the tiles are convex, each with one activation pattern, and no pattern has two tiles (cells of "
            "equal affine map need not be convex; cells of equal pattern are).",
            f"tiles with two patterns, or whose midpoints leave the pattern: {worst('split patterns'):.0f}; patterns "
            f"with several tiles: {worst('repeated patterns'):.0f}",
            holds=[
                Check("tiles with several patterns", worst("split patterns"), "<", 0.5, "a single one refutes it"),
                Check("patterns with several tiles", worst("repeated patterns"), "<", 0.5, "a single one refutes it"),
            ],
        ),
        judged(
            "Beside Figure 5: the decision boundary of two classes is one hyperplane, folded at walls of tiles.",
            f"{segments} segments: largest difference of the two outputs {worst('tie'):.1e} of their scale; bends that "
            f"lie on no wall: {worst('bends off folds'):.0f}",
            holds=[
                Check("difference of outputs on the boundary", worst("tie"), "<", 1e-9, rounding),
                Check("bends off the walls", worst("bends off folds"), "<", 0.5, "a single one refutes it"),
            ],
            needs=[Check("segments found", float(segments), ">", 0.5, "without a boundary nothing is tested")],
        ),
        judged(
            "Equation (6): the hyperplane of a unit has the offset b / |w| along w. Corrected: -b / |w|.",
            f"offsets of first-layer folds differ from b / |w| by up to {worst('offset as printed'):.2g}, from "
            f"-b / |w| by up to {worst('offset'):.1e}",
            holds=[Check("error of b / |w|", worst("offset as printed"), "<", 1e-9, rounding)],
            corrected=[Check("error of -b / |w|", worst("offset"), "<", 1e-9, rounding)],
        ),
    )
    numbers = {
        "rows": rows,
        "polygons": [shown.tile(k).tolist() for k in range(shown.count)],
        "classes": shown.classes().tolist(),
        "boundary": shown.decision_boundary().segments.tolist(),
    }
    return Outcome(numbers, claims)


def draw(numbers: dict[str, Any]) -> Any:
    from matplotlib.collections import LineCollection, PolyCollection

    figure, (left, right) = subplots(2)
    colors = ["#88ccee" if c else "#ddcc77" for c in numbers["classes"]]
    left.add_collection(PolyCollection(numbers["polygons"], facecolors=colors, edgecolors="white", linewidths=0.4))
    left.add_collection(LineCollection(numbers["boundary"], colors="#e00000", linewidths=1.6))
    left.set(xlim=(-HALF_SIDE, HALF_SIDE), ylim=(-HALF_SIDE, HALF_SIDE), aspect="equal", xlabel="$x_1$", ylabel="$x_2$")
    left.set_title("tiles and boundary of one network")
    errors = [max(row["error"], 1e-17) for row in numbers["rows"]]
    right.semilogy(range(1, len(errors) + 1), errors, "o", color="#3b528b")
    right.axhline(1e-9, color="0.6", lw=1)
    right.set(xlabel="network", ylabel="largest relative error of A x + c")
    return figure


EXPERIMENT = Experiment(
    "Equations (5) and (6), Figures 3 and 5: affine on convex tiles",
    run,
    draw,
    place="equations (5) and (6), Figure 3; the text beside Figure 5",
)
