"""The tile of one input in the whole input space: its true walls, and what crosses the nearest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..space import tile_at
from .block import NotApplicable, ReportBlock
from .subject import Subject

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ALL = 1000  # cuts of which all walls are looked for; of larger networks the nearest
_NEAREST = 200
_WORK = 2e8  # inputs x cuts: some 30 seconds of one core
_SHOWN = 4


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
        "walls",
        "The tile of one input",
        finding=f"The smallest change of the first data point that switches a unit has length {found.radius:.2g}.",
        advice="Trust a linear explanation of this input up to there, no farther.",
        headline=f"{all_of if nearest is None else some_of}, the nearest at {found.radius:.3g}{on}",
        certainty=found.certainty,
        scope="the whole input space, x[0]; " + ("every fold is decided" if found.complete else "nearest folds alone"),
        reading="Within these walls the network is one affine map. A wall is a direction of input space: the least "
        "change that crosses it switches one unit, and the map changes there and nowhere nearer.",
        call=f"print(ss.tile_at(model, x[0]{option}).summary())",
        numbers={
            "walls": len(found.facets), "folds": len(found.normals), "radius": found.radius,
            "reach": found.reach if np.isfinite(found.reach) else None, "complete": found.complete,
            "share of walls by site": shares.tolist(), "folds through the point": len(found.on_folds),
            "distances of the nearest walls": [facet.plane_distance for facet in found.facets[:10]],
        },
        draw=draw,
    )  # fmt: skip
