"""An open question of the survey: does the next layer subdivide a tile as the first one subdivides the domain?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from ..tiling import Level, Slice, Subdivision, cuts_within, subdivision, tessellate
from ._data import digits
from ._distributions import alike, between, jumps_of, ks, sides_of
from ._experiment import Check, Claim, Experiment, Outcome, Progress, Size, judged
from ._figures import subplots
from ._intervals import interval
from ._normalization import seeded, two_moons

KINDS = ("random, 2-D", "trained on moons, 2-D", "trained on digits, 2-D", "random, 3-D", "trained on shells, 3-D")
DEPTH = 4
ALIKE = 0.02
"""Of distances between distributions: triangles and long rectangles in place of squares make .02 to .1."""

SIDES = {2: (2, 3, 4, 6, 8, 12, 16, 24, 32, 48), 3: (2, 3, 4, 6, 8, 12)}
"""By dimension: into how many squares or cubes along each side the domain is divided, coarsely to finely, so that first
layers cut some of them by as few folds as later layers cut tiles."""


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    seeds, widths = (2, (8, 6)) if size == "quick" else (8, (40, 14))
    rows: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    shapes: dict[str, list[list[float]]] = {}
    curves: dict[str, dict[str, list[list[float]]]] = {}
    for i, kind in enumerate(KINDS):
        tilings, squares, unrelated, others = [], [], [], []
        for s in range(seeds):
            if progress is not None:
                progress((i + s / seeds) / len(KINDS), f"{kind}, seed {s}")
            net, view = _case(kind, widths, seed + s, steps=20 if size == "quick" else 400)
            other, _ = _case(kind, widths, seed + s + 1000, steps=20 if size == "quick" else 400)
            tilings.append(subdivision(tessellate(net, view, progress=False)))
            squares.append([_squares(net, view, sides) for sides in SIDES[view.dimension]])
            unrelated.append(_unrelated(net, other, view))
            others.append(subdivision(tessellate(other, view, progress=False)))
        pool = [level for levels in squares for level in levels]
        for found, own, (foreign, parts), other_found in zip(tilings, squares, unrelated, others, strict=True):
            row = _numbers(found, own, pool) | _numbers_unrelated(foreign, pool) | between(found, other_found)
            row["sides, unrelated folds"] = [
                ks(*p) for p in zip(sides_of(found.levels[2:]), sides_of(parts), strict=True)
            ]
            rows[kind].append(row)
        _, weights, values = _matched(tilings[0].levels[1:], pool)
        shapes[kind] = [_thinned(values, weights), *(_thinned(level.shares) for level in tilings[0].levels[1:])]
        curves[kind] = {"sides": [_thinned(v) for v in sides_of(tilings[0].levels[1:])],
                        "jumps": [_thinned(v) for v in jumps_of(tilings[0].levels)]}  # fmt: skip
    first, last = [_claim(kind, rows[kind]) for kind in KINDS[:4]], _claim(KINDS[4], rows[KINDS[4]])
    folds = "; ".join(
        f"{kind} {np.mean([row['sides, unrelated folds'] for row in of_kind]):.3f}" for kind, of_kind in rows.items()
    )
    return Outcome(
        {"rows": rows, "shapes": shapes, "curves": curves},
        (
            *first,
            _shape(rows),
            last,
            alike(rows, "sides", "The numbers of sides of inner tiles",
                  f"; between tiles that a network's own next layer makes and those that an unrelated network's folds "
                  f"make of the same tiles: {folds}"),
            alike(rows, "jumps", "Differences of maps between neighbouring parts, over their median,"),
        ),
    )  # fmt: skip


def _case(kind: str, widths: tuple[int, int], seed: int, steps: int) -> tuple[nn.Module, Slice]:
    """A network of four hidden layers, He weights and biases of variance .1 at random, and its slice."""
    generator = torch.Generator().manual_seed(seed)
    in_space = (3, widths[1])
    inputs, width = {
        "random, 3-D": in_space,
        "trained on shells, 3-D": in_space,
        "trained on digits, 2-D": (64, widths[0]),
    }.get(kind, (2, widths[0]))
    outputs = 10 if "digits" in kind else 2

    def make() -> nn.Sequential:
        layers: list[nn.Module] = []
        for n in (inputs, *[width] * (DEPTH - 1)):
            layer = nn.Linear(n, width)
            nn.init.normal_(layer.weight, std=(2 / n) ** 0.5)
            nn.init.normal_(layer.bias, std=0.1**0.5)
            layers += [layer, nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(width, outputs))

    net = seeded(make, seed).double().eval()
    if kind == "trained on digits, 2-D":
        x, y = digits()
        _train(net, x[:1000], y[:1000], steps, generator)
        return net, Slice.through(*(x[int(i)] for i in torch.randperm(1000, generator=generator)[:3]), pad=0.5)
    if kind == "trained on moons, 2-D":
        _train(net, *two_moons(256, 0.1, generator), steps, generator)
    if kind == "trained on shells, 3-D":
        _train(net, *_shells(256, 0.1, generator), steps, generator)
    half = 1.5 if "3-D" in kind else 3.0
    return net, Slice.axes([0.0] * inputs, tuple(range(inputs)), -half, half)


def _shells(n: int, noise: float, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """`[n, 3]` points about two spheres of radius .5 and 1, and labels 0 and 1."""
    labels = torch.arange(n) % 2
    points = torch.randn(n, 3, generator=generator, dtype=torch.float64)
    points *= (0.5 + 0.5 * labels[:, None]) / points.norm(dim=1, keepdim=True)
    return points + noise * torch.randn(n, 3, generator=generator, dtype=torch.float64), labels


class _SideBySide(nn.Module):
    """Two networks on one input: the tiling of both, none of which knows of the other."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.first(x), self.second(x)], 1)


