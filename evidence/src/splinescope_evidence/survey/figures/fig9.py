"""Figure 9: tiles around training points at initialization, at interpolation, and long after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from matplotlib import pyplot
from matplotlib.figure import Figure

from splinescope.tiling import Slice, Tiling, tessellate
from splinescope_evidence.framework.experiment import Check, Claim, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.grokking import Run, Setting, network, quick, sets, train_all
from splinescope_evidence.shared.intervals import ratio_interval
from splinescope_evidence.shared.words import by_seed

LATER = 37  # times the step of interpolation: the figure's last picture


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    settings = [quick(seed), quick(seed + 1)] if size == "quick" else [Setting(seed=seed + k) for k in range(5)]
    runs = train_all(settings, progress, share=0.8)
    tables = []
    for number, (setting, trained) in enumerate(zip(settings, runs, strict=True)):
        if progress:
            progress(0.8 + 0.2 * number / len(runs), f"tilings, seed {setting.seed}")
        tables.append(_three_tilings(setting, trained, keep=number == 0))
    pictures = [row.pop("picture") for row in tables[0]]
    numbers = {"rows": tables, "pictures": pictures, "later": LATER}
    return Outcome(numbers, _claims(tables))


def moments(trained: Run) -> list[int]:
    """Indices of the three pictures: before training, at interpolation, at the last record."""
    return [0, trained.interpolation, len(trained.steps) - 1]


def _three_tilings(setting: Setting, trained: Run, keep: bool) -> list[dict[str, Any]]:
    x, y, _, _ = sets(setting)
    chosen = [int((y == label).nonzero()[0]) for label in (0, 1, 2)]  # one training point of each of three classes
    view = Slice.through(*(x[i] for i in chosen), pad=0.1)
    radius = 0.05 * float(np.sqrt(view.size))
    model = network(setting).eval()
    rows = []
    for index in moments(trained):
        model.load_state_dict(trained.states[index])
        tiling = tessellate(model, view, progress=False)
        rows.append(_row(tiling, trained, index, radius))
        rows[-1]["picture"] = _picture(tiling) if keep else None
    return rows


def _row(tiling: Tiling, trained: Run, index: int, radius: float) -> dict[str, Any]:
    boundary = tiling.decision_boundary()
    generator = torch.Generator().manual_seed(0)
    near_boundary = boundary.sample(200, generator=generator) if len(boundary) else np.zeros((0, 2))
    anchors = tiling.view.anchors
    return {
        "step": trained.steps[index],
        "lc_train": trained.lc_train[index],
        "tiles": tiling.count,
        "near_data": float(tiling.density_near(anchors, radius).mean()),
        "near_boundary": float(tiling.density_near(near_boundary, radius).mean())
        if len(near_boundary)
        else float("nan"),
        "boundary_length": boundary.length,
        "slope_at_data": float(np.mean(tiling.input_slope_norms(tiling.locate(anchors)))),
    }


def _picture(tiling: Tiling) -> dict[str, Any]:
    """What the figure needs: walls as segments, the decision boundary, the anchors."""
    boundary = tiling.decision_boundary()
    return {
        "walls": np.round(tiling.vertices[tiling.walls.ends], 4).tolist(),
        "boundary": np.round(boundary.segments, 4).tolist(),
        "anchors": tiling.view.anchors.tolist(),
        "domain": tiling.view.domain.tolist(),
    }


def _claims(tables: list[list[dict[str, Any]]]) -> tuple[Claim, ...]:
    """Late against interpolation, seed by seed, by intervals over seeds for the mean of the logarithm."""
    later = [rows[2]["step"] / max(1, rows[1]["step"]) for rows in tables]
    enough = Check(
        "last step over that of interpolation, least over seeds", min(later), ">", LATER, "the figure's last picture"
    )

    def change(value: Callable[[dict[str, Any]], float]) -> list[float]:
        return [value(rows[2]) / value(rows[1]) for rows in tables]

    def claim(text: str, what: str, ratios: list[float], smaller: bool) -> Claim:
        low, high = ratio_interval(ratios)
        down = Check(
            f"{what}: upper end of the 95% interval of late over interpolation", high, "<", 1.0, "1 is no change"
        )
        up = Check(f"{what}: lower end of the 95% interval of late over interpolation", low, ">", 1.0, "1 is no change")
        measured = f"{what}, late over at interpolation: {by_seed(ratios)}, 95% interval {low:.2f} to {high:.2f}"
        holds, fails = ([down], [up]) if smaller else ([up], [down])
        return judged(text, measured, holds=holds, fails=fails, needs=[enough])

    return (
        claim("Long after interpolation, fewer folds pass near training points than at interpolation.",
              "local complexity", change(lambda row: row["lc_train"]), True),
        claim("Tiles migrate to the decision boundary: their density there, relative to that at training points, grows "
              "(plane of three training points, discs of 5% of its side).",
              "density of tiles at the boundary over that at the data",
              change(lambda row: row["near_boundary"] / row["near_data"]), False),
        claim("The map is flatter at the training points long after interpolation.",
              "mean spectral norm of the slope at the three points", change(lambda row: row["slope_at_data"]), True),
        claim("The plane through three training points has fewer tiles long after interpolation.",
              "number of tiles", change(lambda row: row["tiles"]), True),
    )  # fmt: skip


def draw(numbers: dict[str, Any]) -> Figure:
    from matplotlib.collections import LineCollection
    from matplotlib.colors import LogNorm

    count = len(numbers["pictures"])
    figure, axes = pyplot.subplots(1, count, figsize=(4.2 * count, 4.9), layout="constrained")
    shades = [_density(picture) for picture in numbers["pictures"]]
    most = max(np.quantile(shade, 0.995) for shade in shades)
    for ax, picture, row, shade in zip(axes, numbers["pictures"], numbers["rows"][0], shades, strict=True):
        (left, low), (right, high) = np.min(picture["domain"], 0), np.max(picture["domain"], 0)
        norm = LogNorm(most / 25, most)
        ax.imshow(shade.clip(most / 50), norm=norm, cmap="magma", origin="lower", extent=(left, right, low, high))
        ax.add_collection(LineCollection(picture["boundary"], colors="white", linewidths=1.6))
        for place, color in zip(picture["anchors"], ("#33ddff", "#66dd44", "#ff55cc"), strict=True):
            ax.scatter(*place, s=60, color=color, edgecolor="white", zorder=3)
        ax.set(xlim=(left, right), ylim=(low, high))
        ax.axis("off")
        ax.set_title(f"step {row['step']:,}: {row['tiles']:,} tiles\n{row['lc_train']:.1f} folds near training points")
    return figure


def _density(picture: dict[str, Any], cells: int = 360) -> np.ndarray:
    """`[cells, cells]` length of walls per cell, each wall by points half a cell apart, a little blurred."""
    from scipy.ndimage import gaussian_filter

    low, high = np.min(picture["domain"], 0), np.max(picture["domain"], 0)
    start, end = np.asarray(picture["walls"], float).transpose(1, 0, 2)
    lengths = np.linalg.norm(end - start, axis=1)
    counts = np.maximum(np.ceil(lengths * 2 * cells / (high - low).min()), 1).astype(int)
    wall = np.repeat(np.arange(len(counts)), counts)
    share = (np.arange(len(wall)) - np.repeat(counts.cumsum() - counts, counts) + 0.5) / counts[wall]
    points = start[wall] + share[:, None] * (end - start)[wall]
    edges = [np.linspace(low[i], high[i], cells + 1) for i in (1, 0)]
    found = np.histogram2d(points[:, 1], points[:, 0], edges, weights=(lengths / counts)[wall])[0]
    return np.asarray(gaussian_filter(found, 1.2))


EXPERIMENT = Experiment(
    "Figure 9: tiles at initialization, interpolation and long after", run, draw, place="Figure 9", revised=(1, 2)
)
