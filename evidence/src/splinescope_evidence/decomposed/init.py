"""The closing discussion: an initialization that gives each data point a unit of its own."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import nn

from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.data import digits
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.intervals import interval
from splinescope_research import one_unit_per_point_, random_network
from splinescope_research.random_layers.layers import NormalizedLayer

FIRST = 60
"""Seeds before this one were seen when claims and sample size were chosen, and are not judged."""

PARTS = ("all layers", "readout only")
"""What is trained."""


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    n, steps, seeds = 300, 60, 2 if size == "quick" else 160
    runs = []
    for i in range(FIRST, FIRST + seeds):
        if progress is not None:
            progress((i - FIRST) / seeds, f"seed {i}")
        runs.append(_one(n, steps, torch.Generator().manual_seed(100 * seed + i)))
    worst = max(r["identity_error"] for r in runs)
    saved = {part: np.array([r["steps"][part]["he"] - r["steps"][part]["own"] for r in runs]) for part in PARTS}
    ends = {part: interval(s) for part, s in saved.items()}
    compared = {
        part: f"{np.mean([r['steps'][part]['own'] for r in runs]):.0f} steps against "
        f"{np.mean([r['steps'][part]['he'] for r in runs]):.0f} on average, "
        f"saved {s.mean():+.1f}, 95% interval {ends[part][0]:+.1f} to {ends[part][1]:+.1f}, {seeds} seeds"
        for part, s in saved.items()
    }
    return Outcome(
        {"runs": runs, "n": n},
        (
            judged(
                "Directions at the (centered, unit) data and thresholds at the nearest neighbor give a representation "
                "of full rank: exactly the identity.",
                f"largest distance to the identity {worst:.0e}, rank {runs[0]['rank']} of {n}; a readout of the labels "
                f"has train accuracy 1 and test accuracy {np.mean([r['readout_test'] for r in runs]):.3f}, since "
                f"{np.mean([r['dead_test'] for r in runs]):.0%} of the test points wake no unit",
                holds=[
                    Check("largest distance to the identity", worst, "<", 1e-9, "exact: rounding of inner products"),
                    Check("ranks below n", float(sum(r["rank"] != n for r in runs)), "<", 0.5, "none may be"),
                ],
            ),
            judged(
                "Trained from there (Adam, .01), the training set is learned in fewer steps than from He weights.",
                f"{compared['all layers']}; test accuracy {np.mean([r['test']['own'] for r in runs]):.3f} against "
                f"{np.mean([r['test']['he'] for r in runs]):.3f}",
                **_saves(ends["all layers"]),
            ),
            judged(
                "(Ours.) It is if the readout alone is trained.",
                f"{compared['readout only']} (at most {steps} counted)",
                **_saves(ends["readout only"]),
            ),
        ),
    )


def _saves(ends: tuple[float, float]) -> dict[str, list[Check]]:
    return {
        "holds": [Check("lower end of the 95% interval of steps saved", ends[0], ">", 0.0, "0 is no saving")],
        "fails": [Check("upper end of the 95% interval of steps saved", ends[1], "<", 0.0, "0 is no loss")],
    }


def _one(n: int, steps: int, generator: torch.Generator) -> dict[str, Any]:
    x, y = digits()
    order = torch.randperm(len(x), generator=generator)
    x, y = x[order], y[order]
    x = nn.functional.normalize(x - x[:n].mean(dim=0))
    first = NormalizedLayer(64, n, components=("nl",), bias=True).double()
    one_unit_per_point_(first.linear, x[:n], center=False)
    with torch.no_grad():
        h = first(x)
        readout = (h[n:] @ nn.functional.one_hot(y[:n], 10).double()).argmax(dim=1)
    result: dict[str, Any] = {
        "identity_error": float((h[:n] - torch.eye(n, dtype=h.dtype)).abs().max()),
        "rank": int(torch.linalg.matrix_rank(h[:n])),
        "readout_test": float((readout == y[n:]).double().mean()),
        "dead_test": float((h[n:] == 0).all(dim=1).double().mean()),
        "steps": {},
        "curves": {},
        "test": {},
    }
    he = random_network(1, n, in_features=64, components=("nl",), bias=True, generator=generator)[0].double()
    last = random_network(1, n, out_features=10, init="default", bias=True, generator=generator)[-1].double()
    for part in PARTS:
        result["steps"][part], result["curves"][part] = {}, {}
        for name, layer in (("own", first), ("he", he)):
            network = nn.Sequential(copy.deepcopy(layer).requires_grad_(part == "all layers"), copy.deepcopy(last))
            result["steps"][part][name], result["curves"][part][name] = _train(network, x[:n], y[:n], steps)
            if part == "all layers":
                with torch.no_grad():
                    hits = network(x[n:]).argmax(dim=1) == y[n:]
                result["test"][name] = float(hits.double().mean())
    return result


def _train(network: nn.Module, x: torch.Tensor, y: torch.Tensor, steps: int) -> tuple[float, list[float]]:
    """Full-batch Adam; (steps until all training points are right, `steps` if never; accuracy at each step)."""
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    curve = []
    for _ in range(steps):
        optimizer.zero_grad()
        output = network(x)
        curve.append(float((output.argmax(dim=1) == y).double().mean()))
        nn.functional.cross_entropy(output, y).backward()
        optimizer.step()
    return next((float(i) for i, accuracy in enumerate(curve) if accuracy == 1), float(steps)), curve


def draw(numbers: dict[str, Any]) -> Any:
    figure, axes = subplots(2)
    for ax, part in zip(axes, PARTS, strict=True):
        for i, r in enumerate(numbers["runs"]):
            ax.plot(
                r["curves"][part]["own"], color="#d55e00", alpha=0.6, label="one unit per point" if i == 0 else None
            )
            ax.plot(r["curves"][part]["he"], color="#3b528b", alpha=0.6, label="He" if i == 0 else None)
        ax.set_title(f"trained: {part}")
        ax.set_xlabel("step of Adam")
        ax.set_ylabel(f"train accuracy ({numbers['n']} digits)")
        ax.legend(frameon=False)
    return figure


EXPERIMENT = Experiment(
    "Discussion: one unit for each data point",
    run,
    draw,
    place="closing section, the discussion of initialization by data",
    revised=(2, 3),
)
