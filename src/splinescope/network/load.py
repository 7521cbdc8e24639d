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
    path: str | PathLike[str],
    *,
    normalized: bool = False,
    output: Output = None,
    fixed: Mapping[str, Any] | None = None,
) -> SplineNetwork:
    """Read a network from an ONNX (`.onnx`) or `.nnet` file.

    Nothing in a file is executed. Weights are kept exactly and computed with in float64. ONNX files of opset 8
    and later are read, as onnxruntime runs them for one row: a batch size of 1 written into the file is taken as free,
    and a file without a batch axis takes many rows all the same.

    Args:
        path: The file; its ending says the format.
        normalized: For `.nnet` only. False (the default): inputs and outputs in their physical units, the
            `(x - mean) / range` of each input and the `y * range + mean` of the output made part of the
            network. True: the bare network, which takes normalized inputs, as ONNX versions of these nets do. The
            format's clipping of inputs to their minima and maxima is left to the choice of the slice.
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
    models: Sequence[nn.Module]
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
        try:
            return trace(model.eval(), torch.zeros(2, *shape, dtype=torch.float64), output=output)
        except SeveralOutputs as error:
            raise SeveralOutputs(error.listed, error.first, "load(path, output={0!r})") from None
        except UnsupportedModelError as error:  # the next has its rows in an axis of their own
            refused = refused or error
    assert refused is not None
    raise refused
