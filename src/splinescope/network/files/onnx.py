"""ONNX files as torch modules: a small interpreter on the `onnx` package.

What does not depend on the input is computed once, when the file is read. What does is read for one row exactly as
the file says, and then for many rows: in its first axis if the file runs so, else in an axis of their own. Rows
together must give what each gives alone.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from splinescope.support.checks import as_rows, require
from splinescope.support.errors import FileFormatError, InputError, UnsupportedModelError

from ..watching.intercept import Operators
from .onnx_ops import OPERATORS, Arguments, Layout, Unread
from .onnx_shapes import DTYPES

OPTIONS = {"Clip": {1, 2}, "Resize": {1, 2, 3}, "Upsample": {1}, "Pad": {2}, "Dropout": {1}}
"""Floating inputs that are options rather than weights."""

LATEST = 26  # the opset whose operators are known; later ones are read where an operator has not changed since
MOST_NUMBERS = 2**24  # of one value, for one row: five times those of the widest layer of VGG16

_LAYERS = {"MatMul", "Gemm", "Conv", "ConvTranspose", "BatchNormalization"}
_STATISTICS = {"BatchNormalization": {3, 4}}  # inputs that are measured, not trained


@dataclass(frozen=True)
class Node:
    """One node of a graph: its module's name, operator, names of inputs ("": not given) and outputs, attributes."""

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    opset: int

    def arguments(self, inputs: Iterable[Any], live: Iterable[bool], layout: Layout) -> Arguments:
        named = sum(bool(name) for name in self.outputs)
        return Arguments(self.op, list(inputs), list(live), self.attributes, self.opset, named, layout)

    def results(self, arguments: Arguments) -> dict[str, Tensor]:
        """Values by name; an optional output that is not computed has none."""
        result = OPERATORS[self.op](arguments)
        several = result if isinstance(result, (tuple, list)) else (result,)
        return {name: value for name, value in zip(self.outputs, several, strict=False) if name}


@dataclass(frozen=True)
class Graph:
    """A file as read: nodes that depend on the input, the constants they use, the size of a random row's values."""

    nodes: list[Node]
    constants: dict[str, Tensor]
    input: str
    outputs: list[str]
    shape: tuple[int, ...]
    largest: float


class OnnxNode(nn.Module):
    """One node of an ONNX graph, so that sites carry its name."""

    def __init__(self, node: Node, live: list[bool], layout: Layout) -> None:
        super().__init__()
        self.node, self.live, self.layout = node, live, layout

    def forward(self, *inputs: Any) -> dict[str, Tensor]:
        return self.node.results(self.node.arguments(inputs, self.live, self.layout))


