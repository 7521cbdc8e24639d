"""Does the module do what was read from it? Both run on a few rows, in batches of several sizes.

Sizes at which the module's Python code takes another way than the one that was read are found in torch's record.
"""

import copy
import math
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from splinescope.support.errors import UnsupportedModelError

from ..outputs import leaves_of
from ..program import Program
from ..ranges import cancelling_terms
from ..watching.undisturbed import exportable, state_kept

Finish = Callable[[Tensor], "Tensor | None"]
"""From the program's output to the module's: the ending; None where it is not continuous (argmax)."""

_MOST_NUMBERS = 2**26  # of the largest value: half a gigabyte
_GIVEN_NUMBERS = 2**18  # of the rows that the caller gave


class SizeCondition(NamedTuple):
    """A condition on the batch size that held while a module was read; it fails at this many `rows`."""

    rows: int
    text: str  # as torch writes it, N for the batch size
    place: str  # file and line that asked
    of_torch: bool  # whether that is torch's own code and not the user's


def check_agreement(
    model: nn.Module, program: Program, finish: Finish, like: Tensor, output: int, conditions: Sequence[SizeCondition]
) -> None:
    """Refuse a module that differs from its program on some batch, with the difference.

    Compared are random rows and rows that the caller gave, in batches of one, three and eight, and of every size at
    which the code is known to take another way: state, random numbers and branches by the batch size show here.
    """
    shapes = [program.input_shape, program.output_shape, *(site.shape for site in program.sites)]
    most = max(8, _MOST_NUMBERS // max(1, *(math.prod(shape) for shape in shapes)))
    for condition in conditions:
        if condition.rows > most and not condition.of_torch:
            raise UnsupportedModelError(
                f"The model's code takes another way for batches of {condition.rows} rows ({condition.place} asks "
                f"whether {condition.text}), too many to compare here; a row's result must depend on the row alone."
            )
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(3, *program.input_shape, generator=generator, dtype=torch.float64)
    few = like[: min(32, max(2, _GIVEN_NUMBERS // max(1, like[0].numel())))].detach().cpu()
    x = torch.cat([x.to(like.dtype), few[few.reshape(len(few), -1).isfinite().all(1)]])
    with torch.no_grad():
        finished = finish(program.forward(x.double()))  # each row by itself (`check_rows`)
    if finished is None:
        return
    sizes = [3, 1, 8, *(condition.rows for condition in conditions if condition.rows <= most), len(x)]
    least = 0.0
    for rows in dict.fromkeys(sizes):
        these = torch.arange(rows) % len(x)
        gap = _gap(model, x[these], finished[these], like, output, least)
        if gap is not None and least == 0.0:  # was it only the rounding of terms that cancel?
            least = cancelling_terms(program, x, finish)
            gap = _gap(model, x[these], finished[these], like, output, least)
        if gap is not None and like.dtype != torch.float64:  # was it only the rounding of a short dtype?
            wide = _gap(model, x[these].double(), finished[these], like.double(), output, least)
            gap = None if wide is None else gap
        if gap is not None:
            asked = "".join(f" ({c.place} asks whether {c.text})" for c in conditions if c.rows <= rows)
            raise UnsupportedModelError(
                f"The model does not do what was read from it: {gap} on a batch of {rows} row{'s' * (rows > 1)}. Its "
                f"code may branch on the batch size{asked}, keep state between calls or be random; a row's result must "
                "depend on the row alone."
            )


def _gap(model: nn.Module, x: Tensor, ours: Tensor, like: Tensor, output: int, least: float) -> str | None:
    """How the module differs from what is ours, in words; None if by roundings alone, of terms of size `least`."""
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
    # sums in another order, in a short dtype
    allowed = 64 * torch.finfo(like.dtype).eps ** 0.75 * max(scale, least) + 1e-30
    return f"it differs by {worst:.2g} (of {scale:.2g})" if worst > allowed else None


def _run(model: nn.Module, x: Tensor, dtype: torch.dtype, output: int) -> Tensor:
    """The module's own result, computed by a copy.

    Random states are others than when it was read, and a single row is given twice: what it draws or keeps shows.
    """
    with state_kept(x.device), exportable(model, share_buffers=False) as twin, torch.no_grad():
        torch.default_generator.manual_seed(1 + len(x))  # `torch.manual_seed` takes a millisecond to reach for devices
        random.seed(1 + len(x)), np.random.seed(1 + len(x))  # noqa: NPY002
        if any(p.is_floating_point() and p.dtype != dtype for p in twin.parameters()):
            twin = copy.deepcopy(twin).to(dtype)
        if len(x) == 1:
            twin(x)
        return leaves_of(twin(x))[output][1]


def size_conditions(exported: Any) -> tuple[SizeCondition, ...]:
    """Every condition on the batch size that code asked for while it was exported, as torch has recorded it."""
    found = []
    for guard in _guards(exported):
        rows = first_failure(guard.expr)
        if rows is not None:
            found.append(SizeCondition(rows, re.sub(r"\bs\d+\b", "N", str(guard.expr)), *_place(guard)))
    return tuple(found)


def asks_for_rows(exported: Any) -> bool:
    """Whether code that is not torch's own asked for the batch size, however large the batches that it parts."""
    return any(guard.expr.free_symbols and not _place(guard)[1] for guard in _guards(exported))


def _guards(exported: Any) -> list[Any]:
    taken = exported.graph_signature.user_inputs
    sizes = [
        size
        for node in exported.graph.nodes
        if node.op == "placeholder" and node.name in taken and isinstance(node.meta.get("val"), torch.Tensor)
        for size in node.meta["val"].shape
        if isinstance(size, torch.SymInt)
    ]
    return list(sizes[0].node.shape_env.guards) if sizes else []


def first_failure(condition: Any) -> int | None:
    """The first number of rows above one, to 64 and then by powers of two, at which a condition fails; else None."""
    (size,) = condition.free_symbols or (None,)

    def fails(rows: int) -> bool:
        return size is not None and str(condition.subs(size, rows)) == "False"

    sizes = [*range(2, 65), *(2**k for k in range(7, 41))]
    return next((rows for rows in sizes if fails(rows)), None)


def _place(guard: Any) -> tuple[str, bool]:
    """("net.py, line 12", whether that is torch's own code)."""
    frame = getattr(guard.sloc, "framework_loc", None)
    file, line = getattr(frame, "filename", None), getattr(frame, "lineno", None)
    if file is None:
        return "", False
    return f"{Path(file).name}, line {line}", Path(file).is_relative_to(Path(torch.__file__).parent)
