"""`soften` and `harden`: from hard tiles to soft ones by one number, and back."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..network.ops.python_names import plain_name, writes
from ..network.readable import check_readable, unwrap
from ..network.watching.intercept import Functions
from ..support.errors import InputError, UnsupportedModelError

_SOFT = frozenset(("gelu", "silu", "mish", "softplus", "elu", "celu", "softened_relu"))


def checked_beta(value: Any) -> float:
    """A beta as a float, of any kind of number."""
    array = isinstance(value, (Tensor, np.generic, np.ndarray))
    number = value.item() if array and int(np.prod(value.shape)) == 1 else value
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number <= 1:
        raise InputError(f"beta must be a number in [0, 1], got {value!r}.")
    return float(number)


def softened_relu(x: Tensor, beta: float, mix: float = 0.5) -> Tensor:
    """A smooth ReLU,

        c x sigmoid(beta x / (1 - beta)) + (1 - c) (1 - beta) softplus(x / (1 - beta)),

    beta in [0, 1] and c = `mix`. At beta = 1 it is the ReLU; with c = 1 it is SiLU at 1/2 and x/2 at 0. The first part
    lies below the ReLU and the second above; half of each keeps the mean.
    """
    if beta >= 1:
        return torch.relu(x)
    scale = beta / (1 - beta)
    parts = []
    if mix > 0:
        parts.append(mix * (F.silu(scale * x) / scale if scale > 0 else 0.5 * x))
    if mix < 1:
        parts.append((1 - mix) * F.softplus(x, beta=1 / (1 - beta)))
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def soften(model: nn.Module, beta: float = 0.5, *, mix: float = 0.5) -> Softened:
    """A copy of a network with every ReLU softened by beta; see `softened_relu`. No weight is touched.

    Args:
        model: A module; ReLUs may be modules or function calls. It is left as it is.
        beta: In [0, 1], for all ReLUs.
        mix: c, the share of the SiLU-like part.

    Example:
        >>> import torch, splinescope as ss
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        >>> x = torch.randn(5, 2)
        >>> torch.equal(ss.soften(net, beta=1.0)(x), net(x))
        True

    Reference: Balestriero and Baraniuk, "From Hard to Soft"; Hu, Gamba, Balestriero, "Curvature Tuning".
    """
    beta = checked_beta(beta)
    if not 0 <= mix <= 1:
        raise InputError(f"mix must lie in [0, 1], got {mix!r}.")
    check_readable(unwrap(model), quantized=True)
    inner = copy.deepcopy(unwrap(model))
    if isinstance(inner, Softened):
        inner = inner.model
    return Softened(inner, beta, mix).train(model.training)


def harden(model: nn.Module) -> nn.Module:
    """A copy of a network with its smooth ReLUs (GELU, SiLU, Mish, softplus, ELU, CELU, softened ones) as ReLUs.

    The copy is piecewise affine if nothing else in the model prevents it, and shares no weight with it. A network of
    ReLUs comes back unchanged, a softened one as it was.

    Example:
        >>> import torch, splinescope as ss
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.GELU())
        >>> bool((ss.smooth.harden(net)(torch.randn(5, 2)) >= 0).all())
        True
    """
    check_readable(unwrap(model), quantized=True)
    inner = copy.deepcopy(unwrap(model))
    if isinstance(inner, Softened):
        return inner.model
    smooth = (nn.GELU, nn.SiLU, nn.Mish, nn.Softplus, nn.ELU, nn.CELU)
    named = [path for path, m in inner.named_modules() if isinstance(m, smooth) or "gelu" in type(m).__name__.lower()]
    for path in named:
        if path == "":
            return nn.ReLU().train(model.training)
        parent, _, name = path.rpartition(".")
        setattr(inner.get_submodule(parent), name, nn.ReLU().train(model.training))
    return Hardened(inner).train(model.training)


class Softened(nn.Module):
    """A network with softened ReLUs; made by `soften`.

    Attributes:
        model: The copy with its weights.
        beta: `[1]`, a buffer.
        mix: Share of the SiLU-like part.
    """

    beta: Tensor

    def __init__(self, model: nn.Module, beta: float, mix: float) -> None:
        super().__init__()
        self.model, self.mix = model, mix
        like = next((p for p in model.parameters() if p.is_floating_point()), torch.zeros(()))
        self.register_buffer("beta", torch.tensor([beta], dtype=like.dtype, device=like.device))
        self._number = beta  # as it was given, whatever the dtype of the weights

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with Replacing(lambda x: softened_relu(x, self._number, self.mix), frozenset(("relu",))) as replacing:
            output = self.model(*args, **kwargs)
        if replacing.count == 0:
            raise UnsupportedModelError(
                "The model called no ReLU: softening it would change nothing. `harden` makes ReLUs of GELU, SiLU and "
                "the like."
            )
        return output

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        self._number = float(self.beta)

    def extra_repr(self) -> str:
        return f"beta={self._number:g}, mix={self.mix}"


class Hardened(nn.Module):
    """A network whose smooth ReLUs run as ReLUs; made by `harden`."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with Replacing(torch.relu, _SOFT):
            return self.model(*args, **kwargs)


class Replacing(Functions):
    """Calls of some functions of one tensor become another's; `count` tells how many did."""

    def __init__(self, new: Callable[[Tensor], Tensor], names: frozenset[str]) -> None:
        super().__init__()
        self._new, self._names = new, names
        self.count = 0

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if plain_name(func) not in self._names:
            return func(*args, **kwargs)
        self.count += 1
        x = args[0] if args else kwargs["input"]
        if writes(func, kwargs):  # what gradients need must not be overwritten
            return x.copy_(self._new(x.clone()))
        return self._new(x)
