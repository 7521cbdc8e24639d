"""What a refusal says besides the reason: what was asked, and what works on such a model."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor, nn

from splinescope._errors import UnsupportedModelError

from .export import state_kept
from .twin import exportable


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


def with_what_works(error: NotPiecewiseAffine, model: nn.Module, batch: Tensor) -> UnsupportedModelError:
    """The refusal with the calls that do work on the model: each is tried on a copy of it, at random points."""
    works = ["tessellate(model, view, tolerance=...) tiles it within a tolerance"] if error.only_smooth else []
    works += [what for what, ask in _CALLS if _works(ask, model, batch)]
    return UnsupportedModelError(
        f"{error}\nWhat works on this model as it is: {'; '.join(works)}." if works else str(error)
    )


def _folds(model: nn.Module, x: Tensor) -> Any:
    from ..complexity import local_complexity  # a part above this one, which is asked and not built upon

    return local_complexity(model, x, radius=0.1, directions=1)


def _map(model: nn.Module, x: Tensor) -> Any:
    from ..smooth import local_map

    return local_map(model, x[:1])


_CALLS = (
    ("local_complexity(model, x, radius=...) counts its folds", _folds),
    ("local_map(model, x) gives its affine map at points", _map),
)


def _works(ask: Any, model: nn.Module, batch: Tensor) -> bool:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, *batch.shape[1:], generator=generator).to(batch)
    with state_kept(batch.device), exportable(model, share_buffers=False) as twin:
        try:
            ask(twin, x)
        except Exception:  # whatever the model's own code raises: then it does not work
            return False
    return True
