"""The closing discussion: an initialisation that gives each data point a unit of its own."""

from __future__ import annotations

import copy
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from ..representation import NormalizedLayer, one_unit_per_point_, random_network
from ._decomposed import digits, judge, subplots
from ._experiment import Claim, Experiment, Outcome, Progress, Size, Verdict

READOUTS: tuple[Literal["default", "he"], ...] = ("default", "he")
"""Scales of the readout's random weights."""


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    n, steps, seeds = 300, 60, 2 if size == "quick" else 10
    runs = []
    for i in range(seeds):
        if progress is not None:
            progress(i / seeds, f"seed {i}")
        runs.append(_one(n, steps, torch.Generator().manual_seed(100 * seed + i)))
    worst = max(r["identity_error"] for r in runs)
    saved = {init: np.array([r["steps"][init]["he"] - r["steps"][init]["own"] for r in runs]) for init in READOUTS}
    faster = [s.mean() > 2 * s.std(ddof=1) / np.sqrt(seeds) for s in saved.values()]
    return Outcome(
        {"runs": runs, "n": n},
        (
            Claim(
                "Directions at the (centred, unit) data and thresholds at the nearest neighbour give a representation "
                "of full rank: exactly the identity.",
                judge(worst < 1e-9 and all(r["rank"] == n for r in runs)),
                f"largest distance to the identity {worst:.0e}, rank {runs[0]['rank']} of {n}; a readout of the labels "
                f"has train accuracy 1 and test accuracy {np.mean([r['readout_test'] for r in runs]):.3f}, since "
                f"{np.mean([r['dead_test'] for r in runs]):.0%} of the test points wake no unit",
                "identity to 1e-9 and rank n",
            ),
            Claim(
                "Trained from there (Adam, .01), the training set is learnt in fewer steps than from He weights.",
                judge(all(faster)) if all(faster) or not any(faster) else Verdict.INCONCLUSIVE,
                "; ".join(
                    f"{init} readout: {np.mean([r['steps'][init]['own'] for r in runs]):.0f} steps against "
                    f"{np.mean([r['steps'][init]['he'] for r in runs]):.0f} on average, fewer in "
                    f"{np.mean(s > 0):.0%} of {seeds} seeds"
                    for init, s in saved.items()
                )
                + f"; test accuracy {np.mean([r['test']['own'] for r in runs]):.3f} against "
                f"{np.mean([r['test']['he'] for r in runs]):.3f}",
                "mean saving above 2 standard errors for both scales of the readout; inconclusive if for one only",
            ),
        ),
    )


def _one(n: int, steps: int, generator: torch.Generator) -> dict[str, Any]:
    x, y = digits()
    order = torch.randperm(len(x), generator=generator)
    x, y = x[order], y[order]
    x = nn.functional.normalize(x - x[:n].mean(dim=0))
    first = NormalizedLayer(64, n, components=("nl",), bias=True).double()
    one_unit_per_point_(first.linear, x[:n], centre=False)
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
    }
    for init in READOUTS:
        he = random_network(1, n, in_features=64, components=("nl",), bias=True, generator=generator)[0].double()
        last = random_network(1, n, out_features=10, init=init, bias=True, generator=generator)[-1].double()
        networks = {
            "own": nn.Sequential(copy.deepcopy(first), copy.deepcopy(last)),
            "he": nn.Sequential(he, last),
        }
        trained = {name: _train(network, x[:n], y[:n], steps) for name, network in networks.items()}
        result["steps"][init] = {name: until for name, (until, _) in trained.items()}
        result["curves"][init] = {name: curve for name, (_, curve) in trained.items()}
        with torch.no_grad():
            result["test"] = {
                name: float((network(x[n:]).argmax(dim=1) == y[n:]).double().mean())
                for name, network in networks.items()
            }
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
    for ax, init in zip(axes, READOUTS, strict=True):
        for i, r in enumerate(numbers["runs"]):
            ax.plot(
                r["curves"][init]["own"], color="#d55e00", alpha=0.6, label="one unit per point" if i == 0 else None
            )
            ax.plot(r["curves"][init]["he"], color="#3b528b", alpha=0.6, label="He" if i == 0 else None)
        ax.set_title(f"{init} readout")
        ax.set_xlabel("step of Adam")
        ax.set_ylabel(f"train accuracy ({numbers['n']} digits)")
        ax.legend(frameon=False)
    return figure


EXPERIMENT = Experiment("decomposed-init", "decomposed", "Discussion: one unit for each data point", run, draw)
