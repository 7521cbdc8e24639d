"""Does the module do what was read from it? Both run on a few rows, in batches of several sizes."""

from __future__ import annotations

import copy
import math
import random
import weakref
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from splinescope._errors import UnsupportedModelError

from ._turns import Turn
from .export import state_kept
from .outputs import leaves_of
from .program import Program
from .twin import exportable

Finish = Callable[[Tensor], "Tensor | None"]
"""From the program's output to the module's: the ending; None where it is not continuous (argmax)."""

_MOST_NUMBERS = 2**26


def check_agreement(
    model: nn.Module, program: Program, finish: Finish, like: Tensor, output: int, turns: Sequence[Turn] = ()
) -> None:
    """Refuse a module that differs from its program on some batch, with the difference.

    Python code that asks for the batch size is read for one way only, and code that keeps state or draws numbers is
    read once: both show here. Compared are batches of one, three and eight rows, and of every size at which the code
    is known to take another way.
    """
    for turn in turns:
        if turn.rows > _most_rows(program) and not turn.of_torch:
            raise UnsupportedModelError(
                f"The model's code takes another way for batches of {turn.rows} rows ({turn.place} asks whether "
                f"{turn.condition}), too many to compare here; a row's result must depend on the row alone."
            )
    found = difference(model, program, finish, like, output, batch_sizes(program, turns))
    if found is not None:
        rows, gap = found
        asked = "".join(f" ({turn.place} asks whether {turn.condition})" for turn in turns if turn.rows <= rows)
        raise UnsupportedModelError(
            f"The model does not do what was read from it: {gap} on a batch of {rows} row{'s' * (rows > 1)}. Its "
            f"code may branch on the batch size{asked}, keep state between calls or be random; a row's result must "
            "depend on the row alone."
        )


def difference(
    model: nn.Module, program: Program, finish: Finish, like: Tensor, output: int, sizes: Sequence[int] = ()
) -> tuple[int, str] | None:
    """(batch size, how far the module is from its program there); None if nowhere further than rounding explains.

    Both run on the same few random rows, and on rows of the batch that the caller gave: what a module does may have
    changed nowhere else. The program, which takes each row by itself (`check_rows`), runs on them once; the module on
    all of them together, and on batches of these sizes made of them.
    """
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(3, *program.input_shape, generator=generator, dtype=torch.float64)[: 3 if sizes else 2]
    x = torch.cat([x.to(like.dtype), _few(like)])
    finished = finish(_outputs(program, x))
    if finished is None:
        return None
    for rows in (*sizes, len(x)):
        these = torch.arange(rows) % len(x)
        gap = _gap(model, x[these], finished[these], like, output)
        if gap is not None and like.dtype != torch.float64:  # was it only the rounding of a short dtype?
            wide = _gap(model, x[these].double(), finished[these], like.double(), output)
            gap = None if wide is None else gap
        if gap is not None:
            return rows, gap
    return None


def _few(batch: Tensor) -> Tensor:
    """The first rows of a batch, up to 32, fewer if they are large: on the CPU, those that are finite."""
    most = min(_MOST_GIVEN, max(2, _GIVEN_NUMBERS // max(1, batch[0].numel())))
    rows = batch[:most].detach().cpu()
    return rows[rows.flatten(1).isfinite().all(1)]


_MOST_GIVEN = 32
_GIVEN_NUMBERS = 2**18


def _outputs(program: Program, x: Tensor) -> Tensor:
    """The program on some rows; those of the last call are kept with it, for the next one on the same slice."""
    known = _KNOWN.get(program)
    if known is None or known[0].dtype != x.dtype or not torch.equal(known[0], x):
        with torch.no_grad():
            known = _KNOWN[program] = x, program.forward(x.double())
    return known[1]


_KNOWN: weakref.WeakKeyDictionary[Program, tuple[Tensor, Tensor]] = weakref.WeakKeyDictionary()
"""Of a program that is still in use, the rows that it was compared on last and its outputs on them."""


def batch_sizes(program: Program, turns: Sequence[Turn]) -> list[int]:
    """Numbers of rows on which a module and its program are compared."""
    found = [3, 1, 8, *(turn.rows for turn in turns if turn.rows <= _most_rows(program))]
    return list(dict.fromkeys(found))


def _most_rows(program: Program) -> int:
    """As many rows as keep the largest known value of a network below half a gigabyte."""
    shapes = [program.input_shape, program.output_shape, *(site.shape for site in program.sites)]
    return max(8, _MOST_NUMBERS // max(1, *(math.prod(shape) for shape in shapes)))


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

    Random states are others than when it was read, so that what it draws shows; a single row is given twice, and the
    second result counts, so that what it keeps from call to call shows.
    """
    with state_kept(x.device), exportable(model, share_buffers=False) as twin, torch.no_grad():
        torch.default_generator.manual_seed(1 + len(x))  # `torch.manual_seed` takes a millisecond to reach for devices
        random.seed(1 + len(x)), np.random.seed(1 + len(x))  # noqa: NPY002
        if any(p.is_floating_point() and p.dtype != dtype for p in twin.parameters()):
            twin = copy.deepcopy(twin).to(dtype)
        if len(x) == 1:
            twin(x)
        return leaves_of(twin(x))[output][1]
