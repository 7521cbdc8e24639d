"""Activations and losses with slopes in closed form; any other torch function by differentiation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn

from ..support.errors import InputError, did_you_mean
from ..support.losses import LOSSES, Loss

Elementwise: TypeAlias = Callable[[Tensor], Tensor]
ActivationLike: TypeAlias = "str | Activation | Elementwise"
LossLike: TypeAlias = "str | Loss | Callable[[Tensor, Tensor], Tensor]"


@dataclass(frozen=True)
class Activation:
    """An elementwise function `sigma` and its slope.

    Attributes:
        name: For messages and pictures.
        value: `z -> sigma(z)`; must be differentiable by torch.
        evaluate: In place, since fresh memory costs more than the arithmetic: `z` becomes `sigma(z)`; the function
            returned, called once these values have been used, gives `sigma'(z)`.
        leak: If `sigma(z)` is `z` for positive and `leak z` for other `z` (0 for ReLU), that slope; else None.
    """

    name: str
    value: Elementwise
    evaluate: Callable[[Tensor], Callable[[], Tensor]]
    leak: float | None = None


def _slope(value: Tensor, point: Tensor, name: str) -> Tensor:
    if not value.requires_grad:
        raise InputError(f"{name} must be differentiable by torch, got a value that does not depend on its argument.")
    return torch.autograd.grad(value.sum(), point)[0]


def _from_elementwise(function: Elementwise) -> Activation:
    """Any elementwise torch function; its slope costs one backward pass over the pre-activations."""

    def evaluate(z: Tensor) -> Callable[[], Tensor]:
        with torch.inference_mode(False), torch.enable_grad():  # so tensors from outside must be cloned
            point = z.clone().requires_grad_()
            value = function(point.clone())  # a copy, which the function may change in place
            if not isinstance(value, Tensor) or value.shape != z.shape:
                raise InputError(f"activation must return one value for each number, shape {tuple(z.shape)}.")
            slope = _slope(value, point, "activation")
        z.copy_(value.detach())
        return lambda: slope

    name = type(function).__name__ if isinstance(function, nn.Module) else getattr(function, "__name__", "custom")
    return Activation(name, function, evaluate)


def _relu(z: Tensor) -> Callable[[], Tensor]:
    return z.relu_().sign_


def _leaky_relu(leak: float) -> Activation:
    def value(z: Tensor) -> Tensor:
        return torch.where(z > 0, z, leak * z)

    def evaluate(z: Tensor) -> Callable[[], Tensor]:
        slope = (z > 0).to(z.dtype).mul_(1 - leak).add_(leak)
        z.mul_(slope)
        return lambda: slope

    return Activation("leaky_relu", value, evaluate, leak)


def _tanh(z: Tensor) -> Callable[[], Tensor]:
    """By `2 sigmoid(2 z) - 1`: twice as fast as torch's tanh, and as good to absolute rounding (2e-16)."""
    one = z.new_ones(())
    torch.add(-one, z.mul_(2).sigmoid_(), alpha=2, out=z)
    return lambda: torch.addcmul(one, z, z, value=-1, out=z)


def _softplus(z: Tensor) -> Callable[[], Tensor]:
    slope = z.sigmoid()
    torch.logaddexp(z, z.new_zeros(()), out=z)
    return lambda: slope


def _sin(z: Tensor) -> Callable[[], Tensor]:
    slope = z.cos()
    z.sin_()
    return lambda: slope


ACTIVATIONS: dict[str, Activation] = {
    "relu": Activation("relu", torch.relu, _relu, leak=0.0),
    "leaky_relu": _leaky_relu(0.01),
    "tanh": Activation("tanh", torch.tanh, _tanh),
    "softplus": Activation("softplus", lambda z: torch.logaddexp(z, torch.zeros_like(z)), _softplus),
    "sin": Activation("sin", torch.sin, _sin),
}


def as_activation(activation: ActivationLike) -> Activation:
    """An `Activation` from a name of `ACTIVATIONS`, an `Activation`, a torch module, or an elementwise function."""
    if isinstance(activation, Activation):
        return activation
    if isinstance(activation, str):
        if activation not in ACTIVATIONS:
            names = ", ".join(map(repr, ACTIVATIONS))
            near = did_you_mean(activation, ACTIVATIONS)
            raise InputError(f"activation must be one of {names}, or an elementwise function, got {activation!r}{near}")
        return ACTIVATIONS[activation]
    # exactly these: a subclass may do something else
    if type(activation) is nn.LeakyReLU:
        return _leaky_relu(activation.negative_slope)
    if type(activation) in (nn.ReLU, nn.Tanh):
        return ACTIVATIONS[type(activation).__name__.lower()]
    if not callable(activation):
        raise InputError(f"activation must be a name or an elementwise function, got {type(activation).__name__}.")
    known = next((known for known in ACTIVATIONS.values() if known.value is activation), None)
    return known or _from_elementwise(activation)


def _from_pointwise(function: Callable[[Tensor, Tensor], Tensor]) -> Loss:
    def slope(f: Tensor, y: Tensor) -> Tensor:
        with torch.inference_mode(False), torch.enable_grad():
            f = f.detach().clone().requires_grad_()
            value = function(f, y.clone())
            if not isinstance(value, Tensor) or value.shape != f.shape:
                received = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
                raise InputError(f"loss must return one value per point, shape {tuple(f.shape)}, got {received}.")
            return _slope(value, f, "loss")

    return Loss(getattr(function, "__name__", "custom"), function, slope)


def check_labels(loss: Loss, y: Tensor) -> None:
    """Refuse targets that make the logistic loss mean something else: labels 0 would feel no force at all."""
    if loss is LOSSES["logistic"].of_number and not bool((y.abs() == 1).all()):
        other = y[y.abs() != 1][0].item()
        raise InputError(
            f"y must be labels -1 and +1 for the logistic loss, got {other:g}; from labels 0 and 1 make 2 * y - 1."
        )
    if loss is LOSSES["bce"].of_number and not bool(((y >= 0) & (y <= 1)).all()):
        other = y[(y < 0) | (y > 1)][0].item()
        raise InputError(f"y must be labels 0 and 1 for the binary cross-entropy, got {other:g}.")


def as_loss(loss: LossLike) -> Loss:
    """A `Loss` from "squared" (half the square), "mse", "logistic", "bce", a `Loss`, or a function `(f, y) -> l`."""
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str):
        known = {name: named.of_number for name, named in LOSSES.items() if named.of_number is not None}
        if loss not in known:
            names = ", ".join(map(repr, known))
            raise InputError(
                f"loss must be one of {names}, or a function (f, y), got {loss!r}{did_you_mean(loss, known)}"
            )
        return known[loss]
    if not callable(loss):
        raise InputError(f"loss must be a name or a function (f, y), got {type(loss).__name__}.")
    return _from_pointwise(loss)
