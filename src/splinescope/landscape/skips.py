"""Skip connections of real models: find them, and switch them off without retraining.

A skip is an addition `F(s) + S(s)` of two ways from one value s, of which one (S) is much shorter: nothing at all, or a
projection. Its long way mixes units (a linear layer, a convolution, attention, pooling): an addition inside what is one
elementwise function of s, as `x + 0.045 x^3` in the tanh form of GELU, is none. Switched off, the sum becomes `F(s)`.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule, Node

from ..network.ops.call import op_name
from ..network.readable import as_batch
from ..network.reading.export import export
from ..network.reading.source import module_path
from ..network.watching.undisturbed import copied
from ..support.checks import as_rows
from ..support.display import Result, numbered
from ..support.errors import InputError
from .inputs import Model, check_model

_SUMS = {"add", "add_"}
_IDLE = {"view", "reshape", "flatten", "permute", "transpose", "contiguous", "clone", "dropout", "alias"}
_MOVES = {*_IDLE, "_unsafe_view", "unflatten", "squeeze", "unsqueeze", "slice", "select", "split", "chunk", "cat",
          "stack", "expand", "repeat", "flip", "roll", "t", "_to_copy", "to", "split_with_sizes", "narrow"}  # fmt: skip


@dataclass(frozen=True, repr=False)
class Skip(Result):
    """One skip connection.

    Attributes:
        name: What `without_skips` takes: the path of the block that adds, and where a block adds more than once
            that of the part it adds ("h.0.attn", "h.0.mlp").
        path: Module path of the block that adds.
        identity: Whether the short way is the value itself, not a projection.
        total: Name of the sum in the exported graph.
        source: Name there of the value s where the two ways part.
        branch: Name there of F(s), the long way.
    """

    name: str
    path: str
    identity: bool
    total: str
    source: str
    branch: str
    certainty = "exact"

    def __repr__(self) -> str:
        return f"Skip({self.name!r}, {'identity' if self.identity else 'projection'})"


def find_skips(model: Model, x: Any) -> list[Skip]:
    """The skip connections of a model in eval mode, in execution order; `x` is an example batch.

    Read from the graph: no numbers are involved. Token ids are taken as they are.
    """
    return skips_of(graph_module(model, x))


def without_skips(model: Model, x: Any, skips: Sequence[str] | None = None) -> nn.Module:
    """A copy of the model with skip connections switched off: `F(s) + S(s)` becomes `F(s)`.

    Args:
        model: A module in eval mode; it is not changed.
        x: An example batch.
        skips: Names of those to switch off (see `find_skips`); all of them by default.

    Returns:
        A module with copies of the same parameters under the same names.
    """
    module = graph_module(model, x)
    nodes = {node.name: node for node in module.graph.nodes}
    for skip in chosen_skips(skips_of(module), skips):
        nodes[skip.total].replace_all_uses_with(nodes[skip.branch])
    module.graph.eliminate_dead_code()
    module.recompile()
    return module


def chosen_skips(found: Sequence[Skip], names: Sequence[str] | None) -> list[Skip]:
    """The skips of these names; all by default."""
    known = {skip.name: skip for skip in found}
    for name in names or ():
        if name not in known:
            raise InputError(f"skips must be among {', '.join(known) or 'none: the model has no skips'}, got {name!r}.")
    return [known[name] for name in (known if names is None else names)]


def graph_module(model: Model, x: Any) -> GraphModule:
    """A traced copy of the model, with its own parameters, whose graph can be edited."""
    module = copied(check_model(model))
    rows = as_rows(x, "x")
    if rows.is_floating_point() or rows.dim() == 0 or len(rows) == 0:
        rows = as_batch(module, rows)[:2]
    else:  # token ids
        rows = rows[[0, 0]]
    traced: GraphModule = export(module, rows).module()
    graph = traced.graph
    for node in list(graph.nodes):
        if (node.op == "call_module" and node.target == "_guards_fn") or op_name(
            node.target
        ) == "_assert_tensor_metadata":
            graph.erase_node(node)
        elif node.target is torch.ops.aten.view.default:  # strides are those of the kernels that ran at export
            node.target = torch.ops.aten.reshape.default
        elif op_name(node.target) == "_native_batch_norm_legit_no_training":  # has no batching rule for vmap
            value, weight, bias, mean, variance, _, eps = node.args
            with graph.inserting_before(node):
                given = (value, mean, variance, weight, bias, False, 0.0, eps)
                norm = graph.call_function(nn.functional.batch_norm, given)
            norm.meta = {**node.meta, "val": node.meta["val"][0]}
            for user in list(node.users):
                user.replace_all_uses_with(norm)
                graph.erase_node(user)
            graph.erase_node(node)
    traced.recompile()
    return traced


def sources(module: GraphModule) -> dict[Node, set[Node]]:
    """For each value that depends on the input's numbers, not on its shape alone: all such values it is made from."""
    nodes = list(module.graph.nodes)
    start = next(node for node in nodes if node.op == "placeholder")
    above: dict[Node, set[Node]] = {}
    for node in nodes:
        given = [above[parent] for parent in node.all_input_nodes if parent in above]
        sized = isinstance(node.meta.get("val"), (torch.SymInt, torch.SymBool, torch.SymFloat))
        if node is start or (given and not sized):
            above[node] = {node}.union(*given)
    return above


