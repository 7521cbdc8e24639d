"""What a refusal says besides the reason: what was asked, and which other calls there are."""

from __future__ import annotations

import sys

from splinescope.support.errors import UnsupportedModelError


class NotPiecewiseAffine(UnsupportedModelError):
    """Parts of a network are not piecewise affine.

    Attributes:
        only_smooth: Whether all of these parts are smooth functions of each number, which a tolerance takes.
    """

    only_smooth = False


def asked_for() -> str:
    """What the user called, from the stack: the outermost function or class of splinescope in the innermost run."""
    frame = sys._getframe(1)
    name = "trace"
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "splinescope":
        if frame.f_code.co_name == "__init__":
            made = type(frame.f_locals["self"]).__name__
            name = name if made.startswith("_") else made
        elif not frame.f_code.co_name.startswith(("_", "<")):
            name = frame.f_code.co_name
        frame = frame.f_back  # type: ignore[assignment]
    return name


def refused(lines: list[str], only_smooth: bool) -> NotPiecewiseAffine:
    """The error of a network with parts that are not piecewise affine."""
    parts = "\n".join(f"  - {line}" for line in lines)
    error = NotPiecewiseAffine(f"{asked_for()} needs a network of affine steps and folds; in the way of that:\n{parts}")
    error.only_smooth = only_smooth
    return error


def with_other_calls(error: NotPiecewiseAffine) -> UnsupportedModelError:
    """The refusal, followed by the calls that need no piecewise-affine network."""
    calls = ["tessellate(model, view, tolerance=...) tiles it within a tolerance"] if error.only_smooth else []
    calls += [
        "local_complexity(model, x, radius=...) counts folds near points",
        "local_map(model, x) gives the affine map at points",
    ]
    return UnsupportedModelError(f"{error}\nCalls that may take this model as it is: {'; '.join(calls)}.")
