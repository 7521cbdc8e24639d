"""From the exported graph and today's parameters to a `Program`."""

import operator
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from splinescope.support.errors import UnsupportedModelError

from ..ops import operation
from ..ops.call import BATCH, Batch, Call, Curved, Live, Refusal, Rows, leaves, op_name, split_arguments, tree_map
from ..ops.choices import COMPARISONS, Choices, Condition
from ..ops.hinges import JUMP
from ..ops.merged_rows import lifted
from ..ops.registry import UNKNOWN
from ..ops.reshapes import RESHAPES
from ..program import Program, Step, Tournament
from .source import Source, has_symbols, is_floating, module_kind, module_path

BATCH_NUMBER = "uses the batch size as a number; a row must not know how many others there are."
BATCH_AXIS = "moves, merges or reduces the batch axis; every operation must act on each row by itself."
_BATCH = (BATCH_AXIS, BATCH_NUMBER)


class Sized:
    """A number computed from the number of rows, or a fact about it."""


class Unread:
    """The result of a refused node of which nothing more can be said."""


@dataclass(frozen=True)
class Several:
    """An op with several outputs: lowered once per output that is used."""

    node: Node


class Lowering:
    """Walks the graph once: constants are computed, live nodes become steps, refusals are collected."""

    def __init__(self, source: Source, constants: Mapping[Node, Tensor], smooth: bool = False) -> None:
        self.source, self.constants, self.smooth = source, constants, smooth
        self.batch = source.input.meta["val"].shape[0]
        self.values: dict[Node, Any] = {}
        self.steps: list[Step] = []
        self.paths: dict[str, str] = {}
        self.ops: dict[str, str] = {}
        self.refusals: list[tuple[str, str, str]] = []  # (path, what, reason)
        self.kinds: set[str] = set()
        compares = any(node.op == "call_function" and op_name(node.target) in COMPARISONS for node in source.nodes)
        self.choices = Choices() if compares else None

    def program(self) -> Program:
        """Lower everything; one error lists all that cannot be."""
        source = self.source
        for node in source.nodes:
            self.values[node] = self._lower(node)
        result = self.values[source.output]
        if isinstance(result, Condition):
            result = self._refused(source.output, JUMP)
        if self.refusals:
            raise refused(refusal_lines(self.refusals), self.kinds == {"smooth"})
        if isinstance(result, Live) and result.merged > 1:
            raise UnsupportedModelError(f"The model's output {BATCH_AXIS}")
        if not isinstance(result, Live):
            raise UnsupportedModelError("The model's output does not depend on its input.")
        return Program(
            source.input.name,
            source.input_shape,
            result.name,
            result.shape,
            needed(self.steps, result.name),
            source.ending,
            MappingProxyType(self.paths),
            MappingProxyType(self.ops),
            self._identity(),
        )

    def _identity(self) -> tuple[str | Tensor, ...]:
        """Structure and constants, as the fingerprint is taken of them."""
        parts: list[str | Tensor] = [f"{self.source.input_shape} {self.source.ending}\n"]
        for node in self.source.nodes:
            parts.append(self.source.text[node])
            if node in self.constants:
                parts.append(self.constants[node])
        return tuple(parts)

    def _lower(self, node: Node) -> Any:
        if node is self.source.input:
            return Live(node.name, self.source.input_shape, 0)
        if node.op == "placeholder":
            return self.constants[node]
        if node.op != "call_function":
            return self._refused(node, UNKNOWN)
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt) and value.node.expr == self.batch.node.expr:
            return BATCH
        if isinstance(value, (torch.SymInt, torch.SymBool, torch.SymFloat)):
            return Sized()
        if node.target is operator.getitem:
            source, pick = node.args
            known = self.values[source]  # type: ignore[index]
            if isinstance(known, Several):
                return self._call(node, known.node, pick)  # type: ignore[arg-type]
            return known if isinstance(known, Unread) else known[pick]
        return self._call(node, node, None)

    def _call(self, node: Node, source: Node, pick: int | None) -> Any:
        arguments = self._arguments(source)
        parts = [leaf for value in arguments.values() for leaf in leaves(value)]
        if any(isinstance(part, Unread) for part in parts):
            return self._beyond(node, source)
        if node.meta.get("val") is None:  # an assertion about shapes or dtypes
            return None
        lives = any(isinstance(part, (Live, Condition)) for part in parts)
        rows = any(isinstance(part, (Rows, Batch, Sized)) for part in parts)
        several = isinstance(node.meta.get("val"), (list, tuple))
        if not lives and not rows:
            return self._constant(node, arguments)
        if several and pick is None:
            return Several(node)
        try:
            if any(isinstance(part, Sized) for part in parts) and op_name(source.target) not in RESHAPES:
                raise Refusal(BATCH_NUMBER)
            fixed = operation(op_name(source.target)).kind == "constant" and not has_symbols(node)
            shape, merged = (tuple(node.meta["val"].shape), 1) if fixed else self._shape(node)
            given = [part for part in parts if isinstance(part, Live)]
            lift = op_name(source.target) not in RESHAPES and any(part.merged > 1 for part in given)
            if not lift and merged > 1 and op_name(source.target) not in RESHAPES:
                raise Refusal(BATCH_AXIS)
            if lift and any(part.merged != merged for part in given):
                raise Refusal(BATCH_AXIS)
            call = Call(
                source.target,
                {name: tree_map(unmerged, value) for name, value in arguments.items()} if lift else arguments,
                name=node.name,
                path=module_path(source),
                shape=() if shape is None else shape,
                dtype=node.meta["val"].dtype,
                pick=pick,
                precision=self.source.input.meta["val"].dtype,
                merged=merged,
            )
            if shape is None:
                call.shape = measured_shape(call)
            result = self._apply(call, lives, lift)
            return result.tensor[0] if fixed else result
        except Refusal as refusal:
            return self._refused(node, str(refusal), source)

    def _apply(self, call: Call, lives: bool, lift: bool) -> Any:
        known = operation(call.op)
        if not lives and known.kind != "constant":
            return self._constant_rows(call)
        chosen = None if self.choices is None else self.choices.lowered(call)
        try:
            if chosen is None and known.rule is None:
                raise (Curved if known.kind == "smooth" else Refusal)(known.reason)
            result = chosen or known.rule(call)  # type: ignore[misc]
        except Curved:
            if not self.smooth:
                raise
            result = call.smooth()
        if self.choices is not None and chosen is None and isinstance(result, Live) and result.merged == 1 and not lift:
            self.choices.note(call, result)
        if lift and isinstance(result, Live):
            result = replace(result, merged=call.merged)
        self.steps.extend(lifted(call.steps, call.merged) if lift else call.steps)
        made = [step.output for step in call.steps if not isinstance(step, Tournament)]
        self.paths.update(dict.fromkeys(made, call.path))
        self.ops.update(dict.fromkeys(made, call.op))
        return result

    def _arguments(self, node: Node) -> dict[str, Any]:
        """Every argument of the schema by name; floating dtypes become float64, devices the CPU."""

        def resolve(value: Any) -> Any:
            if isinstance(value, Node):
                return self.values[value]
            if isinstance(value, torch.dtype) and value.is_floating_point:
                return torch.float64
            return torch.device("cpu") if isinstance(value, torch.device) else value

        schema = getattr(node.target, "_schema", None)
        if schema is None:
            return {f"arg{i}": tree_map(resolve, arg) for i, arg in enumerate(node.args)}
        arguments = {}
        for i, argument in enumerate(schema.arguments):
            given = node.args[i] if i < len(node.args) else node.kwargs.get(argument.name, argument.default_value)
            arguments[argument.name] = tree_map(resolve, list(given) if isinstance(given, (list, tuple)) else given)
        return arguments

    def _constant(self, node: Node, arguments: dict[str, Any]) -> Any:
        """Run an op that does not depend on the input, in float64."""
        known = operation(op_name(node.target))
        if known.kind == "random":
            return self._refused(node, known.reason)
        if getattr(node.target, "_schema", None) is None:
            return node.target(*arguments.values())  # type: ignore[operator]
        positional, keywords = split_arguments(node.target, arguments)
        factory = "dtype" in keywords and keywords["dtype"] is None and is_floating(node.meta["val"])
        if factory and not any(isinstance(p, Tensor) for p in positional):
            keywords["dtype"] = torch.float64
        return node.target(*positional, **keywords)  # type: ignore[operator]

    def _constant_rows(self, call: Call) -> Any:
        """Run an op on constants that carry a batch axis, on one row."""
        arguments = {
            name: tree_map(lambda v: v.tensor if isinstance(v, Rows) else 1 if isinstance(v, Batch) else v, value)
            for name, value in call.arguments.items()
        }
        if operation(call.op).rule is None or not any(isinstance(v, Tensor) for v in leaves(list(arguments.values()))):
            raise Refusal(BATCH_NUMBER)
        positional, keywords = split_arguments(call.target, arguments)
        result = call.target(*positional, **keywords)
        return Rows(result if call.pick is None else result[call.pick])

    def _shape(self, node: Node) -> tuple[tuple[int, ...] | None, int]:
        """The output's shape without its batch axis, and how many of its rows belong to one of the network.

        Refused unless the batch axis leads; None if the graph does not know the shape (a mask picks elements).
        """
        value = node.meta.get("val")
        if not isinstance(value, Tensor):
            raise Refusal(UNKNOWN)
        if "rows" in node.meta:  # read without symbols
            return tuple(value.shape[1:]), node.meta["rows"]
        leads = value.dim() > 0 and isinstance(value.shape[0], torch.SymInt)
        ratio = value.shape[0].node.expr / self.batch.node.expr if leads else None  # type: ignore[attr-defined]
        if ratio is None or not ratio.is_Integer:
            known = operation(op_name(node.target))
            raise Refusal(BATCH_AXIS if known.reason == UNKNOWN else known.reason)
        unknown = any(isinstance(n, torch.SymInt) for n in value.shape[1:])
        return None if unknown else tuple(int(n) for n in value.shape[1:]), int(ratio)

    def _beyond(self, node: Node, source: Node) -> Any:
        """What follows a refused node whose value is lost: name what is refused too, pick up where shapes are right."""
        known = operation(op_name(source.target))
        return self._resumed(node) if known.reason == UNKNOWN else self._refused(node, known.reason, source)

    def _refused(self, node: Node, reason: str, source: Node | None = None) -> Any:
        """Note the refusal; go on with a value of the right shape, so that later ones are found too."""
        source = source or node
        op = op_name(source.target)
        name = str(source.meta.get("torch_fn", ("", ""))[1]).rpartition(".")[2]
        if name != op and operation(name).reason != UNKNOWN:
            op, reason = name, operation(name).reason
        where = module_path(source)
        kind = module_kind(source)
        self.kinds.add(operation(op).kind)
        self.refusals.append((where, f"({kind}): {op}", reason))
        return self._resumed(node)

    def _resumed(self, node: Node) -> Live | Unread:
        """A value to go on with after a refusal: only its shape matters, no program is made of it."""
        try:
            shape, merged = self._shape(node)
            known = shape is not None and is_floating(node.meta.get("val"))
            return Live(node.name, shape, 0, merged) if known else Unread()  # type: ignore[arg-type]
        except Refusal:
            return Unread()


