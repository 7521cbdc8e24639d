"""The eccentricity of a layer's loss Hessian, with skip connections and without."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.intervals import interval
from splinescope_research.loss.curvature_factor import curvature_factor

SCALES = (0.5, 1.0, 2**0.5)
PRIMARY = 2**0.5
"""He's scale: that of the networks people train. The others are reported."""
ZERO = 1e-11
"""Singular values of the curvature's factor below this share of the largest are rounding: true ones end at some 1e-7,
the others begin at 1e-15."""


class _Stack(nn.Module):
    """Layers of one width; every one of them with an identity skip, or none."""

    def __init__(self, weights: Tensor, skip: bool) -> None:
        super().__init__()
        linears = [nn.Linear(w.shape[1], w.shape[0], dtype=w.dtype) for w in weights]
        with torch.no_grad():
            for layer, weight in zip(linears, weights, strict=True):
                layer.weight.copy_(weight)
                layer.bias.zero_()
        self.layers = nn.ModuleList(linears)
        self.skip = skip

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            bent = torch.relu(layer(x))
            x = x + bent if self.skip else bent
        return x


def _eccentricity(net: nn.Module, x: Tensor, layer: str) -> tuple[float, float]:
    """Largest over smallest non-zero eigenvalue of the layer's Hessian of the squared error, which is exact: the error
    is piecewise quadratic; and the largest singular value that counts as zero over the smallest that does not.
    """
    singular = np.linalg.svd(curvature_factor(net, x, torch.zeros_like(x), layer=layer), compute_uv=False)
    kept = singular[singular > ZERO * singular[0]]
    dropped = singular[len(kept) :]
    return float((kept[0] / kept[-1]) ** 2), float(dropped.max(initial=0.0) / kept[-1])


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    width, depth, points, seeds = (8, 4, 6, 2) if size == "quick" else (16, 10, 24, 20)
    table: dict[float, list[tuple[float, float]]] = {scale: [] for scale in SCALES}
    gap = 0.0
    for i in range(seeds):
        if progress is not None:
            progress(i / seeds, f"weights {i + 1} of {seeds}")
        generator = torch.Generator().manual_seed(100 * seed + i)
        draws = torch.randn(depth, width, width, generator=generator, dtype=torch.float64) / width**0.5
        x = torch.randn(points, width, generator=generator, dtype=torch.float64)
        for scale in SCALES:
            plain, skip = (_eccentricity(_Stack(scale * draws, with_skips).eval(), x, "layers.0")
                           for with_skips in (False, True))  # fmt: skip
            table[scale].append((plain[0], skip[0]))
            gap = max(gap, plain[1], skip[1])
    logs = {scale: np.log10([a / b for a, b in pairs]) for scale, pairs in table.items()}
    mean = {scale: float(v.mean()) for scale, v in logs.items()}
    ends = {scale: interval(v) for scale, v in logs.items()}
    text = ", ".join(
        f"{10 ** mean[s]:.3g} (95%: {10 ** ends[s][0]:.3g} to {10 ** ends[s][1]:.3g}) at scale {s:.3g}" for s in SCALES
    )
    claims = (
        judged(
            "The local Hessian of a ResNet is less eccentric than that of a ConvNet (survey, on Riedi et al.): "
            "first of "
            f"{depth} layers of {width} units, the same weights with and without identity skips, at He's scale.",
            f"eccentricity without over with skips, geometric mean of {seeds} draws: {text}",
            holds=[Check("lower end of the 95% interval of log10 of the ratio", ends[PRIMARY][0], ">", 0.0,
                         "below one the plain network is the less eccentric")],
            fails=[Check("upper end of that interval", ends[PRIMARY][1], "<", 0.0, "the other way round")],
            needs=[Check("largest singular value taken for zero, over the smallest that is not", gap, "<", 1e-3,
                         "a gap: where zero begins must not decide")],
        ),
    )  # fmt: skip
    return Outcome({"scales": SCALES, "pairs": [table[s] for s in SCALES], "gap": gap}, claims)


def draw(numbers: dict[str, Any]) -> Any:
    figure, axes = subplots(len(numbers["scales"]))
    for ax, scale, pairs in zip(axes, numbers["scales"], numbers["pairs"], strict=True):
        values = np.array(pairs)
        for plain, skip in values:
            ax.semilogy([0, 1], [plain, skip], ".-", color="#3b528b", alpha=0.4)
        ax.set_xticks([0, 1], ["plain", "skip"])
        ax.set_xlim(-0.4, 1.4)
        ax.set(title=f"weights N(0, {scale**2:.3g} / width)", ylabel="eccentricity of the first layer's Hessian")
    return figure


EXPERIMENT = Experiment(
    "Eccentricity of the local Hessian, with and without skips", run, draw, place="near equation (7)", revised=(1,)
)
