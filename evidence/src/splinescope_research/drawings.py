"""Drawings of what these tools find: soft tiles, steering, densities and speeds of neurons, folds, the loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from splinescope.plot._axes import BOUNDARY_COLOR, RASTER_FROM, color_bar, frame, new_axes
from splinescope.plot.meanfield import BATCH_NORM, PLAIN
from splinescope.plot.normalization import BLUE
from splinescope.plot.style import ink
from splinescope.support.checks import check_choice, require
from splinescope.support.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .folds.fold_density import FoldDensity
    from .folds.posterior import EntropyMap
    from .folds.steering import Steering
    from .loss.loss_section import LossSection
    from .loss.polynomial_section import PolynomialSection
    from .meanfield.convergence import ConvergenceStudy
    from .meanfield.density_flow import DensityPath
    from .meanfield.meanfield_effects import FirstStep, LearningRateStudy, SpeedByDirection
    from .normalization.jitter import BoundaryJitter


def plot_entropy(entropy: EntropyMap, site: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Where on a plane a network is undecided which tile it is in: bits of the soft assignment, bright along folds."""
    ax = new_axes(ax)
    if site is not None and site not in entropy.paths:
        raise InputError(f"site must be one of {', '.join(map(repr, entropy.paths))}, got {site!r}.")
    chosen = [i for i, path in enumerate(entropy.paths) if site in (None, path)]
    low, high = entropy.view.domain.min(0), entropy.view.domain.max(0)
    image = ax.imshow(
        entropy.entropy[chosen].sum(0), origin="lower", extent=(low[0], high[0], low[1], high[1]), cmap="magma", vmin=0
    )
    frame(ax, entropy.view)
    ax.scatter(entropy.view.anchors[:, 0], entropy.view.anchors[:, 1], s=30, color="white", edgecolor="black")
    color_bar(ax, image, f"entropy of the tile (bits), beta = {entropy.beta:g}")
    return ax


def plot_steering(steering: Steering, *, ax: Axes | None = None) -> Axes:
    """Accuracy, accuracy under attack (left scale) and curvature of the boundary (right scale) against beta."""
    ax = new_axes(ax)
    ax.plot(steering.betas, steering.accuracy, "o-", color="#332288", label="accuracy")
    ax.plot(steering.betas, steering.robust, "s-", color="#117733", label=f"under {steering.norm} {steering.epsilon:g}")
    ax.set(ylim=(0, 1.02), xlabel="beta (1 is the network itself)", ylabel="share of points")
    right = ax.twinx()
    right.errorbar(
        steering.betas, steering.curvature, 2 * steering.curvature_error, fmt="^--", capsize=2, color=BOUNDARY_COLOR,
        label="turn of the boundary",
    )  # fmt: skip
    right.set_ylabel("radians per unit of distance")
    right.set_ylim(bottom=0)
    handles, labels = (
        a + b for a, b in zip(ax.get_legend_handles_labels(), right.get_legend_handles_labels(), strict=True)
    )
    ax.legend(handles, labels, frameon=False, fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3)
    return ax


def plot_speed_by_direction(speeds: SpeedByDirection, *, ax: Axes | None = None) -> Axes:
    """Angular speed against the angle of the neuron, on a logarithmic scale; the low-variance axis is marked."""
    ax = new_axes(ax)
    degrees = np.degrees(speeds.angles)
    ax.semilogy(degrees, speeds.batch_norm, color=BATCH_NORM, label="batch norm")
    ax.semilogy(degrees, speeds.plain, color=PLAIN, ls="--", label="plain")
    for turn in (0, 180):
        ax.axvline((np.degrees(speeds.axis) + turn) % 360, color="0.7", lw=1, zorder=0)
    ax.set(xlabel="angle of the neuron, degrees (gray: least variance)", ylabel="angular speed", xlim=(0, 360))
    ax.set_xticks([0, 90, 180, 270, 360])
    ax.set_ylim(bottom=float(np.max(speeds.batch_norm)) * 1e-5)
    ax.legend(frameon=False)
    return ax


