"""ONNX files as torch modules: what does not depend on the input is computed once, when the file is read.

What does is read for one row as the file says, and then for many rows: in its first axis if the file runs so, else in
an axis of their own. Rows together must give what each gives alone.
"""

import math
import re
from collections.abc import Mapping
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
from .onnx_ops import OPERATORS, Arguments, Layout, Node, Unread
from .onnx_shapes import DTYPES

OPTIONS = {"Clip": {1, 2}, "Resize": {1, 2, 3}, "Upsample": {1}, "Pad": {2}, "Dropout": {1}}
"""Floating inputs that are options rather than weights."""

LATEST = 26  # the opset whose operators are known; later ones are read where an operator has not changed since
MOST_NUMBERS = 2**24  # of one value, for one row: five times those of the widest layer of VGG16

_LAYERS = {"MatMul", "Gemm", "Conv", "ConvTranspose", "BatchNormalization"}
_STATISTICS = {"BatchNormalization": {3, 4}}  # inputs that are measured, not trained


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
        self.node, self.live, self.layout, self.options = node, live, layout, OPTIONS.get(node.op, set())

    def forward(self, *inputs: Any) -> dict[str, Tensor]:
        return Arguments(self.node, inputs, self.live, self.layout).results()


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
        """Names of the buffers of layers and of what comes after one: what a training would have made."""
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
        found = self.results(x)
        return found[self.output_names[0]] if len(found) == 1 else found

    def results(self, x: Tensor) -> dict[str, Tensor]:
        """Every output by name."""
        values: dict[str, Any] = {**self.constants, "": None}
        values.update((name, getattr(self, buffer)) for name, buffer in self.buffer_names.items())
        values[self.input_name] = x.reshape(x.shape[0], *self.file_shape) if self.layout == "stacked" else x
        for name, inputs, _ in self.wiring:
            node: OnnxNode = getattr(self, name)
            given = (self.constants[i] if k in node.options and i else values[i] for k, i in enumerate(inputs))
            values.update(node(*given))
        return {name: self._finished(name, values[name], x) for name in self.output_names}

    def _finished(self, name: str, value: Any, x: Tensor) -> Tensor:
        """An output of many rows; one that does not depend on them is repeated."""
        if name in self.buffer_names or name in self.constants:
            value = torch.as_tensor(value)
            if self.layout != "file":
                value = value.expand(x.shape[0], *value.shape[int(self.layout == "rows") :])
        leading = self.layout == "stacked" and value.dim() > 2 and value.shape[1] == 1
        return value.squeeze(1) if leading else value


class SizeLimit(Operators):
    """Computes the sizes of values before they get memory, which no small file may ask for at will."""

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        def shadow(value: Any) -> Any:
            return torch.empty_like(value, device="meta") if isinstance(value, Tensor) else value

        if torch.Tag.data_dependent_output not in func.tags and torch.Tag.dynamic_output_shape not in func.tags:
            device = {"device": "meta"} if any(a.name == "device" for a in func._schema.arguments) else {}
            made = func(*tree_map(shadow, args), **{**tree_map(shadow, kwargs), **device})
            size = max((leaf.numel() for leaf in tree_leaves(made) if isinstance(leaf, Tensor)), default=0)
            if size > MOST_NUMBERS:
                raise Unread(f"a value of {size:,} numbers for one row, where at most {MOST_NUMBERS:,} are read")
        return func(*args, **kwargs)


def read_onnx(path: Path, fixed: Mapping[str, Any] | None = None) -> list[OnnxNetwork]:
    """The network of an ONNX file (opset 8 or later), in every layout of rows in which it runs; the best first."""
    model = require("onnx", "onnx").load(str(path), load_external_data=False)
    opset = check_nodes(model, path)
    load_external(model.graph, path)
    check_graph(model)
    graph, free = folded(model.graph, opset, path, fixed or {})
    layouts: list[Layout] = ["rows"] if graph.shape[:1] == (1,) and (free or len(graph.shape) > 1) else []
    found = [OnnxNetwork(graph, layout) for layout in [*layouts, "stacked"]]
    fitting = [network for network in found if runs_by_row(network, OnnxNetwork(graph, "file"), graph.largest)]
    if not fitting:
        raise UnsupportedModelError(f"{path}: its operations hold for one row at a time, and not for several together.")
    return fitting


