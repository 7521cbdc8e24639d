"""Figures of the answers to the essay's open questions, each from the numbers of a full-size run."""

from __future__ import annotations

from typing import Any

import numpy as np
from _answer_parts import COLORS, Row, effects, legend, panels, titled
from matplotlib.figure import Figure

from splinescope_evidence.essay.fidelity_tells import MEASURES, _correlations
from splinescope_evidence.essay.initialization_deep import FAMILIES, TRAINS
from splinescope_evidence.shared.intervals import interval, ratio_interval
from splinescope_evidence.shared.root_law import worth

Numbers = dict[str, Any]
TINTS = ("#440154", "#31688e", "#35b779", "#e69f00")
"""Of layers, from the first to the last."""

PLACED = "effective batch size"
"""Where exponents are fitted: B of N points without replacement are worth more than B of endless ones."""


def batch_size(numbers: Numbers) -> Figure:
    """Signs that change by batch size and layer; the exponents; what noise did to accuracy."""
    figure, (shares, slopes, gains) = panels(3)
    sizes = np.array(numbers["sizes"], float)
    places = np.array([worth(int(size), 300) for size in sizes])
    for when, style in (("untrained", "--"), ("trained", "-")):
        table = np.array(numbers["laws"][when])
        for layer in range(table.shape[2]):
            shares.plot(places, table[:, :, layer].mean(0), style, color=TINTS[layer], lw=1.5)
            own = [np.polyfit(np.log(places), np.log(one[:, layer]), 1)[0] for one in table]
            place = layer + 1 + (0.12 if when == "trained" else -0.12)
            slopes.plot([place, place], interval(own), color=TINTS[layer], lw=1.8)
            slopes.plot([place], [np.mean(own)], "o", ms=6, color=TINTS[layer],
                        mfc=TINTS[layer] if when == "trained" else "white")  # fmt: skip
    shares.plot(places, 0.07 * (places / places[0]) ** -0.5, color="0.6", lw=1, ls=":")
    shares.text(places[-1], 0.07 * (places[-1] / places[0]) ** -0.5 * 0.93, r"$1/\sqrt{B}$", color="0.4", fontsize=8,
                ha="right", va="top")  # fmt: skip
    for layer, tint in enumerate(TINTS):
        shares.plot([], [], color=tint, label=f"layer {layer + 1}")
    shares.plot([], [], "--", color="0.4", label="before training")
    shares.set(xscale="log", yscale="log", xlabel=PLACED, ylabel="share of signs that change")
    shares.set_xticks(places, [f"{size:.0f}" for size in sizes])
    shares.set_yticks([0.01, 0.03, 0.1, 0.3], ["0.01", "0.03", "0.1", "0.3"])
    shares.minorticks_off()
    legend(shares, loc="lower left")
    titled(shares, "Small batches change more of the tiling")
    slopes.axhline(-0.5, color="0.5", lw=1, ls="--")
    slopes.axhspan(-0.6, -0.4, color="0.92", lw=0, zorder=0)
    for name, fill in (("before training", "white"), ("after", "0.4")):
        slopes.plot([], [], "o", color="0.4", mfc=fill, ls="none", label=name)
    slopes.set(xlabel="layer", ylabel="exponent in B", ylim=(-0.85, -0.35))
    slopes.set_xticks([1, 2, 3, 4])
    legend(slopes, loc="lower left")
    titled(slopes, "The last trained layer settles faster")
    accuracy = {name: np.array(values) for name, values in numbers["accuracy"].items()}
    both, noisy, small, least = accuracy.values()  # of large batches; noise of the statistics; of the gradient; of both
    rows: list[Row | None] = [
        (name, float(gain.mean()), interval(gain), color)
        for name, gain, color in (
            ("statistics of 16,\ngradient of 128", noisy - both, COLORS[0]),
            ("statistics of 16,\ngradient of 16", least - small, COLORS[0]),
            ("gradient of 16,\nstatistics of 128", small - both, COLORS[1]),
        )
    ]
    effects(gains, rows, 0.0)
    gains.set(xlabel="test accuracy, against 128", xlim=(-0.03, 0.03))
    titled(gains, "Noise costs test accuracy")
    return figure


