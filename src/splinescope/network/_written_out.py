"""Activations that a model writes out (GPT-2's GELU, x * sigmoid(x), ...) as the ops they are."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import Graph, Node

aten = torch.ops.aten

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
        for source in _ancestors(node):
            values = _values(node, source)
            if values is not None and (made := _named(graph, node, source, values)) is not None:
                made.meta = dict(node.meta)
                node.replace_all_uses_with(made)
                _erase(graph, node)
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


def _named(graph: Graph, node: Node, source: Node, values: Tensor) -> Node | None:
    """The op of these values, put before `node`; None if there is none."""
    for function, op, options in _KNOWN:
        if _equal(values, function(_GRID)):
            with graph.inserting_before(node):
                return graph.call_function(op, (source,), options)
    at_one = float(values[_GRID == 1])  # of x sigmoid(c x) that is sigmoid(c)
    if 0 < at_one < 1 and at_one != 0.5:
        scale = math.log(at_one / (1 - at_one))
        if _equal(values, F.silu(scale * _GRID) / scale):
            with graph.inserting_before(node):
                steep = graph.call_function(aten.mul.Tensor, (source, scale))
                bent = graph.call_function(aten.silu.default, (steep,))
                steep.meta, bent.meta = dict(node.meta), dict(node.meta)
                return graph.call_function(aten.div.Tensor, (bent, scale))
    return None


def _equal(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, rtol=1e-12, atol=1e-12)


def _erase(graph: Graph, node: Node) -> None:
    """A node and what only it used."""
    before = node.all_input_nodes
    graph.erase_node(node)
    for one in before:
        if not one.users and one.op == "call_function":
            _erase(graph, one)
