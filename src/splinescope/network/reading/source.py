"""What is read once from an exported graph: its nodes that matter, its ending, and where a node comes from."""

import operator
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

from ..ops import operation
from ..ops.call import op_name
from ..ops.reshapes import IDENTITIES, RESHAPES


def find_ending(output: Node) -> tuple[Node, str | None, list[Node]]:
    """The node before any ending (softmax...), its name, and its nodes in order, shape changes after it among them."""
    labels: list[str] = []
    passed: list[Node] = []
    tail: list[Node] = []
    found = node = output
    while node.op == "call_function":
        op = op_name(node.target)
        label = operation(op).ending
        passed.append(node)
        if node.target is operator.getitem and node.args[1] == 1:
            source = node.args[0]
            label = {"max": "argmax", "min": "argmin"}.get(op_name(source.target)) if isinstance(source, Node) else None
            node = source if label and isinstance(source, Node) else node
        elif label is None and op not in {*RESHAPES, *IDENTITIES}:
            break
        if node.target is operator.getitem or not node.args or not isinstance(node.args[0], Node):
            break
        node = node.args[0]
        if label is not None:
            labels.append(label)
            found, tail = node, list(passed)
    return found, ", ".join(reversed(labels)) or None, tail[::-1]


def ancestors(node: Node) -> set[Node]:
    """The node and all it is computed from."""
    seen: set[Node] = set()
    stack = [node]
    while stack:
        current = stack.pop()
        if current not in seen:
            seen.add(current)
            stack.extend(current.all_input_nodes)
    return seen


class Source:
    """What is read once from an exported graph: its nodes from input to output, and those of the ending, `tail`.

    `text` is one line per node, alike for all dtypes and devices.
    """

    def __init__(self, graph: Graph, input_node: Node, output: Node) -> None:
        self.input = input_node
        self.output, self.ending, self.tail = find_ending(output)
        used = ancestors(self.output)
        self.nodes = [node for node in graph.nodes if node in used]
        self.input_shape = tuple(int(n) for n in input_node.meta["val"].shape[1:])
        self.text = {node: _text(node) for node in self.nodes}

    def finish(self, values: Tensor) -> Tensor | None:
        """The ending on a batch of the program's outputs; None where it is not continuous (argmax)."""
        for node in self.tail:
            value = node.meta["val"]
            if not is_floating(value):
                return None
            if op_name(node.target) in {*RESHAPES, *IDENTITIES}:
                values = values.reshape(len(values), *value.shape[1:])
            else:
                kwargs = {key: given for key, given in node.kwargs.items() if key != "dtype"}
                values = node.target(values, *node.args[1:], **kwargs)  # type: ignore[operator]
        return values


def _text(node: Node) -> str:
    kwargs = {key: value for key, value in node.kwargs.items() if key not in {"dtype", "device"}}
    return f"{node.name} {node.target} {node.args} {kwargs}\n"


def has_symbols(node: Node) -> bool:
    """Whether a size of the node's output depends on the number of rows."""
    return "rows" in node.meta or any(isinstance(n, torch.SymInt) for n in node.meta["val"].shape)


def is_floating(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def module_path(node: Node) -> str:
    """Path in the user's model of the module that made this node."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = stack[-1][0] if stack else ""
    return "" if path.startswith("_empty") else path


def module_kind(node: Node) -> str:
    """Class name of that module."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    kind = stack[-1][1] if stack else ""
    return (kind if isinstance(kind, str) else kind.__name__).rpartition(".")[2] or "model"