class OnnxNetwork(nn.Module):
    """An ONNX graph of one input; several outputs come as a dict by name. Floating constants are float64 buffers."""

    def __init__(self, graph: Graph, layout: Layout) -> None:
        super().__init__()
        self.layout, self.input_name, self.output_names = layout, graph.input, graph.outputs
        self.file_shape = graph.shape
        self.constants: dict[str, np.ndarray] = {}
        self.buffer_names: dict[str, str] = {}
        self.wiring: list[tuple[str, list[str], list[str]]] = []
        for node in graph.nodes:
            live = [name != "" and name not in graph.constants for name in node.inputs]
            self.add_module(node.name, OnnxNode(node, live, layout))
            self.wiring.append((node.name, list(node.inputs), list(node.outputs)))
            for k, name in enumerate(node.inputs):
                if name in graph.constants:
                    self._add_constant(name, graph.constants[name], k in OPTIONS.get(node.op, ()))
        for name in graph.outputs:
            if name in graph.constants:
                self._add_constant(name, graph.constants[name], False)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Of one row: the first axis of the file, if it is of size 1, is that of the batch."""
        shape = self.file_shape
        return shape[1:] if self.layout == "rows" or (len(shape) > 1 and shape[0] == 1) else shape

    def trained(self) -> list[str]:
        """Names of the buffers that a training would have made: not what prepares the input (its mean, its scale).

        An ONNX file does not tell: meant are constants of layers and of what comes after one, statistics left out.
        """
        behind, found = set[str](), dict.fromkeys(self.buffer_names.values(), False)
        for name, inputs, outputs in self.wiring:
            op = getattr(self, name).node.op
            if op in _LAYERS or behind & set(inputs):
                behind.update(outputs)
                own = [i for k, i in enumerate(inputs) if k not in _STATISTICS.get(op, ())]
                found.update((self.buffer_names[i], True) for i in own if i in self.buffer_names)
        return [buffer for buffer, is_trained in found.items() if is_trained]

    def _add_constant(self, name: str, value: Tensor, option: bool) -> None:
        """Weights become buffers; integers (shapes, axes, indices) and options stay plain."""
        if not value.is_floating_point() or option:
            self.constants[name] = (value.double() if value.is_floating_point() else value).numpy()
        elif name not in self.buffer_names:
            self.buffer_names[name] = f"{_safe(name)}_{len(self.buffer_names)}"
            self.register_buffer(self.buffer_names[name], value.double())

    def forward(self, x: Tensor) -> Any:
        values: dict[str, Any] = {**self.constants, "": None}
        values.update((name, getattr(self, buffer)) for name, buffer in self.buffer_names.items())
        values[self.input_name] = x.reshape(x.shape[0], *self.file_shape) if self.layout == "stacked" else x
        for name, inputs, _ in self.wiring:
            node: OnnxNode = getattr(self, name)
            options = OPTIONS.get(node.node.op, set())
            values.update(node(*(self.constants[i] if k in options and i else values[i] for k, i in enumerate(inputs))))
        found = {name: self._finished(name, values[name], x) for name in self.output_names}
        return found[self.output_names[0]] if len(found) == 1 else found

    def _finished(self, name: str, value: Any, x: Tensor) -> Tensor:
        """An output of many rows; one that does not depend on them is repeated."""
        if name in self.buffer_names or name in self.constants:
            value = torch.as_tensor(value)
            if self.layout != "file":
                value = value.expand(x.shape[0], *value.shape[int(self.layout == "rows") :])
        leading = self.layout == "stacked" and value.dim() > 2 and value.shape[1] == 1
        return value.squeeze(1) if leading else value


class Frugal(Operators):
    """Computes the sizes of values before they get memory, which no small file may ask for at will."""

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        def shadow(value: Any) -> Any:
            return torch.empty_like(value, device="meta") if isinstance(value, Tensor) else value

        if torch.Tag.data_dependent_output not in func.tags and torch.Tag.dynamic_output_shape not in func.tags:
            device = {"device": "meta"} if any(a.name == "device" for a in func._schema.arguments) else {}
            made = func(*tree_map(shadow, args), **{**tree_map(shadow, kwargs), **device})
            check_size(max((leaf.numel() for leaf in tree_leaves(made) if isinstance(leaf, Tensor)), default=0))
        return func(*args, **kwargs)


def check_size(numbers: int) -> None:
    if numbers > MOST_NUMBERS:
        raise Unread(f"a value of {numbers:,} numbers for one row, where at most {MOST_NUMBERS:,} are read")


def read_onnx(path: Path, fixed: Mapping[str, Any] | None = None) -> list[OnnxNetwork]:
    """The network of an ONNX file (opset 8 or later), in every layout of rows in which it runs; the best first."""
    onnx = require("onnx", "onnx")
    model = onnx.load(str(path), load_external_data=False)
    if model.ir_version > onnx.IR_VERSION:
        raise FileFormatError(
            f"{path} is of version {model.ir_version} of ONNX files; the installed onnx reads up to {onnx.IR_VERSION}."
        )
    opset = check_nodes(model, path)
    check_wiring(model.graph, path)
    load_external(model.graph, path)
    graph, free = folded(model.graph, opset, path, fixed or {})
    layouts: list[Layout] = ["rows"] if graph.shape[:1] == (1,) and (free or len(graph.shape) > 1) else []
    found = [OnnxNetwork(graph, layout) for layout in [*layouts, "stacked"]]
    fitting = [network for network in found if runs_by_row(network, OnnxNetwork(graph, "file"), graph.largest)]
    if not fitting:
        raise UnsupportedModelError(f"{path}: its operations hold for one row at a time, and not for several together.")
    return fitting


def runs_by_row(network: OnnxNetwork, exact: OnnxNetwork, largest: float) -> bool:
    """Whether rows together give what the file, as it is written, gives for each."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, *network.input_shape, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        alone = [as_dict(exact(row.reshape(exact.file_shape))) for row in x]
        try:
            together = as_dict(network(x))
        except (RuntimeError, ValueError, IndexError, TypeError, Unread):  # the file does not take rows in this way
            return False
    for i, row in enumerate(alone):
        for name, value in row.items():
            whole = together[name]
            mine = whole[i : i + 1] if network.layout == "rows" else whole[i].reshape(value.shape)
            if len(whole) != len(x) or not alike(mine, value, largest):
                return False
    return True


