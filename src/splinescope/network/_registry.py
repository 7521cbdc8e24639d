"""The one table from an ATen op to the rule that lowers it, and the decorators that fill it.

A rule receives a `Call` (one node of the exported graph) and returns what it became: a `Live` value after
emitting steps, or a constant. The files beside this one fill the table, one per layer family.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._call import Call

Rule = Callable[["Call"], Any]

RULES: dict[str, Rule] = {}
KINDS: dict[str, str] = {}
REASONS: dict[str, str] = {}
ENDINGS: dict[str, str] = {}


def affine(*ops: str) -> Callable[[Rule], Rule]:
    """Register a rule for ops that are affine in their live inputs, by ATen name without overload ("conv2d")."""
    return _register("affine", ops)


def fold(*ops: str) -> Callable[[Rule], Rule]:
    """Register a rule for continuous piecewise-affine ops."""
    return _register("fold", ops)


def constant(*ops: str) -> Callable[[Rule], Rule]:
    """Register a rule for ops whose result never depends on the values of their inputs (`zeros_like`)."""
    return _register("constant", ops)


def refuse(reason: str, *ops: str) -> None:
    """Say why these ops cannot be lowered and what to do; the text ends up in the error."""
    for op in ops:
        REASONS[op] = reason


def ending(label: str, *ops: str) -> None:
    """Allow these ops at the very end of a network: its tiling is that of the network before them."""
    for op in ops:
        ENDINGS[op] = label


def _register(kind: str, ops: tuple[str, ...]) -> Callable[[Rule], Rule]:
    def decorate(rule: Rule) -> Rule:
        for op in ops:
            if op in RULES:
                raise ValueError(f"{op} already has a rule: {RULES[op].__name__}.")
            RULES[op] = rule
            KINDS[op] = kind
        return rule

    return decorate


def load_rules() -> None:
    """Import every file that registers rules."""
    from . import activations, affine_ops, constants, pooling, refused, shapes  # noqa: F401
