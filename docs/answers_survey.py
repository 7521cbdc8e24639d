"""Figures of the answers to the survey's open questions, each from the numbers of a full-size run."""

from __future__ import annotations

from typing import Any

import numpy as np
from _answer_parts import COLORS, Row, band, effects, legend, panels, seeds_and_mean, titled
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from splinescope_evidence.shared.distributions import ALIKE
from splinescope_evidence.shared.divisions import ALIKE as DIVIDED_ALIKE
from splinescope_evidence.shared.intervals import interval, ratio_interval
from splinescope_evidence.survey.questions.merge_away import ARMS, PLATEAU
from splinescope_evidence.survey.questions.migration import HIDDEN, half_way, peak_and_onset
from splinescope_evidence.survey.questions.optimizer import _at
from splinescope_evidence.survey.questions.placed_norms import LEVEL, SCHEMES

Numbers = dict[str, Any]

TINTS = ("#440154", "#21918c", "#e69f00")
"""Of the three layers of a network whose units are followed."""


def batch_norm_early(numbers: Numbers) -> Figure:
    """Folds at training points and training accuracy over the steps; accuracy under attack at the end."""
    figure, (folds, learning, attacked) = panels(3)
    colors = dict(zip((*ARMS, PLATEAU), (COLORS[1], COLORS[2], COLORS[0], COLORS[3]), strict=True))
    names = dict(zip(colors, ("no batch norm", "batch norm kept", "merged away at the dotted line",
                              "merged away at a plateau (triangles)"), strict=True))  # fmt: skip
    merge = numbers["merge_at"]
    plateaus = [run["merged_at"] for run in numbers["arms"][PLATEAU] if run["merged_at"] is not None]
    starts = {"merged away": merge, PLATEAU: min(plateaus, default=0)}
    for arm, runs in numbers["arms"].items():
        steps = np.maximum(runs[0]["steps"], 0.5)
        first = max(i for i, step in enumerate(runs[0]["steps"]) if step <= starts.get(arm, 0))
        for ax, what in ((folds, "lc_train"), (learning, "train_accuracy")):
            band(ax, steps[first:], [run[what][first:] for run in runs], colors[arm], names[arm])
    for ax in (folds, learning):
        ax.axvline(merge, ymax=0.7, color="0.4", lw=1, ls=":")
        ax.plot(plateaus, [0.03] * len(plateaus), "^", ms=4, color=colors[PLATEAU], alpha=0.7,
                transform=ax.get_xaxis_transform())  # fmt: skip
        ax.set(xscale="log", xlabel="training step (0 drawn at 0.5)")
    folds.set(ylabel=f"folds near a training point (r = {numbers['radius']:g})", ylim=(0, 46))
    legend(folds, loc="upper right")
    titled(folds, "Late: merged away, more folds stay")
    learning.set(ylabel="training accuracy", ylim=(0, 1.05))
    titled(learning, "Early: batch norm learns first")
    for place, (arm, runs) in enumerate(numbers["arms"].items()):
        robust = [run["robust"] for run in runs]
        seeds_and_mean(attacked, place, robust, interval(robust), colors[arm])
    attacked.set_xticks(np.arange(4) + 0.1, ["none", "kept", "merged\nat a step", "merged at\na plateau"])
    attacked.set(ylabel="test accuracy under attack (0.1)", xlim=(-0.4, 3.7), ylim=(0.2, 0.5))
    titled(attacked, "Merged away: less robust than if kept")
    return figure


