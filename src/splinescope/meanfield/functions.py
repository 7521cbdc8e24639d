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
        value: `z -> sigma(z)`; must be differentiable by torch.
        evaluate: `(z, slope) -> None`, in place: `z` becomes `sigma(z)`, `slope` receives `sigma'(z)`.
            In place, because fresh memory for a table of neurons times points costs more than the arithmetic.
    """

    name: str
    value: Elementwise
    evaluate: Callable[[Tensor, Tensor], None]


def _from_elementwise(function: Elementwise) -> Activation:
    """Any elementwise torch function; its slope costs one backward pass over the pre-activations."""

    def evaluate(z: Tensor, slope: Tensor) -> None:
        with torch.enable_grad():
            point = z.clone().requires_grad_()
            value = function(point)
            slope.copy_(torch.autograd.grad(value.sum(), point)[0])
        z.copy_(value.detach())

    name = type(function).__name__ if isinstance(function, nn.Module) else getattr(function, "__name__", "custom")
    return Activation(name, function, evaluate)


def _relu(z: Tensor, slope: Tensor) -> None:
    torch.sign(z.relu_(), out=slope)


def _leaky_relu(leak: float) -> Activation:
    def value(z: Tensor) -> Tensor:
        return torch.where(z > 0, z, leak * z)

    def evaluate(z: Tensor, slope: Tensor) -> None:
        slope.copy_(z > 0).mul_(1 - leak).add_(leak)
        z.mul_(slope)

    return Activation("leaky_relu", value, evaluate)


def _tanh(z: Tensor, slope: Tensor) -> None:
    z.tanh_()
    torch.addcmul(torch.ones_like(z[:1, :1]), z, z, value=-1, out=slope)


def _softplus(z: Tensor, slope: Tensor) -> None:
    torch.sigmoid(z, out=slope)
    torch.logaddexp(z, torch.zeros_like(z), out=z)


def _sin(z: Tensor, slope: Tensor) -> None:
    torch.cos(z, out=slope)
    z.sin_()


ACTIVATIONS: dict[str, Activation] = {
    "relu": Activation("relu", torch.relu, _relu),
    "leaky_relu": _leaky_relu(0.01),
    "tanh": Activation("tanh", torch.tanh, _tanh),
    "softplus": Activation("softplus", lambda z: torch.logaddexp(z, torch.zeros_like(z)), _softplus),
    "sin": Activation("sin", torch.sin, _sin),
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
            raise InputError(f"activation must be one of {known}, or an elementwise function, got {activation!r}.")
        return ACTIVATIONS[activation]
    if isinstance(activation, nn.LeakyReLU):
        return _leaky_relu(activation.negative_slope)
    if isinstance(activation, (nn.ReLU, nn.Tanh)) or activation in (torch.relu, torch.tanh):
        return ACTIVATIONS["relu" if isinstance(activation, nn.ReLU) or activation is torch.relu else "tanh"]
    if not callable(activation):
        raise InputError(f"activation must be a name or an elementwise function, got {type(activation).__name__}.")
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
            raise InputError(f"loss must be one of {', '.join(map(repr, LOSSES))}, or a function (f, y), got {loss!r}.")
        return LOSSES[loss]
    if not callable(loss):
        raise InputError(f"loss must be a name or a function (f, y), got {type(loss).__name__}.")
    return _from_pointwise(loss)
