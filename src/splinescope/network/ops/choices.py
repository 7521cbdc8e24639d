"""Choices by a comparison, `where(z > c, a, b)`, that are continuous: elementwise folds written in another way.

A comparison jumps, so it is no value of a network: it is kept as a `Condition` until something chooses by it. Where
the compared value and both choices are affine functions of the numbers of one value r, each by itself, the choice is
one function of each number. It bends where the comparison turns, if both choices agree there; else it jumps.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .call import Call, Live, Refusal, leaves
from .hinges import JUMP, bend, spread
from .registry import OPERATIONS
from .reshapes import IDENTITIES

COMPARISONS = {**dict.fromkeys(("gt", "ge", "greater", "greater_equal"), 1.0),
               **dict.fromkeys(("lt", "le", "less", "less_equal"), -1.0)}  # fmt: skip
_ROUNDING = 1e-13
UNLIKE = (
    "chooses by a comparison, and is continuous only if what is compared and both choices are affine functions of the "
    "same numbers, each by itself; use relu, leaky_relu, clamp, maximum or minimum."
)


@dataclass(frozen=True, eq=False)
class Form:
    """`slope * r + shift` of each number of a value r; of any value if None."""

    of: Live | None
    slope: Tensor
    shift: Tensor


@dataclass(frozen=True, eq=False)
class Condition:
    """Where a form is above zero."""

    form: Form


class Choices:
    """What is known of the values of a graph that compares: those that are affine in each number of another."""

    def __init__(self) -> None:
        self.forms: dict[str, Form] = {}

    def lowered(self, call: Call) -> Condition | Live | None:
        """A comparison as a condition, and what a condition chooses; None for any other call."""
        conditions = [v for value in call.arguments.values() for v in leaves(value) if isinstance(v, Condition)]
        if call.op in COMPARISONS and not conditions:
            return self._compared(call)
        if not conditions:
            return None
        if call.op in IDENTITIES:
            return conditions[0]
        if call.op == "where" and isinstance(call["condition"], Condition):
            return self._choice(call, call["condition"], call["self"], call["other"])
        if call.op == "masked_fill" and isinstance(call["mask"], Condition):
            return self._choice(call, call["mask"], call["value"], call["self"])
        if call.op in ("mul", "multiply") and len(conditions) == 1:
            factor = call["other"] if call["self"] is conditions[0] else call["self"]
            return self._choice(call, conditions[0], factor, 0.0)
        raise Refusal(f"takes the result of a comparison, which {JUMP}")

    def note(self, call: Call, result: Live) -> None:
        """Remember what an elementwise affine call made."""
        entry = OPERATIONS[call.op]
        known = (entry.kind == "affine" and entry.elementwise) or call.op in IDENTITIES
        if not known or any(live.shape != call.shape for live in call.lives):
            return
        forms = [self._form(live, call.shape) for live in call.lives]
        if len({form.of for form in forms}) == 1:
            run = call.runner()
            shift = run(*(form.shift[None] for form in forms))[0]
            slope = run(*((form.slope + form.shift)[None] for form in forms))[0] - shift
            self.forms[result.name] = Form(forms[0].of, slope, shift)

    def _form(self, value: Any, shape: tuple[int, ...]) -> Form:
        zero = torch.zeros(shape, dtype=torch.float64)
        if not isinstance(value, Live):
            return Form(None, zero, spread(getattr(value, "tensor", value), shape))
        if value.shape != shape or value.merged > 1:
            raise Refusal(UNLIKE)
        return self.forms.get(value.name) or Form(value, zero + 1, zero)

    def _compared(self, call: Call) -> Condition:
        first, second = (self._form(call[name], call.shape) for name in ("self", "other"))
        if first.of is not None and second.of not in (None, first.of):
            raise Refusal(JUMP)
        sign = COMPARISONS[call.op]
        slope, shift = sign * (first.slope - second.slope), sign * (first.shift - second.shift)
        return Condition(Form(first.of or second.of, slope, shift))

    def _choice(self, call: Call, condition: Condition, chosen: Any, other: Any) -> Live:
        test, a, b = condition.form, self._form(chosen, call.shape), self._form(other, call.shape)
        root = test.of
        if root is None or root.shape != call.shape or {a.of, b.of} - {None, root} or bool((test.slope == 0).any()):
            raise Refusal(UNLIKE)
        at = 0.0 - test.shift / test.slope
        jump = ((a.slope - b.slope) * at + (a.shift - b.shift)).abs()
        terms = (a.slope.abs() + b.slope.abs()) * at.abs() + a.shift.abs() + b.shift.abs()
        wrong = ~(jump <= _ROUNDING * terms) | ~jump.isfinite()
        if bool(wrong.any()):
            where, size = float(at[wrong].reshape(-1)[0]), float(jump[wrong].reshape(-1)[0])
            raise Refusal(f"jumps by {size:.3g} where the value it is a function of is {where:.3g}: not continuous.")
        call.lives, call.depth = (root,), root.depth

        def run(r: Tensor) -> Tensor:
            return torch.where(test.slope * r + test.shift > 0, a.slope * r + a.shift, b.slope * r + b.shift)

        return bend(call, root, [(at, (a.slope - b.slope) * test.slope.sign())], run)
