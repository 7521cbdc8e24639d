"""Figure 9: tiles around training points at initialisation, at interpolation, and long after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..tiling import Slice, Tiling, tessellate
from ._experiment import Claim, Experiment, Outcome, Progress, Size, Verdict
from ._grokking import Run, Setting, network, quick, sets, spread, train_all

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LATER = 37  # times the step of interpolation: the figure's last picture


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    settings = [quick(seed)] if size == "quick" else [Setting(seed=seed + k) for k in range(3)]
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
    anchors = tiling.slice.anchors
    return {
        "step": trained.steps[index],
        "lc_train": trained.lc_train[index],
        "robust": trained.robust_accuracy[index],
        "tiles": tiling.count,
        "near_data": float(tiling.density_near(anchors, radius).mean()),
        "near_boundary": float(tiling.density_near(near_boundary, radius).mean()) if len(near_boundary) else None,
        "boundary_length": boundary.length,
        "slope_at_data": float(np.mean(tiling.input_slope_norms(tiling.locate(anchors)))),
    }


def _picture(tiling: Tiling) -> dict[str, Any]:
    """What the figure needs: walls as segments, the decision boundary, the anchors."""
    boundary = tiling.decision_boundary()
    return {
        "walls": np.round(tiling.vertices[tiling.walls.ends], 4).tolist(),
        "boundary": np.round(boundary.segments, 4).tolist(),
        "anchors": tiling.slice.anchors.tolist(),
        "domain": tiling.slice.domain.tolist(),
    }


def _claims(tables: list[list[dict[str, Any]]]) -> tuple[Claim, ...]:
    later = [rows[2]["step"] / max(1, rows[1]["step"]) for rows in tables]
    enough = min(later) >= LATER
    drop = [rows[2]["lc_train"] / rows[1]["lc_train"] for rows in tables]
    contrast = [
        (rows[2]["near_boundary"] / rows[2]["near_data"]) / (rows[1]["near_boundary"] / rows[1]["near_data"])
        for rows in tables
        if rows[1]["near_boundary"] and rows[2]["near_boundary"]
    ]

    def verdict(values: list[float], limit: float, below: bool) -> Verdict:
        good = [v <= limit if below else v >= limit for v in values]
        if not enough or not values or any(good) != all(good):
            return Verdict.INCONCLUSIVE
        return Verdict.HOLDS if all(good) else Verdict.FAILS

    return (
        Claim(
            "Long after interpolation, fewer folds pass near training points than at interpolation.",
            verdict(drop, 0.8, True),
            f"local complexity late over at interpolation {spread(drop)}, {min(later):.0f} or more times later",
            f"ratio <= 0.8 for every seed, at least {LATER} times the step of interpolation",
        ),
        Claim(
            "Tiles migrate to the decision boundary: their density there, relative to that at training points, grows.",
            verdict(contrast, 1.25, False),
            f"growth of (density at the boundary / density at the data), interpolation to late: {spread(contrast)}",
            "growth >= 1.25 for every seed, on the plane of three training points, discs of 5% of its side",
        ),
    )


def draw(numbers: dict[str, Any]) -> Figure:
    from matplotlib import pyplot
    from matplotlib.collections import LineCollection

    figure, axes = pyplot.subplots(1, 3, figsize=(13, 5.2), layout="constrained")
    for ax, picture, row in zip(axes, numbers["pictures"], numbers["rows"][0], strict=True):
        thin = float(np.clip(30 / np.sqrt(max(len(picture["walls"]), 1)), 0.15, 0.8))
        ax.add_collection(LineCollection(picture["walls"], colors="black", linewidths=thin))
        ax.add_collection(LineCollection(picture["boundary"], colors="#e00000", linewidths=1.6))
        anchors, domain = np.asarray(picture["anchors"]), np.asarray(picture["domain"])
        ax.scatter(anchors[:, 0], anchors[:, 1], s=45, color="#f0e442", edgecolor="black", zorder=3)
        ax.set_xlim(domain[:, 0].min(), domain[:, 0].max())
        ax.set_ylim(domain[:, 1].min(), domain[:, 1].max())
        ax.set_aspect("equal")
        ax.set_xlabel("$t_1$")
        ax.set_title(f"step {row['step']}: {row['tiles']} tiles\n{row['lc_train']:.1f} folds near training points")
    axes[0].set_ylabel("$t_2$")
    figure.suptitle("Tiles (black), decision boundary (red) and three training points (yellow)")
    return figure


EXPERIMENT = Experiment(
    "survey-fig9", "survey", "Figure 9: tiles at initialisation, interpolation and long after", run, draw
)
