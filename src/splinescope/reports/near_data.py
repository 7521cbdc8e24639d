"""Around the data: how many folds are near, how far the tile's edge and the boundary are, what a plane looks like."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..complexity import local_complexity
from ..network import SplineNetwork
from ..network.program import Smooth
from ..plot.page import page_text
from ..plot.style import name_places
from ..support.display import counted
from ..support.errors import InputError, LimitReached
from ..tiling import Slice, Tiling, tessellate
from ..tiling.measures.margin import input_margin
from ..tiling.measures.quantities import tile_quantity
from .block import NotApplicable, ReportBlock
from .subject import Subject, written

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_TILES, _FEWEST_TILES = 400_000, 1_000
_TILING_WORK = 4e8  # tiles x units that a plane may have: about twenty seconds of one core in a convolutional network
_MOST_LIVE = 8_000  # tiles of the live picture, about: some 2 MB
_RATE = 5e-8  # seconds of one core for a tile and a unit, about: said before the work, decides nothing
_KNOTS = 12  # units that a smooth activation becomes, about
_SMALLER = 0.25  # of the side, if even a line has more folds than a plane within the budget would
_SMALLEST = 1e-5  # of the side: the smallest window that is tried
_DISTANCE_WORK = 2e9  # inputs x units x points that distances to the tile's edge may cost


def complexity(subject: Subject) -> ReportBlock:
    """Local complexity by layer, in neighborhoods half as large as the data's spacing."""
    radius = subject.spacing / 2
    points = subject.some(256)
    found = local_complexity(subject.model, points, radius=radius, progress=False)
    means = found.counts.double().mean(0)
    neurons = torch.tensor([max(1, site.neurons) for site in found.sites], dtype=torch.float64)
    bending = found.neurons.double().mean(0) / neurons
    total, share = float(means.sum()), float(found.share.mean())

    def draw(figure: Figure) -> None:
        ax = figure.subplots()
        ax.bar(range(len(means)), (100 * bending).numpy(), color="#35b779")
        name_places(ax, [site.label for site in found.sites], "site")
        ax.set_ylabel("% of neurons that fold near a point")

    return ReportBlock(
        headline=f"on average {total:.3g} folds pass near a data point, from {100 * share:.2g}% of all neurons",
        finding=f"{share:.0%} of all neurons switch near a data point: within half the distance to its neighbor.",
        advice="Watch this number while you train, or compare it with other networks on the same data.",
        certainty=found.certainty,
        scope=f"{found.what}; mean over {len(points)} points",
        reading="Few folds near the data mean that the network is nearly one affine map there; many mean that its map "
        "changes within half the distance to the nearest data point. Compare networks on the same data only.",
        call=f"print(ss.local_complexity(model, x, radius={radius:.6g}).summary())",
        numbers={
            "radius": radius, "spacing of the data": subject.spacing, "mean folds": total, "share of neurons": share,
            "neighborhood": found.region, "mean folds by site": means.tolist(),
            "sites": found.names,
        },
        draw=draw,
    )  # fmt: skip


