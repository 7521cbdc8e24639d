"""What is proven about the neighborhood of one input: where on a plane its class wins, exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..guarantees import Property, verify
from ..support.errors import InputError
from ..tiling import Slice
from .block import NotApplicable, ReportBlock
from .near_data import most_tiles, three_points
from .subject import Subject

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SECONDS = 20.0


def proven(subject: Subject) -> ReportBlock:
    """On a piece of the plane through three points, about the first: where that one's class wins."""
    net = subject.network
    if not subject.classifies:
        raise NotApplicable("the outputs are no scores of classes: say what should hold, and ask ss.verify.")
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
    near = f"x[{i}].lerp(x[{j}], {reach:g}), x[{i}].lerp(x[{k}], {reach:g})"
    near += f", x[{i}].lerp((x[{j}] + x[{k}]) / 2, -{reach:g})"

    def draw(figure: Figure) -> None:
        ax = figure.subplots()
        unsafe.plot(ax=ax)
        ax.plot(*view.coordinates(a[None].numpy())[0], "o", color="black", ms=4)

    return ReportBlock(
        "proven",
        "Proven near one input",
        headline=f"class {winner} wins on {part} of it" if found.holds is not None else found.reason,
        certainty=unsafe.certainty,
        scope=f"a rectangle of area {view.size:.3g} about x[{i}], as wide as the data's spacing, on the plane "
        f"through three data points; proven to {max(unsafe.rounding / view.size, 1e-16):.1g} of the area",
        reading="In the blank part the class of the data point (the dot) wins at every input: no sample can show that. "
        "In the shaded part another class wins, and its area is exact.",
        finding=f"On a plane about the first data point, class {winner} provably wins at {part} of the inputs near it.",
        advice="Ask ss.verify the same of the set that matters to you.",
        call=f"print(ss.verify(model, ss.guarantees.Property.{called}, ss.Slice.through({near}), complete=True))",
        numbers={
            "holds": found.holds, "class": winner, "share of other classes": unsafe.share, "area": view.size,
            "rounding of the area": unsafe.rounding, "rounding of values": found.rounding, "tiles": found.tiles,
            "polygons": len(unsafe), "point": i, "reach": reach,
        },
        draw=draw,
    )  # fmt: skip