def normalizations(numbers: Numbers) -> Figure:
    """Each placement against batch norm's own: where folds are, frozen or not, training loss, test accuracy."""
    figure, (places, folds, once, loss, others, accuracy) = panels(3, 2, height=3.0)
    two = (("data", COLORS[0]), ("boundary", COLORS[1]))

    def ratios(scheme: str, what: str, counted: bool) -> np.ndarray:
        """As judged: of counts, those near the data as they are, those at the boundary over those elsewhere."""
        if not counted:
            return np.array(numbers["places"][scheme][what]) / np.array(numbers["places"]["mean"][what])
        own, base = (
            np.array([one[what] / (one["elsewhere"] if what == "boundary" else 1) for one in numbers["folds"][kind]])
            for kind in (scheme, "mean")
        )
        return own / base

    for ax, counted in ((places, False), (folds, True)):
        rows: list[Row | None] = []
        for scheme in SCHEMES:
            for what, color in two:
                found = ratios(scheme, what, counted)
                level = LEVEL if counted and what == "data" else 0.95
                rows.append((scheme if what == "data" else "", _middle(found), ratio_interval(found, level), color))
            rows.append(None)
        effects(ax, rows[:-1], 1.0, labels=not counted)
        ax.set(xlabel=f"{'number' if counted else 'density'} of folds over batch norm's")
        for name, color in two:
            over = ", over elsewhere" if counted and name == "boundary" else ""
            ax.plot([], [], "o-", color=color, ms=4.5, label=f"near the {name}{over}")
        legend(ax, loc="upper center", bbox_to_anchor=(0.45, -0.2), ncols=2, columnspacing=1.0)
    places.set(xlim=(0.6, 1.35))
    titled(places, "Where folds are (two moons)")
    titled(folds, "In all 64 inputs (digits)")
    runs, rows = numbers["runs"], []
    for kind in ("mean", *SCHEMES):
        pairs = zip(runs["frozen"][kind], runs["B = 128"][kind], strict=True)
        found = np.array([still["loss"] / live["loss"] for still, live in pairs])
        ends = ratio_interval(found, 1 - 0.05 / (1 + len(SCHEMES)))
        rows.append(("batch norm" if kind == "mean" else kind, _middle(found), ends, COLORS[4]))
    effects(once, rows, 1.0)
    once.set(xscale="log", xlabel="training loss, frozen over in every batch", xlim=(0.14, 1.2))
    once.set_xticks([0.2, 0.5, 1], ["0.2", "0.5", "1"])
    once.minorticks_off()
    titled(once, "Placed once and frozen: faster (digits)")

    def gains(arm: str, scheme: str, what: str, sign: int) -> np.ndarray:
        own, base = ([run[what] for run in runs[arm][kind]] for kind in (scheme, "mean"))
        return sign * (np.array(own) - np.array(base))

    def compared(ax: Any, arms: dict[str, tuple[str, str]], what: str, sign: int) -> None:
        rows: list[Row | None] = []
        for scheme in SCHEMES:
            for place, (arm, (_, color)) in enumerate(arms.items()):
                gain = gains(arm, scheme, what, sign)
                rows.append(("" if place else scheme, float(gain.mean()), interval(gain, LEVEL), color))
            rows.append(None)
        effects(ax, rows[:-1], 0.0)
        for name, color in arms.values():
            ax.plot([], [], "o-", color=color, ms=4.5, label=name)
        if len(arms) > 1:
            legend(ax, loc="upper center", bbox_to_anchor=(0.45, -0.2), ncols=len(arms), columnspacing=1.0)

    compared(loss, {"B = 128": ("batches of 128", COLORS[2])}, "loss", -1)
    still = {"frozen": ("frozen", COLORS[4]), "convolutional": ("convolutional", COLORS[5])}
    compared(others, still, "loss", -1)
    for ax in (loss, others):
        ax.set_xscale("symlog", linthresh=0.01, linscale=0.6)
        ax.set(xlabel="training loss of batch norm minus its own", xlim=(-1, 0.3))
        ax.set_xticks([-0.5, -0.1, -0.03, -0.01, 0, 0.01, 0.1], ["-0.5", "-0.1", "", "-0.01", "0", "0.01", "0.1"])
        ax.tick_params(axis="x", labelsize=7)
        ax.minorticks_off()
    titled(loss, "Speed: all train slower (digits)")
    titled(others, "Two other forms: no significant gain")
    arms = {"B = 128": ("batches of 128", COLORS[2]), "B = 8": ("batches of 8", COLORS[3]),
            "convolutional": ("convolutional", COLORS[5])}  # fmt: skip
    compared(accuracy, arms, "accuracy", 1)
    accuracy.set(xlabel="test accuracy minus that with batch norm")
    titled(accuracy, "Accuracy: no significant gain (digits)")
    return figure


