"""The one table of operations: what is known of each, whoever asks.

Lowering asks for the rule of an op or the reason why there is none, `find_ending` for the name under which it may stand
at the very end, watchers of a forward pass for its bend, smooth networks for its role, generators whether it squashes,
interpolants for its tails, and output bounds whether it is a ramp. The files beside this one fill the table, one per
family.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor

if TYPE_CHECKING:
    from .bend import Bend
    from .call import Call

Rule = Callable[["Call"], Any]
"""From one node of the exported graph to what it became: a `Live` value after emitting steps, or a constant."""

Kind = Literal["affine", "fold", "constant", "smooth", "jump", "recurrent", "random", "refused"]

Role = Literal["shape", "sum", "placed", "product", "added product", "quotient", "choice", "made",
               "piecewise", "smooth", "curve", "norm", "pool", "extreme", "sort"]  # fmt: skip
"""What a call does in a pass where all that is not affine is held at one point (`smooth`):

- "shape": the same numbers elsewhere; what came out of an activation still counts as such.
- "sum": affine in all its tensors together; "placed": likewise, with whole numbers or booleans as places.
- "product": linear in each factor; "added product": likewise, and its first argument is added.
- "quotient", "choice" (by a condition), "made" (of a tensor's shape and dtype, not of its values).
- "piecewise", "smooth": activations; "curve": smooth functions whose zero is no fold.
- "norm", "pool", "extreme", "sort": held by their scale, their winners, their order.
"""

UNKNOWN = "has no rule; docs/operation.md shows how to add one in a few lines."

Line = tuple[float, float]
"""(slope, intercept)."""


@dataclass(frozen=True)
class Tails:
    """How a smooth function of one number goes on to the left and right.

    Attributes:
        left, right: Its asymptotes; None where it has none.
        kinks: Places where phi' or phi'' jumps.
        jump: How far torch's function is from `run`, where it goes over to its asymptote with a jump.
        run: The function without that jump; torch's own if None.
    """

    left: Line | None = None
    right: Line | None = None
    kinks: tuple[float, ...] = ()
    jump: float = 0.0
    run: Callable[[Tensor], Tensor] | None = None


@dataclass(frozen=True)
class Operation:
    """What is known of one op.

    Attributes:
        name: Its ATen name without overload, e.g. "conv2d" (`relu_` is `relu`), or that of a torch function.
        kind: "affine" in its live inputs, "fold" (continuous and piecewise affine), "constant" (never depends on the
            values of its inputs), "smooth" (a smooth function of each number), "jump" (not continuous), "recurrent" (a
            whole recurrent layer or cell, whose activations do not show), "random" or "refused".
        rule: Lowers a call of it; None if none can be.
        reason: Why not, and what to do.
        bend: How to read its folds in a forward pass; None if it has none.
        role: What it does where all that is not affine is held; None if the call itself is held.
        elementwise: Whether it acts on each number by itself.
        ramp: Whether it is the identity above zero and linear below: x + gain * relu(-x).
        tails: Its arguments to its asymptotes, of a smooth function; None if they are not known.
        ending: Name under which it may stand at the very end of a network, whose tiling is that of what comes before;
            None if it may not.
        squashes: Whether it bounds values there, so that a generator may be studied before it.
    """

    name: str
    kind: Kind = "refused"
    rule: Rule | None = None
    reason: str = UNKNOWN
    bend: Bend | None = None
    role: Role | None = None
    elementwise: bool = False
    ramp: bool = False
    tails: Callable[[Mapping[str, Any]], Tails] | None = None
    ending: str | None = None
    squashes: bool = False


OPERATIONS: dict[str, Operation] = {}


def affine(*ops: str, **facts: Any) -> Callable[[Rule], Rule]:
    """Register a rule for ops that are affine in their live inputs; `facts` are other fields of `Operation`."""
    return _rule("affine", ops, facts)


def fold(*ops: str, **facts: Any) -> Callable[[Rule], Rule]:
    """Register a rule for continuous piecewise-affine ops, and by `bend=` how to read their folds."""
    return _rule("fold", ops, facts)


def constant(*ops: str, **facts: Any) -> Callable[[Rule], Rule]:
    """Register a rule for ops whose result never depends on the values of their inputs (`zeros_like`)."""
    return _rule("constant", ops, facts)


def refuse(reason: str, *ops: str, kind: Kind = "refused", **facts: Any) -> None:
    """Say why these ops cannot be lowered and what to do; the text ends up in the error."""
    for op in ops:
        _enter(op, kind=kind, reason=reason, **facts)


def untraced(*ops: str, kind: Kind = "affine", **facts: Any) -> None:
    """Register functions of torch that have no rule: an exported graph has other ops instead, or none is known."""
    for op in ops:
        _enter(op, kind=kind, **facts)


def ending(label: str, *ops: str, squashes: bool = False) -> None:
    """Allow these ops, which are in the table, at the very end of a network."""
    for op in ops:
        OPERATIONS[op] = replace(OPERATIONS[op], ending=label, squashes=squashes)


def _rule(kind: Kind, ops: tuple[str, ...], facts: dict[str, Any]) -> Callable[[Rule], Rule]:
    def decorate(rule: Rule) -> Rule:
        for op in ops:
            _enter(op, kind=kind, rule=rule, **facts)
        return rule

    return decorate


def _enter(op: str, **facts: Any) -> None:
    """Enter an op; a rule of the user's own takes the place of the package's."""
    present, entry = OPERATIONS.get(op), Operation(op, **facts)
    if present is not None:
        if entry.rule is None or (entry.rule.__module__ or "").startswith("splinescope."):
            by = "another rule" if present.rule is not None else "`untraced` or `refuse`: take it out there"
            raise ValueError(f"{op} is in the table already, as {present.kind}, by {by}.")
        entry = replace(entry, role=entry.role or present.role)
    OPERATIONS[op] = entry
