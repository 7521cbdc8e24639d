"""The one table of operations: what is known of each ATen op, whoever asks.

Lowering asks for its rule or the reason why there is none, `find_ending` for the name under which it may stand at the
very end, and the watchers of a plain forward pass for its bend: on which side of its folds a row is. The files beside
this one fill the table, one per family.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from .bend import Bend
    from .call import Call

Rule = Callable[["Call"], Any]
"""From one node of the exported graph to what it became: a `Live` value after emitting steps, or a constant."""

Kind = Literal["affine", "fold", "constant", "smooth", "jump", "recurrent", "random", "refused"]

UNKNOWN = "has no rule; docs/network.md shows how to add one in a few lines."


@dataclass(frozen=True)
class Operation:
    """What is known of one op.

    Attributes:
        name: Its ATen name without overload, e.g. "conv2d"; `relu_` is `relu`.
        kind: "affine" in its live inputs, "fold" (continuous and piecewise affine), "constant" (never depends on the
            values of its inputs), "smooth" (a smooth function of each number), "jump" (not continuous), "recurrent" (a
            whole recurrent layer or cell, whose activations do not show), "random" or "refused".
        rule: Lowers a call of it; None if none can be.
        reason: Why not, and what to do.
        ending: Name under which it may stand at the very end of a network, whose tiling is that of what comes before;
            None if it may not.
        bend: How to read its folds in a forward pass; None if it has none.
    """

    name: str
    kind: Kind = "refused"
    rule: Rule | None = None
    reason: str = UNKNOWN
    ending: str | None = None
    bend: Bend | None = None


OPERATIONS: dict[str, Operation] = {}

_OWN: set[str] = set()
"""Ops whose rule is the user's own."""


def operation(name: str) -> Operation:
    """What is known of an op by its ATen name, or by that of a torch function or method (`relu_`, `__abs__`)."""
    fill()
    found = OPERATIONS.get(name) or OPERATIONS.get(name.strip("_"))
    return found or Operation(name)


@functools.cache
def fill() -> None:
    """Import every file that enters operations."""
    from . import activations, affine_ops, constants, extrema, pooling, refused, shapes  # noqa: F401


def affine(*ops: str) -> Callable[[Rule], Rule]:
    """Register a rule for ops that are affine in their live inputs."""
    return _rule("affine", ops, None)


def fold(*ops: str, bend: Bend | None = None) -> Callable[[Rule], Rule]:
    """Register a rule for continuous piecewise-affine ops, and how to read their folds."""
    return _rule("fold", ops, bend)


def constant(*ops: str) -> Callable[[Rule], Rule]:
    """Register a rule for ops whose result never depends on the values of their inputs (`zeros_like`)."""
    return _rule("constant", ops, None)


def refuse(reason: str, *ops: str, kind: Kind = "refused", bend: Bend | None = None) -> None:
    """Say why these ops cannot be lowered and what to do; the text ends up in the error."""
    for op in ops:
        _enter(op, kind=kind, reason=reason, bend=bend)


def ending(label: str, *ops: str) -> None:
    """Allow these ops, which are in the table, at the very end of a network."""
    for op in ops:
        OPERATIONS[op] = replace(OPERATIONS[op], ending=label)


def _rule(kind: Kind, ops: tuple[str, ...], bend: Bend | None) -> Callable[[Rule], Rule]:
    def decorate(rule: Rule) -> Rule:
        for op in ops:
            _enter(op, kind=kind, rule=rule, bend=bend)
        return rule

    return decorate


def _enter(op: str, **facts: Any) -> None:
    """Enter an op; a rule of the user's own takes the place of the package's, whichever comes first."""
    rule = facts.get("rule")
    own = rule is not None and not (rule.__module__ or "").startswith("splinescope.")
    if op in OPERATIONS and not own:
        if op in _OWN:
            return
        raise ValueError(f"{op} is in the table already, as {OPERATIONS[op].kind}.")
    if own:
        _OWN.add(op)
    OPERATIONS[op] = Operation(op, **facts)
