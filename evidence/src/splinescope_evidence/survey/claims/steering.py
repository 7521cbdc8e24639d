"""Steering a trained classifier by the softness of its ReLUs: accuracy, robustness and the boundary's curvature."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from matplotlib import pyplot
from matplotlib.figure import Figure
from torch import Tensor, nn

from splinescope.data.digits import digits
from splinescope_evidence.framework.experiment import Check, Claim, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.intervals import interval, ratio_interval
from splinescope_research import steer
from splinescope_research.folds.steering import Steering

FIRST = 100
"""Seeds before this one were seen when the sample size was chosen, and are not judged."""

BETAS = (0.5, 0.7, 0.8, 0.9, 0.95, 1.0)
PRIMARY = 0.8
"""Where the curvature is compared with the network's own: soft enough to differ, hard enough to classify."""
EPSILON = 0.1
"""Of the L-inf attack on pixels in [0, 1], as in the other experiments on these digits."""
FULL = (200, 1500, 797, 20, 2, 100)
"""width, training steps, unseen digits, steps and restarts of the attack by gradients, queries of the one by scores"""
SMALL = 0.01
"""One point in a hundred: a smaller gain would not be worth a choice of beta."""


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    seeds = 2 if size == "quick" else 12
    rows = []
    for k in range(seeds):
        if progress:
            progress(k / seeds, f"network {k + 1} of {seeds}")
        rows.append(_row(size, seed + FIRST + k))
    return Outcome({"rows": rows, "epsilon": EPSILON}, _claims(rows))


def _row(size: Size, seed: int) -> dict[str, Any]:
    """One network at all betas."""
    width, train, most, steps, restarts, queries = (32, 150, 60, 3, 1, 5) if size == "quick" else FULL
    model, x, y = _trained(width, train, seed)
    found = steer(model, x[:most], y[:most], epsilon=EPSILON, betas=BETAS[1::2] if size == "quick" else BETAS,
                  steps=steps, restarts=restarts, queries=queries, bounds=(0.0, 1.0))  # fmt: skip
    half = min(most, len(x)) // 2
    return {
        "betas": found.betas.tolist(),
        "accuracy": found.accuracy.tolist(),
        "robust": found.robust.tolist(),
        "curvature": found.curvature.tolist(),
        "masked": found.masked.tolist(),
        "chosen": {what: _chosen(found, what, half) for what in ("right", "survived")},
    }


def _trained(width: int, steps: int, seed: int) -> tuple[nn.Module, Tensor, Tensor]:
    """64-w-w-10 on 1,000 digits by Adam and cross-entropy; with the digits it has not seen."""
    images, labels = digits()
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(images), generator=generator)
    train, test = order[:1000], order[1000:]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = nn.Sequential(
            nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
        )
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(steps):
        pick = train[torch.randint(len(train), (200,), generator=generator)]
        optimizer.zero_grad()
        F.cross_entropy(model(images[pick]), labels[pick]).backward()
        optimizer.step()
    return model.eval(), images[test], labels[test]


def _chosen(found: Steering, what: str, half: int) -> dict[str, float]:
    """The beta that is best on the first half of the points, and what it gains over 1 on the second."""
    table = getattr(found, what)
    first, second = table[:, :half].mean(1), table[:, half:].mean(1)
    best = len(first) - 1 - int(first[::-1].argmax())
    return {"beta": float(found.betas[best]), "gain": float(second[best] - second[-1])}


def _claims(rows: list[dict[str, Any]]) -> tuple[Claim, ...]:
    networks = f"{len(rows)} networks"

    def gain(text: str, what: str, key: str) -> Claim:
        gains = [row["chosen"][what]["gain"] for row in rows]
        low, high = interval(gains)
        betas = ", ".join(f"{row['chosen'][what]['beta']:g}" for row in rows)
        own = [row[key][-1] for row in rows]
        return judged(
            text,
            f"beta chosen on one half of the unseen digits ({betas}), gain over beta = 1 on the other half: mean "
            f"{np.mean(gains):+.3f}, 95% interval {low:+.3f} to {high:+.3f}, {networks}; at beta = 1 "
            f"{np.mean(own):.3f}",
            holds=[Check("lower end of the 95% interval of the gain", low, ">", 0.0, "0 is no gain")],
            fails=[
                Check("upper end of that interval", high, "<", SMALL, "a gain of one point in a hundred is ruled out"),
                Check("lower end of the 95% interval of the gain", low, "<", 0.0, "the gain is not significant"),
            ],
        )

    ratios = [row["curvature"][_near(row["betas"], PRIMARY)] / row["curvature"][-1] for row in rows]
    low, high = ratio_interval(ratios)
    by_beta = ", ".join(
        f"{beta:g}: {np.mean([row['curvature'][i] / row['curvature'][-1] for row in rows]):.2f}"
        for i, beta in enumerate(rows[0]["betas"][:-1])
    )
    return (
        judged(
            "Softening the ReLUs of a trained classifier by one number, no weight touched, makes its decision boundary "
            "less curved (smooth activations of the outlook; Hu, Gamba, Balestriero's curvature tuning).",
            f"turn of the boundary's normal over a step of 5% of the distance of two digits, over that at beta = 1: "
            f"{by_beta}; at {PRIMARY:g} 95% interval {low:.2f} to {high:.2f}, {networks}",
            holds=[Check(f"upper end of the interval of the ratio at {PRIMARY:g}", high, "<", 1.0, "1 is no change")],
            fails=[Check("lower end of that interval", low, ">", 1.0, "the boundary is more curved")],
        ),
        gain(
            "Some beta below 1 classifies unseen points better than the network itself (refuted where a gain of a "
            "point in a hundred is ruled out).",
            "right",
            "accuracy",
        ),
        gain(
            f"Some beta below 1 is more robust than the network itself (L-inf {EPSILON:g}: gradients with restarts, "
            "search by scores, and points that break the hardest and the softest network).",
            "survived",
            "robust",
        ),
    )  # fmt: skip


def _near(betas: list[float], beta: float) -> int:
    return int(np.abs(np.array(betas) - beta).argmin())


def draw(numbers: dict[str, Any]) -> Figure:
    figure, axes = pyplot.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    names = {
        "accuracy": "accuracy on unseen digits",
        "robust": f"accuracy under L-inf {numbers['epsilon']:g}",
        "curvature": "turn of the boundary over that at beta = 1",
    }
    for ax, (key, label) in zip(axes, names.items(), strict=True):
        for row in numbers["rows"]:
            values = np.array(row[key]) / (row[key][-1] if key == "curvature" else 1)
            ax.plot(row["betas"], values, "o-", markersize=3, color="#332288", alpha=0.6)
        ax.set_xlabel("beta (1 is the network itself)")
        ax.set_ylabel(label)
    return figure


EXPERIMENT = Experiment(
    "Outlook: a classifier steered by the softness of its ReLUs",
    run,
    draw,
    place="closing part, outlook on smooth activations",
)