def optimizer(numbers: Numbers) -> Figure:
    """Loss of descent by pieces over that of others at equal steps and equal time, and one task over time."""
    figure, (steps, seconds, curves) = panels(3, height=3.4)
    colors = {"SGD": COLORS[1], "Adam": COLORS[4], "L-BFGS": COLORS[2], "line": COLORS[0], "ball": COLORS[5]}
    for ax, budget, unit in ((steps, numbers["steps"], "step"), (seconds, numbers["seconds"], "second")):
        rows: list[Row | None] = []
        for task, of_task in numbers["curves"][unit].items():
            own = np.array([_at(curve, budget, unit) for curve in of_task["line"]])
            for other in ("SGD", "Adam", "L-BFGS"):
                ratios = own / np.array([_at(curve, budget, unit) for curve in of_task[other]])
                rows.append((f"{task}, {other}", _middle(ratios), ratio_interval(ratios), colors[other]))
            rows.append(None)
        effects(ax, rows[:-1], 1.0, labels=ax is steps)
        ax.set(xscale="log", xlabel="loss of descent by pieces over theirs")
    titled(steps, f"After {numbers['steps']} steps: it wins in every task")
    titled(seconds, f"After {numbers['seconds']:g} s: no significant win")
    for name, runs in numbers["curves"]["second"]["digits"].items():
        grid = np.geomspace(2e-3, numbers["seconds"], 60)
        losses = [[_at(curve, float(second), "second") for second in grid] for curve in runs]
        label = {"line": "by pieces, line", "ball": "by pieces, ball"}.get(name, name)
        curves.plot(grid, np.exp(np.log(losses).mean(0)), color=colors[name], lw=1.5, label=label)
    curves.set(xscale="log", yscale="log", xlabel="CPU seconds", ylabel="mean squared error")
    legend(curves, loc="lower left")
    titled(curves, "Digits: the loss over time")
    return figure


def manifold(numbers: Numbers) -> Figure:
    """rho where the truth is known, and of held-out data; what no rho of the family reaches is an arrow."""
    figure, (known, asked) = panels(2, height=3.6)
    for row in numbers["toys"]:
        known.plot(
            [row["truth"] + 0.05 * (row["surface"] - 2)], [row["rho"]], "o", ms=3, color=COLORS[0], alpha=0.45, mew=0
        )
    truths = sorted({row["truth"] for row in numbers["toys"]})
    for truth in truths:
        known.plot([truth - 0.16, truth + 0.16], [truth, truth], color="0.3", lw=1.2, ls="--")
        found = [row["rho"] for row in numbers["toys"] if row["truth"] == truth]
        known.plot([truth], [np.mean(found)], "D", ms=6, color=COLORS[1], label="mean" if truth == truths[0] else None)
    known.plot([], [], color="0.3", lw=1.2, ls="--", label="truth")
    known.set_xticks(truths, [f"{truth:g}" for truth in truths])
    known.set(xlabel=r"$\rho$ of the data", ylabel=r"$\rho$ found")
    legend(known, loc="upper left")
    titled(known, "Toys: five surfaces, 12 sets each")
    kinds = [(f"digits, autoencoder {i + 1}", v) for i, v in enumerate(numbers["digits"])]
    kinds += [(f"MNIST, {name}", v) for name, v in numbers["published"].items()]
    far, rows = 3.0, []
    for place, (name, v) in enumerate(kinds):
        if np.isfinite(v["rho"]):
            rows.append((name, v["rho"], (v["low"], min(v["high"], far)), COLORS[0]))
            continue
        rows.append((name, np.nan, (np.nan, np.nan), COLORS[0]))
        asked.annotate("", (far, place), (far - 0.5, place), arrowprops={"arrowstyle": "->", "color": COLORS[1]})
        asked.text(far - 0.58, place, r"$\rho = \infty$", ha="right", va="center", fontsize=8, color=COLORS[1])
    effects(asked, rows, 0.0)
    asked.axvline(1, color="0.5", lw=1, ls=":")
    asked.set(xlim=(-0.5, far), xlabel=r"$\rho$ of held-out data, 95% intervals")
    for place, text in ((0, "as the model says"), (1, "uniformly")):
        asked.text(place + 0.03, len(rows) - 0.42, text, fontsize=7.5, color="0.35", va="bottom")
    asked.set_ylim(len(rows) - 0.3, -0.6)
    titled(asked, "Held-out images")
    return figure


