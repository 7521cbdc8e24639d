"""Centered data with its covariance: arrays, loaders, and the Gaussian population."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ..support.checks import check_choice, check_whole, refuse_collections
from ..support.display import Shown
from ..support.errors import InputError

Centering = Literal["refuse", "center"]
_ROUNDING = {torch.float32: 1e-5, torch.float64: 1e-8}
"""Largest mean, relative to the standard deviation, that counts as centered: some hundred roundings for float32."""


def as_covariance(covariance: Any) -> Tensor:
    """A symmetric positive definite matrix of shape (d, d) as a float tensor; anything else is refused."""
    sigma = float_tensor(covariance, "covariance")
    if sigma.ndim != 2 or sigma.shape[0] != sigma.shape[1] or sigma.shape[0] == 0:
        raise InputError(f"covariance must have shape (d, d), got {tuple(sigma.shape)}.")
    if not torch.isfinite(sigma).all():
        raise InputError("covariance must be finite, got NaN or infinity.")
    asymmetry = (sigma - sigma.T).abs().max().item()
    if asymmetry > 1e-6 * sigma.abs().max().item():
        raise InputError(f"covariance must be symmetric, got a largest asymmetry of {asymmetry:.3g}.")
    eigenvalues = torch.linalg.eigvalsh(sigma)
    smallest, largest = eigenvalues[0].item(), eigenvalues[-1].item()
    if smallest <= 10 * sigma.shape[0] * torch.finfo(sigma.dtype).eps * largest:
        raise InputError(
            f"covariance must be positive definite, got eigenvalues from {smallest:.3g} to {largest:.3g}; "
            "drop or combine the directions in which the data does not vary."
        )
    return (sigma + sigma.T) / 2


@dataclass(frozen=True, repr=False)
class Data(Shown):
    """Weighted, centered data points; expectations over the data are weighted sums over these.

    Make one with `Data.of` or `GaussianInputs`, which check and center.

    Attributes:
        x: Inputs, shape (N, d), of weighted mean zero (for a population: up to sampling error).
        y: Targets, shape (N,).
        weights: Probabilities, shape (N,), summing to 1.
        covariance: `Sigma = E x x^T`, shape (d, d): of these points, or of the population they stand for.
    """

    x: Tensor
    y: Tensor
    weights: Tensor
    covariance: Tensor

    @classmethod
    def of(cls, x: Any, y: Any, *, weights: Any = None, center: Centering = "refuse") -> Data:
        """Data points from arrays, with their own covariance.

        Args:
            x: Shape (N, d). Its float dtype and device are kept.
            y: Shape (N,).
            weights: Probabilities of shape (N,); equal if None.
            center: What to do with inputs whose mean is not zero: "refuse" them or "center" them.

        Example:
            >>> Data.of([[0.0, 3.0], [1.0, 1.0], [2.0, 5.0]], [1, 2, 3], center="center").x.sum(0).tolist()
            [0.0, 0.0]
        """
        check_choice(center, "center", ("refuse", "center"))
        x = float_tensor(x, "x")
        y = float_tensor(y, "y").to(x)
        if x.ndim != 2 or 0 in x.shape:
            raise InputError(f"x must have shape (N, d) with N, d >= 1, got {tuple(x.shape)}.")
        if y.shape != x.shape[:1]:
            raise InputError(f"y must have shape ({x.shape[0]},), one target per row of x, got {tuple(y.shape)}.")
        w = torch.full_like(y, 1 / len(y)) if weights is None else float_tensor(weights, "weights").to(x)
        if w.shape != y.shape or bool((w < 0).any()) or abs(w.sum().item() - 1) > 1e-6:
            raise InputError(f"weights must be {len(y)} probabilities that sum to 1, got shape {tuple(w.shape)}.")
        for name, values in (("x", x), ("y", y)):
            if not torch.isfinite(values).all():
                raise InputError(f"{name} must be finite, got NaN or infinity.")
        mean = w @ x
        spread = (w @ (x - mean) ** 2).sqrt()
        if center == "center":
            x = x - mean
        elif bool((mean.abs() > _ROUNDING[x.dtype] * spread).any()):
            raise InputError(
                f"x must have mean zero, got a mean of up to {mean.abs().max().item():.3g}; "
                'pass center="center" to subtract it.'
            )
        return cls(x, y, w, as_covariance((w[:, None] * x).T @ x))

    def __len__(self) -> int:
        return self.x.shape[0]

    @property
    def dimension(self) -> int:
        return self.x.shape[1]

    def batch(self, index: Tensor) -> Data:
        """The mini-batch of the rows `index`, centered and normalized by itself, as batch norm does in training.

        Its covariance may be singular.
        """
        x, y, w = self.x[index], self.y[index], self.weights[index]
        w = w / w.sum()
        x = x - w @ x
        return Data(x, y, w, (w[:, None] * x).T @ x)


def float_tensor(values: Any, name: str) -> Tensor:
    """A detached tensor: float32 and float64 tensors and arrays keep their dtype, other real numbers become float64."""
    refuse_collections(values, name)
    try:
        tensor = torch.as_tensor(np.asarray(values) if isinstance(values, (list, tuple)) else values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} must be numbers (tensor, array or nested lists): {error}.") from error
    if tensor.is_complex() or (tensor.is_floating_point() and tensor.dtype not in _ROUNDING):
        raise InputError(f"{name} must be float32 or float64, got {tensor.dtype}.")
    return tensor.detach() if tensor.is_floating_point() else tensor.double()


def _population_data(x: Tensor, target: Callable[[Tensor], Any], weights: Tensor, covariance: Tensor) -> Data:
    """`Data` for a population, from whatever the user's `target` gives for `x`."""
    y = float_tensor(target(x), "target(x)").to(x)
    if y.shape != x.shape[:1]:
        raise InputError(f"target must give one number per row, shape ({len(x)},), got {tuple(y.shape)}.")
    if not torch.isfinite(y).all():
        raise InputError("target must give finite numbers, got NaN or infinity.")
    return Data(x, y, weights, covariance)


