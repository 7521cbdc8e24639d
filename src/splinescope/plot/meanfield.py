"""Drawings of the mean field part: neurons on the circle or ellipse, speeds, densities, rates, and a film."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..meanfield.convergence import ConvergenceStudy
from ..meanfield.density import DensityPath
from ..meanfield.effects import FirstStep, LearningRateStudy, SpeedByDirection
from ..meanfield.flow import Trajectory
from ..support.checks import require
from ..support.errors import InputError
from ._axes import new_axes
from .style import house_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BATCH_NORM, PLAIN = "#0072B2", "#D55E00"
"""Blue and vermilion of the Okabe-Ito palette: told apart by every reader."""


def _ring(trajectory: Trajectory) -> np.ndarray:
    """The curve the neurons live on, shape (2, 400): `Omega`, or the unit circle for unnormalised neurons."""
    angle = np.linspace(0, 2 * np.pi, 400)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    if trajectory.dynamics in ("euclidean", "plain"):
        return circle
    sigma = trajectory.covariance.cpu().numpy()
    return np.asarray(circle / np.sqrt(np.einsum("ik,ij,jk->k", circle, sigma, circle)))


def plot_neurons(trajectory: Trajectory, *, index: int = -1, trace: bool = True, ax: Axes | None = None) -> Axes:
    """Neurons of a two-dimensional network at one recorded time, coloured by amplitude, with their paths so far.

    Batch-norm weights keep their length, so each stays on its own circle; normalised neurons stay on the
    ellipse `b^T Sigma b = 1`.
    """
    points = _points(trajectory)
    ax = new_axes(ax)
    ax.plot(*_ring(trajectory), color="0.8", lw=1, zorder=0)
    last = index % len(points)
    if trace:
        ax.plot(points[: last + 1, :, 0], points[: last + 1, :, 1], color="0.6", lw=0.6, zorder=1)
    a = trajectory.a.cpu().numpy()
    reach = float(np.abs(a).max()) or 1.0
    _dots(ax, points[last], a[last], reach)
    ax.set(aspect="equal", xlabel="$b_1$", ylabel="$b_2$")
    ax.locator_params(axis="x", nbins=3)
    ax.set_title(f"t = {trajectory.times[last]:.3g}, loss {trajectory.risks[last]:.3g}", fontsize="medium")
    return ax


def _dots(ax: Axes, points: np.ndarray, a: np.ndarray, reach: float) -> Any:
    """Neurons coloured by amplitude, with their key."""
    dots = ax.scatter(points[:, 0], points[:, 1], c=a, cmap="PuOr", vmin=-reach, vmax=reach, s=24, lw=0.4, ec="0.2")
    ax.figure.colorbar(dots, ax=ax, label="amplitude a", shrink=0.8)
    return dots


def _points(trajectory: Trajectory) -> np.ndarray:
    if trajectory.b.shape[2] != 2:
        raise InputError(f"neurons must be two-dimensional to be drawn, got d = {trajectory.b.shape[2]}.")
    return np.asarray(trajectory.b.cpu().numpy())


def animate_neurons(
    trajectory: Trajectory, path: str | os.PathLike[str], *, frames_per_second: int = 15, trail: int = 10
) -> Path:
    """Film of the neurons over the recorded times, as a .gif or one self-contained .html page, with their trails."""
    target = Path(path)
    if target.suffix not in (".gif", ".html"):
        raise InputError(f"path must end in .gif or .html, got {target.name!r}.")
    pyplot = require("matplotlib.pyplot", "plot")
    animation = require("matplotlib.animation", "plot")
    points, a = _points(trajectory), trajectory.a.cpu().numpy()
    collections = require("matplotlib.collections", "plot")
    with house_style():
        figure, ax = pyplot.subplots(figsize=(5, 4.2), dpi=90, layout="constrained")
    ax.plot(*_ring(trajectory), color="0.8", lw=1, zorder=0)
    reach = float(np.abs(a).max()) or 1.0
    tails = ax.add_collection(collections.LineCollection([], colors="0.6", linewidths=0.7, zorder=1))
    dots = _dots(ax, points[0], a[0], reach)
    size = 1.08 * max(1.0, float(np.abs(points).max()), float(np.abs(_ring(trajectory)).max()))
    ax.set(aspect="equal", xlabel="$b_1$", ylabel="$b_2$", xlim=(-size, size), ylim=(-size, size))
    title = ax.set_title("t", fontsize="medium")  # not empty: the layout keeps room for it

    def draw(frame: int) -> list[Any]:
        dots.set_offsets(points[frame])
        dots.set_array(a[frame])
        tails.set_segments(points[max(0, frame - trail) : frame + 1].swapaxes(0, 1))
        title.set_text(f"t = {trajectory.times[frame]:.3g}, loss {trajectory.risks[frame]:.3g}")
        return [dots, title, tails]

    film = animation.FuncAnimation(figure, draw, frames=len(points))
    if target.suffix == ".gif":
        film.save(target, writer=animation.PillowWriter(fps=frames_per_second))
    else:
        player = film.to_jshtml(fps=frames_per_second, embed_frames=True)
        player = re.sub(r"<link[^>]*>", "", player)  # matplotlib fetches its icons from the web: ours are letters
        target.write_text(f"{_FILM_HEAD}{player}</body></html>", encoding="utf-8")
    pyplot.close(figure)
    return target


_ICONS = {"minus": "\u2212", "plus": "+", "fast-backward": "\u00ab", "fast-forward": "\u00bb", "pause": "||",
          "step-backward": "\u2039", "step-forward": "\u203a", "play": "\u25b6"}  # fmt: skip
_FILM_HEAD = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>splinescope: neurons</title><style>'
    + "".join(f'.fa-{name}::before{{content:"{sign}"}}' for name, sign in _ICONS.items())
    + ".fa{font-style:normal;display:inline-block}.fa-flip-horizontal{transform:scaleX(-1)}</style></head><body>"
)


def plot_speed_by_direction(speeds: SpeedByDirection, *, ax: Axes | None = None) -> Axes:
    """Angular speed against the angle of the neuron, on a logarithmic scale; the low-variance axis is marked."""
    ax = new_axes(ax)
    degrees = np.degrees(speeds.angles)
    ax.semilogy(degrees, speeds.batch_norm, color=BATCH_NORM, label="batch norm")
    ax.semilogy(degrees, speeds.plain, color=PLAIN, ls="--", label="plain")
    for turn in (0, 180):
        ax.axvline((np.degrees(speeds.axis) + turn) % 360, color="0.7", lw=1, zorder=0)
    ax.set(xlabel="angle of the neuron, degrees (grey: least variance)", ylabel="angular speed", xlim=(0, 360))
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