def tiles(subject: Subject) -> ReportBlock:
    """Tiles of the plane through three points, with the decision boundary."""
    net, tolerance = subject.near_network
    chosen = three_points(subject)
    points = subject.x[chosen].double()
    try:
        view = Slice.through(*points, pad=0.15)
    except InputError as error:
        raise NotApplicable(f"no plane through three data points: {error}") from error
    most = most_tiles(net)
    center, split = _center(subject, net, view)
    tiling, window = _tiled(subject, net, view, center, tolerance, most)
    density = tiling.folds_per_length()
    boundary = tiling.decision_boundary() if tiling.values is not None and subject.classifies else None
    classes = tiling.classes() if tiling.values is not None else np.zeros(tiling.count, int)
    areas = {int(c): float(tiling.areas[classes == c].sum() / tiling.areas.sum()) for c in np.unique(classes)}
    about = "a place where the predicted class changes" if split else "the first of them"
    where = "the plane through three data points" if window == 1 else (
        f"a window of {window:.3g} of the side of the plane through three data points, around {about} (a larger one "
        f"has more than {most:,} tiles)"
    )  # fmt: skip

    def draw(figure: Figure, limits: tuple[float, float] | None) -> None:
        ax = figure.subplots()
        tiling.plot(color="slope", ax=ax, boundary=boundary is not None, limits=limits)

    def live() -> str:
        shown, title, side = tiling, "Tiles on a plane", float(np.sqrt(_MOST_LIVE / tiling.count))
        if side < 1:  # a page of all of them would be too large to send
            part = _shrunk(tiling.view, center, side)
            shown = tessellate(net, part, tolerance=tolerance, max_tiles=4 * tiling.count, progress=False)
            title = f"{side:.0%} of the plane's side, around {about}"
        return page_text(shown, title=title, color="slope", max_tiles=4 * _MOST_LIVE)

    i, j, k = chosen
    call = f"plane = ss.Slice.through(x[{i}], x[{j}], x[{k}], pad=0.15); "
    if window < 1:
        middle, side = tiling.view.domain.mean(0).tolist(), float(np.ptp(tiling.view.domain[:, 0]))
        call += f"plane = ss.Slice.box(plane.inputs([{middle}])[0], plane.basis, {side / 2}); "
    near = "" if tolerance is None else f", tolerance={tolerance:.2g}"
    near_it = f"to a tolerance of {tiling.rtol:g}" if tiling.approximation is None else (
        f"tiled within a tolerance of {tiling.approximation.tolerance:.2g}, 1% of the outputs' range over the data. "
        f"{tiling.approximation.assurance}"
    )  # fmt: skip
    subject_of = "the network" if tolerance is None else "a network near the smooth one"
    length = "" if boundary is None else (
        f", boundary of length {boundary.length:.3g}" if boundary.length > 0 else ", one class, so no boundary"
    )  # fmt: skip
    line = "The line is where the predicted class changes: tiles gather" if boundary is not None else "Tiles gather"
    return ReportBlock(
        finding=f"On {'the' if window == 1 else 'a part of the'} plane through three data points the network is "
        f"made of {counted(tiling.count, 'affine piece')}.",
        advice="Zoom into the tiles below: see where the boundary turns, and point at a tile for its outputs.",
        headline=f"{tiling.count:,} tiles{length}; a line crosses {density:.3g} folds per unit length",
        certainty=tiling.certainty,
        scope=f"on {where}, {near_it}",
        reading=f"Each tile is a region where {subject_of} is one affine map; color is how steep it is. "
        f"{line} where the network does its work.",
        call=f"{call}ss.tessellate(model, plane{near}).to_html('tiles.html')",
        numbers={
            "points": chosen, "window": window, "most tiles": most, "tiles": tiling.count, "area": tiling.view.size,
            "folds per length": density,
            "folds per spacing of the data": density * subject.spacing,
            "boundary length": None if boundary is None else boundary.length,
            "share of area by class": areas,
            "median slope": float(np.median(tiling.slope_norms())),
            "tolerance": tiling.tolerance, "proven bound": tiling.bound, "measured deviation": tiling.deviation,
        },
        draw=draw,
        live=live,
        colors=tile_quantity(tiling, "slope").limits,
    )  # fmt: skip


def three_points(subject: Subject) -> list[int]:
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


def most_tiles(net: SplineNetwork) -> int:
    """How many tiles a plane may have: the more units, the longer each takes. No clock decides what a report shows."""
    return int(np.clip(_TILING_WORK / max(_units(net), 1), _FEWEST_TILES, _MOST_TILES))


def _units(net: SplineNetwork) -> int:
    """Units that a tiling cuts along, with those that smooth activations become."""
    return sum(fold.site.units * (_KNOTS if isinstance(fold, Smooth) else 1) for fold in net.program().folds)


def _center(subject: Subject, net: SplineNetwork, view: Slice) -> tuple[np.ndarray, bool]:
    """Where a window is laid: on the decision boundary between two of the points if there is one, else at the first."""
    if subject.classifies:
        level = 0.5 if (net.ending or "").endswith("sigmoid") else 0.0

        def classes(points: np.ndarray) -> np.ndarray:
            with torch.no_grad():
                outputs = net(torch.from_numpy(view.inputs(points))).flatten(1)
            return (outputs.argmax(1) if outputs.shape[1] > 1 else outputs[:, 0] > level).numpy()

        for first, second in ((0, 1), (0, 2), (1, 2)):
            ends = view.anchors[[first, second]]
            while np.linalg.norm(ends[1] - ends[0]) > 1e-9 * np.linalg.norm(np.ptp(view.domain, axis=0)):
                places = ends[0] + np.linspace(0, 1, 33)[:, None] * (ends[1] - ends[0])
                changes = np.flatnonzero(np.diff(classes(places)))
                if not len(changes):
                    break
                ends = places[changes[0] : changes[0] + 2]
            else:
                return ends.mean(0), True
    return view.anchors[0], False


