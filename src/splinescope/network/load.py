"""`load`: networks from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import torch
from torch import nn

from splinescope.support.checks import check_file, reading
from splinescope.support.errors import FileFormatError, InputError, UnsupportedModelError

from .network import SplineNetwork, trace
from .outputs import Output, SeveralOutputs


def load(
    path: str | PathLike[str], *, normalized: bool = False, output: Output = None,
    fixed: Mapping[str, Any] | None = None,
) -> SplineNetwork:  # fmt: skip
    """Read a network from an ONNX (`.onnx`, opset 8 and later) or `.nnet` file; nothing in it is executed.

    ONNX files are read as onnxruntime runs them for one row, in float64: a batch size of 1 written into the file is
    taken as free, and a file without a batch axis takes many rows all the same.

    Args:
        path: The file; its ending says the format.
        normalized: Of a `.nnet` file, the bare network, which takes `(x - mean) / range` of each input, as ONNX
            versions of these nets do; else inputs and output have their physical units. Nothing clips the inputs.
        output: Which output is meant where a file has several: its index or its name.
        fixed: Values of all inputs but one, by name, where an ONNX file has several.

    Raises:
        InputError: There is no such file, or no such output.
        FileFormatError: The file is corrupt or of another kind.
        UnsupportedModelError: It holds operators that are not read or not piecewise affine.

    Example:
        >>> load("acas.nnet").input_shape  # doctest: +SKIP
        (5,)
    """
    path = check_file(path)
    if path.stat().st_size == 0:
        raise FileFormatError(f"{path} is empty.")
    models: Sequence[nn.Module]
    if not isinstance(fixed, Mapping | None):
        raise InputError(f"fixed must give inputs by name, {{name: array}}, got {type(fixed).__name__}.")
    with reading(path):
        if path.suffix.lower() == ".onnx":
            from .files.onnx import read_onnx

            models = read_onnx(path, fixed)
            shapes = [model.input_shape for model in models]
        elif fixed:
            raise InputError(f"fixed belongs to ONNX files, which may have several inputs; got {path.name!r}.")
        elif path.suffix.lower() == ".nnet":
            from .files.nnet import read_nnet

            model, shape = read_nnet(path, normalized=normalized)
            models, shapes = [model], [shape]
        else:
            raise FileFormatError(f"path must end in .onnx or .nnet, got {path.name!r}.")
    refused = None
    for model, shape in zip(models, shapes, strict=True):
        vars(model)["file_stem"] = path.stem  # what pages call it
        try:
            return trace(model.eval(), torch.zeros(2, *shape, dtype=torch.float64), output=output)
        except SeveralOutputs as error:
            raise SeveralOutputs(error.listed, error.first, "load(path, output={0!r})") from None
        except UnsupportedModelError as error:  # the next has its rows in an axis of their own
            refused = refused or error
    assert refused is not None
    raise refused
