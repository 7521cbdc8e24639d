"""The loss around the network: its curvature, what skip connections do to it, and a thumbnail of its surface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from ..landscape import curvature, extreme_eigenvalues, find_skips, loss_surface, random_directions, without_skips
from .block import NotApplicable, ReportBlock
from .subject import Subject

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LARGE = 50_000  # parameters from which on fewer points are taken, in single precision
_GRID = 21


def _sample(subject: Subject) -> tuple[Tensor, Tensor, torch.dtype]:
    """Points, targets and precision that keep the cost of a curvature product within bounds."""
    large = sum(p.numel() for p in subject.parameters.values()) > _LARGE
    points, targets = subject.some(24 if large else 256)
    assert targets is not None
    return points, targets, torch.float32 if large else torch.float64


def _argument(loss: Any) -> str:
    """The loss as one would write it in a call."""
    return repr(loss) if isinstance(loss, str) else "your_loss"


def _largest(module: nn.Module, points: Tensor, targets: Tensor, loss: Any, dtype: torch.dtype) -> float:
    operator = curvature(module, points, targets, loss=loss, kind="ggn", dtype=dtype)
    return float(extreme_eigenvalues(operator, generator=torch.Generator().manual_seed(0))[0])


def loss_curvature(subject: Subject) -> ReportBlock:
    """Largest curvature of the loss, with its skips and, if there are any, with them switched off."""
    name, loss = subject.loss
    module = subject.module
    points, targets, dtype = _sample(subject)
    sharp = _largest(module, points, targets, loss, dtype)
    skips = find_skips(module, subject.rows(points[:2]))
    numbers: dict[str, Any] = {"largest eigenvalue": sharp, "loss": name, "points": len(points), "skips": len(skips)}
    told = "it has no skip connections"
    if skips:
        plain = without_skips(module, subject.rows(points[:2]))
        without = _largest(plain, points, targets, loss, dtype)
        numbers["largest eigenvalue without skips"] = without
        told = f"{without:.3g} with its {len(skips)} skips switched off"
    return ReportBlock(
        "curvature",
        "Curvature of the loss",
        headline=f"sharpest direction {sharp:.3g} ({name}); {told}",
        certainty="exact",
        scope=f"for these {len(points)} points, to the tolerance of Lanczos iterations "
        f"({'single' if dtype == torch.float32 else 'double'} precision)",
        reading="The largest eigenvalue of the Gauss-Newton matrix bounds the stable learning rate of plain gradient "
        "descent: about 2 divided by it. Switching skips off changes the function too: the same weights, another net.",
        call=f"splinescope.landscape.spectrum_summary(splinescope.curvature(model, x, y, loss={_argument(loss)})), "
        "splinescope.skip_conditioning(model, x)",
        numbers=numbers,
    )


def surface(subject: Subject) -> ReportBlock:
    """The loss on a random, filter-normalised plane through the parameters."""
    name, loss = subject.loss
    module = subject.module
    points, targets, _ = _sample(subject)
    if not any(p.dim() >= 2 for p in subject.parameters.values()):
        raise NotApplicable("no weight matrix to move.")
    generator = torch.Generator().manual_seed(subject.seed)
    directions = random_directions(module, 2, generator=generator)
    found = loss_surface(module, subject.rows(points), targets, directions, span=1.0, resolution=_GRID, loss=loss)
    middle = float(found.losses[_GRID // 2, _GRID // 2])

    def draw(figure: Figure) -> None:
        from ..plot import plot_loss_surface

        plot_loss_surface(found, ax=figure.subplots())

    return ReportBlock(
        "surface",
        "Loss surface",
        headline=f"{name} {middle:.3g} in the middle, up to {found.losses.max():.3g}; "
        f"{found.nonconvex_fraction:.0%} of the plane is not convex",
        certainty="estimate",
        scope=f"one random plane, {found.losses.size} grid points, {len(points)} data points",
        reading="A round bowl means that the loss is easy to descend in almost all directions; ridges and many "
        "valleys mean that it is not. One plane of very many: look at several before you conclude.",
        call="splinescope.loss_surface(model, x, y, splinescope.landscape.random_directions(model, 2))",
        numbers={
            "loss": name, "middle": middle, "largest": float(found.losses.max()),
            "smallest": float(found.losses.min()), "non-convex share": found.nonconvex_fraction,
            "rise at the rim": float(np.median(np.concatenate([found.losses[0], found.losses[-1]])) - middle),
        },
        draw=draw,
    )  # fmt: skip