def _tiled(
    subject: Subject, net: SplineNetwork, view: Slice, center: np.ndarray, tolerance: float | None, most: int
) -> tuple[Tiling, float]:
    """The tiling of the slice, or of the largest window about a place that should have at most so many tiles."""
    window = 1.0
    while window > _SMALLEST:
        part = _shrunk(view, center, window)
        expected = _expected_tiles(net, part, tolerance, most)
        if expected > most:
            window *= max(_SMALLER, 0.9 * float(np.sqrt(most / expected)))
            continue
        seconds = max(1, round(_RATE * expected * _units(net)))
        subject.say(f"about {int(float(f'{expected:.2g}')):,} tiles, {seconds} s")  # to two figures
        try:
            return tessellate(net, part, tolerance=tolerance, max_tiles=4 * most, progress=False), window
        except LimitReached:
            window *= _SMALLER
    raise NotApplicable(f"even a window of {_SMALLEST:g} of the plane's side has more than {most:,} tiles.")


def _shrunk(view: Slice, center: np.ndarray, window: float) -> Slice:
    """A part of the slice about a place of it, with those of the marked points that are in it."""
    if window == 1:
        return view
    domain = center + window * (view.domain - center)
    inside = ((view.anchors >= domain.min(0)) & (view.anchors <= domain.max(0))).all(1)
    return replace(view, domain=domain, anchors=view.anchors[inside])


def _expected_tiles(net: SplineNetwork, view: Slice, tolerance: float | None, most: int) -> float:
    """About how many tiles a square has, by the folds that its diagonals and middle lines cross.

    Lines at random that a line crosses k times in a unit length make pi/4 k^2 cells in a unit area.
    """
    corners = view.domain
    middles = (corners + np.roll(corners, -1, axis=0)) / 2
    folds, length = 0, 0.0
    for ends in (corners[[0, 2]], corners[[1, 3]], middles[[0, 2]], middles[[1, 3]]):
        line = Slice.segment(*view.inputs(ends))
        try:
            found = tessellate(net, line, tolerance=tolerance, max_tiles=int(4 * np.sqrt(most)) + 4, progress=False)
        except LimitReached:
            return np.inf
        folds, length = folds + found.count - 1, length + line.size
    density = folds / length
    return 1 + density * view.size**0.5 + np.pi / 4 * density**2 * view.size


def margins(subject: Subject) -> ReportBlock:
    """Distances in the input space to the edge of the point's own tile and to the decision boundary."""
    net = subject.network
    if not net.sites:
        raise NotApplicable("the network has no folds: its one tile has no edge.")
    size = int(np.prod(net.input_shape)) * sum(site.units for site in net.sites)
    points = subject.some(int(np.clip(_DISTANCE_WORK / size, 4, 64)))
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
    if on > 0.5:
        finding = f"{on:.0%} of the data points lie on a fold, where the network has more than one gradient."
        advice = "Do not read single gradients there; measure how far the class holds instead."
    else:
        finding = f"Around a data point the network is one affine map up to a distance of {np.median(found.edge):.2g}, "
        finding += f"{np.median(relative):.2g} of the distance to the nearest other point (medians)."
        advice = "Trust gradients and linear explanations up to there; attack the network beyond it."
    # what goes on beyond the tile: attacks on a classifier, else the folds along the way to another point
    classes, last = subject.classes, max(1, subject.output[0].numel() - 1)
    call = "print(ss.tessellate(model, ss.Slice.segment(x[0], x[1])).summary())"
    if classes is not None and int(classes.min()) >= 0 and int(classes.max()) <= last:
        edge = max(float(np.median(found.edge)), 1e-3 * subject.spacing)
        sizes, labels = ", ".join(f"{factor * edge:.3g}" for factor in (1, 4, 16)), written(subject.y, classes)
        call = f"print(ss.complexity.robustness(model, x, {labels}, epsilons=[{sizes}], norm='l2').summary())"
    return ReportBlock(
        finding=finding,
        advice=advice,
        headline=f"the edge of a point's own tile is {np.median(found.edge):.3g} away (median), "
        f"{np.median(relative):.3g} times the data's spacing{tied}",
        certainty="exact" if found.exact_edge and exact == 1 else "bound",
        scope=f"{kind}; of the distances to the boundary from {len(points)} points {exact:.0%} are exact, the others "
        "lower bounds",
        reading="Up to the edge of a tile the network is exactly one affine map, so every attribution or linearization "
        "is true there, but perhaps not beyond. No perturbation smaller than the lower bound changes the class.",
        call=call,
        numbers={
            "points": len(points), "median edge": float(np.median(found.edge)),
            "median edge over spacing": float(np.median(relative)), "least edge": float(found.edge.min()),
            "share of points on a fold": on,
            "median margin, or lower bound": float(np.median(found.margin)), "share with exact margin": float(exact),
            "edges exact": found.exact_edge,
        },
        draw=draw,
    )  # fmt: skip
