"""The handwritten digits that scikit-learn carries."""

from __future__ import annotations

import torch
from torch import Tensor

from ..support.checks import require


def digits() -> tuple[Tensor, Tensor]:
    """1,797 digits: images `[1797, 1, 8, 8]` with values in [0, 1] and labels `[1797]` (extra "data").

    The last 297 are commonly kept for testing: other people wrote them.

    Reference: Alpaydin, Kaynak, "Optical Recognition of Handwritten Digits", UCI, 1998.
    """
    table = require("sklearn.datasets", "data").load_digits()
    images = torch.from_numpy(table.images).float().unsqueeze(1) / 16.0
    return images, torch.from_numpy(table.target).long()
