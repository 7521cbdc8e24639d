"""An exported graph rewritten: in-place ops as functions, and what a model writes out as the op it is."""

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.fx import Graph, Node

from ..ops import operation
from ..ops.call import op_name
from ..ops.registry import UNKNOWN

aten = torch.ops.aten

ALLOCATING = frozenset({
    *("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
    *("batch_norm", "add", "sub", "mul", "div", "neg", "mm", "addmm", "bmm", "cat", "stack", "clone", "mean", "sum"),
    *("relu", "leaky_relu", "prelu", "hardtanh", "relu6", "clamp", "abs", "maximum", "minimum", "hardsigmoid"),
    *("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d"),
})  # fmt: skip
"""Ops whose result is memory of its own, whatever their arguments."""


def make_functional(graph: Graph, input_node: Node) -> bool:
    """Rewrite in-place ops where that is safe; whether no in-place op is left and every live op is in the table.

    Where an in-place op writes to memory that nothing else looks at, a new name for its result is enough.
    """
    live = {input_node}
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        if is_mutable(node) and not _renamed(node):
            return False
        if live & set(node.all_input_nodes):
            live.add(node)
            if not _is_known(node):
                return False
    return True


def is_mutable(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def _is_known(node: Node) -> bool:
    value = node.meta.get("val")
    if node.target is operator.getitem or value is None or isinstance(value, (torch.SymInt, torch.SymBool)):
        return True
    entry = operation(op_name(node.target))
    return entry.rule is not None or entry.reason != UNKNOWN


def _renamed(node: Node) -> bool:
    """Replace `y = f_(x)` by `y = f(x)`, and x by y from there on; not if other names may share the memory of x."""
    schema = node.target._schema  # type: ignore[union-attr]
    written = [i for i, a in enumerate(schema.arguments) if a.alias_info is not None and a.alias_info.is_write]
    value = node.args[0] if node.args else None
    name = op_name(node.target)
    packet = getattr(torch.ops.aten, name.removesuffix("_"), None)
    function = getattr(packet, schema.overload_name or "default", None)
    if written != [0] or not isinstance(value, Node) or function is None or not name.endswith("_"):
        return False
    before = [user for user in value.users if user is not node and user < node]
    if not _allocates(value) or not all(_allocates(user) or user.meta.get("val") is None for user in before):
        return False
    value.replace_all_uses_with(node, lambda user: user is not node and user not in before)
    node.target = function
    return True


def _allocates(node: Node) -> bool:
    return node.op == "call_function" and op_name(node.target) in ALLOCATING


@functools.cache
def _softsign() -> Any:
    """x / (1 + |x|) as one op: torch has it as a Python function only, whose quotient says nothing of its shape."""
    torch.library.define("splinescope::softsign", "(Tensor self) -> Tensor")
    torch.library.impl("splinescope::softsign", "CompositeImplicitAutograd")(nn.functional.softsign)
    return torch.ops.splinescope.softsign.default


def _replaced(graph: Graph, node: Node, *steps: tuple[Any, ...]) -> None:
    """Put calls `(op, *args)` in the place of a node; `...` stands for the result of the call before."""
    made: Any = None
    with graph.inserting_before(node):
        for op, *args in steps:
            options = args.pop() if args and isinstance(args[-1], dict) else {}
            made = graph.call_function(op, tuple(made if arg is ... else arg for arg in args), options)
            made.meta = dict(node.meta)
    node.replace_all_uses_with(made)
    _erase(graph, node)


def rewrite_softsign(graph: Graph) -> None:
    """Read the quotient that `softsign` becomes as that op."""
    for node in list(graph.nodes):
        made_by = str(node.meta.get("torch_fn", ("", ""))[1]).rpartition(".")[2]
        if node.target is aten.div.Tensor and made_by == "softsign":
            _replaced(graph, node, (_softsign(), node.args[0]))


def rewrite_softshrink(graph: Graph) -> None:
    """softshrink(x) = x - clamp(x, -lambda, lambda), before torch makes comparisons of it."""
    for node in list(graph.nodes):
        if node.target is aten.softshrink.default:
            x, bound = node.args[0], node.args[1] if len(node.args) > 1 else node.kwargs.get("lambd", 0.5)
            _replaced(graph, node, (aten.clamp.default, x, -bound, bound), (aten.sub.Tensor, x, ...))


_BY_ELEMENT = frozenset((
    aten.mul.Tensor, aten.add.Tensor, aten.sub.Tensor, aten.div.Tensor, aten.pow.Tensor_Scalar, aten.neg.default,
    aten.tanh.default, aten.sigmoid.default, aten.erf.default, aten.exp.default, aten.softplus.default,
    aten.square.default, aten.reciprocal.default, aten.rsub.Scalar,
))  # fmt: skip
_GRID = torch.cat([torch.linspace(-6, 6, 97, dtype=torch.float64), torch.tensor([-30.0, 30.0], dtype=torch.float64)])

_KNOWN: tuple[tuple[Callable[[Tensor], Tensor], Any, dict[str, Any]], ...] = (
    (F.gelu, aten.gelu.default, {}),
    (lambda z: F.gelu(z, approximate="tanh"), aten.gelu.default, {"approximate": "tanh"}),
    (F.silu, aten.silu.default, {}),
    (F.mish, aten.mish.default, {}),
)


def rewrite_written_out(graph: Graph) -> None:
    """Read products that are a known function of one tensor as that function; told by their values, not their form."""
    for node in list(graph.nodes):
        if node.target is not aten.mul.Tensor or not all(isinstance(a, Node) for a in node.args[:2]):
            continue
        if node.args[0] is node.args[1]:  # a square
            node.target, node.args = aten.pow.Tensor_Scalar, (node.args[0], 2)
            continue
        for source in _ancestors(node):
            values = _values(node, source)
            if values is not None and (steps := _named(source, values)):
                _replaced(graph, node, *steps)
                break


def _ancestors(node: Node) -> list[Node]:
    """What a value is made of, elementwise: nearest first."""
    found: dict[Node, None] = {}
    stack = [node]
    while stack:
        for before in stack.pop(0).all_input_nodes:
            if before not in found:
                found[before] = None
                stack += [before] if before.target in _BY_ELEMENT else []
    return list(found)


def _values(node: Node, source: Node) -> Tensor | None:
    """The function that makes `node` of `source`, on a grid; None if anything else enters it."""
    known: dict[Node, Tensor | None] = {source: _GRID}

    def value(one: Node) -> Tensor | None:
        if one not in known:
            parts = [value(a) if isinstance(a, Node) else a for a in one.args]
            ready = one.target in _BY_ELEMENT and not any(part is None for part in parts)
            known[one] = one.target(*parts, **one.kwargs) if ready else None  # type: ignore[operator]
        return known[one]

    return value(node)


def _named(source: Node, values: Tensor) -> list[tuple[Any, ...]]:
    """The calls that make these values of `source`; none if no known function does."""
    for function, op, options in _KNOWN:
        if _equal(values, function(_GRID)):
            return [(op, source, options)]
    at_one = float(values[_GRID == 1])  # of x sigmoid(c x) that is sigmoid(c)
    if 0 < at_one < 1 and at_one != 0.5:
        scale = math.log(at_one / (1 - at_one))
        if _equal(values, F.silu(scale * _GRID) / scale):
            return [(aten.mul.Tensor, source, scale), (aten.silu.default, ...), (aten.div.Tensor, ..., scale)]
    return []


def _equal(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, rtol=1e-12, atol=1e-12)


def _erase(graph: Graph, node: Node) -> None:
    """A node and what only it used."""
    before = node.all_input_nodes
    graph.erase_node(node)
    for one in before:
        if not one.users and one.op == "call_function":
            _erase(graph, one)
