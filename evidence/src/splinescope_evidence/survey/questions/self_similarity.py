"""An open question of the survey: does the next layer subdivide a tile as the first one subdivides the domain?"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from splinescope.tiling import Slice, tessellate
from splinescope_evidence.framework.experiment import Check, Claim, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.data import digits
from splinescope_evidence.shared.distributions import alike, between, jumps_of, ks, sides_of
from splinescope_evidence.shared.divisions import SideBySide, divided, matched, shapes
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.intervals import interval
from splinescope_evidence.shared.normalization import seeded, two_moons
from splinescope_research import subdivision
from splinescope_research.folds.subdivision import Level, Subdivision, cuts_within

KINDS = ("random, 2-D", "trained on moons, 2-D", "trained on digits, 2-D", "random, 3-D", "trained on shells, 3-D")
DEPTH = 4


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    seeds, widths, steps = (2, (8, 6), 20) if size == "quick" else (8, (40, 14), 400)
    rows: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    areas: dict[str, list[list[float]]] = {}
    curves: dict[str, dict[str, list[list[float]]]] = {}
    for i, kind in enumerate(KINDS):
        for s in range(seeds):
            if progress is not None:
                progress((i + s / seeds) / len(KINDS), f"{kind}, seed {s}")
            net, view = _case(kind, widths, seed + s, steps)
            other, third = (_case(kind, widths, seed + s + apart, steps)[0] for apart in (1000, 2000))
            found, other_found = (subdivision(tessellate(one, view, progress=False)) for one in (net, other))
            (foreign, parts), (more_foreign, _) = (_unrelated(net, one, view) for one in (other, third))
            squares, by_shape = shapes(net, other, view)
            row = _numbers(found) | between(found, other_found) | divided(found.levels[1:], foreign, more_foreign)
            row["unrelated"] = [level.exponent for level in foreign]
            row["shapes"] = by_shape
            row["sides, unrelated folds"] = [
                ks(*p) for p in zip(sides_of(found.levels[2:]), sides_of(parts), strict=True)
            ]
            rows[kind].append(row)
            if s == 0:
                _, weights, values = matched(found.levels[1:], squares)
                areas[kind] = [_thinned(values, weights), *(_thinned(level.shares) for level in found.levels[1:])]
                curves[kind] = {"sides": [_thinned(v) for v in sides_of(found.levels[1:])],
                                "jumps": [_thinned(v) for v in jumps_of(found.levels)]}  # fmt: skip
    folds = "; ".join(
        f"{kind} {np.mean([row['sides, unrelated folds'] for row in of_kind]):.3f}" for kind, of_kind in rows.items()
    )
    return Outcome(
        {"rows": rows, "areas": areas, "curves": curves},
        (
            _claim(KINDS[0], rows[KINDS[0]]),
            alike(rows, "sides", "The numbers of sides of inner tiles",
                  f"; between tiles that a network's own next layer makes and those that an unrelated network's folds "
                  f"make of the same tiles: {folds}"),
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


def _unrelated(net: nn.Module, other: nn.Module, view: Slice) -> tuple[list[Level], list[Level]]:
    """How the folds of the next layer of another network cut the tiles of a network's first layers, and the tiles made.

    Folds lie densest where tiles are small, so that cuts that know nothing of the tiles need not come with size alone;
    and so many folds may divide any convex body alike, whether they know of it or not.
    """
    both = tessellate(SideBySide(net, other), view, progress=False)
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


def _numbers(found: Subdivision) -> dict[str, Any]:
    """Per level: tiles, exponent, cuts, mean sides of inner tiles, median jump."""
    inner = [level.sides[level.sides >= 0] for level in found.levels]
    return {
        "tiles": [len(level.sizes) for level in found.levels],
        "exponent": [level.exponent for level in found.levels],
        "cuts": [float(level.cuts.mean()) for level in found.levels],
        "sides": [float(sides.mean()) if len(sides) else None for sides in inner],
        "jump": [float(np.median(level.jumps)) if len(level.jumps) else None for level in found.levels],
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
        fails=[Check("lower end of the exponent", low, ">", 0.1, "significantly above 0")],
    )


def draw(numbers: dict[str, Any]) -> Any:
    """What is judged: exponents, own and unrelated; parts by own against unrelated folds; a depth against the next."""
    from splinescope_evidence.shared.divisions import ALIKE

    figure, (exponents, parts, depths) = subplots(3, height=4.2)
    of_kinds = numbers["rows"]
    colors = dict(zip(KINDS, ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00"), strict=True))
    level = 1 - 0.05 / len(of_kinds)

    def beyond(ax: Any, place: float, rows: list[dict[str, Any]], what: str, base: str, **how: Any) -> None:
        """The mean over networks of the difference of two distances, with the interval that decides."""
        gaps = [np.mean(row[what]) - np.mean(row[base]) for row in rows]
        ax.plot(interval(gaps, level), [place] * 2, "-", **how)
        ax.plot([np.mean(gaps)], [place], "o", ms=4, **how)

    for place, (kind, rows) in enumerate(of_kinds.items()):
        for name, style in (("exponent", "o-"), ("unrelated", "D:")):
            for i, row in enumerate(rows):
                values = row[name][-(DEPTH - 1) :]
                exponents.plot(range(1, DEPTH), values, style, ms=3, lw=0.8, color=colors[kind], alpha=0.6,
                               mfc="white" if name == "unrelated" else None,
                               label=kind if i == 0 and name == "exponent" else None)  # fmt: skip
        beyond(parts, place, rows, "own to unrelated", "two unrelated", color=colors[kind])
        beyond(parts, place + 0.3, rows, "one cut more", "own to unrelated", color="0.6")
        beyond(depths, place, rows, "sides, depths", "sides, networks", color=colors[kind])
        beyond(depths, place + 0.3, rows, "jumps, depths", "jumps, networks", color=colors[kind], alpha=0.45)
    exponents.plot([], [], "D:", ms=3, lw=0.8, mfc="white", color="0.4", label="an unrelated network's folds")
    exponents.axhline(0, color="0.5", lw=1)
    exponents.set(xlabel="layers before", ylabel="exponent of cuts in size (0: self-similar)", ylim=(-0.05, 1.75))
    exponents.set_xticks(range(1, DEPTH))
    exponents.legend(frameon=False, fontsize=7, ncols=2, loc="upper center")
    parts.plot([], [], "o-", ms=4, color="0.3", label="own from unrelated folds, beyond two unrelated ones")
    parts.plot([], [], "o-", ms=4, color="0.6", label="what one cut more adds")
    depths.plot([], [], "o-", ms=4, color="0.3", label="sides of inner tiles")
    depths.plot([], [], "o-", ms=4, color="0.3", alpha=0.45, label="differences of maps")
    for ax, title in ((parts, "parts of tiles"), (depths, "a depth from the next, beyond two networks")):
        ax.axvline(0, color="0.5", lw=1)
        ax.axvline(ALIKE, color="0.5", lw=1, ls="--")
        ax.text(ALIKE, -1.0, f" {ALIKE:g}: alike below", fontsize=7, color="0.35", va="center")
        ax.set(xlabel="Kolmogorov-Smirnov distance, difference", ylim=(len(of_kinds) + 0.4, -1.3))
        ax.set_title(title, fontsize=10)
        ax.set_yticks(range(len(of_kinds)), list(of_kinds) if ax is parts else [""] * len(of_kinds), fontsize=7)
        ax.legend(frameon=False, fontsize=7, loc="lower left")
    return figure


EXPERIMENT = Experiment("Are tilings self-similar?", run, draw, place="Figures 3 and 4", revised=(2,))
