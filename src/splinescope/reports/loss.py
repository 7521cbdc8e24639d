"""The loss around the network: its curvature, what skip connections do to it, and a thumbnail of its surface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from ..landscape import curvature, loss_surface, random_directions, without_skips
from ..landscape.skips import find_skips
from ..landscape.spectrum import extreme_eigenvalues
from ..plot.landscape import plot_loss_surface
from .block import NotApplicable, ReportBlock
from .subject import Subject

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LARGE = 50_000  # parameters from which on fewer points are taken, in single precision
_GRID = 21


def _sample(subject: Subject) -> tuple[Tensor, Tensor, torch.dtype]:
    """Points, targets and precision that keep the cost of a curvature product within bounds."""
    large = sum(p.numel() for p in subject.parameters.values()) > _LARGE
    rows = subject.spread(24 if large else 256)
    return subject.x[rows], subject.loss.targets[rows], torch.float32 if large else torch.float64


def _largest(module: nn.Module, points: Tensor, targets: Tensor, loss: Any, dtype: torch.dtype) -> float:
    operator = curvature(module, points, targets, loss=loss, kind="ggn", dtype=dtype)
    return float(extreme_eigenvalues(operator, generator=torch.Generator().manual_seed(0))[0])


def loss_curvature(subject: Subject) -> ReportBlock:
    """Largest curvature of the loss, with its skips and, if there are any, with them switched off."""
    taken = subject.loss
    module = subject.module
    points, targets, dtype = _sample(subject)
    sharp = _largest(module, points, targets, taken.loss, dtype)
    skips = find_skips(module, subject.rows(points[:2]))
    numbers: dict[str, Any] = {
        "largest eigenvalue": sharp, "loss": taken.words, "loss taken because": taken.why, "points": len(points),
        "skips": len(skips),
    }  # fmt: skip
    skipped = "no skip connections"
    few = "" if len(points) == len(subject.x) else f"[:{len(points)}]"
    matrix = f"ss.curvature(model, x{few}, {taken.call_y}{few}, loss={taken.call})"
    call = f"print(ss.landscape.spectrum_summary({matrix}).summary())"
    if skips:
        plain = without_skips(module, subject.rows(points[:2]))
        without = _largest(plain, points, targets, taken.loss, dtype)
        numbers["largest eigenvalue without skips"] = without
        skipped = f"{without:.3g} with {'its skip' if len(skips) == 1 else f'its {len(skips)} skips'} switched off"
        call = "print(ss.skip_conditioning(model, x).summary())"
    return ReportBlock(
        finding=f"Plain gradient descent is stable up to a learning rate of about {2 / max(sharp, 1e-300):.2g}.",
        advice="Without momentum, stay below it; look at the whole spectrum if training is slow.",
        headline=f"largest curvature {sharp:.3g} ({taken.words}); {skipped}",
        certainty="exact",
        scope=f"for {len(points)} of the points, to the tolerance of Lanczos iterations "
        f"({'single' if dtype == torch.float32 else 'double'} precision); loss: {taken}",
        reading="The stable learning rate of plain gradient descent is about 2 divided by the largest eigenvalue of "
        "the Gauss-Newton matrix." + " Switching skips off keeps the weights, not the function." * bool(skips),
        call=call,
        numbers=numbers,
    )


def surface(subject: Subject) -> ReportBlock:
    """The loss on a random, filter-normalized plane through the parameters."""
    taken = subject.loss
    module = subject.module
    points, targets, _ = _sample(subject)
    if not any(p.dim() >= 2 for p in subject.parameters.values()):
        raise NotApplicable("no weight matrix to move.")
    generator = torch.Generator().manual_seed(subject.seed)
    directions = random_directions(module, 2, generator=generator)
    found = loss_surface(module, subject.rows(points), targets, directions, span=1.0, resolution=_GRID, loss=taken.loss)
    middle = float(found.losses[_GRID // 2, _GRID // 2])

    def draw(figure: Figure) -> None:
        plot_loss_surface(found, ax=figure.subplots())

    return ReportBlock(
        finding=f"The loss is not convex on {found.nonconvex_fraction:.0%} of one random plane through the weights.",
        advice="Look along other directions before you conclude: this is one plane of very many.",
        headline=f"{taken.words} {middle:.3g} in the middle, up to {found.losses.max():.3g}; "
        f"{found.nonconvex_fraction:.0%} of the plane is not convex",
        certainty="estimate",
        scope=f"one random plane, {found.losses.size} grid points, {len(points)} data points; loss: {taken}",
        reading="A round bowl means that the loss is easy to descend in almost all directions; ridges and many "
        "valleys mean that it is not. Look at several planes before you conclude.",
        call=f"ss.loss_surface(model, x, {taken.call_y}, ss.landscape.random_directions(model, 2), loss={taken.call})",
        numbers={
            "loss": taken.words, "loss taken because": taken.why, "middle": middle,
            "largest": float(found.losses.max()),
            "smallest": float(found.losses.min()), "non-convex share": found.nonconvex_fraction,
            "rise at the rim": float(np.median(np.concatenate([found.losses[0], found.losses[-1]])) - middle),
        },
        draw=draw,
    )  # fmt: skip