@dataclass(frozen=True, repr=False)
class GaussianInputs(Shown):
    """The population `x ~ N(0, Sigma)`, turned into `Data` by quadrature or by sampling.

    Args:
        covariance: `Sigma`, shape (d, d), symmetric positive definite.

    Example:
        >>> data = GaussianInputs([[2.0, 0.0], [0.0, 1.0]]).quadrature(lambda x: x[:, 0] ** 2, order=8)
        >>> round((data.weights @ data.y).item(), 12)
        2.0
    """

    covariance: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "covariance", as_covariance(self.covariance))

    @cached_property
    def _root(self) -> Tensor:
        root: Tensor = torch.linalg.cholesky(self.covariance)
        return root

    def quadrature(self, target: Callable[[Tensor], Tensor], *, order: int = 32) -> Data:
        """Gauss-Hermite product rule: exact for polynomials of degree below `2 * order` in each direction.

        Costs `order**d` points, so d is at most 4. Smooth integrands only: with ReLU use `sample`.
        """
        d = self.covariance.shape[0]
        if d > 4:
            raise InputError(f"quadrature needs at most 4 dimensions (order**d points), got {d}; use sample.")
        check_whole(order, "order")
        nodes, weights = np.polynomial.hermite_e.hermegauss(order)
        z = torch.as_tensor(np.array(list(itertools.product(nodes, repeat=d)))).to(self.covariance)
        w = torch.as_tensor(np.array([np.prod(c) for c in itertools.product(weights, repeat=d)])).to(self.covariance)
        return _population_data(z @ self._root.T, target, w / w.sum(), self.covariance)

    def sample(
        self, count: int, target: Callable[[Tensor], Tensor], *, generator: torch.Generator | None = None
    ) -> Data:
        """`count` independent draws, centered and whitened so that mean and covariance are exactly 0 and Sigma."""
        d = self.covariance.shape[0]
        if check_whole(count, "count") <= d:
            raise InputError(f"count must exceed the dimension {d}, got {count}.")
        z = torch.randn(count, d, generator=generator, dtype=torch.float64).to(self.covariance)
        z = z - z.mean(0)
        z = torch.linalg.solve_triangular(torch.linalg.cholesky(z.T @ z / count), z.T, upper=False).T
        return _population_data(z @ self._root.T, target, torch.full_like(z[:, 0], 1 / count), self.covariance)