def fidelity_tells(numbers: Numbers) -> Figure:
    """Accuracy by the batch size of the statistics in training; what roughness tells beyond it; shares by B."""
    figure, (trained, tells, law) = panels(3)
    sizes, nets = numbers["sizes"], [net for of_seed in numbers["seeds"] for net in of_seed]
    for b in sizes:
        of_seeds = [np.mean([n["accuracy"] for n in own if n["B"] == b]) for own in numbers["seeds"]]
        low, high = interval(of_seeds)
        trained.plot([b] * len(of_seeds), of_seeds, "o", ms=3.5, color=COLORS[0], alpha=0.45, mew=0)
        trained.plot([b * 1.12] * 2, [low, high], color=COLORS[0], lw=1.8)
        trained.plot([b * 1.12], [np.mean(of_seeds)], "o", ms=5, color=COLORS[0])
    trained.set(xlabel="batch size of the statistics in training", ylabel="test accuracy")
    titled(trained, "Rougher statistics generalize worse")
    level = 1 - 0.05 / len(MEASURES)
    rows: list[Row | None] = []
    for measure in MEASURES:
        values = _correlations(numbers["seeds"], measure, numbers["at"])
        rows.append((f"{measure} that\nchange", float(np.mean(values)), interval(values, level), COLORS[2]))
    effects(tells, rows, 0.0)
    tells.set(xlim=(-1, 1), xlabel="partial rank correlation with accuracy")
    tells.set_xticks([-1, -0.5, 0, 0.5, 1])
    titled(tells, "What roughness predicts beyond it")
    places = np.array(numbers["worth"])  # exponents are fitted there
    for measure, color in zip(MEASURES, (COLORS[0], COLORS[2], COLORS[1]), strict=True):
        share = np.maximum(np.mean([n[measure] for n in nets], 0), 1e-6)
        law.plot(places, share, "o-", ms=4, color=color, label=measure)
        if measure == "classes":
            none = np.array([np.mean([n[measure] for n in own], 0) == 0 for own in numbers["seeds"]]).any(0)
            law.plot(places[none], share[none], "o", ms=4, color=color, mfc="white", label="not fitted")
    law.plot(places, 0.2 * (places / places[0]) ** -0.5, color="0.5", lw=1, ls=":", label=r"as $1/\sqrt{B}$")
    law.set(yscale="log", xlabel=PLACED, ylabel="share that changes")
    legend(law, loc="lower left")
    titled(law, "Fewer classes change, and faster")
    for ax, ticks in ((trained, sizes), (law, places)):
        ax.set_xscale("log")
        ax.set_xticks(ticks, [str(b) for b in sizes])
        ax.minorticks_off()
    return figure


def initialization(numbers: Numbers) -> Figure:
    """Mean training loss from folds placed by data over that from three other starts, by family and depth."""
    figure, axes = panels(3, height=3.4)
    level = 1 - 0.05 / (len(FAMILIES) * len(numbers["depths"]))
    for ax, rival, line in zip(axes, ("He", "unit variance", "batch norm"), (1.0, 1.0, 1.1), strict=True):
        rows: list[Row | None] = []
        for family, color in zip(FAMILIES, COLORS, strict=False):
            for depth in numbers["depths"]:
                own, other = (numbers["cells"][f"{family}|{depth}|{start}"] for start in ("placed", rival))
                ratios = np.array(own["speed"]) / np.array(other["speed"])
                middle = float(np.exp(np.log(ratios).mean()))
                shown = color if min(own["tuned"], other["tuned"]) < TRAINS else "0.75"
                rows.append((f"{family}, {depth}", middle, ratio_interval(ratios, level), shown))
            rows.append(None)
        effects(ax, rows[:-1], line, labels=ax is axes[0])
        ax.set(xscale="log", xlim=(0.2, 6.0), xlabel="training loss, placed over the other")
        ax.set_xticks([0.25, 0.5, 1, 2, 4], ["0.25", "0.5", "1", "2", "4"])
        ax.minorticks_off()
        named = {"He": "He weights", "unit variance": "unit variance (LSUV)"}.get(rival, rival)
        titled(ax, f"Against {named}")
    gap = len(numbers["depths"])  # the row between two families
    axes[0].text(0.21, gap, "placed is faster", fontsize=7.5, color="0.35", ha="left", va="center")
    axes[2].text(5.8, gap, "placed is slower", fontsize=7.5, color="0.35", ha="right", va="center")
    return figure
