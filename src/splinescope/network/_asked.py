"""What a refusal says besides the reason: what was asked, and what works on such a model."""

from __future__ import annotations

import sys

_ANY_MODEL = (
    "local_complexity(model, x, radius=...) counts its folds, local_map(model, x) gives its affine map at points"
)


def asked_for() -> str:
    """Name of the function of splinescope that the user called, from the stack: the outermost of the innermost run."""
    frame = sys._getframe(1)
    name = "trace"
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "splinescope":
        if not frame.f_code.co_name.startswith(("_", "<")):
            name = frame.f_code.co_name
        frame = frame.f_back  # type: ignore[assignment]
    return name


def refused(lines: list[str], only_smooth: bool) -> str:
    """The error of a network with parts that are not piecewise affine."""
    parts = "\n".join(f"  - {line}" for line in lines)
    smooth = "tessellate(model, slice, tolerance=...) tiles it within a tolerance; " if only_smooth else ""
    return (
        f"{asked_for()} needs a network of affine steps and folds; in the way of that:\n{parts}\n"
        f"What works on this model as it is: {smooth}{_ANY_MODEL}."
    )
