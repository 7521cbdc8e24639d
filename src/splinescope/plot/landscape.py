"""Drawings of loss surfaces and conditioning."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..landscape.skip_conditioning import Conditioning, SkipConditioning
from ..landscape.surface import LossSurface
from ..support.checks import check_choice
from ..support.errors import InputError
from ..support.files import replacing
from ._axes import BOUNDARY_COLOR, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_loss_surface(
    surface: LossSurface, ax: Axes | None = None, *, kind: Literal["contour", "surface"] = "contour", log: bool = True
) -> Axes:
    """A sampled loss: a curve (1-D), contours, or a surface in 3-D (on axes with `projection="3d"`)."""
    check_choice(kind, "kind", ("contour", "surface"))
    if log and not (surface.losses > 0).all():
        raise InputError("log=True needs losses above zero; some are not: use log=False.")
    if surface.losses.ndim == 1:
        ax = new_axes(ax)
        ax.plot(surface.axes[0], surface.losses)
        ax.set(xlabel="$t$", ylabel="loss", yscale="log" if log else "linear", title=surface.label)
        return ax
    label = "$\\log_{10}$ loss" if log else "loss"
    z = np.log10(surface.losses) if log else surface.losses
    u, v = np.meshgrid(*surface.axes, indexing="ij")
    if kind == "surface":
        ax = new_axes(ax, subplot_kw={"projection": "3d"})
        drawn: Any = ax.plot_surface(u, v, z, cmap="viridis", rcount=80, ccount=80, lw=0)  # type: ignore[attr-defined]
        ax.set_zlabel(label)  # type: ignore[attr-defined]
    else:
        ax = new_axes(ax)
        drawn = ax.contourf(u, v, z, levels=30, cmap="viridis")
        ax.contour(u, v, z, levels=12, colors="white", linewidths=0.5, linestyles="solid")
        ax.figure.colorbar(drawn, ax=ax, label=label)
        ax.set_aspect("equal")
        if surface.path is not None:
            ax.plot(*surface.path[:, :2].T, ".-", color=BOUNDARY_COLOR, lw=1, ms=4, label="training path")
            ax.legend(loc="upper right")
    ax.set(xlabel="$t_1$", ylabel="$t_2$", title=surface.label)
    return ax


def plot_conditioning(found: Mapping[str, Conditioning] | SkipConditioning, ax: Axes | None = None) -> Axes:
    """Condition numbers of several kinds of layers, one column of points each; singular ones in a band at the top.

    What `skip_conditioning` found has two columns for each block: with its skip, and without.
    """
    if isinstance(found, SkipConditioning):
        found = {
            f"{block.skip.name}\n{way}": conditioning
            for block in found
            for way, conditioning in (("with", block.with_skip), ("without", block.without))
        }
    if not found:
        raise InputError("there is nothing to draw: the network has no skip connections, or no layers were given.")
    ax = new_axes(ax)
    finite = np.concatenate([c.condition[np.isfinite(c.condition)].reshape(-1) for c in found.values()])
    top = 10 ** (np.ceil(np.log10(finite.max() if len(finite) else 10.0)) + 1)
    for i, conditioning in enumerate(found.values()):
        values = conditioning.condition.reshape(-1)
        spread = i + np.linspace(-0.3, 0.3, len(values))
        singular = np.isinf(values)
        ax.plot(spread[~singular], values[~singular], ".", color="C0", ms=4)
        ax.plot(spread[singular], np.full(singular.sum(), top), "x", color=BOUNDARY_COLOR, ms=4)
        bounds = conditioning.bound.reshape(-1)
        known = np.isfinite(bounds)
        ax.plot(spread[known], bounds[known], "-", color="#117733", lw=1, alpha=0.8)
    ax.set(yscale="log", ylim=(0.8, 4 * top), ylabel="condition number", xlim=(-0.5, len(found) - 0.5))
    ax.set_xticks(range(len(found)), list(found))
    ax.axhspan(top / 2, 4 * top, color=BOUNDARY_COLOR, alpha=0.08, lw=0)
    ax.text(0.995, 0.985, "singular", transform=ax.transAxes, ha="right", va="top", color=BOUNDARY_COLOR, fontsize=8)
    return ax


def write_surface_page(surface: LossSurface, path: str | os.PathLike[str], *, title: str = "Loss surface") -> None:
    """A 2-D surface as one self-contained page: turn by dragging, zoom by wheel, hover for values. No links out."""
    if surface.losses.ndim != 2:
        raise InputError("a page shows 2-D surfaces, got a 1-D one; plot_loss_surface draws it.")
    data = {
        "u": surface.axes[0].tolist(),
        "v": surface.axes[1].tolist(),
        "z": [[v if np.isfinite(v) else None for v in row] for row in surface.losses.tolist()],
        "path": None if surface.path is None else surface.path[:, :2].tolist(),
    }
    page = (resources.files(__package__) / "web" / "surface.html").read_text(encoding="utf-8")
    page = page.replace("{{title}}", html.escape(title)).replace("{{label}}", html.escape(surface.label))
    page = page.replace("{{data}}", json.dumps(data).replace("<", "\\u003c"))
    with replacing(path) as partial:
        partial.write_text(page, encoding="utf-8")