def self_similarity(numbers: Numbers) -> Figure:
    """Exponents by depth; parts by own and by unrelated folds; sides of tiles and map differences by depth."""
    figure, (exponents, parts, sides, jumps, far_sides, far_jumps) = panels(2, 3, height=3.0)
    kinds = dict(zip(numbers["rows"], COLORS, strict=False))
    for k, (kind, rows) in enumerate(numbers["rows"].items()):
        for name, style in (("exponent", "o"), ("unrelated", "D")):
            values = np.array([row[name][-3:] for row in rows])
            shift = 0.07 * (k - 2) + (0.03 if name == "unrelated" else 0)
            for depth in range(3):
                ends = interval(values[:, depth])
                exponents.plot([depth + 1 + shift] * 2, ends, color=kinds[kind], lw=1.3)
                fill = kinds[kind] if name == "exponent" else "white"
                label = kind if name == "exponent" and depth == 0 else None
                exponents.plot([depth + 1 + shift], [values[:, depth].mean()], style, ms=5, color=kinds[kind], mfc=fill,
                               ls="none", label=label)  # fmt: skip
    exponents.plot([], [], "D", color="0.4", mfc="white", ls="none", label="an unrelated network's folds")
    exponents.axhline(0, color="0.5", lw=1, ls="--")
    exponents.text(3.45, 0.02, "self-similar", fontsize=7.5, color="0.35", ha="right", va="bottom")
    exponents.set(ylabel="exponent of cuts in a tile's size", ylim=(-0.08, 1.5), xlim=(0.6, 3.5))
    legend(exponents, loc="upper center", ncols=2)
    titled(exponents, "Larger tiles are cut more, as by any folds")
    tints = ("#440154", "#31688e", "#35b779", "#e69f00")
    _parts(parts, numbers["rows"], kinds)
    curves = numbers["curves"]["random, 3-D"]
    for depth, values in enumerate(curves["sides"]):
        name = f"tiles of {depth + 1} layer{'s' if depth else ''}"
        sides.plot(values, np.linspace(0, 1, len(values)), color=tints[depth + 1], lw=1.5, label=name)
    for depth, values in enumerate(curves["jumps"]):
        name = f"walls of layer {depth + 1}"
        jumps.plot(np.maximum(values, 1e-2), np.linspace(0, 1, len(values)), color=tints[depth], lw=1.5, label=name)
    sides.set(xlabel="sides of an inner tile", ylabel="share of tiles below")
    jumps.set(xscale="log", xlabel=r"$|A - A'|$ over its median", ylabel="share of walls below", xlim=(0.03, 30))
    legend(sides, loc="lower right")
    legend(jumps, loc="upper left")
    titled(sides, "Sides of tiles (random, 3-D)")
    titled(jumps, "Difference of maps at walls (random, 3-D)")
    level = 1 - 0.05 / len(kinds)
    for ax, name in ((far_sides, "sides"), (far_jumps, "jumps")):
        rows = []
        for kind, of_kind in numbers["rows"].items():
            gaps = [np.mean(row[f"{name}, depths"]) - np.mean(row[f"{name}, networks"]) for row in of_kind]
            rows.append((kind, float(np.mean(gaps)), interval(gaps, level), kinds[kind]))
        effects(ax, rows, 0.0, labels=ax is far_sides)
        ax.axvspan(-0.5, ALIKE, color="0.94", lw=0, zorder=0)
        ax.set(xlim=(-0.08, 0.08), xlabel="distance between depths minus that of two networks")
        titled(ax, f"{'Sides' if name == 'sides' else 'Differences of maps'}: how far depths differ")
    exponents.set_xlabel("layers before")
    exponents.set_xticks(range(1, 4))
    return figure


