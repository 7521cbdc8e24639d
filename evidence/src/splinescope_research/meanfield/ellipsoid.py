"""The geometry of normalized neurons: metric, lengths, geodesics of the ellipsoid, and its isometry with a sphere."""

from __future__ import annotations

import torch
from torch import Tensor

from splinescope.meanfield import manifold


class Manifold(manifold.Manifold):
    __doc__ = manifold.Manifold.__doc__

    def project(self, b: Tensor, v: Tensor) -> Tensor:
        """Euclidean-orthogonal projection of `v` onto the tangent space `{v : b^T Sigma v = 0}`."""
        self._check(b, v)
        normal = b @ self.covariance
        return v - normal * (normal * v).sum(-1, keepdim=True) / (normal * normal).sum(-1, keepdim=True)

    def metric(self, b: Tensor, *, scale: Tensor | float = 1.0) -> Tensor:
        """`G_b = P (I - u u^T) P c^2 / ||b||^2`, shape (..., d, d), with `u = b / ||b||`, P the tangent projection."""
        self._check(b)
        eye = torch.eye(self.dimension, dtype=b.dtype, device=b.device)
        normal = b @ self.covariance
        normal = normal / normal.norm(dim=-1, keepdim=True)
        u = _unit(b)
        tangent = eye - normal[..., :, None] * normal[..., None, :]
        sphere = eye - u[..., :, None] * u[..., None, :]
        return tangent @ sphere @ tangent * self._weight(b, scale)[..., None, None]

    def metric_inverse(self, b: Tensor, *, scale: Tensor | float = 1.0) -> Tensor:
        """The pseudo-inverse `G_b^+ = ||b||^2 M_b / c^2`, shape (..., d, d)."""
        self._check(b)
        eye = torch.eye(self.dimension, dtype=b.dtype, device=b.device)
        oblique = eye - b[..., :, None] * (b @ self.covariance)[..., None, :]
        return oblique @ oblique.mT / self._weight(b, scale)[..., None, None]

    def inner(self, b: Tensor, v: Tensor, w: Tensor, *, scale: Tensor | float = 1.0) -> Tensor:
        """`v^T G_b w` for tangent vectors, by the isometry: `c^2 <(I - u u^T) v, w> / ||b||^2`; shape (...)."""
        self._check(b, v, w)
        u = _unit(b)
        return ((v * w).sum(-1) - (u * v).sum(-1) * (u * w).sum(-1)) * self._weight(b, scale)

    def distance(self, b: Tensor, c: Tensor, *, scale: Tensor | float = 1.0) -> Tensor:
        """Geodesic distance: the angle between `b` and `c` times `scale`; exact for angles near 0 and pi too."""
        self._check(b, c)
        u, w = _unit(b), _unit(c)
        return 2 * torch.atan2((u - w).norm(dim=-1), (u + w).norm(dim=-1)) * scale

    def exp(self, b: Tensor, v: Tensor) -> Tensor:
        """The point reached along the geodesic from `b` with initial velocity `v` (tangent) after unit time."""
        self._check(b, v)
        length = b.norm(dim=-1, keepdim=True)
        u = b / length
        turn = (v - u * (u * v).sum(-1, keepdim=True)) / length
        angle = turn.norm(dim=-1, keepdim=True)
        return self.normalize(u * angle.cos() + turn * torch.sinc(angle / torch.pi))

    @staticmethod
    def _weight(b: Tensor, scale: Tensor | float) -> Tensor:
        """`c^2 / ||b||^2`, shape (...)."""
        weight: Tensor = scale**2 / (b * b).sum(-1)
        return weight


def _unit(b: Tensor) -> Tensor:
    return b / manifold.positive(b.norm(dim=-1, keepdim=True))
