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

RATES = tuple(10 ** (k / 2) for k in range(-8, 2))


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    width, depth, points, nets, limit = (6, 3, 6, 3, 10) if size == "quick" else (12, 8, 16, 24, 120)
    rows: list[dict[str, Any]] = []
    for i in range(nets):
        if progress is not None:
            progress(i / nets, f"weights {i + 1} of {nets}")
        generator = torch.Generator().manual_seed(100 * seed + i)
        draws = torch.randn(depth, width, width, generator=generator, dtype=torch.float64) * (2 / width) ** 0.5
        x, y = torch.randn(2, points, width, generator=generator, dtype=torch.float64)
        for skip, scale in ((False, 1.0), (True, depth**-0.5)):  # branches of skips at the scale that keeps sizes
            kappa = _eccentricity(_Stack(scale * draws, skip).eval(), x, "layers.0")[0]
            least = min(_steps(_Stack(scale * draws, skip), x, y, rate, limit) for rate in RATES)
            rows.append({"skip": skip, "kappa": kappa, "steps": least})
    logs, steps = np.log10([row["kappa"] for row in rows]), np.array([row["steps"] for row in rows])
    rho = float(stats.spearmanr(logs, steps).statistic)
    low, high = _fisher(rho, len(rows))
    inside = [float(stats.spearmanr(logs[kind], steps[kind]).statistic)
              for kind in (np.array([row["skip"] == skip for row in rows]) for skip in (False, True))]  # fmt: skip
    return Outcome(
        {"rows": rows, "limit": limit},
        (
            judged(
                "A better conditioned loss is easier to descend: networks with a less eccentric Hessian halve their "
                "loss in fewer steps, each at its best rate.",
                f"rank correlation of eccentricity (first layer, at the start) and steps over {len(rows)} "
                f"networks, half "
                f"of them with skips: {rho:.2f}, 95% interval {low:.2f} to {high:.2f}; among those without skips "
                f"{inside[0]:.2f}, with {inside[1]:.2f}; median steps {np.median(steps[::2]):g} and "
                f"{np.median(steps[1::2]):g}",
                holds=[Check("lower end of the 95% interval: rank correlation", low, ">", 0.0, "0 is no relation")],
                fails=[Check("upper end of the 95% interval: rank correlation", high, "<", 0.0, "0 is no relation")],
            ),
        ),
    )


def _steps(net: _Stack, x: Tensor, y: Tensor, rate: float, limit: int) -> int:
    """Steps of gradient descent until the loss is half of the first; `limit` if it is not by then."""
    parameters = list(net.parameters())
    first = np.inf
    for step in range(limit):
        loss = (net(x) - y).square().mean()
        first = min(first, float(loss.detach())) if step == 0 else first
        if not torch.isfinite(loss) or loss > 1e3 * first:
            return limit
        if loss < first / 2:
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
    for skip, marker, color in ((False, "o", "#d55e00"), (True, "s", "#0072b2")):
        rows = [row for row in numbers["rows"] if row["skip"] == skip]
        ax.loglog([row["kappa"] for row in rows], [row["steps"] for row in rows], marker, color=color,
                  label="with skips" if skip else "without", alpha=0.7)  # fmt: skip
    ax.set(xlabel="eccentricity of the Hessian at the start", ylabel="steps to half the loss, best rate")
    ax.legend(frameon=False)
    return figure


EXPERIMENT = Experiment(
    "Conditioning and descent",
    run,
    draw,
    place="the part on skip connections: a better conditioned loss makes descent easier",
)