def runs_by_row(network: OnnxNetwork, exact: OnnxNetwork, largest: float) -> bool:
    """Whether rows together give what the file, as it is written, gives for each."""
    x = torch.randn(3, *network.input_shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with torch.no_grad():
        alone = [exact.results(row.reshape(exact.file_shape)) for row in x]
        try:
            together = network.results(x)
        except (RuntimeError, ValueError, IndexError, TypeError, Unread):  # the file does not take rows in this way
            return False
    for i, row in enumerate(alone):
        for name, value in row.items():
            whole = together[name]
            mine = whole[i : i + 1] if network.layout == "rows" else whole[i].reshape(value.shape)
            if len(whole) != len(x) or not alike(mine, value, largest):
                return False
    return True


def check_nodes(model: Any, path: Path) -> int:
    """The opset of a file; refused, by name, is every node that is not an operator of ONNX as it is known here."""
    onnx = require("onnx", "onnx")
    for named in (*model.opset_import, *model.graph.node, *model.functions):
        if named.domain == "ai.onnx":  # the other name of ONNX's own domain, which its checker does not know
            named.domain = ""
    imported = {o.version for o in model.opset_import if not o.domain}
    opset = max(imported, default=0)
    if opset < 8 or len(imported) > 1:
        raise FileFormatError(
            f"{path} uses ONNX opset {', '.join(map(str, sorted(imported))) or 0}; one, of 8 and later, is read: "
            "convert it with onnx.version_converter."
        )
    local = {(function.domain, function.name) for function in model.functions}
    unknown = set()
    for node in model.graph.node:
        standard = not node.domain
        if (node.domain, node.op_type) in local:
            unknown.add(f"{node.op_type} (a function of the file; onnx.inliner.inline_local_functions writes it out)")
        elif not standard or node.op_type not in OPERATORS:
            unknown.add(node.op_type if standard else f"{node.domain}.{node.op_type}")
        elif onnx.defs.get_schema(node.op_type, opset, "").since_version > LATEST:
            unknown.add(f"{node.op_type} (as of opset {opset}; {LATEST} is the latest that is known)")
    if unknown:
        raise UnsupportedModelError(f"{path} has operators that are not read: {', '.join(sorted(unknown))}.")
    if model.graph.sparse_initializer:
        raise UnsupportedModelError(f"{path} has sparse constants, which are not read: make them dense.")
    return opset


def check_graph(model: Any) -> None:
    """Have onnx refuse values, attributes and types that do not fit the operators."""
    onnx = require("onnx", "onnx")
    graph, made = model.graph, onnx.helper.make_tensor_value_info
    given = {value.name for value in graph.initializer}
    typed = [value for value in graph.input if value.name not in given]
    typed += [made(value.name, value.data_type, value.dims) for value in graph.initializer]  # without their numbers
    light = onnx.helper.make_graph(graph.node, "graph", typed, [])
    light = onnx.helper.make_model(light, opset_imports=model.opset_import, ir_version=model.ir_version)
    onnx.checker.check_model(light)
    onnx.shape_inference.infer_shapes(light, check_type=True)


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
        depends = [value in live and node.op_type not in ("Shape", "Size") for value in node.input]
        made = computed(mine, [values.get(value) for value in node.input], depends, f"{path}: {called}")
        values.update(made)
        every.append((mine, depends))
        if any(depends):
            live.update(made)
            nodes.append(mine)
    outputs = [value.name for value in graph.output]
    if not outputs or any(output not in values for output in outputs):
        raise UnsupportedModelError(f"{path} has no output, or one that no operator makes that is read: {outputs}.")
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
    """Refuse a file of a free batch size that mixes three rows; one that does not run on them is meant for one."""
    x = torch.randn((3, *graph.shape[1:]), generator=torch.Generator().manual_seed(2), dtype=torch.float64)

    def run(rows: Tensor) -> list[Tensor]:
        values = {**constants, graph.input: rows}
        for node, live in nodes:
            values.update(Arguments(node, [values.get(value) for value in node.inputs], live).results())
        return [values[name] for name in graph.outputs]

    with torch.no_grad():
        try:
            whole, *alone = (run(rows) for rows in (x, *x.split(1)))
        except (RuntimeError, ValueError, IndexError, TypeError, Unread):
            return
    for one, rows in zip(whole, zip(*alone, strict=True), strict=True):
        same = len({row.shape for row in rows}) == 1 and rows[0].dim() and alike(one, torch.cat(rows), graph.largest)
        if not same and not all(alike(one, row, graph.largest) for row in rows):
            raise UnsupportedModelError(
                f"{path} mixes the rows of a batch, whose size it leaves free: three rows together give other results "
                "than each alone. A file that is meant for one row at a time must have a batch size of 1."
            )


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
    arguments = Arguments(node, inputs, live)
    try:
        with torch.no_grad(), SizeLimit():
            made = arguments.results()
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
    unknown = not kind.HasField("shape") or 0 in found[1:] or min(found, default=1) < 0
    if unknown or math.prod(size or 1 for size in found) > MOST_NUMBERS:
        raise FileFormatError(
            f"{path}: the input must have known sizes, but for that of the batch, and at most {MOST_NUMBERS:,} "
            f"numbers; got {_shown(found)} (N: free)."
        )
    return name, found


def as_given(name: str, value: Any, sizes: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """The value of a fixed input, with or without its batch axis."""
    if np.asarray(value).dtype.kind not in "biuf":
        raise InputError(f"fixed[{name!r}] must be numbers, got {value!r:.60}.")
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