def as_dict(result: Any) -> dict[str, Tensor]:
    return result if isinstance(result, dict) else {"": result}


def check_nodes(model: Any, path: Path) -> int:
    """The opset of a file; refused, by name, is every node that is not an operator of ONNX as it is known here."""
    onnx = require("onnx", "onnx")
    imported = {o.version for o in model.opset_import if o.domain in ("", "ai.onnx")}
    opset = max(imported, default=0)
    if opset < 8 or len(imported) > 1:
        raise FileFormatError(
            f"{path} uses ONNX opset {', '.join(map(str, sorted(imported))) or 0}; one, of 8 and later, is read: "
            "convert it with onnx.version_converter."
        )
    local = {(function.domain, function.name) for function in model.functions}
    unknown = set()
    for node in model.graph.node:
        standard = node.domain in ("", "ai.onnx")
        if (node.domain, node.op_type) in local:
            unknown.add(f"{node.op_type} (a function of the file; onnx.inliner.inline_local_functions writes it out)")
        elif not standard or node.op_type not in {*OPERATORS, "Constant"}:
            unknown.add(node.op_type if standard else f"{node.domain}.{node.op_type}")
        elif onnx.defs.get_schema(node.op_type, opset, "").since_version > LATEST:
            unknown.add(f"{node.op_type} (as of opset {opset}; {LATEST} is the latest that is known)")
    if unknown:
        raise UnsupportedModelError(f"{path} has operators that are not read: {', '.join(sorted(unknown))}.")
    context = onnx.checker.C.CheckerContext()
    context.ir_version, context.opset_imports = model.ir_version, {"": opset, "ai.onnx": opset}
    for node in model.graph.node:
        onnx.checker.check_node(node, context)
    if model.graph.sparse_initializer:
        raise UnsupportedModelError(f"{path} has sparse constants, which are not read: make them dense.")
    check_types(model, path)
    return opset


def check_types(model: Any, path: Path) -> None:
    """Refuse types of values that contradict the operators, or what makes the value; constants by types alone."""
    onnx = require("onnx", "onnx")
    graph, made = model.graph, onnx.helper.make_tensor_value_info
    given = {value.name: value for value in graph.initializer}
    typed = [value for value in graph.input if value.name not in given]
    typed += [made(value.name, value.data_type, value.dims) for value in graph.initializer]
    untyped = [onnx.ValueInfoProto(name=value.name) for value in graph.output]
    light = onnx.helper.make_graph(graph.node, "types", typed, untyped)
    light = onnx.helper.make_model(light, opset_imports=model.opset_import, ir_version=model.ir_version)
    inferred = onnx.shape_inference.infer_shapes(light, check_type=True).graph
    types = {value.name: value.type.tensor_type.elem_type for value in (*typed, *inferred.value_info, *inferred.output)}
    for value in (*graph.input, *graph.value_info, *graph.output):
        kind, found = value.type.tensor_type, types.get(value.name)
        sizes = [size.dim_value for size in kind.shape.dim]
        if value.name in given and kind.HasField("shape") and sizes != list(given[value.name].dims):
            raise FileFormatError(
                f"{path}: the constant {value.name!r} is said to have shape {sizes}, and has {given[value.name].dims}."
            )
        if value.type.HasField("tensor_type") and found and kind.elem_type != found:
            known = {number: name for name, number in onnx.TensorProto.DataType.items()}
            names = [f"{known.get(number, 'unknown')} ({number})" for number in (kind.elem_type, found)]
            raise FileFormatError(f"{path}: {value.name!r} is said to be of type {names[0]} and is of {names[1]}.")