def _unrelated(net: nn.Module, other: nn.Module, view: Slice) -> tuple[list[Level], list[Level]]:
    """How the folds of the next layer of another network cut the tiles of a network's first layers, and the tiles made.

    Folds lie densest where tiles are small, so that cuts that know nothing of the tiles need not come with size alone;
    and so many folds may divide any convex body alike, whether they know of it or not.
    """
    both = tessellate(_SideBySide(net, other), view, progress=False)
    sites = [([f"first.{2 * i + 1}" for i in range(depth)], [f"second.{2 * depth + 1}"]) for depth in range(1, DEPTH)]
    return (
        [cuts_within(both, own, foreign) for own, foreign in sites],
        [cuts_within(both, own + foreign, [f"first.{2 * len(own) + 1}"]) for own, foreign in sites[:-1]],
    )


def _train(net: nn.Module, x: torch.Tensor, y: torch.Tensor, steps: int, generator: torch.Generator) -> None:
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(steps):
        rows = torch.randint(len(x), (128,), generator=generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
        optimizer.step()


def _squares(net: nn.Module, view: Slice, sides: int) -> Level:
    """The domain divided into squares (cubes), `sides` along each direction, and cut by the first layer's folds."""
    assert isinstance(net, nn.Sequential)
    flat = view.basis.reshape(view.dimension, -1)
    directions = np.linalg.pinv(flat).T  # of the slice's coordinates
    low, high = view.domain.min(0), view.domain.max(0)
    lines = low[:, None] + (high - low)[:, None] * np.arange(1, sides) / sides
    layer = nn.Linear(flat.shape[1], lines.size).double()
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(np.repeat(directions, sides - 1, 0)))
        layer.bias.copy_(torch.from_numpy(-(lines + (directions @ view.origin.reshape(-1))[:, None]).reshape(-1)))
    both = tessellate(_SideBySide(nn.Sequential(layer, nn.ReLU()), net[:2]), view, progress=False)
    return cuts_within(both, ["first.1"], ["second.1"])


