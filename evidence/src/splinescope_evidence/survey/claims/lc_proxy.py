"""Local complexity: the count of hyperplanes as a proxy for tiles, its bound, and where both fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import nn

from splinescope.complexity import local_complexity
from splinescope.network import SplineNetwork, trace
from splinescope.tiling import Slice, tessellate, zaslavsky
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import log_ticks, subplots
from splinescope_evidence.shared.intervals import interval

RADII = (0.01, 0.03, 0.1, 0.3, 1.0)


def _network(seed: int, width: int) -> SplineNetwork:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = nn.Sequential(
            nn.Linear(2, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, 1),
        ).double()  # fmt: skip
    return trace(net.eval(), torch.zeros(2, 2, dtype=torch.float64))


def _around(net: nn.Module | SplineNetwork, center: np.ndarray, radius: float) -> tuple[int, int, int]:
    """(folds by the frame's four vertices, folds, tiles) in the square whose corners are those vertices.

    With the two axes as directions the vertices `x +- r e_i` span a diamond; the tiling is that of the same diamond.
    """
    frame = torch.eye(2, dtype=torch.float64)
    proxy = local_complexity(net, torch.from_numpy(center)[None], radius=radius, directions=frame)
    diamond = radius * np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    tiling = tessellate(net, Slice(center, np.eye(2), diamond), progress=False)
    units = tiling.walls.cuts
    return int(proxy.total[0]), len(np.unique(units[units >= 0])), tiling.count


def _sawtooth(depth: int) -> tuple[int, int]:
    """(units whose zero set meets (0, 1), tiles there) of `depth` layers t -> |2 t - 1|, one unit each."""
    layers: list[nn.Module] = []
    for _ in range(depth):
        layer = nn.Linear(1, 1).double()
        with torch.no_grad():
            # a fold at 1/2: |2t - 1| of the value before, by one absolute-value unit
            layer.weight.fill_(2.0)
            layer.bias.fill_(-1.0)
        layers += [layer, _Abs()]
    tiling = tessellate(nn.Sequential(*layers).eval(), Slice.segment([0.0], [1.0]), progress=False)
    return depth, tiling.count


class _Abs(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.abs()


FIRST = 100
"""Seeds before this one were seen when the criterion was chosen, and are not judged."""

SMALL = 0.03
"""The radius up to which the vertices find every fold."""


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    networks, points, width = (1, 6, 20) if size == "quick" else (150, 40, 50)
    rows: dict[float, list[tuple[int, int, int]]] = {r: [] for r in RADII}
    for n in range(networks):
        net = _network(100 * seed + FIRST + n, width)
        rng = np.random.default_rng(100 * seed + FIRST + n)
        for i in range(points):
            if progress is not None:
                progress((n * points + i) / (networks * points), f"network {n + 1}, point {i + 1}")
            center = rng.uniform(-1, 1, 2)
            for r in RADII:
                rows[r].append(_around(net, center, r))
    tables = {r: np.array(found) for r, found in rows.items()}
    agree = {r: float((t[:, 0] == t[:, 1]).mean()) for r, t in tables.items()}
    over = sum(int((t[:, 0] > t[:, 1]).sum()) for t in tables.values())
    everything = np.concatenate(list(tables.values()))
    ranks = {r: [_rank_correlation(part) for part in np.split(t, networks)] for r, t in tables.items()}
    ends = {r: interval(values, 1 - 0.05 / len(RADII)) for r, values in ranks.items()}
    ordered = ", ".join(
        f"{np.mean(ranks[r]):.3f} ({low:.3f} to {high:.3f}) at r = {r:g}" for r, (low, high) in ends.items()
    )
    small = [ends[r] for r in RADII if r <= SMALL]
    folds, teeth = _sawtooth(3)
    beaten = sum(int(t > zaslavsky(int(n), 2)) for _, n, t in everything)
    total = len(everything)
    text = ", ".join(f"{100 * a:.0f}% at r = {r:g}" for r, a in agree.items())
    claims = (
        judged(
            "Counting the hyperplanes that cut a small neighborhood's vertices is a proxy for its complexity (survey, "
            "'The dynamic geometry of learning'): tiles grow with the count of folds. Small is where the vertices find "
            "every fold.",
            f"rank correlation of the count at the vertices with the tiles, {points} neighborhoods of one radius in "
            f"each of {networks} networks 2-{width}-{width}-{width}-1, intervals that share 5%: {ordered}",
            holds=[Check(f"lower end of its interval, least over radii up to {SMALL:g}",
                         min(low for low, _ in small), ">", 0.9, "a proxy should order nearly all neighborhoods")],
            fails=[Check(f"upper end of its interval, least over radii up to {SMALL:g}",
                         min(high for _, high in small), "<", 0.9, "significantly below at one radius")],
        ),
        judged(
            "The vertices tell every fold (survey, 'The dynamic geometry of learning', local complexity by a frame). "
            "Corrected: only where no earlier fold bends inside, that is, for small radii; they never tell one that is "
            "not there.",
            f"equal to the exact count: {text}; overcounts: {over} of {total}",
            holds=[Check("agreement at the largest radius", agree[RADII[-1]], ">", 0.99, "every fold")],
            corrected=[
                Check("agreement at the smallest radius", agree[RADII[0]], ">", 0.99, "no earlier fold is met there"),
                Check("overcounts", float(over), "<", 0.5, "a sign that differs proves a fold"),
            ],
        ),
        judged(
            "N hyperplanes cut a d-dimensional neighborhood into at most sum_{j <= d} C(N, j) tiles (survey, 'The "
            "dynamic geometry of learning', on Zaslavsky's bound). Corrected: if none of them bends inside.",
            f"three folds of a sawtooth make {teeth} tiles of the line, where the bound says "
            f"{zaslavsky(folds, 1)}; the random networks exceed it in {beaten} of {total} neighborhoods of the plane",
            holds=[Check("tiles of the sawtooth", float(teeth), "<", zaslavsky(folds, 1) + 0.5, "the bound itself")],
            corrected=[Check("neighborhoods beyond it with one fold site", float(_unbent_beyond(seed)), "<", 0.5,
                             "one layer of units cannot bend")],
        ),
    )  # fmt: skip
    return Outcome(
        {"radii": RADII, "agree": list(agree.values()), "folds": everything[:, 1], "tiles": everything[:, 2]}, claims
    )


def _rank_correlation(rows: np.ndarray) -> float:
    """Of the vertices' count and the tiles; 1 where neither varies, as equal neighborhoods are in no wrong order."""
    proxy, tiles = rows[:, 0], rows[:, 2]
    if (tiles == tiles[0]).all() and (proxy == proxy[0]).all():
        return 1.0
    if (tiles == tiles[0]).all() or (proxy == proxy[0]).all():
        return 0.0
    return float(stats.spearmanr(proxy, tiles).statistic)


def _unbent_beyond(seed: int) -> int:
    """Squares in which one-layer networks have more tiles than the bound."""
    beyond = 0
    for s in range(10):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1000 * seed + s)
            net = nn.Sequential(nn.Linear(2, 30), nn.ReLU(), nn.Linear(30, 1)).double().eval()
        _, folds, tiles = _around(net, np.zeros(2), 1.0)
        beyond += tiles > zaslavsky(folds, 2)
    return beyond


def draw(numbers: dict[str, Any]) -> Any:
    figure, (left, right) = subplots(2)
    left.plot(numbers["radii"], 100 * np.array(numbers["agree"]), "o-", color="#3b528b")
    log_ticks(left, [])
    left.set_xticks(numbers["radii"], [f"{r:g}" for r in numbers["radii"]])
    left.set(xlabel="radius", ylabel="% of neighborhoods counted exactly", ylim=(-3, 103))
    folds, tiles = np.array(numbers["folds"]), np.array(numbers["tiles"])
    right.loglog(folds + 1, tiles, ".", color="#3b528b", alpha=0.4)
    grid = np.arange(0, folds.max() + 1)
    right.loglog(grid + 1, 1 + grid + grid * (grid - 1) / 2, color="#d55e00", label="bound for unbent folds")
    right.set(xlabel="folds + 1", ylabel="tiles")
    right.legend(frameon=False)
    return figure


EXPERIMENT = Experiment("Local complexity: proxy and bound", run, draw, place="before Figure 9", revised=(1,))
