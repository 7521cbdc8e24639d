"""The two networks that the theory compares: two layers with batch norm, and the plain twin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..support.display import Shown
from ..support.errors import InputError
from .data import Data, float_tensor
from .functions import Activation, ActivationLike, as_activation
from .manifold import Manifold


@dataclass(frozen=True, repr=False)
class TwoLayer(Shown):
    """The plain network `f(x) = (1/m) sum_k a_k sigma(b_k . x)`.

    Args:
        a: Amplitudes, shape (m,).
        b: Inner weights, shape (m, d), float; dtype and device of everything follow them.
        activation: A name ("relu", "leaky_relu", "tanh", "softplus", "sin"), module or elementwise function.

    Example:
        >>> net = TwoLayer(torch.ones(3), torch.eye(3), "relu")
        >>> net(torch.tensor([[3.0, 0.0, -1.0]])).tolist()
        [1.0]
    """

    a: Tensor
    b: Tensor
    activation: Activation

    def __init__(self, a: Any, b: Any, activation: ActivationLike = "relu") -> None:
        b = float_tensor(b, "b")
        a = float_tensor(a, "a").to(b)
        if b.ndim != 2 or 0 in b.shape:
            raise InputError(f"b must have shape (m, d) with m, d >= 1, got {tuple(b.shape)}.")
        if a.shape != b.shape[:1]:
            raise InputError(f"a must have shape ({b.shape[0]},), one amplitude per row of b, got {tuple(a.shape)}.")
        if not (torch.isfinite(a).all() and torch.isfinite(b).all()):
            raise InputError("a and b must be finite, got NaN or infinity.")
        object.__setattr__(self, "a", a)
        object.__setattr__(self, "b", b)
        object.__setattr__(self, "activation", as_activation(activation))

    @property
    def width(self) -> int:
        return self.b.shape[0]

    @property
    def dimension(self) -> int:
        return self.b.shape[1]

    def _check(self, x: Tensor) -> None:
        if not isinstance(x, Tensor) or x.dtype != self.b.dtype:
            received = x.dtype if isinstance(x, Tensor) else type(x).__name__
            raise InputError(f"x must be a {self.b.dtype} tensor, like the weights, got {received}.")
        if x.ndim != 2 or x.shape[1] != self.dimension:
            raise InputError(f"x must have shape (N, {self.dimension}), got {tuple(x.shape)}.")

    def __call__(self, x: Tensor) -> Tensor:
        """Outputs, shape (N,), for inputs of shape (N, d)."""
        self._check(x)
        return self.a @ self.activation.value(self.b @ x.T) / self.width


@dataclass(frozen=True, init=False, repr=False)
class TwoLayerBN(TwoLayer):
    """The batch-norm network `f(x) = (1/m) sum_k a_k sigma(b_k . x / sqrt(b_k^T Sigma b_k))` on centered data.

    Arguments as for `TwoLayer`; no `b_k` may be zero.

    Example:
        >>> net = TwoLayerBN(torch.ones(1), torch.tensor([[5.0, 0.0]]), "relu")
        >>> net(torch.tensor([[2.0, 0.0]]), torch.diag(torch.tensor([4.0, 1.0]))).tolist()
        [1.0]
    """

    def __init__(self, a: Any, b: Any, activation: ActivationLike = "relu") -> None:
        super().__init__(a, b, activation)
        zero = (self.b == 0).all(dim=1).nonzero()
        if len(zero):
            raise InputError(f"b must have no zero rows (no direction to normalize), got row {int(zero[0])} = 0.")

    def __call__(self, x: Tensor, covariance: Tensor | None = None) -> Tensor:
        """Outputs, shape (N,). Without `covariance` the batch `x` normalizes itself, as in training."""
        self._check(x)
        if covariance is not None:
            norm = Manifold(covariance).norm(self.b)
        elif len(x) > 1:
            x = x - x.mean(0)
            norm = (self.b @ x.T).square().mean(1).sqrt()
        else:
            raise InputError(f"x must have at least 2 rows to normalize itself, got {len(x)}; give a covariance.")
        return self.a @ self.activation.value((self.b / norm[:, None]) @ x.T) / self.width

    @classmethod
    def from_module(cls, model: nn.Module) -> TwoLayerBN:
        r"""The neurons of a torch network `Linear, BatchNorm1d, activation, Linear`, to be followed in theory.

        The same function of a centered batch that normalizes itself, but for the norm's `eps`, which the theory sets
        to 0 (relative error eps / (2 variance)). Amplitudes are `a_k = m v_k` with `v` the last weights. A bias before
        the norm is cancelled by it; a positive `gamma` moves into `a` if the activation is ReLU or leaky ReLU.

        Args:
            model: A `nn.Sequential` of these four layers (`nn.Flatten` and `nn.Identity` are passed over) with one
                output, no shift `beta` and no bias behind the activation. Left as found; its weights are copied.

        Example:
            >>> model = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1, bias=False))
            >>> TwoLayerBN.from_module(model).width
            8
        """
        parts = [part for part in _leaves(model) if not isinstance(part, nn.Flatten | nn.Identity)]
        match parts:
            case [nn.Linear() as first, nn.BatchNorm1d() as norm, activation, nn.Linear() as last]:
                pass
            case _:
                kinds = ", ".join(type(part).__name__ for part in parts)
                raise InputError(
                    f"model must be an nn.Sequential of Linear, BatchNorm1d, an activation and Linear, got {kinds}."
                )
        if last.out_features != 1:
            raise InputError(f"model must have one output, got {last.out_features}.")
        shifts = {"beta, the norm's bias": norm.bias, "the last layer's bias": last.bias}
        for name, shift in shifts.items():
            if shift is not None and bool(shift.detach().any()):
                raise InputError(f"model must have no shift behind the norm, but {name} is not zero.")
        known = as_activation(activation)
        gamma = torch.ones_like(last.weight[0]) if norm.weight is None else norm.weight
        if bool((gamma != 1).any()) and (known.leak is None or bool((gamma <= 0).any())):
            raise InputError(
                "model must have gamma = 1 in its norm, or gamma > 0 and a ReLU or leaky ReLU, which pass it on; got "
                f"{known.name} and gamma from {float(gamma.detach().min()):g} to {float(gamma.detach().max()):g}."
            )
        amplitudes = first.out_features * (last.weight[0] * gamma)
        return cls(amplitudes.detach().clone(), first.weight.detach().clone(), known)

    @property
    def lengths(self) -> Tensor:
        """`||b_k||`, shape (m,): conserved by the gradient flow; the scale factor of the metric."""
        return self.b.norm(dim=1)

    def twin(self, covariance: Tensor) -> TwoLayer:
        """The plain network of the normalized neurons: the same function on data of this covariance."""
        return TwoLayer(self.a, Manifold(covariance).normalize(self.b), self.activation)


def check_pair(net: TwoLayer, data: Data) -> None:
    """Refuse what is no network and data, or does not go together."""
    if not isinstance(net, TwoLayer) or not isinstance(data, Data):
        raise InputError(
            f"net and data must be a TwoLayerBN (or TwoLayer) and a Data, got {type(net).__name__} and "
            f"{type(data).__name__}; Data.of(x, y) makes one from arrays."
        )
    if net.dimension != data.dimension:
        raise InputError(f"net must take {data.dimension} inputs, like the data, got {net.dimension}.")
    if (net.b.dtype, net.b.device) != (data.x.dtype, data.x.device):
        raise InputError(
            f"net and data must share dtype and device, got {net.b.dtype} on {net.b.device} "
            f"and {data.x.dtype} on {data.x.device}."
        )


def _leaves(model: nn.Module) -> list[nn.Module]:
    """The layers of nested sequences in order; a model of another kind is one layer."""
    if type(model) is not nn.Sequential:
        return [model]
    return [leaf for part in model for leaf in _leaves(part)]
