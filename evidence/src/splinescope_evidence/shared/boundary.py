"""Places off the data at which folds are counted: on the decision boundary, and inside a class."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

_HALVINGS = 20  # a millionth of the way between two points


@torch.no_grad()
def on_boundary(model: nn.Module, x: Tensor) -> Tensor:
    """Points where the predicted class changes, by halving ways between rows that follow each other, of two classes."""
    classes = model(x).argmax(1)
    pairs = [(i, j) for i, j in pairwise(range(len(x))) if classes[i] != classes[j]]
    a, b = x[[i for i, _ in pairs]].clone(), x[[j for _, j in pairs]].clone()
    start = classes[[i for i, _ in pairs]]
    for _ in range(_HALVINGS):
        middle = 0.5 * (a + b)
        same = (model(middle).argmax(1) == start).reshape(-1, *[1] * (x.dim() - 1))
        a, b = torch.where(same, middle, a), torch.where(same, b, middle)
    return a


def inside_classes(x: Tensor, y: Tensor) -> Tensor:
    """Points midway between each row and the next one of its class: off the data too, but not at the boundary."""
    middles = [0.5 * (of[:-1] + of[1:]) for of in (x[y == label] for label in y.unique())]
    return torch.cat(middles)
