"""`load`: networks from files."""

from __future__ import annotations

from os import PathLike

import torch

from splinescope._checks import check_file
from splinescope._errors import FileFormatError

from ._network import SplineNetwork, trace
from .outputs import Output, SeveralOutputs


def load(path: str | PathLike[str], *, normalized: bool = False, output: Output = None) -> SplineNetwork:
    """Read a network from an ONNX (`.onnx`) or `.nnet` file.

    Nothing in a file is executed. Weights are kept exactly and computed with in float64. ONNX files of opset 8
    and later are read; a batch size of 1 written into the file is taken as free.

    Args:
        path: The file; its ending says the format.
        normalized: For `.nnet` only. False (the default): inputs and outputs in their physical units, the
            `(x - mean) / range` of each input and the `y * range + mean` of the output made part of the
            network. True: the bare network, which takes normalised inputs, as ONNX versions of these nets do. The
            format's clipping of inputs to their minima and maxima is left to the choice of the slice.
        output: Which output is meant where a file has several: its index or its name.

    Raises:
        InputError: There is no such file, or no such output.
        FileFormatError: The file is corrupt or of another kind.
        UnsupportedModelError: It holds operators that are not read or not piecewise affine.

    Example:
        >>> load("acas.nnet").input_shape  # doctest: +SKIP
        (5,)
    """
    path = check_file(path)
    if path.suffix.lower() == ".onnx":
        from .onnx_file import read_onnx

        model, shape = read_onnx(path)
    elif path.suffix.lower() == ".nnet":
        from .nnet_file import read_nnet

        model, shape = read_nnet(path, normalized=normalized)
    else:
        raise FileFormatError(f"path must end in .onnx or .nnet, got {path.name!r}.")
    try:
        return trace(model.eval(), torch.zeros(2, *shape, dtype=torch.float64), output=output)
    except SeveralOutputs as error:
        raise SeveralOutputs(error.listed, error.first, "load(path, output={0!r})") from None
