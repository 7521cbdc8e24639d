"""Around the data: how many folds are near, how far the tile's edge and the boundary are, what a plane looks like."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from .._errors import InputError, LimitReached
from ..complexity import local_complexity
from ..network import SplineNetwork
from ..network.program import Smooth
from ..tiling import Slice, Tiling, tessellate, tile_quantity
from ..tiling.margin import input_margin
from .block import NotApplicable, ReportBlock, whole_numbers
from .subject import Subject

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_TILES, _FEWEST_TILES = 400_000, 1_000
_TILING_WORK = 1.5e10  # tiles x units that a plane may have: about a minute of one core
_KNOTS = 12  # units that a smooth activation becomes, about
_SMALLER = 0.25  # of the side, if a plane has too many tiles
_DISTANCE_WORK = 2e9  # inputs x units x points that distances to the tile's edge may cost


def complexity(subject: Subject) -> ReportBlock:
    """Local complexity by layer, in neighbourhoods half as large as the data's spacing."""
    radius = subject.spacing / 2
    points, _ = subject.some(256)
    model = subject.model
    found = local_complexity(model, points, radius=radius, progress=False)
    means = found.counts.double().mean(0)
    neurons = torch.tensor([max(1, site.neurons) for site in found.sites], dtype=torch.float64)
    bending = found.neurons.double().mean(0) / neurons
    total, share = float(means.sum()), float(found.share.mean())

    def draw(figure: Figure) -> None:
        ax = figure.subplots()
        ax.bar(range(len(means)), (100 * bending).numpy(), color="#35b779")
        whole_numbers(ax)
        ax.set_xlabel("site, numbered in order of execution")
        ax.set_ylabel("% of its neurons that fold near a point")

    return ReportBlock(
        "complexity",
        "Local complexity",
        headline=f"{total:.3g} folds near a data point, by {share:.2%} of all neurons",
        certainty="estimate",
        scope=f"{found.what}; mean over {len(points)} points",
        reading="Few folds near the data mean that the network is nearly one affine map there; many mean that it "
        "changes its mind within half the distance to the next data point. Compare networks on the same data only.",
        call=f"splinescope.local_complexity(model, x, radius={radius:.4g})",
        numbers={
            "radius": radius, "spacing of the data": subject.spacing, "mean folds": total, "share of neurons": share,
            "neighbourhood": found.region, "mean folds by site": means.tolist(),
            "sites": found.names,
        },
        draw=draw,
    )  # fmt: skip


def tiles(subject: Subject) -> ReportBlock:
    """Tiles of the plane through three points, with the decision boundary."""
    net, tolerance = subject.near_network
    chosen = _three(subject)
    points = subject.x[chosen].double()
    try:
        view = Slice.through(*points, pad=0.15)
    except InputError as error:
        raise NotApplicable(f"no plane through three data points: {error}") from error
    most = most_tiles(net)
    tiling, window = _tiled(net, view, tolerance, most)
    growth = tiling.growth()
    boundary = tiling.decision_boundary() if tiling.values is not None and subject.classifies else None
    classes = tiling.classes() if tiling.values is not None else np.zeros(tiling.count, int)
    areas = {int(c): float(tiling.areas[classes == c].sum() / tiling.areas.sum()) for c in np.unique(classes)}
    where = "the plane through three data points" if window == 1 else (
        f"a window of {window:.3g} of the side of the plane through three data points, about the first (a window four "
        f"times as wide has over {most:,} tiles)"
    )  # fmt: skip

    def draw(figure: Figure, limits: tuple[float, float] | None) -> None:
        ax = figure.subplots()
        tiling.plot(color="slope", ax=ax, boundary=boundary is not None, limits=limits)

    i, j, k = chosen
    near = "" if tolerance is None else f", tolerance={tolerance:.2g}"
    subject_of = "the network" if tolerance is None else "a network near the smooth one"
    length = "" if boundary is None else (
        f", boundary of length {boundary.length:.3g}" if boundary.length > 0 else ", one class, so no boundary"
    )  # fmt: skip
    line = "The line is where the predicted class changes: tiles gather" if boundary is not None else "Tiles gather"
    return ReportBlock(
        "tiles",
        "Tiles on a plane",
        headline=f"{tiling.count:,} tiles{length}; a line crosses {growth.folds_per_length:.3g} folds per unit length",
        certainty=tiling.certainty,
        scope=f"on {where}, " + _how_near(tiling),
        reading=f"Each tile is a region where {subject_of} is one affine map; colour is how steep it is. "
        f"{line} where the network does its work.",
        call=f"splinescope.tessellate(model, splinescope.Slice.through(x[{i}], x[{j}], x[{k}]){near})"
        ".to_html('tiles.html')",
        numbers={
            "points": chosen, "window": window, "most tiles": most, "tiles": tiling.count, "area": tiling.view.size,
            "folds per length": growth.folds_per_length,
            "folds per length and spacing": growth.folds_per_length * subject.spacing,
            "boundary length": None if boundary is None else boundary.length,
            "share of area by class": areas,
            "median slope": float(np.median(tiling.slope_norms())),
            "tolerance": tiling.tolerance, "proven bound": tiling.bound, "measured deviation": tiling.deviation,
        },
        draw=draw,
        colours=tile_quantity(tiling, "slope").limits,
    )  # fmt: skip