def _parts(ax: Axes, of_kinds: dict[str, list[Numbers]], kinds: dict[str, str]) -> None:
    """How far parts made by own and by unrelated folds are apart, as judged, and what one cut more adds to that."""
    level = 1 - 0.05 / len(of_kinds)
    rows: list[Row | None] = []
    for kind, of_kind in of_kinds.items():
        own, chance, more = (
            np.array([np.mean(row[name]) for row in of_kind])
            for name in ("own to unrelated", "two unrelated", "one cut more")
        )
        rows.append((kind, float((own - chance).mean()), interval(own - chance, level), kinds[kind]))
        rows.append(("", float((more - own).mean()), interval(more - own, level), "0.55"))
    effects(ax, rows, 0.0)
    ax.axvspan(-0.5, DIVIDED_ALIKE, color="0.94", lw=0, zorder=0)
    ax.plot([], [], "o-", color="0.55", ms=4.5, label="what one cut more adds")
    legend(ax, loc="lower left")
    ax.set(xlim=(-0.08, 0.08), xlabel="Kolmogorov-Smirnov distance, beyond chance")
    titled(ax, "Parts of tiles: by own or unrelated folds")


def migration(numbers: Numbers) -> Figure:
    """Folds near training points by arm; by layer and loss their distance; speed, pull and gradient of both losses."""
    figure, (folds, squared, other, speed, pull, gradient) = panels(3, 2, height=3.0)
    arms = dict(zip(numbers["runs"], (COLORS[1], COLORS[4], COLORS[3], COLORS[0]), strict=True))
    names = {"squared": "squared loss", "weights x2": "weights x 2", "targets x4": "targets x 4",
             "cross-entropy": "cross-entropy"}  # fmt: skip
    for arm, runs in numbers["runs"].items():
        band(folds, np.maximum(runs[0]["steps"], 0.5), [run["lc"] for run in runs], arms[arm], names[arm])
    learned = [run["steps"][peak_and_onset(run)[0]] for run in numbers["runs"]["squared"]]
    folds.axvspan(min(learned), max(learned), ymax=0.8, color="0.85", lw=0, zorder=0)
    folds.text(max(learned) * 1.1, 0.2, "learned", fontsize=7.5, color="0.35", va="bottom")
    folds.set(ylabel=f"folds near a training point (r = {numbers['radius']:g})", ylim=(0, 12.5))
    legend(folds, loc="upper left", ncols=2)
    titled(folds, "Folds leave late")
    for ax, arm, style in ((squared, "squared", "-"), (other, "cross-entropy", "--")):
        _by_layer(ax, numbers["runs"][arm], "to_data", style)
        for layer, tint in enumerate(TINTS):
            half = [half_way(run, layer) for run in numbers["runs"][arm]]
            ax.axvline(float(np.exp(np.mean(np.log(half)))), color=tint, lw=1, ls=":")
        ax.set(yscale="log", ylabel="distance to the data (median unit)")
        titled(ax, f"{names[arm].capitalize()} (dotted: half of the way)")
    other.set_ylim(squared.get_ylim())
    for layer, tint in enumerate(TINTS):
        squared.plot([], [], color=tint, label=f"layer {layer + 1}")
    legend(squared, loc="upper center")
    shown = (
        (speed, "speed", "speed, per step", "They slow down first"),
        (pull, "pull", "pull of a row's loss", "The pull on them falls"),
        (gradient, "gradient", "gradient", "So does the gradient by their parameters"),
    )
    for ax, what, label, title in shown:
        for arm, style in (("squared", "-"), ("cross-entropy", "--")):
            _by_layer(ax, numbers["runs"][arm], what, style)
            ax.plot([], [], style, color="0.4", label=names[arm])
        ax.set(yscale="log", ylabel=f"{label} (median unit)")
        titled(ax, title)
    legend(speed, loc="lower left")
    for ax in (folds, squared, other, speed, pull, gradient):
        ax.set(xscale="log", xlabel="training step (0 drawn at 0.5)")
    return figure


def _by_layer(ax: Axes, runs: list[Numbers], what: str, style: str) -> None:
    """What is tracked of the median unit of each layer: geometric means of runs, drawn where all runs have it."""
    for layer, tint in zip(range(HIDDEN), TINTS, strict=True):
        values = [np.maximum(np.array(run[what], float)[:, layer], 1e-12) for run in runs]
        ax.plot(np.maximum(runs[0]["steps"], 0.5), np.exp(np.log(values).mean(0)), style, color=tint, lw=1.5)


def _middle(ratios: np.ndarray) -> float:
    """Geometric mean."""
    return float(np.exp(np.log(ratios).mean()))