def check_wiring(graph: Any, path: Path) -> None:
    """Refuse graphs in which a value is used before anything made it, or made twice."""
    given = [value.name for value in graph.initializer]
    known = {"", *(value.name for value in graph.input), *given}
    made = [name for node in graph.node for name in node.output if name]
    inputs = [value.name for value in graph.input]
    twice = [n for names in (given, inputs, made) for n, count in Counter(names).items() if count > 1]
    twice += [name for name in made if name in known]
    if twice:
        raise FileFormatError(f"{path}: two values have the name {twice[0]!r}.")
    for node in graph.node:
        missing = [name for name in node.input if name not in known]
        if missing:
            raise FileFormatError(f"{path}: node {node.name or node.op_type} uses {missing[0]!r}, which nothing makes.")
        known.update(node.output)
    if not graph.output or any(not value.name or value.name not in known for value in graph.output):
        raise FileFormatError(f"{path} is not a readable ONNX file: it has no output, or one that nothing makes.")


def load_external(graph: Any, path: Path) -> None:
    """Constants that lie in files beside, which must be as long as they are said to be."""
    helper = require("onnx.external_data_helper", "onnx")
    tensors = [*graph.initializer, *(a.t for node in graph.node for a in node.attribute if a.HasField("t"))]
    for tensor in tensors:
        if helper.uses_external_data(tensor):
            data = helper.ExternalDataInfo(tensor)
            there = (path.parent / data.location).stat().st_size
            if (data.offset or 0) + (data.length or 0) > there:
                raise FileFormatError(f"{path}: {tensor.name!r} is longer than the {there:,} bytes of {data.location}.")
            helper.load_external_data_for_tensor(tensor, str(path.parent))


def folded(graph: Any, opset: int, path: Path, fixed: Mapping[str, Any]) -> tuple[Graph, bool]:
    """What depends on the input, as nodes; all else computed. And whether the file leaves the batch size free."""
    helper = require("onnx.helper", "onnx")
    constants = {value.name: as_tensor(value, path) for value in graph.initializer}
    name, sizes = the_input(graph, path, constants, fixed)
    shape = tuple(size or 1 for size in sizes)
    values = {**constants, name: torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)}
    live, nodes, every = {name}, [], list[tuple[Node, list[bool]]]()
    for i, node in enumerate(graph.node):
        attributes = {a.name: _decode(helper.get_attribute_value(a), path) for a in node.attribute}
        called = f"{_safe(node.name) or node.op_type}_{i}"
        mine = Node(called, node.op_type, tuple(node.input), tuple(node.output), attributes, opset)
        lost = next((value for value in node.input if value and value not in values), None)
        if lost is not None:
            raise UnsupportedModelError(f"{path}: {called} uses {lost!r}, an output of an operator that is not read.")
        if node.op_type == "Constant":
            constants[node.output[0]] = values[node.output[0]] = constant_of(attributes, f"{path}: {called}")
            continue
        depends = [value in live and node.op_type not in ("Shape", "Size") for value in node.input]
        made = computed(mine, [values.get(value) for value in node.input], depends, f"{path}: {called}")
        values.update(made)
        every.append((mine, depends))
        if any(depends):
            live.update(made)
            nodes.append(mine)
    outputs = [value.name for value in graph.output]
    if lost_outputs := [output for output in outputs if output not in values]:
        raise UnsupportedModelError(f"{path}: its output {lost_outputs[0]!r} is one of an operator that is not read.")
    used = {value for node in nodes for value in node.inputs} | set(outputs)
    kept = {value: values[value] for value in used if value in values and value not in live}
    free = sizes[:1] == (0,)
    largest = max(float(values[value].double().abs().nan_to_num(0, 0, 0).sum()) for value in live)
    read = Graph(nodes, kept, name, outputs, shape, largest)
    if free:
        check_rows_apart(read, every, constants, path)
    return read, free


