"""How many tiles: arrangements against Zaslavsky's number, the sawtooth, and depth against width."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from splinescope.tiling import Slice, tessellate, zaslavsky
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.intervals import interval
from splinescope_research.folds.montufar import montufar

SHAPES: dict[str, tuple[int, ...]] = {"60": (60,), "30-30": (30, 30), "20-20-20": (20, 20, 20), "12 x 5": (12,) * 5}


def _mlp(seed: int, inputs: int, widths: tuple[int, ...], bias: bool = True) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers: list[nn.Module] = []
        for a, b in zip((inputs, *widths), widths, strict=False):
            layers += [nn.Linear(a, b, bias=bias), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(widths[-1], 1)).double().eval()


def _arrangement(seed: int, lines: int, kind: str) -> int:
    """Tiles of one layer in a window that holds all crossings: generic, through the origin, or with a parallel pair."""
    net = _mlp(seed, 2, (lines,), bias=kind != "zero bias")
    first = net[0]
    assert isinstance(first, nn.Linear)
    with torch.no_grad():
        turn = torch.linspace(0.1, 3.0, lines, dtype=torch.float64)  # directions well apart: all crossings are near
        first.weight.copy_(torch.stack([turn.cos(), turn.sin()], 1))
        if kind == "two parallel":
            first.weight[1] = first.weight[0]
    return tessellate(net, Slice.axes([0.0, 0.0], (0, 1), -500, 500), progress=False).count


def _at_he_scale(net: nn.Sequential) -> nn.Sequential:
    """Weights from the default's variance 1 / (3 fan) to 2 / fan; biases stay."""
    with torch.no_grad():
        for layer in net:
            if isinstance(layer, nn.Linear):
                layer.weight.mul_(6**0.5)
    return net


def _tiles_in_window(net: nn.Sequential) -> int:
    return tessellate(net, Slice.axes([0.0, 0.0], (0, 1), -3, 3), progress=False).count


