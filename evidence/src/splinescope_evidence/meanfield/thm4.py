"""Theorem 4: the measures converge as the width grows; the loss falls at the rate of the Riemannian speed."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from splinescope.meanfield import GaussianInputs, TwoLayerBN
from splinescope.meanfield.flow import vector_field
from splinescope.meanfield.functions import as_loss
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.meanfield import EXACT, even_angles, random_problem, ring
from splinescope_evidence.shared.words import span
from splinescope_research import convergence_study
from splinescope_research.meanfield.convergence import ConvergenceStudy
from splinescope_research.meanfield.ellipsoid import Manifold

NEAR = 0.1
"""Of exponents: over the widths that are compared, a factor of 16, a tenth changes a distance by a third."""


def random_ring(m: int, generator: torch.Generator) -> TwoLayerBN:
    return ring(2 * torch.pi * torch.rand(m, generator=generator, dtype=torch.float64))


def even_ring(m: int, _: torch.Generator) -> TwoLayerBN:
    return ring(even_angles(m))


def energy(seed: int) -> tuple[float, float, float]:
    """(dL/dt by the chain rule, minus the mean squared speed in the metric, the same in Euclidean
    length).
    """
    net, data = random_problem(seed)
    manifold, loss = Manifold(data.covariance), as_loss("squared")
    state = torch.column_stack([net.a, manifold.normalize(net.b)])
    v = vector_field(net, data, loss, "manifold", net.lengths)(state)

    point = state.clone().requires_grad_()
    f = point[:, 0] @ net.activation.value(point[:, 1:] @ data.x.T) / net.width
    (differential,) = torch.autograd.grad(data.weights @ loss.value(f, data.y), point)
    slope = (differential * v).sum().item()
    turning = manifold.inner(state[:, 1:], v[:, 1:], v[:, 1:], scale=net.lengths)
    amplitude = v[:, 0] ** 2
    return slope, -(amplitude + turning).mean().item(), -(amplitude + v[:, 1:].square().sum(1)).mean().item()


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    sigma = torch.diag(torch.tensor([2.0, 1.0], dtype=torch.float64))
    data = GaussianInputs(sigma).quadrature(lambda x: torch.sin(x[:, 0]) + 0.5 * torch.tanh(x[:, 1]), order=10)
    widths = [8, 16, 32, 64] if size == "quick" else [16, 32, 64, 128, 256, 512]
    seeds = range(seed, seed + (4 if size == "quick" else 60))

    def part(start: float, share: float) -> Progress | None:
        return None if progress is None else lambda fraction, what: progress(start + share * fraction, what)

    time = 5.0
    drawn = convergence_study(widths, data, random_ring, time=time, seeds=seeds, progress=part(0, 0.8))
    even = convergence_study(widths[:-1], data, even_ring, time=time, rtol=1e-8, progress=part(0.8, 0.2))
    rates = {name: vars(drawn.rate(name)) for name in ("start", "end", "lipschitz", "outputs")}
    even_rate = even.rate("end")
    energies = np.array([energy(seed + k) for k in range(2 if size == "quick" else 20)])
    slope, riemannian, euclidean = energies.T
    in_metric, in_length = (np.abs(slope / speed - 1) for speed in (riemannian, euclidean))
    numbers = {
        "widths": drawn.widths.tolist(),
        "start": drawn.start.tolist(),
        "end": drawn.end.tolist(),
        "lipschitz": drawn.lipschitz.tolist(),
        "outputs": drawn.outputs.tolist(),
        "rates": rates,
        "even_widths": even.widths.tolist(),
        "even_end": even.end.tolist(),
        "even_rate": vars(even_rate),
        "energy": {"dL/dt": slope.tolist(), "riemannian": riemannian.tolist(), "euclidean": euclidean.tolist()},
    }
    end = drawn.rate("end")
    return Outcome(
        numbers,
        (
            judged(
                "The measures of wider and wider networks converge, at a fixed time, when their starts do (Theorem 4).",
                f"W2 of neighboring widths at t = {time:g}: slope {end.slope:.3f}, 95% interval over {len(seeds)} "
                f"independent starts {end.low:.3f} to {end.high:.3f}; {even_rate.slope:.2f} for an even grid",
                holds=[
                    Check(
                        "upper end of the 95% interval of the slope, random starts",
                        end.high,
                        "<",
                        0.0,
                        "a slope of 0 is no convergence",
                    ),
                    Check("slope, even grid", even_rate.slope, "<", 0.0, "a slope of 0 is no convergence"),
                ],
                fails=[
                    Check("lower end of the 95% interval of the slope, random starts", end.low, ">", -NEAR,
                          "a fall by less than the power of a tenth is hardly one at these widths"),
                    Check("upper end of the 95% interval of the slope, random starts", end.high, ">", 0.0,
                          "the fall is not significant"),
                ],
            ),
            judged(
                "The loss falls at the mean squared speed (proof of Theorem 4). Corrected: the speed is measured "
                "in the "
                "metric G, not in Euclidean length.",
                f"{len(energies)} random networks: dL/dt over minus the squared speed off 1 by at most "
                f"{in_metric.max():.1e} in G, by {span(in_length)} in Euclidean length (first: dL/dt = {slope[0]:.5f}, "
                f"{riemannian[0]:.5f} and {euclidean[0]:.5f})",
                holds=[
                    Check("relative difference, Euclidean, largest", float(in_length.max()), "<", 1e-9, EXACT),
                ],
                corrected=[Check("relative difference, in G, largest", float(in_metric.max()), "<", 1e-9, EXACT)],
            ),
        ),
    )  # fmt: skip


def draw(numbers: dict[str, Any]) -> Figure:
    from splinescope_research.drawings import plot_convergence

    figure, (ax,) = subplots(1, height=4.2)
    arrays = {k: np.array(numbers[k]) for k in ("widths", "start", "end", "lipschitz", "outputs")}
    plot_convergence(ConvergenceStudy(**arrays), ax=ax)
    even = np.array(numbers["even_end"])[0]
    slope = numbers["even_rate"]["slope"]
    ax.plot(numbers["even_widths"], even, "k.-.", lw=1, label=f"W2 at the end, even grid: slope {slope:.2f}")
    ax.set_ylim(bottom=min(even.min(), arrays["outputs"].min()) / 20)
    ax.legend(frameon=False, fontsize="small", loc="lower left")
    return figure


EXPERIMENT = Experiment(
    "Theorem 4: convergence as the width grows", run, draw, place="Theorem 4; its proof", revised=(1,)
)
