"""The ellipsoid `Omega = {b : b^T Sigma b = 1}` of normalized neurons with the metric of batch norm."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..support.display import Shown
from ..support.errors import InputError
from .data import as_covariance


class Manifold(Shown):
    r"""Unit ellipsoid of `Sigma` with the batch-norm metric

    .. math:: G_b = c^2\, M_b^+ / \|b\|^2, \qquad M_b = (I - b b^T\Sigma)(I - \Sigma b b^T),

    where `c = ||b_k(0)||`, here `scale`, is the length of the neuron before normalization (the paper sets c = 1, which
    changes the speed by `c^2`). The map `b -> b / ||b||` is an isometry onto the round sphere of radius `c`.

    Every method is batched: `b`, `v` have shape (..., d), `scale` has shape (...) or is a number. Exact up to rounding.

    Args:
        covariance: `Sigma`, shape (d, d), symmetric positive definite.

    Reference: Ma and Ying, "A Riemannian Mean Field Formulation...", Proposition 1; the isometry is our addition.
    """

    def __init__(self, covariance: Any) -> None:
        self.covariance = as_covariance(covariance)

    def _shown(self) -> list[tuple[str, Any]]:
        return [("covariance", self.covariance)]

    @property
    def dimension(self) -> int:
        return self.covariance.shape[0]

    def _check(self, *vectors: Tensor) -> None:
        for vector in vectors:
            if not isinstance(vector, Tensor) or vector.dtype != self.covariance.dtype:
                received = vector.dtype if isinstance(vector, Tensor) else type(vector).__name__
                raise InputError(
                    f"vectors must be {self.covariance.dtype} tensors, like the covariance, got {received}."
                )
            if vector.ndim == 0 or vector.shape[-1] != self.dimension:
                raise InputError(f"vectors must have shape (..., {self.dimension}), got {tuple(vector.shape)}.")

    def norm(self, b: Tensor) -> Tensor:
        """`||b||_Sigma = sqrt(b^T Sigma b)`, the standard deviation of the neuron's input; shape (...)."""
        self._check(b)
        return ((b @ self.covariance) * b).sum(-1).sqrt()

    def normalize(self, b: Tensor) -> Tensor:
        """`b / ||b||_Sigma`, the neuron as the network sees it. A zero `b` is refused."""
        return b / positive(self.norm(b))[..., None]

    def differential(self, b: Tensor, v: Tensor) -> Tensor:
        """Derivative of `normalize` at `b` in the direction `v`: `(I - n n^T Sigma) v / ||b||_Sigma`."""
        n = self.normalize(b)
        return (v - n * ((n @ self.covariance) * v).sum(-1, keepdim=True)) / self.norm(b)[..., None]

    def gradient(self, b: Tensor, derivative: Tensor, *, scale: Tensor | float = 1.0) -> Tensor:
        """Riemannian gradient `G_b^+ dL` of a function with Euclidean derivative `dL`, without forming matrices."""
        self._check(b, derivative)
        normal = b @ self.covariance
        inner = derivative - normal * (b * derivative).sum(-1, keepdim=True)
        outer = inner - b * (normal * inner).sum(-1, keepdim=True)
        return outer * (b * b).sum(-1, keepdim=True) / torch.as_tensor(scale).to(b)[..., None] ** 2


def positive(norm: Tensor) -> Tensor:
    if not bool((norm > 0).all()):
        raise InputError("b must be non-zero: a neuron of length 0 has no direction and no normalization.")
    return norm
