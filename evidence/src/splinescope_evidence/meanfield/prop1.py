"""Proposition 1: the metric of batch norm, and the round sphere in disguise."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.meanfield import EXACT
from splinescope_research.meanfield.ellipsoid import Manifold

LOST = "the pseudo-inverse loses digits with the condition of Sigma"


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    count = 20 if size == "quick" else 330
    generator = torch.Generator().manual_seed(seed)
    rows = []
    dimensions = range(2, 8)
    for d in dimensions:
        if progress:
            progress((d - 2) / 6, f"dimension {d}")
        for _ in range(count):
            root = torch.randn(d, d, generator=generator, dtype=torch.float64)
            manifold = Manifold(root @ root.T + 0.1 * torch.eye(d, dtype=torch.float64))
            b = manifold.normalize(torch.randn(1, d, generator=generator, dtype=torch.float64))
            v = manifold.project(b, torch.randn(1, d, generator=generator, dtype=torch.float64))
            inverse = manifold.metric_inverse(b)[0]
            metric = torch.linalg.pinv(inverse, hermitian=True, rtol=1e-11)  # the definition, G = (|b|^2 M)^+
            normal = (b @ manifold.covariance)[0]
            tangent = torch.eye(d, dtype=torch.float64) - torch.outer(normal, normal) / (normal @ normal)
            scale = metric.abs().max()
            eigenvalues = torch.linalg.eigvalsh(metric)
            u = b / b.norm()
            turn = (v - u * (u * v).sum()) / b.norm()  # the derivative of b / |b| in the direction v
            rows.append(
                [
                    float((metric - metric.T).abs().max() / scale),
                    float((tangent @ metric - metric).abs().max() / scale),
                    float(eigenvalues[1] / eigenvalues[-1]),
                    float(abs((v @ metric @ v.T).item() / (turn * turn).sum().item() - 1)),
                    float((manifold.metric(b)[0] - metric).abs().max() / scale),
                ]
            )
    table = np.array(rows)
    asymmetry, redundant, least, isometry, closed = (
        table[:, 0].max(),
        table[:, 1].max(),
        table[:, 2].min(),
        table[:, 3].max(),
        table[:, 4].max(),
    )
    numbers = {
        "dimensions": [d for d in dimensions for _ in range(count)],
        "isometry_error": table[:, 3].tolist(),
        "asymmetry": float(asymmetry),
        "projector_error": float(redundant),
        "least_eigenvalue": float(least),
        "closed_form_error": float(closed),
    }
    return Outcome(
        numbers,
        (
            judged(
                "The metric is symmetric, positive definite on the tangent space, with kernel Sigma b; the "
                "projector in its definition is redundant.",
                f"asymmetry {asymmetry:.1e}, projector changes it by {redundant:.1e}, smallest tangent "
                f"eigenvalue {least:.1e} of the largest, {len(rows)} random cases",
                holds=[
                    Check("asymmetry", float(asymmetry), "<", 1e-12, EXACT),
                    Check("change by the projector", float(redundant), "<", 1e-10, "digits lost in the pseudo-inverse"),
                    Check(
                        "smallest tangent eigenvalue over the largest",
                        float(least),
                        ">",
                        1e-8,
                        "positive, far above the rounding of the kernel's",
                    ),
                ],
            ),
            judged(
                "(Ours.) the manifold is isometric to the round unit sphere by b -> b/|b|, so distance is the angle.",
                f"largest relative error of the squared length {isometry:.1e}, of the closed form {closed:.1e}",
                holds=[
                    Check("error of the squared length", float(isometry), "<", 1e-9, LOST),
                    Check("error of the closed form", float(closed), "<", 1e-9, LOST),
                ],
            ),
        ),
    )


def draw(numbers: dict[str, Any]) -> Figure:
    figure, (ax,) = subplots(1)
    dimensions = np.array(numbers["dimensions"])
    jitter = np.linspace(-0.2, 0.2, int((dimensions == 2).sum()))
    errors = np.maximum(numbers["isometry_error"], 1e-17)
    ax.semilogy(dimensions + np.tile(jitter, len(set(numbers["dimensions"]))), errors, ".", ms=3, color="#0072B2")
    ax.axhline(1e-9, color="0.6", ls=":", label="threshold")
    ax.set(xlabel="dimension d", ylabel="relative error of $v^T G v = |d(b/|b|)v|^2$")
    ax.legend(frameon=False)
    return figure


EXPERIMENT = Experiment("Proposition 1: the metric is that of a sphere", run, draw, place="Proposition 1")