def _sawtooth(depth: int) -> int:
    """Pieces on [0, 1] of the composition of `depth` tents, each of two units."""
    layers: list[nn.Module] = []
    for i in range(depth):
        layer = nn.Linear(1 if i == 0 else 2, 2).double()
        with torch.no_grad():
            # tent(t) = 2 relu(t) - 4 relu(t - 1/2): read the tent before, write t and t - 1/2
            tent = torch.tensor([[1.0]] if i == 0 else [[2.0, -4.0]], dtype=torch.float64)
            layer.weight.copy_(tent.repeat(2, 1))
            layer.bias.copy_(torch.tensor([0.0, -0.5], dtype=torch.float64))
        layers += [layer, nn.ReLU()]
    last = nn.Linear(2, 1).double()
    with torch.no_grad():
        last.weight.copy_(torch.tensor([[2.0, -4.0]], dtype=torch.float64))
        last.bias.zero_()
    tiling = tessellate(nn.Sequential(*layers, last).eval(), Slice.segment([0.0], [1.0]), progress=False)
    return int(tiling.pieces().count)


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    seeds, depth = (2, 5) if size == "quick" else (20, 8)
    arrangements = {
        kind: {n: _arrangement(seed, n, kind) for n in (5, 7)} for kind in ("generic", "zero bias", "two parallel")
    }
    expected = {
        "generic": {n: zaslavsky(n, 2) for n in (5, 7)},
        "zero bias": {n: 2 * n for n in (5, 7)},
        "two parallel": {n: zaslavsky(n, 2) - 1 for n in (5, 7)},
    }
    teeth = {d: _sawtooth(d) for d in range(1, depth + 1)}
    if progress is not None:
        progress(0.2, "random networks on a line")
    line = [_pieces_on_a_line(1000 * seed + s) for s in range(30 if size == "full" else 4)]
    counts: dict[str, list[int]] = {}
    for i, (name, widths) in enumerate(SHAPES.items()):
        if progress is not None:
            progress(0.3 + 0.7 * i / len(SHAPES), f"60 units as {name}")
        counts[name] = [_tiles_in_window(_mlp(100 * seed + s, 2, widths)) for s in range(seeds)]
    he = {name: np.array([_tiles_in_window(_at_he_scale(_mlp(100 * seed + s, 2, SHAPES[name]))) for s in range(seeds)])
          for name in ("60", "12 x 5")}  # fmt: skip
    wide = np.array(counts["60"], float)
    ratios = {name: np.array(values) / wide for name, values in counts.items() if name != "60"}
    deepest = ratios["12 x 5"]
    (low, high), (he_low, he_high) = interval(deepest), interval(he["12 x 5"] / he["60"])
    wrong = sum(arrangements[k][n] != expected[k][n] for k in expected for n in expected[k])
    limit = montufar(1, (5, 5, 5))
    claims = (
        judged(
            "One layer of N units makes sum_{j <= D} C(N, j) tiles (survey, on Zaslavsky's count). Corrected: a "
            "generic one does; lines through one point make 2 N, a parallel pair one less.",
            f"N = 5, 7 in the plane: generic {list(arrangements['generic'].values())}, zero bias "
            f"{list(arrangements['zero bias'].values())}, two parallel {list(arrangements['two parallel'].values())}",
            holds=[
                Check("arrangements that differ from the generic number", float(sum(
                    arrangements[k][n] != expected["generic"][n] for k in expected for n in expected[k])), "<", 0.5,
                    "as stated it would be the number of every layer"),
            ],
            corrected=[Check("arrangements that differ from their own number", float(wrong), "<", 0.5, "exact counts")],
        ),
        judged(
            "Depth can make exponentially many tiles of few units (survey, on the number of tiles): 2^L pieces of L "
            "layers of two units (sawtooth).",
            f"pieces at depth 1 to {depth}: {list(teeth.values())}",
            holds=[
                Check("largest |pieces - 2^L|", float(max(abs(v - 2**d) for d, v in teeth.items())), "<", 0.5, "exact")
            ],
        ),
        judged(
            "(Ours.) Random networks are far below the largest number that weights can make.",
            f"{len(line)} random networks 1-5-5-5-1: at most {max(line)} pieces; the maximum is at least {limit}",
            holds=[Check("most pieces of a random network", float(max(line)), "<", 0.25 * limit, "far: a quarter")],
        ),
        judged(
            "(Ours.) With the number of units held, depth gives more tiles than width at PyTorch's default weights, in "
            "a square of side 6 (the survey, on the number of tiles, speaks of the most that weights can make).",
            "tiles over those of one layer of 60, mean of "
            f"{seeds} seeds: " + ", ".join(f"{name} {r.mean():.2f}" for name, r in ratios.items()) + f"; five layers "
            f"{deepest.mean():.2f}, 95% interval {low:.2f} to {high:.2f}; not judged: five layers at He's scale "
            f"{he_low:.2f} to {he_high:.2f}",
            holds=[Check("lower end of the 95% interval", low, ">", 1.0, "more than width")],
            fails=[Check("upper end of the 95% interval", high, "<", 1.0, "fewer than width")],
        ),
    )  # fmt: skip
    return Outcome({"teeth": teeth, "line": line, "limit": limit, "counts": counts}, claims)


def _pieces_on_a_line(seed: int) -> int:
    tiling = tessellate(_mlp(seed, 1, (5, 5, 5)), Slice.segment([-20.0], [20.0]), progress=False)
    return int(tiling.pieces().count)


def draw(numbers: dict[str, Any]) -> Any:
    figure, (left, right) = subplots(2)
    depth = [int(d) for d in numbers["teeth"]]
    left.semilogy(depth, list(numbers["teeth"].values()), "o-", color="#3b528b", label="sawtooth")
    left.axhline(numbers["limit"], color="#d55e00", label="best 1-5-5-5-1: at least")
    left.plot(np.full(len(numbers["line"]), 3), numbers["line"], ".", color="0.5", label="random 1-5-5-5-1")
    left.set(xlabel="layers", ylabel="pieces")
    left.legend(frameon=False)
    right.boxplot(list(numbers["counts"].values()), tick_labels=list(numbers["counts"]))
    right.set(xlabel="60 units as", ylabel="tiles on the square")
    return figure


EXPERIMENT = Experiment(
    "How many tiles: bounds, depth and width", run, draw, place="after equation (5)", revised=(3, 4)
)
