"""Proposition 1 and the isometry with the round sphere."""

from __future__ import annotations

import pytest
import torch

from splinescope import InputError
from splinescope_research.meanfield.ellipsoid import Manifold


def points(d: int, count: int = 50, seed: int = 0) -> tuple[Manifold, torch.Tensor, torch.Tensor, torch.Tensor]:
    """A manifold, points on it, tangent vectors there, and positive scales."""
    generator = torch.Generator().manual_seed(100 * d + seed)
    root = torch.randn(d, d, generator=generator, dtype=torch.float64)
    manifold = Manifold(root @ root.T + 0.2 * torch.eye(d, dtype=torch.float64))
    b = manifold.normalize(torch.randn(count, d, generator=generator, dtype=torch.float64))
    v = manifold.project(b, torch.randn(count, d, generator=generator, dtype=torch.float64))
    return manifold, b, v, 0.3 + torch.rand(count, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("d", [2, 3, 5, 7])
class TestProposition1:
    def test_metric_is_the_pseudo_inverse_of_its_inverse(self, d: int) -> None:
        manifold, b, _, scale = points(d)
        inverse = manifold.metric_inverse(b, scale=scale)
        expected = torch.linalg.pinv(inverse, hermitian=True, rtol=1e-10)
        size = expected.abs().amax(dim=(1, 2), keepdim=True)
        # pinv of matrices with condition numbers up to 1e4
        assert ((manifold.metric(b, scale=scale) - expected) / size).abs().max() < 1e-10

    def test_metric_is_symmetric_with_kernel_sigma_b_and_positive_on_tangents(self, d: int) -> None:
        manifold, b, _, _ = points(d)
        metric = manifold.metric(b)
        size = metric.abs().amax(dim=(1, 2))
        assert ((metric - metric.mT).abs().amax(dim=(1, 2)) / size).max() < 1e-14
        normal = b @ manifold.covariance
        kernel = (metric @ normal[..., None])[..., 0].abs().amax(1) / (size * normal.norm(dim=1))
        assert kernel.max() < 1e-14
        eigenvalues = torch.linalg.eigvalsh(metric)
        assert (eigenvalues[:, 1] > 1e-3 * eigenvalues[:, -1]).all()  # one zero, the rest well above

    def test_the_map_to_the_round_sphere_is_an_isometry(self, d: int) -> None:
        manifold, b, v, scale = points(d)
        sphere_velocity = torch.autograd.functional.jvp(lambda p: p / p.norm(dim=1, keepdim=True), b, v)[1]
        expected = sphere_velocity.square().sum(1) * scale**2
        form = torch.einsum("ni,nij,nj->n", v, manifold.metric(b, scale=scale), v)
        assert torch.allclose(form, expected, rtol=1e-12)
        assert torch.allclose(manifold.inner(b, v, v, scale=scale), expected, rtol=1e-12)

    def test_distance_is_the_length_of_the_geodesic(self, d: int) -> None:
        manifold, b, v, _ = points(d)
        v = 0.7 * v / manifold.inner(b, v, v).sqrt()[:, None]
        end = manifold.exp(b, v)
        assert torch.allclose(manifold.norm(end), torch.ones(len(b), dtype=torch.float64), rtol=1e-13)
        assert torch.allclose(manifold.distance(b, end), torch.full((len(b),), 0.7, dtype=torch.float64))
        # by the metric alone: the sum of |step|_G along the curve, second order in the step
        times = torch.linspace(0, 1, 401, dtype=torch.float64)
        curve = torch.stack([manifold.exp(b, t * v) for t in times])
        middle, step = (curve[1:] + curve[:-1]) / 2, curve[1:] - curve[:-1]
        assert (manifold.inner(middle, step, step).sqrt().sum(0) - 0.7).abs().max() < 1e-5

    def test_gradient_represents_the_differential(self, d: int) -> None:
        manifold, b, v, scale = points(d)
        derivative = torch.randn(b.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        gradient = manifold.gradient(b, derivative, scale=scale)
        assert torch.allclose(manifold.inner(b, v, gradient, scale=scale), (v * derivative).sum(1), rtol=1e-9)
        matrix = (manifold.metric_inverse(b, scale=scale) @ derivative[..., None])[..., 0]
        assert torch.allclose(gradient, matrix, rtol=1e-10, atol=1e-12)
        assert (gradient * (b @ manifold.covariance)).sum(1).abs().max() < 1e-10  # tangent


def test_differential_is_the_derivative_of_normalize() -> None:
    manifold, b, v, _ = points(4)
    expected = torch.autograd.functional.jvp(lambda p: p / manifold.norm(p)[:, None], 3 * b, v)[1]
    assert torch.allclose(manifold.differential(3 * b, v), expected, rtol=1e-12, atol=1e-14)


def test_zero_and_misshapen_vectors_are_refused() -> None:
    manifold = Manifold(torch.eye(2, dtype=torch.float64))
    with pytest.raises(InputError, match="non-zero"):
        manifold.normalize(torch.zeros(3, 2, dtype=torch.float64))
    with pytest.raises(InputError, match="non-zero"):
        manifold.distance(torch.zeros(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64))
    with pytest.raises(InputError, match="covariance must be numbers"):
        Manifold("round")
    with pytest.raises(InputError, match=r"\(\.\.\., 2\)"):
        manifold.norm(torch.ones(3, dtype=torch.float64))
    with pytest.raises(InputError, match=r"torch\.float64 tensors, like the covariance, got torch\.float32"):
        manifold.norm(torch.ones(2))
