"""Theorem 5: the flow reaches the global optimum, in a case where it is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from splinescope.meanfield import Data, TwoLayerBN, flow
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.meanfield import even_angles, ring
from splinescope_evidence.shared.words import spread
from splinescope_research import certificate
from splinescope_research.meanfield.separation import separates


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
    m, end, seeds = (24, 30.0, 2) if size == "quick" else (64, 300.0, 6)
    starts = {
        "full circle": ring(even_angles(m)),
        "arc of 0.1 rad": ring(0.4 + 0.1 * even_angles(m) / (2 * torch.pi)),
        "one direction": ring(torch.full((m,), 0.4, dtype=torch.float64)),
    }
    times = np.concatenate([[0.0], np.geomspace(0.5, end, 16)])
    excess: dict[str, list[list[float]]] = {name: [] for name in starts}
    bounds: dict[str, list[float]] = {name: [] for name in starts}
    largest: dict[str, list[float]] = {name: [] for name in starts}
    optima = []
    for k in range(seeds):
        data, optimum = known_optimum(60, seed + k)
        optima.append(optimum)
        for number, (name, net) in enumerate(starts.items()):
            if progress:
                progress((k + number / len(starts)) / seeds, f"data {seed + k}, start: {name}")
            path = flow(net, data, times=times, rtol=1e-6)
            proof = certificate(path.network(), data)
            excess[name].append((path.risks - optimum).tolist())
            bounds[name].append(proof.gap_bound(2.0))
            largest[name].append(proof.largest)
    separated = {name: separates(net, radius=float(4 / m)) for name, net in starts.items()}
    last = {name: np.array(rows)[:, -1] for name, rows in excess.items()}
    full, arc, single = last.values()
    left = float((full / np.array(excess["full circle"])[:, 0]).max())
    over = max(float((last[name] - np.array(bounds[name])).max()) for name in starts)
    apart, nearer = float((single / full).min()), arc / single
    told = max(a / b for a, b in zip(largest["full circle"], largest["one direction"], strict=True))
    numbers = {
        "times": times.tolist(),
        "excess": excess,
        "optimum": optima,
        "gap_bound": bounds,
        "largest_first_variation": largest,
        "separates": separated,
    }
    return Outcome(
        numbers,
        (
            judged(
                "From a start that separates, the flow converges to the global optimum (Theorem 5; smooth activation, "
                "as ReLU violates the assumptions).",
                f"L - L* at t = {end:g} over that at the start: at most {left:.1e}; L - L* itself {spread(full)}, "
                f"{seeds} sets of data",
                needs=[Check("the start separates", float(separated["full circle"]), ">", 0.5, "the hypothesis")],
                holds=[Check("largest excess left, over that at the start", left, "<", 0.01,
                             "a limit is not reached in finite time; the control stays ten times further away")],
            ),
            judged(
                "The first variation certifies optimality: it bounds the excess and vanishes at the optimum only.",
                f"largest |first variation| at amplitude 1: {spread(largest['full circle'])} (full circle), "
                f"{spread(largest['one direction'])} (one direction); excess minus its bound at most {over:.1e}",
                holds=[
                    Check("excess minus the bound, largest", over, "<", 1e-9, "a proven bound: rounding may pass it"),
                    Check("first variation, full circle over one direction, largest", told, "<", 0.2,
                          "it must tell the optimum from the control by a factor of 5"),
                ],
            ),
            judged(
                "Without separation the flow can stay away: all neurons in one direction (control).",
                f"L - L* {spread(single)}, at least {apart:.0f} times that of the full circle",
                needs=[Check("the start separates", float(separated["one direction"]), "<", 0.5, "the hypothesis")],
                holds=[Check("excess over that of the full circle, least", apart, ">", 10.0,
                             "an order of magnitude, after the same time")],
            ),
            judged(
                "Separation is necessary (the converse, which the paper does not claim).",
                f"an arc of 0.1 rad does not separate and reaches L - L* {spread(arc)}; one direction {spread(single)}",
                needs=[Check("the arc separates", float(separated["arc of 0.1 rad"]), "<", 0.5, "the hypothesis")],
                holds=[Check("excess of the arc over that of one direction, least", float(nearer.min()), ">", 0.5,
                             "as far away as a start that stays away")],
                fails=[Check("excess of the arc over that of one direction, largest", float(nearer.max()), "<", 0.5,
                             "nearer in every set of data")],
            ),
        ),
    )  # fmt: skip


def draw(numbers: dict[str, Any]) -> Figure:
    figure, (ax,) = subplots(1)
    for (name, excess), style in zip(numbers["excess"].items(), ("o-", "s--", "^:"), strict=True):
        word = "separates" if numbers["separates"][name] else "does not separate"
        color = ax.loglog(numbers["times"][1:], excess[0][1:], style, ms=4, label=f"{name} ({word})")[0].get_color()
        for other in excess[1:]:
            ax.loglog(numbers["times"][1:], other[1:], "-", color=color, lw=0.6, alpha=0.6)
    ax.set(xlabel="mean-field time", ylabel="loss above the optimum")
    ax.legend(frameon=False)
    return figure


EXPERIMENT = Experiment("Theorem 5: the flow finds the global optimum", run, draw, place="Theorem 5")
