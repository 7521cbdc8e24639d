"""What other normalizations do to the partition: a table on equal footing."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from splinescope.tiling import Slice
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.normalization import star
from splinescope_research.normalization.normalizations import NORMALIZATIONS, compare_normalizations, normalized_mlp

PLACES = {"at the origin": (0.0, 0.0), "moved": (1.5, 0.5)}


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    depth, width, cells, seeds = (5, 64, 32, 2) if size == "quick" else (11, 256, 96, 5)
    view = Slice.axes([0.0, 0.0], (0, 1), -3.0, 3.0)
    ratios: dict[str, dict[str, list[float]]] = {place: {name: [] for name in NORMALIZATIONS} for place in PLACES}
    splits: dict[str, list[float]] = {name: [] for name in NORMALIZATIONS}
    for i, (place, center) in enumerate(PLACES.items()):
        for s in range(seed, seed + seeds):
            if progress is not None:
                progress((i * seeds + s - seed) / (2 * seeds), f"star {place}, seed {s}")
            for row in compare_normalizations(star(50, center), view, depth=depth, width=width, cells=cells, seed=s):
                ratios[place][row.name].append(float(row.ratios[-1]))
                if place == "moved":
                    splits[row.name].append(float(row.splits[-1]))
    moved = {name: float(np.mean(values)) for name, values in ratios["moved"].items()}
    others = {name: value for name, value in moved.items() if name != "batch" and np.isfinite(value)}
    bend = _second_difference(seed)
    return Outcome(
        {"ratios": ratios, "splits": splits, "depth": depth, "width": width},
        (
            judged(
                "Other normalizations move the folds to the data as batch norm does (essay, other normalizations).",
                f"star off the origin, layer {depth}, near over far, mean of {seeds} networks (least to largest): "
                + ", ".join(_told(name, values) for name, values in ratios["moved"].items()),
                holds=[
                    Check(
                        "best of layer, instance, group, RMS over batch norm",
                        max(others[name] for name in ("layer", "instance", "group", "RMS")) / moved["batch"],
                        ">",
                        0.5,
                        "'as batch norm does': half of it at the least",
                    )
                ],
            ),
            judged(
                "With any of them the network still has linear regions (essay, other normalizations; of ours, those of "
                "what is computed from each input by itself: layer, instance, group and RMS norm).",
                "second difference inside one activation pattern, one layer of 16 units: "
                + ", ".join(f"{name} {value:.1e}" for name, value in bend.items())
                + "; linear regions are kept by "
                + ", ".join(name for name, value in bend.items() if value < 1e-9),
                holds=[
                    Check(
                        "second difference inside one pattern, largest over layer, instance, group and RMS norm",
                        max(bend[name] for name in ("layer", "instance", "group", "RMS")),
                        "<",
                        1e-9,
                        "an affine map has none",
                    )
                ],
                needs=[
                    Check(
                        "second difference without a norm", bend["none"], "<", 1e-9, "what is affine must be seen to be"
                    )
                ],
            ),
        ),
    )


def _told(name: str, values: list[float]) -> str:
    if not np.isfinite(values).all():
        return f"{name} has no folds in the window"
    return f"{name} {np.mean(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def _second_difference(seed: int) -> dict[str, float]:
    """Largest |f(x+h) - 2 f(x) + f(x-h)| / |h|^2 over points whose three activation patterns are equal."""
    found = {}
    for name in NORMALIZATIONS:
        model = normalized_mlp((2, 16), name, generator=torch.Generator().manual_seed(seed)).eval()
        x = torch.randn(200, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        h = torch.tensor([1e-2, 0.0], dtype=torch.float64)
        with torch.no_grad():
            left, middle, right = model(x - h), model(x), model(x + h)
        same = ((left > 0) == (middle > 0)).all(1) & ((right > 0) == (middle > 0)).all(1)
        found[name] = float((left - 2 * middle + right)[same].abs().max() / 1e-4)
    return found


def draw(numbers: dict[str, Any]) -> Any:
    figure, (left, right) = subplots(2)
    names = list(numbers["splits"])
    places = np.arange(len(names))
    for shift, place in ((-0.2, "at the origin"), (0.2, "moved")):
        means = [np.mean(numbers["ratios"][place][name]) for name in names]
        heights = [value if np.isfinite(value) else 0.0 for value in means]
        left.barh(places + shift, heights, 0.38, label=f"star {place}", color="#3b528b" if shift < 0 else "#e6a000")
        for y, value in zip(places + shift, means, strict=True):
            if not np.isfinite(value):
                left.text(0.1, y, "no folds", va="center", fontsize=7)
    left.axvline(1, color="gray", linewidth=0.8)
    left.set_xlabel(f"folds near data / far from it, layer {numbers['depth']}")
    left.legend(frameon=False, fontsize="small")
    right.barh(places, [np.mean(numbers["splits"][name]) for name in names], 0.6, color="#e6a000")
    right.set_xlabel("share of units that split the data (star moved)")
    for ax in (left, right):
        ax.set_yticks(places, names)
        ax.invert_yaxis()
    return figure


EXPERIMENT = Experiment(
    "What other normalizations do to the folds", run, draw, place="the part on other normalizations", revised=(2,)
)