def plot_first_step(step: FirstStep, *, ax: Axes | None = None) -> Axes:
    """Length after one step of gradient descent against the length before: measured, predicted, and unchanged."""
    ax = new_axes(ax)
    fine = np.geomspace(step.before.min(), step.before.max(), 200)
    middle = float(np.median(step.push))
    ax.loglog(fine, np.hypot(fine, middle / fine), color="0.4", lw=1, label="predicted, median neuron")
    ax.loglog(fine, fine, color="0.7", ls=":", label="unchanged")
    ax.loglog(step.before, step.after, ".", color=BATCH_NORM, ms=3, alpha=0.6)
    ax.plot([], [], ".", color=BATCH_NORM, label="each neuron")
    ax.set(xlabel="length before the step", ylabel="length after one step")
    ax.legend(frameon=False)
    return ax


def plot_learning_rates(study: LearningRateStudy, *, ax: Axes | None = None) -> Axes:
    """Loss at the end against the learning rate; rates that diverge sit at the top edge."""
    ax = new_axes(ax)
    top, floor = 3 * study.start, study.start * 1e-6
    for risks, color, mark, label in (
        (study.batch_norm, BATCH_NORM, "o-", "batch norm"),
        (study.plain, PLAIN, "s--", "plain"),
    ):
        ax.loglog(study.rates, np.clip(risks, floor, top), mark, color=color, ms=4, label=label)
    ax.axhline(study.start, color="0.7", lw=1, ls=":", label="start")
    ax.set(xlabel="learning rate (mean-field time)", ylabel="loss at the end (top: diverged)")
    ax.legend(frameon=False)
    return ax


def plot_convergence(study: ConvergenceStudy, *, ax: Axes | None = None) -> Axes:
    """Distances between consecutive widths, mean over seeds and each seed, with the fitted power laws."""
    ax = new_axes(ax)
    for name, color, mark, label in (
        ("start", "0.5", "^", "W2 at the start"),
        ("end", BATCH_NORM, "o", "W2 at the end"),
        ("outputs", PLAIN, "s", "outputs at the end"),
    ):
        values, rate = getattr(study, name), study.rate(name)
        ax.loglog(study.widths, values.T, mark, color=color, ms=2, alpha=0.4)
        text = f"{label}: slope {rate.slope:.2f} [{rate.low:.2f}, {rate.high:.2f}]"
        ax.loglog(study.widths, np.exp(np.log(values).mean(0)), mark + "-", color=color, ms=5, label=text)
    ax.set(xlabel="width m", ylabel="distance between widths m and next")
    ax.set_xticks(study.widths, [str(m) for m in study.widths])
    ax.minorticks_off()
    ax.legend(frameon=False, fontsize="small")
    return ax


def plot_density(path: DensityPath, *, index: int = -1, ax: Axes | None = None) -> Axes:
    """Density of neurons over angle and amplitude at one recorded time."""
    ax = new_axes(ax)
    half = (path.amplitudes[1] - path.amplitudes[0]) / 2
    extent = (0.0, 360.0, float(path.amplitudes[0] - half), float(path.amplitudes[-1] + half))
    image = ax.imshow(path.values[index].T, origin="lower", extent=extent, aspect="auto", cmap="viridis")
    ax.figure.colorbar(image, ax=ax, label="density of neurons")
    ax.set(xlabel="angle of the neuron, degrees", ylabel="amplitude a", xticks=[0, 90, 180, 270, 360])
    ax.set_title(f"t = {path.times[index]:.3g}, loss {path.risks[index]:.3g}", fontsize="medium")
    return ax


def plot_loss_section(
    section: LossSection | PolynomialSection,
    ax: Axes | None = None,
    *,
    color: Literal["loss", "curvature"] = "loss",
    breaks: bool = True,
) -> Axes:
    """A section of the loss with its pieces: a curve with its break points, or the plane's tiles.

    In 2-D the color of a tile is its loss at the center or the largest eigenvalue of its Hessian.
    """
    check_choice(color, "color", ("loss", "curvature"))
    ax = new_axes(ax)
    value, where = section.minimum
    if getattr(section, "dimension", 1) == 1:
        _plot_line(section, ax, breaks)
    else:
        _plot_plane(section, ax, color, breaks)  # type: ignore[arg-type]
    at = (where[0], value) if len(where) == 1 else tuple(where)
    ax.plot(
        *at, "o", color=BOUNDARY_COLOR, mec="white", ms=7, label=f"minimum {value:.4g}", zorder=5, clip_on=False
    )  # may lie on the edge of the axes
    right = where[0] > 0.5 * sum(ax.get_xlim())
    ax.legend(loc="upper left" if right else "upper right", frameon=True)  # never over the minimum
    return ax


