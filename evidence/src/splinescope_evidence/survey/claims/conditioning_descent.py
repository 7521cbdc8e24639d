"""Is a better conditioned loss easier to descend?"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.survey.claims.hessian_eccentricity import _eccentricity, _Stack

GOAL = 0.55
"""Share of the loss to lose: deep networks without skips lose little in some hundred steps."""
RATES = tuple(10 ** (k / 2) for k in range(-8, 2))


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    width, depth, points, nets, limit = (6, 4, 6, 6, 20) if size == "quick" else (12, 8, 16, 40, 120)
    rows: list[dict[str, Any]] = []
    for i in range(nets):
        if progress is not None:
            progress(i / nets, f"weights {i + 1} of {nets}")
        generator = torch.Generator().manual_seed(100 * seed + i)
        draws = torch.randn(depth, width, width, generator=generator, dtype=torch.float64) * (2 / width) ** 0.5
        x, y = torch.randn(2, points, width, generator=generator, dtype=torch.float64)
        with torch.no_grad():  # outputs as large as targets: else one step that shrinks them halves the loss
            draws[-1] /= _Stack(draws, False)(x).square().mean().sqrt()
        kappa = _eccentricity(_Stack(draws, False).eval(), x, "layers.0")[0]
        least = min(_steps(_Stack(draws, False), x, y, rate, limit) for rate in RATES)
        rows.append({"kappa": kappa, "steps": least})
    logs, steps = np.log10([row["kappa"] for row in rows]), np.array([row["steps"] for row in rows])
    rho = float(stats.spearmanr(logs, steps).statistic)
    low, high = _fisher(rho, len(rows))
    between = float(np.mean((steps > 1) & (steps < limit)))
    return Outcome(
        {"rows": rows, "limit": limit},
        (
            judged(
                "A better conditioned loss is easier to descend: of networks that differ in their weights alone, those "
                f"with a less eccentric Hessian take {GOAL:.0%} off their loss in fewer steps, each at its best rate.",
                f"rank correlation of eccentricity (first layer, at the start) and steps over {len(rows)} networks "
                f"without skips: {rho:.2f}, 95% interval {low:.2f} to {high:.2f}; "
                f"eccentricities from {10 ** logs.min():.0e} to {10 ** logs.max():.0e}; median steps "
                f"{np.median(steps):g}; between 1 and {limit} in {between:.0%}",
                holds=[Check("lower end of the 95% interval: rank correlation", low, ">", 0.0, "0 is no relation")],
                fails=[Check("upper end of the 95% interval: rank correlation", high, "<", 0.0, "0 is no relation")],
                needs=[
                    Check("share with steps between 1 and the limit", between, ">", 0.5, "steps must differ to tell")
                ],
            ),
        ),
    )  # fmt: skip


def _steps(net: _Stack, x: Tensor, y: Tensor, rate: float, limit: int) -> int:
    """Steps of gradient descent until the loss has lost its share; `limit` if it has not by then."""
    parameters = list(net.parameters())
    first = np.inf
    for step in range(limit):
        loss = (net(x) - y).square().mean()
        first = min(first, float(loss.detach())) if step == 0 else first
        if not torch.isfinite(loss) or loss > 1e3 * first:
            return limit
        if loss < (1 - GOAL) * first:
            return step
        with torch.no_grad():
            for p, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                p.sub_(rate * gradient)
    return limit


def _fisher(rho: float, n: int) -> tuple[float, float]:
    reach = 1.96 * 1.03 / np.sqrt(n - 3)  # 1.06 / (n - 3) is the variance for ranks
    middle = np.arctanh(np.clip(rho, -0.999, 0.999))
    return float(np.tanh(middle - reach)), float(np.tanh(middle + reach))


def draw(numbers: dict[str, Any]) -> Any:
    figure, (ax,) = subplots(1)
    rows = numbers["rows"]
    ax.loglog([row["kappa"] for row in rows], [row["steps"] for row in rows], "o", alpha=0.7)
    ax.set(xlabel="eccentricity of the Hessian at the start", ylabel="steps to lose 55% of the loss, best rate")
    return figure


EXPERIMENT = Experiment("Conditioning and descent", run, draw, place="the part on skip connections", revised=(1,))
