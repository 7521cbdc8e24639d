"""Batch sizes at which a module's Python code takes another way than the one that was read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

_FURTHEST = 2**40  # rows: no batch is larger


@dataclass(frozen=True)
class Turn:
    """One condition on the batch size that held while a module was read.

    Attributes:
        rows: The least batch size, above one, at which it does not hold.
        condition: As torch writes it, N for the batch size.
        place: File and line that asked.
        of_torch: Whether that is torch's own code and not the user's.
    """

    rows: int
    condition: str
    place: str
    of_torch: bool


def turns_of(exported: Any) -> tuple[Turn, ...]:
    """Every condition on the batch size that code asked for while it was exported, as torch has recorded it."""
    found = []
    for guard in _guards(exported):
        rows = first_failure(guard.expr)
        if rows is not None:
            found.append(Turn(rows, _in_words(guard.expr), *_place(guard)))
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
    """The least number of rows, above one, at which a condition on one size fails; None if it holds for all.

    Every size to 64 is tried, then powers of two, between which a condition is taken to turn once.
    """
    (size,) = condition.free_symbols or (None,)
    if size is None:
        return None

    def fails(rows: int) -> bool:
        return str(condition.subs(size, rows)) == "False"

    for rows in range(2, 65):
        if fails(rows):
            return rows
    low = 64
    while low < _FURTHEST and not fails(2 * low):
        low *= 2
    if low >= _FURTHEST:
        return None
    high = 2 * low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(middle) else (middle, high)
    return high


def _in_words(condition: Any) -> str:
    return re.sub(r"\bs\d+\b", "N", str(condition))


def _place(guard: Any) -> tuple[str, bool]:
    """("net.py, line 12", whether that is torch's own code)."""
    frame = getattr(guard.sloc, "framework_loc", None)
    file, line = getattr(frame, "filename", None), getattr(frame, "lineno", None)
    if file is None:
        return "", False
    return f"{Path(file).name}, line {line}", Path(file).is_relative_to(Path(torch.__file__).parent)
