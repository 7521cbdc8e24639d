"""Activations and losses with slopes in closed form; any other torch function by differentiation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn

from .._errors import InputError

Elementwise: TypeAlias = Callable[[Tensor], Tensor]
ActivationLike: TypeAlias = "str | Activation | Elementwise"
LossLike: TypeAlias = "str | Loss | Callable[[Tensor, Tensor], Tensor]"


@dataclass(frozen=True)
class Activation:
    """An elementwise function `sigma` and its slope.

    Attributes:
        name: For messages and pictures.
        value: `z -> sigma(z)`; must be differentiable by torch (it is also the test oracle).
        value_and_slope: `z -> (sigma(z), sigma'(z))`.
    """

    name: str
    value: Elementwise
    value_and_slope: Callable[[Tensor], tuple[Tensor, Tensor]]


def _from_elementwise(function: Elementwise) -> Activation:
    """Any elementwise torch function; its slope costs one backward pass over the pre-activations."""

    def value_and_slope(z: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            z = z.detach().requires_grad_()
            value = function(z)
            (slope,) = torch.autograd.grad(value.sum(), z)
        return value.detach(), slope

    name = (
        type(function).__name__
        if isinstance(function, nn.Module)
        else getattr(function, "__name__", "custom")
    )
    return Activation(name, function, value_and_slope)


def _relu(z: Tensor) -> tuple[Tensor, Tensor]:
    return z.relu(), (z > 0).to(z.dtype)


def _leaky_relu(slope: float) -> Activation:
    def value(z: Tensor) -> Tensor:
        return torch.where(z > 0, z, slope * z)

    def value_and_slope(z: Tensor) -> tuple[Tensor, Tensor]:
        steep = torch.where(z > 0, torch.ones_like(z), slope)
        return z * steep, steep

    return Activation("leaky_relu", value, value_and_slope)


def _tanh(z: Tensor) -> tuple[Tensor, Tensor]:
    value = z.tanh()
    return value, 1 - value * value


def _softplus(z: Tensor) -> tuple[Tensor, Tensor]:
    return torch.logaddexp(z, torch.zeros_like(z)), z.sigmoid()


ACTIVATIONS: dict[str, Activation] = {
    "relu": Activation("relu", torch.relu, _relu),
    "leaky_relu": _leaky_relu(0.01),
    "tanh": Activation("tanh", torch.tanh, _tanh),
    "softplus": Activation("softplus", lambda z: _softplus(z)[0], _softplus),
    "sin": Activation("sin", torch.sin, lambda z: (z.sin(), z.cos())),
}


def as_activation(activation: ActivationLike) -> Activation:
    """An `Activation` from a name of `ACTIVATIONS`, an `Activation`, a torch module, or an elementwise
    function.

    Example:
        >>> as_activation("tanh").value(torch.zeros(1)).item()
        0.0
        >>> as_activation(torch.nn.GELU()).name
        'GELU'
    """
    if isinstance(activation, Activation):
        return activation
    if isinstance(activation, str):
        if activation not in ACTIVATIONS:
            known = ", ".join(map(repr, ACTIVATIONS))
            raise InputError(
                f"activation must be one of {known}, or an elementwise function, got {activation!r}."
            )
        return ACTIVATIONS[activation]
    if isinstance(activation, nn.LeakyReLU):
        return _leaky_relu(activation.negative_slope)
    if isinstance(activation, (nn.ReLU, nn.Tanh)) or activation in (torch.relu, torch.tanh):
        return ACTIVATIONS["relu" if isinstance(activation, nn.ReLU) or activation is torch.relu else "tanh"]
    if not callable(activation):
        raise InputError(
            f"activation must be a name or an elementwise function, got {type(activation).__name__}."
        )
    return _from_elementwise(activation)


@dataclass(frozen=True)
class Loss:
    """A loss `l(f, y)` per data point, convex in `f` for the theorems, and its slope `dl/df`.

    Attributes:
        name: For messages and pictures.
        value: `(f, y) -> l(f, y)`, shapes (N,) each.
        slope: `(f, y) -> dl/df (f, y)`, shape (N,).
    """

    name: str
    value: Callable[[Tensor, Tensor], Tensor]
    slope: Callable[[Tensor, Tensor], Tensor]


def _from_pointwise(function: Callable[[Tensor, Tensor], Tensor]) -> Loss:
    def slope(f: Tensor, y: Tensor) -> Tensor:
        with torch.enable_grad():
            f = f.detach().requires_grad_()
            value = function(f, y)
            if value.shape != f.shape:
                raise InputError(
                    f"loss must return one value per point, shape {tuple(f.shape)}, got {tuple(value.shape)}."
                )
            return torch.autograd.grad(value.sum(), f)[0]

    return Loss(getattr(function, "__name__", "custom"), function, slope)


LOSSES: dict[str, Loss] = {
    "squared": Loss("squared", lambda f, y: 0.5 * (f - y) ** 2, lambda f, y: f - y),
    "logistic": Loss(
        "logistic",
        lambda f, y: torch.logaddexp(-y * f, torch.zeros_like(f)),
        lambda f, y: -y * torch.sigmoid(-y * f),
    ),
}


def as_loss(loss: LossLike) -> Loss:
    """A `Loss` from "squared" (half the square), "logistic" (labels -1, +1), a `Loss`, or a function `(f, y)
    -> l`.

    Example:
        >>> as_loss("squared").slope(torch.tensor([3.0]), torch.tensor([1.0])).item()
        2.0
    """
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str):
        if loss not in LOSSES:
            raise InputError(
                f"loss must be one of {', '.join(map(repr, LOSSES))}, or a function (f, y), got {loss!r}."
            )
        return LOSSES[loss]
    if not callable(loss):
        raise InputError(f"loss must be a name or a function (f, y), got {type(loss).__name__}.")
    return _from_pointwise(loss)
