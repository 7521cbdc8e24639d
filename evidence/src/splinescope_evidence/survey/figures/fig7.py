"""Figure 7: the exact folds of a network of 4 layers in the plane, with and without batch norm."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from splinescope.normalization import with_statistics
from splinescope.tiling import Slice, tessellate
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.intervals import ratio_interval
from splinescope_evidence.shared.normalization import star
from splinescope_research import fold_density
from splinescope_research.normalization.normalizations import normalized_mlp

COLORS = ("#440154", "#31688e", "#35b779", "#e6a000")


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    width, seeds = (12, 3) if size == "quick" else (32, 24)
    x = star(50, (1.0, 0.5))
    view = Slice.axes([0.0, 0.0], (0, 1), -3.0, 3.0)
    ratios: dict[str, list[list[float]]] = {"random bias": [], "batch": []}
    pictures: dict[str, list[Any]] = {}
    for kind, found in ratios.items():
        for s in range(seed, seed + seeds):
            if progress is not None:
                progress(sum(map(len, ratios.values())) / (2 * seeds), kind)
            drawn = normalized_mlp((2, *[width] * 4), kind, generator=torch.Generator().manual_seed(s))
            model = with_statistics(drawn, x) if kind == "batch" else drawn.eval()
            density = fold_density(model, x, view, cells=48)
            found.append([density.ratio(d, near=0.25, far=1.0) for d in sorted(density.rasters)])
            if s == seed:
                folds = tessellate(model, view).folds()
                pictures[kind] = [folds.segments[folds.depths == d].round(4).tolist() for d in range(1, 5)]
    batch, random = (np.array(ratios[kind]).mean(0) for kind in ("batch", "random bias"))
    over = (np.array(ratios["batch"]) / np.array(ratios["random bias"])).T
    ends = [ratio_interval(layer, 1 - 0.05 / len(over)) for layer in over]
    return Outcome(
        {"ratios": ratios, "pictures": pictures, "data": x.tolist()},
        (
            judged(
                "Batch norm moves the folds of every layer to the data (Figure 7): exact lengths near it over far "
                "from it.",
                f"layers 1 to 4, width {width}, mean of {seeds} seeds: batch norm "
                + "/".join(f"{r:.1f}" for r in batch)
                + ", random bias "
                + "/".join(f"{r:.1f}" for r in random)
                + "; ratio, intervals that share 5%, "
                + ", ".join(f"{low:.2f} to {high:.2f}" for low, high in ends),
                holds=[Check("lower end of the interval of the ratio, least of 4 layers", min(e[0] for e in ends), ">",
                             2.0, "a concentration that a picture shows")],
                fails=[Check("upper end of the interval of the ratio, least of 4 layers", min(e[1] for e in ends), "<",
                             2.0, "significantly below in one layer")],
            ),
        ),
    )  # fmt: skip


def draw(numbers: dict[str, Any]) -> Any:
    from matplotlib.collections import LineCollection

    figure, axes = subplots(2)
    data = np.array(numbers["data"])
    for ax, (kind, layers) in zip(axes, numbers["pictures"].items(), strict=True):
        for depth, (segments, color) in enumerate(zip(layers, COLORS, strict=True), 1):
            ax.add_collection(
                LineCollection(list(map(np.array, segments)), colors=color, linewidths=0.7, label=f"layer {depth}")
            )
        ax.plot(data[:, 0], data[:, 1], ".", color="#d55e00", markersize=4)
        ax.set(xlim=(-3, 3), ylim=(-3, 3), aspect="equal", xlabel="$x_1$", ylabel="$x_2$")
        ax.set_title("batch norm" if kind == "batch" else kind, fontsize="medium")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(COLORS))
    return figure


EXPERIMENT = Experiment(
    "Figure 7: folds of 4 layers with and without batch norm",
    run,
    draw,
    place="Figure 7, with equation (8)",
    revised=(1,),
)