def _three(subject: Subject) -> list[int]:
    """Three points: of three classes if there are, else the first ones that differ."""
    if subject.classes is not None:
        _, first = np.unique(subject.classes.numpy(), return_index=True)
        if len(first) >= 3:
            return sorted(int(i) for i in first[:3])
    flat = subject.x.flatten(1).double()
    chosen = [0]
    for i in range(1, len(flat)):
        if all(not torch.equal(flat[i], flat[j]) for j in chosen):
            chosen.append(i)
        if len(chosen) == 3:
            return chosen
    raise NotApplicable(f"a plane needs three different data points, got {len(chosen)}.")


def _how_near(tiling: Tiling) -> str:
    if tiling.approximation is None:
        return f"to a tolerance of {tiling.rtol:g}"
    asked = f"tiled within a tolerance of {tiling.approximation.tolerance:.2g}, 1% of the outputs' range over the data"
    return f"{asked}. {tiling.approximation.assurance}"


def most_tiles(net: SplineNetwork) -> int:
    """How many tiles a plane may have: the more units, the longer each takes. No clock decides what a report shows."""
    folds = net.program().folds
    units = sum(fold.site.units * (_KNOTS if isinstance(fold, Smooth) else 1) for fold in folds)
    return int(np.clip(_TILING_WORK / max(units, 1), _FEWEST_TILES, _MOST_TILES))


def _tiled(net: SplineNetwork, view: Slice, tolerance: float | None, most: int) -> tuple[Tiling, float]:
    """The tiling of the slice, or of ever smaller windows about its first point until one has at most so many tiles."""
    window = 1.0
    while True:
        try:
            return tessellate(net, view, tolerance=tolerance, max_tiles=most, progress=False), window
        except LimitReached as error:
            if window < 1e-4:
                raise NotApplicable(f"even the smallest window has too many tiles: {error}") from error
            centre = view.anchors[0]
            view = replace(view, domain=centre + _SMALLER * (view.domain - centre), anchors=view.anchors[:1])
            window *= _SMALLER


def margins(subject: Subject) -> ReportBlock:
    """Distances in the input space to the edge of the point's own tile and to the decision boundary."""
    net = subject.network
    if not net.sites:
        raise NotApplicable("the network has no folds: its one tile has no edge.")
    size = int(np.prod(net.input_shape)) * sum(site.units for site in net.sites)
    points, _ = subject.some(int(np.clip(_DISTANCE_WORK / size, 4, 64)))
    found = input_margin(net.program(), points.double().numpy())
    relative = found.edge / subject.spacing
    exact = found.exact.mean()

    def draw(figure: Figure) -> None:
        ax = figure.subplots()
        ax.plot(np.sort(relative), (np.arange(len(relative)) + 0.5) / len(relative), "o-", color="#3a87b8", ms=3)
        if (relative > 0).all():
            ax.set_xscale("log")
        else:
            ax.locator_params(axis="x", nbins=5)
        ax.set_xlabel("distance to the tile's edge / spacing of the data")
        ax.set_ylabel("share of points below")

    kind = "edges exact" if found.exact_edge else "edges are lower bounds (max-pools)"
    on = float((found.edge == 0).mean())
    tied = f"; {on:.0%} of the points lie on a fold, as constant patches do under a max-pool" if on else ""
    return ReportBlock(
        "margins",
        "Distances to the edge",
        headline=f"the edge of a point's own tile is at {np.median(found.edge):.3g} (median), "
        f"{np.median(relative):.3g} of the data's spacing{tied}",
        certainty="exact" if found.exact_edge and exact == 1 else "bound",
        scope=f"{kind}; distances to the boundary exact for {exact:.0%} of {len(points)} points, lower bounds for "
        "the others",
        reading="Inside this ball the network is exactly one affine map, so every attribution or linearisation is "
        "true there and not promised beyond. No perturbation smaller than the lower bound changes the class.",
        call="tiling.input_margin(points), or ss.complexity.robustness(model, x, y, epsilons=[...]) beyond the tile",
        numbers={
            "points": len(points), "median edge": float(np.median(found.edge)),
            "median edge over spacing": float(np.median(relative)), "least edge": float(found.edge.min()),
            "share of points on a fold": on,
            "median margin, or lower bound": float(np.median(found.margin)), "share with exact margin": float(exact),
            "edges exact": found.exact_edge,
        },
        draw=draw,
    )  # fmt: skip