def skips_of(module: GraphModule) -> list[Skip]:
    """The skips of a graph, in execution order."""
    above = sources(module)
    order = {node: i for i, node in enumerate(module.graph.nodes)}
    found, parts = [], []
    for node in order:
        parents = [p for p in node.all_input_nodes if p in above]
        if node.op != "call_function" or op_name(node.target) not in _SUMS or len(parents) != 2:
            continue
        source = _parting(above, order, *parents)
        lengths = [_layers(above[parent] - above[source]) for parent in parents]
        if lengths[0] == lengths[1]:
            continue  # two equal ways: parallel branches, no skip
        short, long = (0, 1) if lengths[0] < lengths[1] else (1, 0)
        if not any(_mixes(inner) for inner in above[parents[long]] - above[source]):
            continue  # one elementwise function of s
        path = module_path(node)
        identity = parents[short] is source
        found.append(Skip(path or "model", path, identity, node.name, source.name, parents[long].name))
        parts.append(module_path(_working(parents[long], above)))
    return _named(found, parts)


def _working(node: Node, above: dict[Node, set[Node]]) -> Node:
    """The last op of a way that does something: what follows it (a dropout in eval mode, a view) names no part."""
    while op_name(node.target) in _MOVES and node.op == "call_function":
        given = [parent for parent in node.all_input_nodes if parent in above]
        if len(given) != 1:
            break
        node = given[0]
    return node


def _named(found: list[Skip], parts: list[str]) -> list[Skip]:
    """Names that differ: where a block adds several times, by the part that is added, then by number."""
    several = Counter(skip.path for skip in found)
    named = []
    for skip, part in zip(found, parts, strict=True):
        child = part.removeprefix(skip.path).lstrip(".").partition(".")[0] if part.startswith(skip.path) else ""
        deeper = f"{skip.path}.{child}".lstrip(".") if child else skip.name
        named.append(replace(skip, name=deeper if several[skip.path] > 1 else skip.name))
    names = numbered([skip.name for skip in named])
    return [replace(skip, name=name) for skip, name in zip(named, names, strict=True)]


def _parting(above: dict[Node, set[Node]], order: dict[Node, int], a: Node, b: Node) -> Node:
    """The last value that every way from the input to `a` and to `b` goes through."""
    common = sorted(above[a] & above[b], key=order.__getitem__, reverse=True)
    for candidate in common:
        beyond = (above[a] | above[b]) - above[candidate]
        if all(p in beyond or p is candidate for node in beyond for p in node.all_input_nodes if p in above):
            return candidate
    raise AssertionError("the input is above everything")


def _layers(nodes: set[Node]) -> int:
    """Ops with parameters or folds among nodes; the rest (views, getitem) does not make a way longer."""
    return sum(node.op == "call_function" and node.target is not operator.getitem and op_name(node.target) not in _IDLE
               for node in nodes)  # fmt: skip


def _mixes(node: Node) -> bool:
    """Whether an op combines different numbers of one value: not elementwise, and no mere change of places."""
    if node.op != "call_function" or node.target is operator.getitem or op_name(node.target) in _MOVES:
        return False
    return torch.Tag.pointwise not in getattr(node.target, "tags", ())
