"""The length of every neuron is conserved by the flow, and grows in gradient descent."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from splinescope.meanfield import descend, flow
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.meanfield import EXACT, random_problem


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    net, data = random_problem(seed)
    time = 10.0 if size == "quick" else 160.0
    tolerances = [1e-5, 1e-7, 1e-9]
    drifts = []
    for number, rtol in enumerate(tolerances):
        if progress:
            progress(number / 4, f"flow without projection, rtol {rtol:g}")
        free = flow(net, data, times=[0, time], dynamics="euclidean", project=False, rtol=rtol, atol=rtol / 100)
        drifts.append(float(((free.b[-1].norm(dim=1) - net.lengths) / net.lengths).abs().max()))
    rates = [0.05, 0.5, 2.0]
    runs = [descend(net, data, rate=rate, iterations=60) for rate in rates]
    lengths = [run.b.norm(dim=2) for run in runs]
    steps = [(run.b[1:] - run.b[:-1]).norm(dim=2) for run in runs]
    pythagoras = max(
        float((ahead[1:] ** 2 - ahead[:-1] ** 2 - step**2).abs().max() / (ahead**2).max())
        for ahead, step in zip(lengths, steps, strict=True)
    )
    grows = all(bool((ahead[1:] >= ahead[:-1] * (1 - 1e-15)).all()) for ahead in lengths)
    numbers = {
        "time": time,
        "tolerances": tolerances,
        "drifts": drifts,
        "rates": rates,
        "mean_growth": [(ahead / ahead[0]).mean(1).tolist() for ahead in lengths],
        "pythagoras_error": pythagoras,
    }
    return Outcome(
        numbers,
        (
            judged(
                "The gradient flow conserves the length of every neuron's inner weights (the flow of equation (6)).",
                f"relative drift {drifts[-1]:.1e} at rtol {tolerances[-1]:g} over mean-field time {time:g}, "
                f"no projection, one network of {net.width} neurons",
                holds=[
                    Check(
                        "relative drift at the tightest tolerance",
                        drifts[-1],
                        "<",
                        100 * tolerances[-1],
                        "that tolerance is of one step; those of many add up",
                    ),
                    Check(
                        "drift at the tightest over that at the loosest tolerance",
                        drifts[-1] / drifts[0],
                        "<",
                        1e-2,
                        "what is left is the integrator's error: the tolerance falls by 1e-4",
                    ),
                ],
            ),
            judged(
                "Gradient descent does not: each step lengthens the neuron by Pythagoras (on section 4.3).",
                f"largest error of |b'|^2 = |b|^2 + |step|^2: {pythagoras:.1e}, relative; the same network at "
                f"{len(rates)} rates, 60 steps each",
                holds=[
                    Check("largest error of Pythagoras", pythagoras, "<", 1e-12, EXACT),
                    Check("steps that shorten a neuron", 1.0 - grows, "<", 0.5, "none may"),
                ],
            ),
        ),
    )


def draw(numbers: dict[str, Any]) -> Figure:
    figure, (left, right) = subplots(2)
    left.loglog(numbers["tolerances"], numbers["drifts"], "o-", color="#0072B2")
    left.set(xlabel="tolerance of the integrator", ylabel="relative drift of |b|", title="flow")
    for rate, growth in zip(numbers["rates"], numbers["mean_growth"], strict=True):
        right.plot(np.arange(len(growth)), growth, label=f"rate {rate:g}")
    right.set(xlabel="iteration", ylabel="mean length / start", title="gradient descent", yscale="log")
    right.legend(frameon=False)
    return figure


EXPERIMENT = Experiment(
    "Lengths of neurons: conserved by the flow, growing in descent",
    run,
    draw,
    place="the flow of equation (6); section 4.3",
    revised=(1,),
)
