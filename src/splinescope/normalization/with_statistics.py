"""A network as one batch sees it: batch norm with the statistics of that batch, held."""

from __future__ import annotations

from typing import Any

from torch import nn

from ..network.readable import unwrap
from ..network.watching.batch_statistics import batch_norms, set_statistics_
from ..network.watching.undisturbed import copied
from ..support.checks import as_rows
from ..support.errors import InputError
from ._data import raw_batches


def with_statistics(model: nn.Module, x: Any) -> nn.Module:
    """A copy in evaluation mode whose batch norms hold the statistics of one batch, exactly as in training on it.

    The copy computes on any input what the model in train mode would if its statistics came from `x`: a
    piecewise-affine network, ready to be tiled. (Running variances of torch are unbiased; these are not.)

    Args:
        model: With batch norm modules; left as found. Its other layers act as in evaluation mode.
        x: `[B, ...]`.

    Raises:
        InputError: No batch norm, or a batch so small that a channel has one value only.

    Example:
        >>> import torch
        >>> net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU())
        >>> x = torch.randn(8, 2)
        >>> torch.allclose(with_statistics(net, x)(x), net.train()(x), atol=1e-6)
        True
    """
    (rows,) = raw_batches(as_rows(x, "x"))
    made = copied(unwrap(model)).eval()
    if not batch_norms(made):
        raise InputError("model must have batch norm modules, found none: its folds do not depend on the batch.")
    set_statistics_(made, rows)
    return made
