"""Theorem 5: the flow reaches the global optimum, in a case where it is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..meanfield import Data, TwoLayerBN, certificate, flow, separates
from ._experiment import Claim, Experiment, Outcome, Progress, Size, Verdict
from ._meanfield import decide, even_angles, panels, ring

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def known_optimum(n: int, seed: int) -> tuple[Data, float]:
    """Data in pairs x, -x, targets odd + even, and L*.

    The network is odd, so L* = E[even^2] / 2 if it can match the odd part, which is here that of a teacher
    with two neurons and mean amplitude 2.
    """
    x = torch.randn(n, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    x = x * torch.tensor([1.5, 0.8], dtype=torch.float64)
    teacher = TwoLayerBN([3.0, -1.0], [[1.0, 0.5], [-0.3, 1.0]], "tanh")
    odd, even = teacher(torch.cat([x, -x]))[:n], 0.3 * x[:, 1] ** 2
    data = Data.of(torch.cat([x, -x]), torch.cat([even + odd, even - odd]))
    return data, 0.5 * even.square().mean().item()


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    data, optimum = known_optimum(60, seed)
    m, end = (24, 100.0) if size == "quick" else (64, 300.0)
    starts = {
        "full circle": ring(even_angles(m)),
        "arc of 0.1 rad": ring(0.4 + 0.1 * even_angles(m) / (2 * torch.pi)),
        "one direction": ring(torch.full((m,), 0.4, dtype=torch.float64)),
    }
    times = np.concatenate([[0.0], np.geomspace(0.5, end, 16)])
    excess, bounds, largest, separated = {}, {}, {}, {}
    for number, (name, net) in enumerate(starts.items()):
        if progress:
            progress(number / len(starts), f"start: {name}")
        path = flow(net, data, times=times, rtol=1e-6)
        proof = certificate(path.network(), data)
        excess[name] = (path.risks - optimum).tolist()
        bounds[name] = proof.gap_bound(2.0)
        largest[name] = proof.largest
        separated[name] = separates(net, radius=float(4 / m))
    full, arc, single = (excess[name][-1] for name in starts)
    numbers = {
        "times": times.tolist(),
        "excess": excess,
        "optimum": optimum,
        "gap_bound": bounds,
        "largest_first_variation": largest,
        "separates": separated,
    }
    bounded = all(excess[name][-1] <= bounds[name] + 1e-9 for name in starts)
    return Outcome(
        numbers,
        (
            Claim(
                "From a start that separates, the flow converges to the global optimum (smooth activation; "
                "ReLU violates the assumptions).",
                decide(separated["full circle"] and full < 1e-3 and full < 0.01 * excess["full circle"][0]),
                f"L - L* = {full:.1e} at t = {end:g}, from {excess['full circle'][0]:.2g}; L* = {optimum:.4f}",
                "start separates, excess below 1e-3 and below 1% of the start",
            ),
            Claim(
                "The first variation certifies optimality: it bounds the excess and vanishes at the optimum only.",
                decide(bounded and largest["full circle"] < 0.02 < largest["one direction"]),
                f"largest |first variation| at amplitude 1: {largest['full circle']:.1e} (full circle), "
                f"{largest['one direction']:.2g} (one direction); bound on the excess "
                f"{bounds['full circle']:.1e}",
                "excess below the bound for every start; below 0.02 at the optimum, above it at the control",
            ),
            Claim(
                "Without separation the flow can stay away: all neurons in one direction (control).",
                decide(not separated["one direction"] and single > 10 * full and single > 3e-3),
                f"L - L* = {single:.1e}",
                "does not separate, excess above 3e-3 and 10 times that of the full circle",
            ),
            Claim(
                "Separation is necessary (the converse, which the paper does not claim).",
                Verdict.FAILS if not separated["arc of 0.1 rad"] and arc < 3e-3 else Verdict.INCONCLUSIVE,
                f"an arc of 0.1 rad does not separate and reaches L - L* = {arc:.1e}",
                "refuted if a start that does not separate comes within 3e-3",
            ),
        ),
    )


def draw(numbers: dict[str, Any]) -> Figure:
    figure, (ax,) = panels(1)
    for (name, excess), style in zip(numbers["excess"].items(), ("o-", "s--", "^:"), strict=True):
        word = "separates" if numbers["separates"][name] else "does not separate"
        ax.loglog(numbers["times"][1:], excess[1:], style, ms=4, label=f"{name} ({word})")
    ax.set(xlabel="mean-field time", ylabel="loss above the optimum")
    ax.legend(frameon=False)
    return figure


EXPERIMENT = Experiment("meanfield-thm5", "meanfield", "Theorem 5: the flow finds the global optimum", run, draw)
