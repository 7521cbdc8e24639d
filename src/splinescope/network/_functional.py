"""In-place operations of an exported graph as functions, so that values never change.

Torch does this for any graph (`run_decompositions`), by running it all once more; where an in-place op writes to memory
that nothing else looks at, as `nn.ReLU(inplace=True)` does, a new name for its result is enough.
"""

from __future__ import annotations

import operator

import torch
from torch.fx import Graph, Node

from .call import op_name
from .registry import UNKNOWN, operation

ALLOCATING = frozenset({
    *("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
    *("batch_norm", "add", "sub", "mul", "div", "neg", "mm", "addmm", "bmm", "cat", "stack", "clone", "mean", "sum"),
    *("relu", "leaky_relu", "prelu", "hardtanh", "relu6", "clamp", "abs", "maximum", "minimum", "hardsigmoid"),
    *("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d"),
})  # fmt: skip
"""Ops whose result is memory of its own, whatever their arguments."""


def make_functional(graph: Graph, input_node: Node) -> bool:
    """Rewrite in-place ops where that is safe; whether no in-place op is left and every live op is in the table."""
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
