"""Does the module do what was read from it? Both run on a few rows, together and alone."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from splinescope._errors import UnsupportedModelError

from ._export import exportable, state_kept
from ._outputs import leaves_of
from ._program import Program

Finish = Callable[[Tensor], "Tensor | None"]
"""From the program's output to the module's: the ending; None where it is not continuous (argmax)."""


def check_agreement(model: nn.Module, program: Program, finish: Finish, like: Tensor, output: int) -> None:
    """Refuse a module that differs from its program on batches of several rows or of one, with the difference.

    Python code that asks for the batch size is read for batches of several rows only, and code that keeps state or
    draws numbers is read once: both show here.
    """
    for rows in (3, 1):
        gap = difference(model, program, finish, like, output, rows)
        if gap is not None:
            raise UnsupportedModelError(
                f"The model does not do what was read from it: {gap} on a batch of {rows} row{'s' * (rows > 1)}. Its "
                "code may branch on the batch size, keep state between calls or be random; a row's result must depend "
                "on the row alone."
            )


def difference(model: nn.Module, program: Program, finish: Finish, like: Tensor, output: int, rows: int) -> str | None:
    """In words, how far the module is from its program on `rows` rows; None if no further than rounding explains."""
    generator = torch.Generator().manual_seed(rows)
    x = torch.randn(rows, *program.input_shape, generator=generator, dtype=torch.float64).to(like.dtype)
    with torch.no_grad():
        ours = finish(program.forward(x.double()))
    if ours is None:
        return None
    gap = _gap(model, x, ours, like, output)
    if gap is None or like.dtype == torch.float64:
        return gap
    wide = _gap(model, x.double(), ours, like.double(), output)  # was it only the rounding of a short dtype?
    return None if wide is None else gap


def _gap(model: nn.Module, x: Tensor, ours: Tensor, like: Tensor, output: int) -> str | None:
    try:
        theirs = _run(model, x.to(like), like.dtype, output)
    except Exception as error:  # the user's own code
        return f"it fails ({type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''})"
    if theirs.numel() != ours.numel():
        return f"it returns the shape {tuple(theirs.shape)} instead of {tuple(ours.shape)}"
    theirs = theirs.detach().to("cpu", torch.float64).reshape(ours.shape)
    known = theirs.isfinite() & ours.isfinite()
    apart = torch.where(known, (theirs - ours).abs(), 0.0)
    scale = float(torch.where(known, ours.abs(), 0.0).amax()) if ours.numel() else 0.0
    worst = float(apart.amax()) if apart.numel() else 0.0
    allowed = 64 * torch.finfo(like.dtype).eps ** 0.75 * scale + 1e-30  # sums in another order, in a short dtype
    return f"it differs by {worst:.2g} (of {scale:.2g})" if worst > allowed else None


def _run(model: nn.Module, x: Tensor, dtype: torch.dtype, output: int) -> Tensor:
    """The module's own result, computed by a copy: buffers and attributes that it writes stay as they were.

    Random states are others than when it was read, so that what it draws shows.
    """
    with state_kept(x.device), exportable(model, share_buffers=False) as twin, torch.no_grad():
        torch.default_generator.manual_seed(1 + len(x))  # `torch.manual_seed` takes a millisecond to reach for devices
        random.seed(1 + len(x)), np.random.seed(1 + len(x))  # noqa: NPY002
        if any(p.is_floating_point() and p.dtype != dtype for p in twin.parameters()):
            twin = copy.deepcopy(twin).to(dtype)
        return leaves_of(twin(x))[output][1]