def _plot_line(section: LossSection | PolynomialSection, ax: Axes, breaks: bool) -> None:
    ends = section.breaks
    inside = np.linspace(0.0, 1.0, max(3, 1000 // section.count + 2))[None]
    t = (ends[:-1, None] + (ends[1:] - ends[:-1])[:, None] * inside).reshape(-1)
    ax.plot(t, section(np.clip(t, ends[0], ends[-1])), lw=1.5)
    if breaks and section.count > 1:
        inner = ends[1:-1]
        crowded = len(inner) > 100
        ax.plot(inner, section(inner), "|" if crowded else ".", color="#cc6677", ms=4 if crowded else 5,
                label=f"{len(inner)} break points", rasterized=len(inner) > RASTER_FROM)  # fmt: skip
    ax.set(xlim=(ends[0], ends[-1]), xlabel="$t$", ylabel="squared error")
    ax.set_title(f"{section.count} pieces of degree {section.degree}")


def _plot_plane(section: LossSection, ax: Axes, color: str, breaks: bool) -> None:
    collections = require("matplotlib.collections", "plot")
    polygons = [section.vertices[section.tiles[k]] for k in range(section.count)]
    if color == "loss":
        values, label = section.values, "squared error at the center"
    else:
        values, label = np.linalg.eigvalsh(section.hessians)[:, -1], "largest curvature"
    drawn = collections.PolyCollection(
        polygons, array=values, cmap="viridis", rasterized=section.count > RASTER_FROM,
        edgecolors="white" if breaks and section.count <= RASTER_FROM else "face", linewidths=0.2,
    )  # fmt: skip
    ax.add_collection(drawn)
    low, high = section.vertices.min(0), section.vertices.max(0)
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal", xlabel="$t_1$", ylabel="$t_2$")
    ax.set_title(f"{section.count} quadratic pieces")
    ax.figure.colorbar(drawn, ax=ax, label=label)


def plot_fold_density(density: FoldDensity, depth: int, ax: Axes | None = None) -> Axes:
    """One layer's fold density on a 2-D slice, with the data on top."""
    ax = new_axes(ax)
    raster = density.rasters[depth]
    assert raster.y_edges is not None
    image = ax.pcolormesh(raster.x_edges, raster.y_edges, raster.density, cmap="viridis", rasterized=True)
    on = density.offsets == 0
    ax.plot(*density.points[on].T, ".", color="white", markersize=3)
    ax.plot(
        *density.points[~on].T, ".", markerfacecolor="none", markeredgecolor="white", markeredgewidth=0.4, alpha=0.5
    )
    ax.set(xlim=(raster.x_edges[0], raster.x_edges[-1]), ylim=(raster.y_edges[0], raster.y_edges[-1]))
    ax.set(aspect="equal", xlabel="$t_1$", ylabel="$t_2$")
    ax.set_title(f"layer {depth}", fontsize="medium")
    ax.figure.colorbar(image, ax=ax, label="folds per unit of area" if density.tiles == 0 else "fold length per area")
    return ax


def plot_boundary_jitter(jitter: BoundaryJitter, ax: Axes | None = None, *, points: Any = None, y: Any = None) -> Axes:
    """The ensemble of decision boundaries over minibatches, the one with full statistics on top."""
    require("matplotlib", "plot")
    from matplotlib.collections import LineCollection

    ax = new_axes(ax)
    for boundary in jitter.boundaries:
        ax.add_collection(LineCollection(list(boundary.segments), colors=BLUE, linewidths=0.7, alpha=0.35))
    ax.add_collection(LineCollection(list(jitter.full.segments), colors=ink(), linewidths=1.8))
    ax.plot([], [], color=BLUE, alpha=0.6, label="one minibatch")
    ax.plot([], [], color=ink(), label="all data")
    if points is not None:
        places = np.asarray(points)
        ax.scatter(places[:, 0], places[:, 1], c=y, s=12, cmap="cividis", edgecolors="white", linewidths=0.4)
    ax.autoscale_view()
    ax.set(aspect="equal", xlabel="$t_1$", ylabel="$t_2$")
    ax.legend(loc="upper right", fontsize="small")
    return ax
