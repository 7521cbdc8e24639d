"""Fashion-MNIST from the files of a Debian package or any folder that holds them; nothing is downloaded."""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from pathlib import Path

import torch
from torch import Tensor

from ..support.checks import check_choice
from ..support.errors import FileFormatError, InputError

FOLDER = Path("/usr/share/datasets/fashion-mnist")
"""Where the Debian package `dataset-fashion-mnist` puts its files."""


def fashion_mnist(part: str = "train", folder: str | os.PathLike[str] | None = None) -> tuple[Tensor, Tensor]:
    """Images of clothes `[N, 1, 28, 28]` with values in [0, 1] and labels `[N]`: 60,000 to train, 10,000 to test.

    Args:
        part: "train" or "test".
        folder: Holds `train-images-idx3-ubyte.gz` and its like; that of the Debian package by default.

    Reference: Xiao, Rasul, Vollgraf, "Fashion-MNIST: a Novel Image Dataset", 2017.
    """
    check_choice(part, "part", ("train", "test"))
    where = FOLDER if folder is None else Path(folder)
    prefix = "train" if part == "train" else "t10k"
    images = _read_idx(where / f"{prefix}-images-idx3-ubyte.gz", 3)
    return images.unsqueeze(1).float() / 255.0, _read_idx(where / f"{prefix}-labels-idx1-ubyte.gz", 1).long()


def _read_idx(path: Path, dimensions: int) -> Tensor:
    """The bytes of an idx file: a magic number, the sizes, the values."""
    if not path.exists():
        raise InputError(f"{path} is not there: install dataset-fashion-mnist (Debian, Ubuntu) or give its folder.")
    try:
        raw = gzip.decompress(path.read_bytes())
        magic, *shape = struct.unpack(f">{1 + dimensions}I", raw[: 4 * (1 + dimensions)])
        values = torch.frombuffer(bytearray(raw[4 * (1 + dimensions) :]), dtype=torch.uint8)
        if magic != 0x800 + dimensions:
            raise ValueError(f"magic number {magic:#x}")
        return values.reshape(shape)
    except (OSError, EOFError, ValueError, RuntimeError, struct.error, zlib.error) as error:
        raise FileFormatError(f"{path} is not an idx file of {dimensions} axes: {error}") from error
