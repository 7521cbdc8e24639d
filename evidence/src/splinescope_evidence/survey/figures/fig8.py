"""Figure 8: where the folds of 11 layers pass around a star: zero bias, random bias and batch norm."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from splinescope.normalization import with_statistics
from splinescope.tiling import Slice
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.normalization import KINDS, star
from splinescope_research.normalization.normalizations import normalized_mlp, sign_changes

LAYERS = (3, 7, 11)
OFF = (1.5, 0.5)


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    width, cells, seeds = (128, 48, 2) if size == "quick" else (1024, 96, 3)
    view = Slice.axes([0.0, 0.0], (0, 1), -3.0, 3.0)
    ratios: dict[str, dict[str, list[list[float]]]] = {"at the origin": {}, "moved": {}}
    pictures: dict[str, list[Any]] = {}
    for place, center in (("at the origin", (0.0, 0.0)), ("moved", OFF)):
        x = star(50, center)
        for kind in KINDS:
            ratios[place][kind] = []
            for s in range(seed, seed + seeds):
                if progress is not None:
                    progress(sum(map(len, ratios.values())) / (2 * len(KINDS)), f"{kind}, star {place}")
                random = normalized_mlp((2, *[width] * 11), kind, generator=torch.Generator().manual_seed(s))
                model = with_statistics(random, x) if kind == "batch" else random.eval()
                density = sign_changes(model, x, view, cells=cells)
                ratios[place][kind].append([density.ratio(d, near=0.25, far=1.0) for d in LAYERS])
                if s == seed and place == "at the origin":
                    pictures[kind] = [density.rasters[d].values.tolist() for d in LAYERS]
    mean = {place: {k: np.mean(v, 0) for k, v in by.items()} for place, by in ratios.items()}
    home, away = mean["at the origin"], mean["moved"]
    every = np.array(ratios["at the origin"]["batch"])
    concentrated = float((every / np.array(ratios["at the origin"]["random bias"])).min())
    growing = float(np.diff(every, axis=1).min())

    def told(by: dict[str, np.ndarray]) -> str:
        return "; ".join(f"{kind} " + "/".join(f"{r:.1f}" for r in by[kind]) for kind in KINDS)

    return Outcome(
        {"ratios": ratios, "pictures": pictures, "star": star(50).tolist(), "width": width, "seeds": seeds},
        (
            judged(
                "Batch norm concentrates folds near the data, more than twice as much as random biases.",
                f"density near over far, layers 3/7/11, width {width}, mean of {seeds} seeds: {told(home)}",
                holds=[
                    Check(
                        "batch norm over random bias, least of seeds and layers",
                        concentrated,
                        ">",
                        2.0,
                        "a concentration that a picture shows",
                    )
                ],
            ),
            judged(
                "The concentration grows with depth.",
                "batch norm, each seed: " + ", ".join("/".join(f"{r:.1f}" for r in row) for row in every),
                holds=[Check("least growth from layer 3 to 7 to 11, all seeds", growing, ">", 0.0, "0 is none")],
            ),
            judged(
                "Zero biases look focused only where the data sits at the origin.",
                f"star at {OFF}: {told(away)}",
                holds=[
                    Check(
                        "zero bias: moved over at the origin, largest of layers",
                        float((away["zero bias"] / home["zero bias"]).max()),
                        "<",
                        0.7,
                        "a third of it is lost",
                    ),
                    Check(
                        "batch norm, star moved, least of layers",
                        float(away["batch"].min()),
                        ">",
                        4.0,
                        "what zero biases reach at the origin",
                    ),
                ],
            ),
        ),
    )


def draw(numbers: dict[str, Any]) -> Any:
    from matplotlib.colors import LogNorm

    figure, axes = subplots(3, 3, width=2.3, height=2.1)
    points = np.array(numbers["star"])
    scale = LogNorm(1, max(np.max(picture) for pictures in numbers["pictures"].values() for picture in pictures))
    for row, kind in enumerate(KINDS):
        for column, layer in enumerate(LAYERS):
            ax = axes[3 * row + column]
            picture = np.array(numbers["pictures"][kind][column])
            image = ax.imshow(picture.clip(1), norm=scale, origin="lower", extent=(-3, 3, -3, 3), cmap="viridis")
            ax.plot(points[:, 0], points[:, 1], ".", color="white", markersize=2)
            ratio = np.mean(numbers["ratios"]["at the origin"][kind], 0)[column]
            ax.set_title(f"layer {layer}: ratio {ratio:.1f}", fontsize=9)
            ax.set(xticks=(-2, 0, 2), yticks=(-2, 0, 2))
            ax.label_outer()
        axes[3 * row].set_ylabel("batch norm" if kind == "batch" else kind)
    figure.colorbar(image, ax=axes, label="folds per cell", shrink=0.6)
    return figure


EXPERIMENT = Experiment(
    "Figure 8: folds of 11 random layers around a star", run, draw, place="Figure 8, with equation (8)", revised=(1,)
)
