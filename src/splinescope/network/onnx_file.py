"""ONNX files as torch modules: a small interpreter on the `onnx` package."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from splinescope._checks import require
from splinescope._errors import FileFormatError, UnsupportedModelError

from . import _onnx_shapes  # noqa: F401  (registers its operators)
from ._onnx_ops import OPERATORS, Arguments

OPTIONS = {"Clip": {1, 2}, "Resize": {1, 2, 3}, "Upsample": {1}, "Pad": {1, 2, 3}}
"""Inputs that are floating options rather than values: they must be constants of the file."""

_LAYERS = {"MatMul", "Gemm", "Conv", "ConvTranspose", "BatchNormalization"}
_STATISTICS = {"BatchNormalization": {3, 4}}  # inputs that are measured, not trained


class OnnxNode(nn.Module):
    """One node of an ONNX graph, so that sites carry its name."""

    def __init__(self, op: str, attributes: dict[str, Any], opset: int, outputs: int) -> None:
        super().__init__()
        self.op, self.attributes, self.opset, self.outputs = op, attributes, opset, outputs

    def forward(self, *inputs: Any) -> Any:
        return OPERATORS[self.op](Arguments(self.op, list(inputs), self.attributes, self.opset, self.outputs))


class OnnxNetwork(nn.Module):
    """An ONNX graph of one input; several outputs come as a dict by name. Floating constants are float64 buffers."""

    def __init__(self, graph: Any, opset: int, input_name: str) -> None:
        super().__init__()
        self.input_name, self.output_names = input_name, [value.name for value in graph.output]
        self.constants: dict[str, Any] = {}
        self.options: dict[str, Any] = {}
        self.buffer_names: dict[str, str] = {}
        self.wiring: list[tuple[str, list[str], list[str]]] = []
        numpy_helper = require("onnx.numpy_helper", "onnx")
        for initializer in graph.initializer:
            self._add_constant(initializer.name, numpy_helper.to_array(initializer))
        helper = require("onnx.helper", "onnx")
        for i, node in enumerate(graph.node):
            attributes = {a.name: _decode(helper.get_attribute_value(a), numpy_helper) for a in node.attribute}
            if node.op_type == "Constant":
                value = next(iter(attributes.values()))
                self._add_constant(node.output[0], np.asarray(value))
                continue
            name = f"{_safe(node.name) or node.op_type}_{i}"
            self.add_module(name, OnnxNode(node.op_type, attributes, opset, len(node.output)))
            options = OPTIONS.get(node.op_type, set())
            unknown = [
                source for k, source in enumerate(node.input) if k in options and source not in {"", *self.options}
            ]
            if unknown:
                raise UnsupportedModelError(f"{name}: {', '.join(unknown)} must be a constant of the file.")
            self.wiring.append((name, list(node.input), list(node.output)))

    def trained(self) -> list[str]:
        """Names of the buffers that a training would have made: not what prepares the input (its mean, its scale).

        An ONNX file does not tell: meant are constants of layers and of what comes after one, statistics left out.
        """
        behind, found = set[str](), dict.fromkeys(self.buffer_names.values(), False)
        for name, inputs, outputs in self.wiring:
            op = getattr(self, name).op
            if op in _LAYERS or behind & set(inputs):
                behind.update(outputs)
                own = [i for k, i in enumerate(inputs) if k not in _STATISTICS.get(op, ())]
                found.update((self.buffer_names[i], True) for i in own if i in self.buffer_names)
        return [buffer for buffer, is_trained in found.items() if is_trained]

    def _add_constant(self, name: str, value: np.ndarray) -> None:
        """Weights become buffers; integers (shapes, axes, indices) and options stay plain."""
        if value.size <= 16:
            self.options[name] = value.tolist()
        if np.issubdtype(value.dtype, np.floating):
            self.buffer_names[name] = f"{_safe(name)}_{len(self.buffer_names)}"
            self.register_buffer(self.buffer_names[name], torch.from_numpy(value.astype(np.float64)))
        else:
            self.constants[name] = value.tolist()

    def forward(self, x: Tensor) -> Any:
        values: dict[str, Any] = {**self.constants, self.input_name: x, "": None}
        values.update((name, getattr(self, buffer)) for name, buffer in self.buffer_names.items())
        for name, inputs, outputs in self.wiring:
            node = getattr(self, name)
            options = OPTIONS.get(node.op, set())
            given = [self.options.get(i) if k in options else values[i] for k, i in enumerate(inputs)]
            result = node(*given)
            several = isinstance(result, tuple)
            values.update(zip(outputs, result if several else [result], strict=False))
        if len(self.output_names) == 1:
            return values[self.output_names[0]]
        return {name: values[name] for name in self.output_names}


def read_onnx(path: Path) -> tuple[nn.Module, tuple[int, ...]]:
    """The network of an ONNX file (opset 8 or later) and the shape of one input, without the batch axis."""
    onnx = require("onnx", "onnx")
    try:
        model = onnx.load(str(path))
    except Exception as error:  # protobuf raises many unrelated types
        raise FileFormatError(f"{path} is not a readable ONNX file: {type(error).__name__}: {error}") from error
    graph = model.graph
    check_wiring(graph, path)
    opset = max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=0)
    if opset < 8:
        raise FileFormatError(
            f"{path} uses ONNX opset {opset}; 8 and later are read: convert it with onnx.version_converter."
        )
    unknown = sorted({node.op_type for node in graph.node} - {*OPERATORS, "Constant"})
    if unknown:
        raise UnsupportedModelError(f"{path} has operators that are not read: {', '.join(unknown)}.")
    given = {initializer.name for initializer in graph.initializer}
    inputs = [value for value in graph.input if value.name not in given]
    if len(inputs) != 1:
        raise UnsupportedModelError(f"{path} must have one input, got {len(inputs)}.")
    dims = [d.dim_value for d in inputs[0].type.tensor_type.shape.dim]
    if not dims or dims[0] not in (0, 1) or 0 in dims[1:]:
        raise FileFormatError(
            f"{path}: the input must have a batch axis (free or 1) and known sizes, got {dims} (0: free)."
        )
    return OnnxNetwork(graph, opset, inputs[0].name), tuple(dims[1:])


def check_wiring(graph: Any, path: Path) -> None:
    """Refuse graphs in which a value is used before anything made it."""
    known = {"", *(value.name for value in graph.input), *(value.name for value in graph.initializer)}
    for node in graph.node:
        missing = [name for name in node.input if name not in known]
        if missing:
            raise FileFormatError(f"{path}: node {node.name or node.op_type} uses {missing[0]!r}, which nothing makes.")
        known.update(node.output)
    if not graph.output or any(value.name not in known for value in graph.output):
        raise FileFormatError(f"{path} is not a readable ONNX file: its graph has no output.")


def _decode(value: Any, numpy_helper: Any) -> Any:
    """An attribute as plain Python: bytes to text, tensors to arrays."""
    if isinstance(value, bytes):
        return value.decode()
    if hasattr(value, "data_type"):
        return numpy_helper.to_array(value)
    return list(value) if isinstance(value, (list, tuple)) else value


def _safe(name: str) -> str:
    return re.sub(r"\W", "_", name)
