"""Hand-made networks on three inputs whose zero sets are known shapes: built from abs and max of affine functions."""

import torch
from torch import Tensor, nn


class Octahedron(nn.Module):
    """|x| + |y| + |z| - 1: a sphere in shape, area 4 sqrt(3), volume 4 / 3."""

    def forward(self, x: Tensor) -> Tensor:
        return x.abs().sum(1, keepdim=True) - 1.0


def _ring(x: Tensor, across: int, sides: tuple[int, int]) -> Tensor:
    """A square ring: the frame of outer half side 1, inner half side 1 / 2, half as thick as wide."""
    flat = torch.maximum(x[:, sides[0]].abs(), x[:, sides[1]].abs())
    return torch.maximum((flat - 0.75).abs() - 0.25, x[:, across].abs() - 0.25)


class Torus(nn.Module):
    """A square ring: area 2 (4 - 1) + (8 + 4) / 2 = 12, volume 3 / 2."""

    def forward(self, x: Tensor) -> Tensor:
        return _ring(x, 2, (0, 1)).unsqueeze(1)


class LinkedRings(nn.Module):
    """Two square rings, each through the other's hole, below zero on both."""

    def forward(self, x: Tensor) -> Tensor:
        moved = x - torch.tensor([0.75, 0.0, 0.0], dtype=x.dtype)
        return torch.minimum(_ring(x, 2, (0, 1)), _ring(moved, 1, (0, 2))).unsqueeze(1)


class HollowBall(nn.Module):
    """A shell about an empty middle: ||x|_1 - 1| - 0.25 below zero."""

    def forward(self, x: Tensor) -> Tensor:
        return (x.abs().sum(1, keepdim=True) - 1.0).abs() - 0.25