def refusal_lines(refusals: list[tuple[str, str, str]]) -> list[str]:
    """One line for each reason, with all its parts; the batch axis only where nothing else of a part is in the way."""
    other = {path for path, _, reason in refusals if path and reason not in _BATCH}
    parts: dict[str, dict[str, None]] = {}
    for path, what, reason in refusals:
        if path not in other or reason not in _BATCH:
            parts.setdefault(f"{what} {reason}", {})[path or "model"] = None
    return [f"{', '.join(paths)} {line}" for line, paths in parts.items()]


def refused(lines: list[str], only_smooth: bool) -> UnsupportedModelError:
    """The error of a network with parts that are not piecewise affine, with the calls that may take it all the same."""
    calls = ["tessellate(model, view, tolerance=...) tiles it within a tolerance"] if only_smooth else []
    calls += [
        "local_complexity(model, x, radius=...) counts folds near points",
        "local_map(model, x) gives the affine map at points",
    ]
    parts = "".join(f"\n  - {line}" for line in lines)
    return UnsupportedModelError(
        f"The network must be made of affine steps and folds; in the way of that:{parts}\n"
        f"Calls that may take this model as it is: {'; '.join(calls)}."
    )


def unmerged(value: Any) -> Any:
    """A live value as one whose first axis is the batch."""
    return replace(value, merged=1) if isinstance(value, Live) else value


def measured_shape(call: Call) -> tuple[int, ...]:
    """Shape of a row of a call's result, from running it on one row of zeros."""
    try:
        zeros = [torch.zeros(1, *live.shape, dtype=torch.float64) for live in call.lives]
        return tuple(call.runner()(*zeros).shape[1:])
    except (RuntimeError, TypeError) as error:
        raise Refusal("has an output whose size depends on the values or number of its inputs.") from error


def needed(steps: list[Step], output: str) -> tuple[Step, ...]:
    """The steps that the output depends on; the end of a tournament stays with it."""
    names = {output}
    kept: list[Step] = []
    for step in reversed(steps):
        if (step.final if isinstance(step, Tournament) else step.output) in names:
            kept.append(step)
            names.update(step.inputs)
    return tuple(reversed(kept))