def _matched(
    parts: Sequence[Level], squares: Sequence[Level], more: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shares of the parts of tiles, and shares of those of squares with weights.

    The weights give as many parts to each number of cuts as tiles have there (with so many cuts `more`). Tiles that are
    cut more often than any square are left out.
    """
    shares, cuts = (
        np.concatenate(values) for values in zip(*((p.shares, p.cuts[p.parents] + more) for p in parts), strict=True)
    )
    known, times = (
        np.concatenate(values) for values in zip(*((s.shares, s.cuts[s.parents]) for s in squares), strict=True)
    )
    inside = np.isin(cuts, times)
    most = int(max(cuts.max(initial=0), times.max(initial=0))) + 1
    wanted, there = (np.bincount(c, minlength=most) for c in (cuts[inside], times))
    weights = (wanted / np.maximum(there, 1))[times] / max(int(inside.sum()), 1)
    return shares[inside], weights, known


def _distance(shares: np.ndarray, weights: np.ndarray, others: np.ndarray) -> float:
    """Kolmogorov-Smirnov: the largest difference of two distributions, the second with weights; 1 if one is empty."""
    if not len(shares) or not weights.any():
        return 1.0
    order = np.argsort(others)
    points = np.concatenate([shares, others])
    below = np.searchsorted(np.sort(shares), points, side="right") / len(shares)
    sums = np.concatenate([[0.0], np.cumsum(weights[order])])
    return float(np.abs(below - sums[np.searchsorted(others[order], points, side="right")]).max())


def _numbers(found: Subdivision, own: list[Level], pool: list[Level]) -> dict[str, Any]:
    """Per level: exponent, cuts, mean sides of inner tiles, median jump, and how far the shares are from those of
    squares that as many folds of a first layer cut, in all networks of the kind; at level 0, those of the network's own
    large squares from those of its small ones.
    """
    inner = [level.sides[level.sides >= 0] for level in found.levels]
    large, small = own[: len(own) // 2], own[len(own) // 2 :]
    pairs = [_matched(large, small), *(_matched([level], pool) for level in found.levels[1:])]
    parts = [sum(len(level.shares) for level in large), *(len(level.shares) for level in found.levels[1:])]
    return {
        "tiles": [len(level.sizes) for level in found.levels],
        "exponent": [level.exponent for level in found.levels],
        "cuts": [float(level.cuts.mean()) for level in found.levels],
        "sides": [float(sides.mean()) if len(sides) else None for sides in inner],
        "jump": [float(np.median(level.jumps)) if len(level.jumps) else None for level in found.levels],
        "distance": [_distance(*pair) for pair in pairs],
        "one cut more": [_distance(*_matched([level], pool, more=1)) for level in found.levels[1:]],
        "compared": [len(pair[0]) / max(count, 1) for pair, count in zip(pairs, parts, strict=True)],
    }


def _numbers_unrelated(levels: list[Level], pool: list[Level]) -> dict[str, Any]:
    """Exponents of an unrelated network's folds, and how far the shares of their parts are from those of squares."""
    pairs = [_matched([level], pool) for level in levels]
    return {
        "unrelated": [level.exponent for level in levels],
        "unrelated distance": [_distance(*pair) for pair in pairs],
        "unrelated compared": [
            len(pair[0]) / max(len(level.shares), 1) for pair, level in zip(pairs, levels, strict=True)
        ],
    }


def _thinned(values: np.ndarray, weights: np.ndarray | None = None) -> list[float]:
    """At most 400 quantiles of some numbers."""
    if not len(values):
        return []
    levels = np.linspace(0, 1, min(400, len(values)))
    if weights is None:
        return [float(v) for v in np.quantile(values, levels)]
    order = np.argsort(values)
    return [float(v) for v in np.interp(levels, np.cumsum(weights[order]), values[order])]


def _claim(kind: str, rows: list[dict[str, Any]]) -> Claim:
    """Exponent 0 is self-similar; the exponent of unrelated folds is what no regard to the tiles looks like here."""
    exponents, unrelated = (np.array([row[name][-(DEPTH - 1) :] for row in rows]) for name in ("exponent", "unrelated"))
    means, gap = exponents.mean(1), (exponents - unrelated).mean(1)
    (low, high), (less, more) = interval(means), interval(gap)
    growth = [float(np.polyfit(range(DEPTH - 1), row, 1)[0]) for row in exponents]
    by_depth = ", ".join(f"{d + 1}: {a:.2f} ({b:.2f})" for d, (a, b) in
                         enumerate(zip(exponents.mean(0), unrelated.mean(0), strict=True)))  # fmt: skip
    return judged(
        f"Tilings are self-similar: a tile is cut by the next layer alike, whatever its size ({kind}; survey, on "
        "Figures 3 and 4: an open question; with correction if larger tiles are cut more, but less so than by an "
        "unrelated network's folds).",
        f"exponent of the number of cuts in the size of a tile, {len(rows)} networks: mean over depths "
        f"{means.mean():.3f}, 95% interval {low:.3f} to {high:.3f}; minus that of an unrelated network's folds "
        f"{less:.3f} to {more:.3f}; by depth (unrelated) {by_depth}; change per layer {np.mean(growth):+.3f} "
        f"({interval(growth)[0]:+.3f} to {interval(growth)[1]:+.3f})",
        holds=[Check("upper end of the exponent", high, "<", 0.1, "0 is self-similar; a tenth is hard to see")],
        corrected=[Check("upper end of the difference to unrelated folds", more, "<", 0.0, "0 is no regard to tiles")],
        fails=[Check("lower end of the exponent", low, ">", 0.1, "surely not 0")],
    )


def _shape(rows: dict[str, list[dict[str, Any]]]) -> Claim:
    """Whether areas of children, rescaled by their mean, tell a network's own folds from an unrelated one's."""

    def means(name: str) -> dict[str, np.ndarray]:
        """Of each kind, by network: the mean over depths."""
        return {
            kind: np.array([row[name][-(DEPTH - 1) :] for row in of_kind]).mean(1) for kind, of_kind in rows.items()
        }

    own, unrelated, more = means("distance"), means("unrelated distance"), means("one cut more")
    ends = {kind: interval(own[kind] - unrelated[kind], 1 - 0.05 / len(rows)) for kind in rows}
    within = max(max(abs(low), abs(high)) for low, high in ends.values())
    beyond = max(max(low, -high) for low, high in ends.values())
    told = min(float((more[kind] - own[kind]).mean()) for kind in rows)
    compared = min(
        min(*row["compared"][1:], *row["unrelated compared"]) for of_kind in rows.values() for row in of_kind
    )
    return judged(
        "(Ours.) How so many folds divide a tile is generic, and no sign of self-similarity: rescaled, the parts that "
        "the next layer makes of tiles are as near to those of squares (cubes) of the domain, cut as often by a first "
        "layer, as the parts that an unrelated network's folds make of the same tiles, in all five kinds (areas over "
        "the mean of siblings; on Figures 3 and 4, an open question of the survey).",
        "Kolmogorov-Smirnov distance from squares of all networks of a kind, mean over depths and networks, own and "
        "unrelated folds, with intervals of the difference over networks (5% shared by five kinds): "
        + "; ".join(f"{kind} {own[kind].mean():.3f} and {unrelated[kind].mean():.3f} ({low:+.3f} to {high:+.3f})"
                    for kind, (low, high) in ends.items())
        + f"; with one cut more than the tile has, {min(m.mean() for m in more.values()):.3f} to "
        f"{max(m.mean() for m in more.values()):.3f}; {compared:.3f} or more of the parts were compared",
        holds=[Check("largest end of a difference, own minus unrelated, in absolute value", within, "<", ALIKE,
                     "what triangles or long rectangles in place of squares make of the distance at least")],
        fails=[Check("nearer end of a difference to 0, in absolute value, largest over kinds", beyond, ">", ALIKE,
                     "surely not alike in one kind")],
        needs=[Check("what one cut more adds to the distance, mean, least over kinds", told, ">", ALIKE,
                     "the distance must tell so small a change of what divides a tile"),
               Check("share of parts in tiles that some square is cut as often as, least", compared, ">", 0.9,
                     "nearly all are compared")],
    )  # fmt: skip


def draw(numbers: dict[str, Any]) -> Any:
    """Exponents over depth; cuts over depth; rescaled areas of children at each depth of one network."""
    figure, axes = subplots(3)
    colors = dict(zip(KINDS, ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00"), strict=True))
    for kind, rows in numbers["rows"].items():
        for ax, name in ((axes[0], "exponent"), (axes[1], "cuts")):
            for i, row in enumerate(rows):
                first = 1 if name == "exponent" else 0
                values = row[name][first:]
                ax.plot(range(first, first + len(values)), values, "o-", ms=3, lw=0.8, color=colors[kind], alpha=0.6,
                        label=kind if i == 0 else None)  # fmt: skip
        for row in rows:
            values = row["unrelated"]
            axes[0].plot(
                range(1, 1 + len(values)), values, "D:", ms=3, lw=0.8, mfc="white", color=colors[kind], alpha=0.6
            )
    axes[0].plot([], [], "D:", ms=3, lw=0.8, mfc="white", color="0.4", label="an unrelated network's folds")
    axes[0].axhline(0, color="0.5", lw=1)
    axes[0].set(xlabel="layers before", ylabel="exponent of cuts in size (0: self-similar)")
    axes[0].set_ylim(-0.05, 1.75)
    axes[0].legend(frameon=False, fontsize=7, ncols=2, loc="upper center")
    for ax in axes[:2]:
        ax.xaxis.get_major_locator().set_params(integer=True)
    axes[1].set(xlabel="layers before", ylabel="folds of the next layer through a tile", yscale="log")
    for depth, shares in enumerate(numbers["shapes"][KINDS[0]]):
        if shares:
            axes[2].plot(
                np.maximum(shares, 1e-4),
                np.linspace(0, 1, len(shares)),
                label=f"after {depth} layers" if depth else "squares of the domain, cut as often",
            )
    axes[2].set(
        xscale="log",
        xlabel="area of a part over the mean of its siblings",
        ylabel="share of parts below",
        title=KINDS[0],
    )
    axes[2].legend(frameon=False, fontsize=7)
    return figure


EXPERIMENT = Experiment(
    "survey-self-similarity",
    "survey",
    "Are tilings self-similar?",
    run,
    draw,
    place="Figures 3 and 4; the part on tiles: an open question",
    changed={
        5: (
            "compared with all parts of the domain at first: does not hold; then with squares of two sizes of the "
            "same network: inconclusive, as some tiles had no match; then with squares of ten sizes of all networks "
            "of a kind, by a line of 0.1 that triangles, long rectangles and unrelated folds keep as well: holds; "
            "now the claim is about own against unrelated folds, by the same lines of four kinds at first, of five "
            "since: holds both times"
        ),
        7: "by a line of 0.1, which nothing that was tried crosses: holds",
        8: "by a line of 0.1, which nothing that was tried crosses: holds",
    },
)
