"""One input: the walls of its tile in the whole input space, and what is proven on a plane near it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..guarantees import Property, verify
from ..space import tile_at
from ..support.errors import InputError
from ..tiling import Slice
from .block import NotApplicable, ReportBlock
from .near_data import most_tiles, three_points
from .subject import Subject

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ALL = 1000  # cuts of which all walls are looked for; of larger networks the nearest
_NEAREST = 200
_WORK = 2e8  # inputs x cuts: some 30 seconds of one core
_SHOWN = 4
_SECONDS = 20.0  # of a proof


def walls(subject: Subject) -> ReportBlock:
    """The tile of the first data point."""
    net = subject.network
    cuts = sum(site.cuts for site in net.sites)
    if not cuts:
        raise NotApplicable("the network has no folds: all of space is one tile.")
    if int(np.prod(net.input_shape)) * cuts > _WORK:
        raise NotApplicable(
            f"{cuts:,} folds in {int(np.prod(net.input_shape)):,} inputs take minutes: "
            "ss.tile_at(model, x[0], nearest=500)."
        )
    nearest = None if cuts <= _ALL else _NEAREST
    found = tile_at(net, subject.x[0].double(), nearest=nearest, progress=False)
    if found.reach == 0:
        raise NotApplicable(
            f"the first data point lies on {len(found.on_folds):,} folds, as constant patches do under a max-pool: "
            "its nearest walls all pass through it."
        )
    option = "" if nearest is None else f", nearest={nearest}"
    shares = found.layer_shares()
    all_of = f"{len(found.facets):,} of {len(found.normals):,} folds are walls of the first data point's tile"
    some_of = f"{len(found.facets):,} walls of the first data point's tile begin within {found.reach:.3g}"
    on = f"; it lies on {len(found.on_folds)} of them" if found.on_folds else ""

    def draw(figure: Figure) -> None:
        found.plot(count=_SHOWN, ax=figure.subplots())

    return ReportBlock(
        finding=f"The smallest change of the first data point that switches a unit has length {found.radius:.2g}.",
        advice="Trust a linear explanation of this input up to there, no farther.",
        headline=f"{all_of if nearest is None else some_of}, the nearest at {found.radius:.3g}{on}",
        certainty=found.certainty,
        scope="the whole input space, x[0]; " + ("every fold is decided" if found.complete else "nearest folds only"),
        reading="Within these walls the network is one affine map. Crossing a wall switches one unit. The picture has "
        "the smallest changes that cross the nearest walls.",
        call=f"print(ss.tile_at(model, x[0]{option}).summary())",
        numbers={
            "walls": len(found.facets), "folds": len(found.normals), "radius": found.radius,
            "reach": found.reach if np.isfinite(found.reach) else None, "complete": found.complete,
            "share of walls by site": shares.tolist(), "folds through the point": len(found.on_folds),
            "distances of the nearest walls": [facet.plane_distance for facet in found.facets[:10]],
        },
        draw=draw,
    )  # fmt: skip


def proven(subject: Subject) -> ReportBlock:
    """On a piece of the plane through three points, about the first: where that one's class wins."""
    net = subject.network
    if not subject.classifies:
        raise NotApplicable("the outputs are not class scores: state a property of your own, and ask ss.verify.")
    i, j, k = three_points(subject)
    a, b, c = subject.x[[i, j, k]].double()
    reach = float(f"{subject.spacing / 2 / max(float((b - a).norm()), float((c - a).norm())):.3g}")
    try:
        view = Slice.through(a.lerp(b, reach), a.lerp(c, reach), a.lerp((b + c) / 2, -reach))
    except InputError as error:
        raise NotApplicable(f"no plane through three data points: {error}") from error
    y = net(a[None]).detach().flatten()
    if len(y) > 1:
        winner = int(y.argmax())
        asked, called = Property.class_wins(winner), f"class_wins({winner})"
    else:  # one output: class 1 where it is positive
        winner = int(y[0] > 0)
        end = "low" if winner else "high"
        asked, called = Property.between(0, **{end: 0.0}), f"between(0, {end}=0.0)"
    found = verify(net, asked, view, complete=True, max_tiles=most_tiles(net), time_limit=_SECONDS, progress=False)
    if found.unsafe is None:
        raise NotApplicable(f"the search was not finished: {found.reason}")
    unsafe = found.unsafe
    part = "all" if found.holds else f"{1 - unsafe.share:.4%}"
    headline = f"class {winner} wins on {part} of a rectangle around x[{i}]"
    near = f"x[{i}] + {reach:g} * (x[{j}] - x[{i}]), x[{i}] + {reach:g} * (x[{k}] - x[{i}])"
    near += f", x[{i}] - {reach:g} * ((x[{j}] + x[{k}]) / 2 - x[{i}])"
    model = "model" if len(y) > 1 or net.ending is None else "ss.trace(model, x)"  # a sign is one before a sigmoid

    def draw(figure: Figure) -> None:
        ax = figure.subplots()
        unsafe.plot(ax=ax)
        ax.plot(*view.coordinates(a[None].numpy())[0], "o", color="black", ms=4)

    return ReportBlock(
        headline=headline if found.holds is not None else found.reason,
        certainty=unsafe.certainty,
        scope=f"the rectangle, of area {view.size:.3g} and as wide as the data's spacing, lies on the plane through "
        f"three data points; proven to {max(unsafe.rounding / view.size, 1e-16):.1g} of the area",
        reading="In the blank part the class of the data point (the dot) wins at every input: sampling cannot show "
        "that. In the shaded part another class wins, and its area is exact."
        if len(unsafe)
        else "Its class wins at every input of the rectangle. Sampling cannot show that.",
        finding=f"On a plane around the first data point, class {winner} provably wins at {part} of nearby inputs.",
        advice="Ask ss.verify the same of the set that matters to you.",
        call=f"print(ss.verify({model}, ss.guarantees.Property.{called}, ss.Slice.through({near}), complete=True))",
        numbers={
            "holds": found.holds, "class": winner, "share of other classes": unsafe.share, "area": view.size,
            "rounding of the area": unsafe.rounding, "rounding of values": found.rounding, "tiles": found.tiles,
            "polygons": len(unsafe), "point": i, "reach": reach,
        },
        draw=draw if len(unsafe) else None,
    )  # fmt: skip