def check_rows_apart(
    graph: Graph, nodes: list[tuple[Node, list[bool]]], constants: dict[str, Tensor], path: Path
) -> None:
    """Refuse, by the node, a file of a free batch size that runs on three rows and mixes them.

    A file that does not run on three rows is meant for one at a time, whatever it says of its batch. Here all nodes
    run, those too that depend on nothing but shapes.
    """
    x = torch.randn((3, *graph.shape[1:]), generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    last = {value: i for i, (node, _) in enumerate(nodes) for value in node.inputs}

    def run(rows: Tensor, keep: Iterable[str]) -> dict[str, Tensor]:
        values = {**constants, graph.input: rows}
        for i, (node, live) in enumerate(nodes):
            values.update(node.results(node.arguments([values.get(value) for value in node.inputs], live, "file")))
            for value in {*node.inputs} - {*keep}:
                if last[value] == i:
                    values.pop(value, None)
        return values

    def mixed(names: list[str], axes: int) -> list[str]:
        """Those of which three rows are not what each is alone, one after the other along one of the first axes."""
        whole, *alone = (run(rows, names) for rows in (x, *x.split(1)))
        return [v for v in names if not stacked(whole[v], [row[v] for row in alone], axes, graph.largest)]

    with torch.no_grad():
        try:
            wrong = mixed(graph.outputs, 1)
        except (RuntimeError, ValueError, IndexError, TypeError, Unread):
            return
        if not wrong:
            return
        made = [value for node, live in nodes if any(live) for value in node.outputs if value]
        first = next(iter(mixed(made, 8)), wrong[0])
    culprit = next(node for node, _ in nodes if first in node.outputs)
    raise UnsupportedModelError(
        f"{path}: {culprit.name} ({culprit.op}) mixes the rows of a batch, whose size the file leaves free: three rows "
        "together give other results than each alone. A row's result must depend on the row alone; a file that is "
        "meant for one row at a time must have a batch size of 1."
    )


def stacked(whole: Tensor, rows: list[Tensor], axes: int, largest: float) -> bool:
    """Whether a value of several rows is that of each, one after the other in one of the first axes; or one for all."""
    if len({row.shape for row in rows}) > 1:
        return False
    wanted = (torch.cat(rows, axis) for axis in range(min(axes, rows[0].dim())))
    return any(alike(whole, one, largest) for one in wanted) or all(alike(whole, row, largest) for row in rows)


def alike(one: Tensor, other: Tensor, largest: float) -> bool:
    """Whether two values are the same but for roundings, their own and those of the largest terms."""
    if one.shape != other.shape:
        return False
    finite = other[other.isfinite()].abs().double()
    allowed = 1e-9 * (float(finite.max()) if finite.numel() else 0.0) + 1e-14 * largest
    return torch.allclose(one.double(), other.double(), rtol=1e-9, atol=allowed, equal_nan=True)


def computed(node: Node, inputs: list[Any], live: list[bool], where: str) -> dict[str, Tensor]:
    """The values of one node, for one row; refused if it asks for anything that is not read."""
    onnx = require("onnx", "onnx")
    arguments = node.arguments(inputs, live, "file")
    try:
        with torch.no_grad(), Frugal():
            made = node.results(arguments)
        schema = onnx.defs.get_schema(node.op, node.opset, "").attributes
        defaults = {
            name: _decode(onnx.helper.get_attribute_value(known.default_value), where)
            for name, known in schema.items()
            if known.default_value.type
        }
        if unread := arguments.unread(defaults):
            raise Unread(f"{', '.join(unread)} {'is' if len(unread) == 1 else 'are'} not read")
    except Unread as error:
        raise UnsupportedModelError(f"{where} ({node.op}): {error}.") from error
    except Exception as error:  # whatever torch makes of shapes that do not fit each other
        said = str(error).strip().splitlines()
        raise FileFormatError(f"{where} ({node.op}) cannot be computed: {said[0] if said else error!r}") from error
    return made


def the_input(
    graph: Any, path: Path, constants: dict[str, Tensor], fixed: Mapping[str, Any]
) -> tuple[str, tuple[int, ...]]:
    """Name and sizes (0: free) of the one input that is not fixed; the others become constants."""
    inputs = {value.name: value.type.tensor_type for value in graph.input if value.name not in constants}
    sizes = {name: tuple(d.dim_value for d in kind.shape.dim) for name, kind in inputs.items()}
    listed = ", ".join(f"{name} {_shown(size)}" for name, size in sizes.items())
    for name, value in fixed.items():
        if name not in inputs:
            raise InputError(f"fixed must name inputs of {path}, {listed}; got {name!r}.")
        constants[name] = as_given(name, value, sizes.pop(name), DTYPES.get(inputs[name].elem_type, torch.float32))
    if len(sizes) != 1:
        first = next(iter(inputs), "x")
        raise UnsupportedModelError(
            f"{path} must have one input that is not fixed, got {len(sizes)}: {listed or 'none'}. Give values to the "
            f"others: load(path, fixed={{{first!r}: array}})."
        )
    ((name, found),) = sizes.items()
    kind = inputs[name]
    if kind.elem_type not in (1, 10, 11, 16):
        raise UnsupportedModelError(f"{path}: the input {name} must hold floating-point numbers.")
    if not kind.HasField("shape") or 0 in found[1:] or min(found, default=1) < 0:
        raise FileFormatError(
            f"{path}: the input must have known sizes, but for that of the batch, got {_shown(found)} (N: free)."
        )
    if math.prod(size or 1 for size in found) > MOST_NUMBERS:
        raise FileFormatError(
            f"{path}: an input of shape {_shown(found)} is too large; at most {MOST_NUMBERS:,} numbers are read."
        )
    return name, found


def as_given(name: str, value: Any, sizes: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """The value of a fixed input, with or without its batch axis."""
    given = as_rows(np.atleast_1d(np.asarray(value)), f"fixed[{name!r}]").to(dtype)
    for shape in (tuple(np.shape(value)), (1, *np.shape(value))):
        if len(shape) == len(sizes) and all(size in (0, n) for n, size in zip(shape, sizes, strict=True)):
            return given.reshape(shape)
    raise InputError(f"fixed[{name!r}] must have shape {_shown(sizes)}, got {tuple(given.shape)}.")


def as_tensor(proto: Any, path: Path) -> Tensor:
    """A constant of a file, in its own dtype; its sizes must fit its bytes."""
    numpy_helper = require("onnx.numpy_helper", "onnx")
    if min(proto.dims, default=0) < 0 or math.prod(proto.dims) > 8 * proto.ByteSize():
        raise FileFormatError(f"{path}: the constant {proto.name!r} of shape {list(proto.dims)} is too short for it.")
    array = np.array(numpy_helper.to_array(proto))
    if array.dtype.kind == "V":  # bfloat16 and its kin, which numpy has no name for
        array = array.astype(np.float32)
    if array.dtype.kind not in "fiub":
        raise UnsupportedModelError(f"{path}: the constant {proto.name!r} is not made of numbers.")
    return torch.from_numpy(array)


def constant_of(attributes: dict[str, Any], where: str) -> Tensor:
    """The value of a Constant node."""
    kinds = {"value": None, "value_float": np.float32, "value_floats": np.float32, "value_int": np.int64,
             "value_ints": np.int64}  # fmt: skip
    if len(attributes) != 1 or not attributes.keys() <= kinds.keys():
        raise UnsupportedModelError(f"{where} (Constant): {', '.join(attributes) or 'no value'} is not read.")
    ((kind, value),) = attributes.items()
    return torch.from_numpy(np.array(value, dtype=kinds[kind]))


def _decode(value: Any, where: Any) -> Any:
    """An attribute as plain Python: bytes to text, tensors to arrays."""
    if isinstance(value, bytes):
        return value.decode()
    if hasattr(value, "data_type"):
        return as_tensor(value, where).numpy()
    return [_decode(item, where) for item in value] if isinstance(value, (list, tuple)) else value


def _shown(sizes: tuple[int, ...]) -> str:
    return f"({', '.join(str(size) if size else 'N' for size in sizes)})"


def _safe(name: str) -> str:
    return re.sub(r"\W", "_", name)
