"""Section II: in a linear network, recentering every layer is recentering once."""

from __future__ import annotations

from typing import Any

import torch

from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_research import random_network


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    depth, width = (10, 32) if size == "quick" else (50, 128)
    generator = torch.Generator().manual_seed(seed)
    x = 2 + torch.randn(24, width, dtype=torch.float64, generator=generator)
    options: dict[str, Any] = {"init": "lecun", "dtype": torch.float64}
    every = random_network(depth, width, components=("rc",), generator=generator, **options)
    never = random_network(depth, width, components=(), generator=generator, **options)
    never.load_state_dict({k: v for k, v in every.state_dict().items() if "standardize" not in k})
    every_layer, once, difference = x, x - x.mean(dim=0), []
    with torch.no_grad():
        for recentered, plain in zip(every, never, strict=True):
            every_layer, once = recentered(every_layer), plain(once)
            difference.append(float((every_layer - once).abs().max() / once.abs().max()))
    worst = max(difference)
    return Outcome(
        {"difference": difference, "depth": depth, "width": width},
        (
            judged(
                "Without non-linearity, recentering after every layer is the same as recentering the input once "
                "(section II).",
                f"largest relative difference over {depth} layers of one network {worst:.1e}",
                holds=[Check("largest relative difference", worst, "<", 1e-12, "an identity: rounding of float64")],
            ),
        ),
    )


def draw(numbers: dict[str, Any]) -> Any:
    figure, (ax,) = subplots(1)
    ax.semilogy(range(1, numbers["depth"] + 1), [max(d, 1e-18) for d in numbers["difference"]], marker=".")
    ax.axhline(1e-12, color="#d55e00", linewidth=1, label="threshold")
    ax.set_ylim(1e-17, 1e-11)
    ax.legend(frameon=False)
    ax.set_xlabel("layer")
    ax.set_ylabel("relative difference")
    ax.set_title("recentering every layer against once")
    return figure


EXPERIMENT = Experiment("Section II: recentering a linear network acts once", run, draw, place="section II")
