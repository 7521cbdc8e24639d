"""Skip connections of real models: find them, switch them off without retraining, compare their conditioning.

A skip is an addition `F(s) + S(s)` of two ways from one value s, of which one (S) is much shorter: nothing at all, or a
projection. Switched off, the sum becomes `F(s)`; all other parameters stay.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Interpreter, Node

from .._errors import InputError
from ..network._export import as_batch, export
from ..network._lower import module_path, op_name
from ._losses import check_data, check_model
from .conditioning import Conditioning, condition_number, skip_bound
from .hessian import row_jacobians

_SUMS = {"add", "add_"}


@dataclass(frozen=True)
class Skip:
    """One skip connection.

    Attributes:
        name: Name of the addition in the exported graph: what `without_skips` takes.
        path: Module path of the block that adds.
        source: Name of the value s where the two ways part.
        branch: Name of the value F(s), the long way.
        identity: Whether the short way is the value itself, not a projection.
    """

    name: str
    path: str
    source: str
    branch: str
    identity: bool


def find_skips(model: nn.Module, x: Any) -> list[Skip]:
    """The skip connections of a model in eval mode, in execution order; `x` is an example batch."""
    return _skips(_graph_module(model, x))


def without_skips(model: nn.Module, x: Any, skips: Sequence[Skip | str] | None = None) -> nn.Module:
    """A copy of the model with skip connections switched off: `F(s) + S(s)` becomes `F(s)`.

    Args:
        model: A module in eval mode; it is not changed.
        x: An example batch.
        skips: Which (from `find_skips`, or their names); all of them by default.

    Returns:
        A module with copies of the same parameters under the same names.

    Example:
        >>> plain = without_skips(resnet, images)    # doctest: +SKIP
    """
    graph_module = _graph_module(model, x)
    known = {skip.name: skip for skip in _skips(graph_module)}
    names = list(known) if skips is None else [s.name if isinstance(s, Skip) else s for s in skips]
    for name in names:
        if name not in known:
            raise InputError(f"skips must be among {', '.join(known) or 'none: the model has no skips'}, got {name!r}.")
    nodes = {node.name: node for node in graph_module.graph.nodes}
    for name in names:
        nodes[name].replace_all_uses_with(nodes[known[name].branch])
    graph_module.graph.eliminate_dead_code()
    graph_module.recompile()
    return graph_module


def skip_conditioning(model: nn.Module, x: Any) -> dict[str, tuple[Conditioning, Conditioning]]:
    """For every skip of a model: conditioning of its block with the skip and with it switched off, at each data point.

    The block map is the Jacobian of the sum with respect to s: `F' + S'` with, `F'` without. For identity skips `norm`
    is `|F'|` and `bound` the skip bound `(1 + |F'|) / (1 - |F'|)`; for projections there is no such bound (inf).

    Args:
        model: A module in eval mode.
        x: `[N, ...]` data points.

    Returns:
        Skip name -> (with, without), arrays of shape `[N]`. Exact at these points (and on their tiles).

    Cost: per skip and point, one Jacobian and SVDs of the size of the value s.
    """
    graph_module = _graph_module(model, x).double()
    inputs, _ = check_data(x, np.zeros(len(x)), torch.float64)
    result = {}
    for skip in _skips(graph_module):
        whole = _jacobians(graph_module, inputs, skip.source, skip.name)
        branch = _jacobians(graph_module, inputs, skip.source, skip.branch)
        norm = np.linalg.norm(branch, 2, axis=(-2, -1))
        bound = skip_bound(norm) if skip.identity else np.full_like(norm, np.inf)
        unbounded = np.full_like(norm, np.inf)
        result[skip.name] = (
            Conditioning(condition_number(whole), norm, bound),
            Conditioning(condition_number(branch), norm, unbounded),
        )
    return result


def _graph_module(model: nn.Module, x: Any) -> GraphModule:
    """A traced copy of the model, with its own parameters, whose graph can be edited."""
    model = copy.deepcopy(check_model(model))
    module = export(model, as_batch(model, x)).module()
    graph = module.graph
    for node in list(graph.nodes):
        if node.op == "call_module" and node.target == "_guards_fn":
            graph.erase_node(node)
        elif op_name(node.target) == "_native_batch_norm_legit_no_training":  # has no batching rule for vmap
            x, weight, bias, mean, variance, _, eps = node.args
            with graph.inserting_before(node):
                norm = graph.call_function(nn.functional.batch_norm, (x, mean, variance, weight, bias, False, 0.0, eps))
            for user in list(node.users):
                user.replace_all_uses_with(norm)
                graph.erase_node(user)
            graph.erase_node(node)
    module.recompile()
    return module


def _skips(module: GraphModule) -> list[Skip]:
    nodes = list(module.graph.nodes)
    start = next(node for node in nodes if node.op == "placeholder")
    above: dict[Node, set[Node]] = {}  # live values each node is computed from, itself included
    for node in nodes:
        given = [above[parent] for parent in node.all_input_nodes if parent in above]
        if node is start or given:
            above[node] = {node}.union(*given)
    order = {node: i for i, node in enumerate(nodes)}
    found = []
    for node in nodes:
        parents = [p for p in node.all_input_nodes if p in above]
        if node.op != "call_function" or op_name(node.target) not in _SUMS or len(parents) != 2:
            continue
        source = _parting(above, order, *parents)
        lengths = [_layers(above[parent] - above[source]) for parent in parents]
        if lengths[0] == lengths[1]:
            continue  # two equal ways: parallel branches, no skip
        short, long = (0, 1) if lengths[0] < lengths[1] else (1, 0)
        identity = parents[short] is source
        found.append(Skip(node.name, module_path(node), source.name, parents[long].name, identity))
    return found


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
    idle = {"view", "reshape", "flatten", "permute", "transpose", "contiguous", "clone", "dropout", "alias"}
    return sum(node.op == "call_function" and node.target is not operator.getitem and op_name(node.target) not in idle
               for node in nodes)  # fmt: skip


def _jacobians(module: GraphModule, x: Tensor, source: str, target: str) -> np.ndarray:
    """`[N, m, n]` Jacobian of one value of the graph with respect to another, at each point."""
    values = _Recorder(module, {source})
    with torch.no_grad():
        values.run(x)

    def onward(value: Tensor) -> Tensor:
        recorder = _Recorder(module, {target}, replace={source: value})
        recorder.run(x)
        return recorder.kept[target]

    return row_jacobians(onward, values.kept[source])


class _Recorder(Interpreter):
    """Runs a graph, keeps some values, and replaces others by given ones."""

    def __init__(self, module: GraphModule, keep: set[str], replace: dict[str, Tensor] | None = None) -> None:
        super().__init__(module, garbage_collect_values=False)
        self._keep, self._replace = keep, replace or {}
        self.kept: dict[str, Tensor] = {}

    def run_node(self, n: Node) -> Any:
        value = self._replace[n.name] if n.name in self._replace else super().run_node(n)
        if n.name in self._keep:
            self.kept[n.name] = value
        return value
