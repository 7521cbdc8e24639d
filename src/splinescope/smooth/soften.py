"""`soften` and `harden`: from hard tiles to soft ones by one number, and back."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..network.readable import check_readable, unwrap
from ..support.errors import InputError, UnsupportedModelError
from ._changed_calls import Replacing

_MOST = 0.9999  # of a beta that training has moved beyond 1
_SOFT = frozenset(("gelu", "silu", "mish", "softplus", "elu", "celu", "softened_relu"))


def checked_beta(value: Any, where: str = "") -> float:
    """A beta as a float, of any kind of number."""
    array = isinstance(value, (Tensor, np.generic, np.ndarray))
    number = value.item() if array and int(np.prod(value.shape)) == 1 else value
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number <= 1:
        raise InputError(f"beta must be a number in [0, 1], got {value!r}{where}.")
    return float(number)


def softened_relu(x: Tensor, beta: Tensor | float, mix: float = 0.5) -> Tensor:
    """A smooth ReLU,

        c x sigmoid(beta x / (1 - beta)) + (1 - c) (1 - beta) softplus(x / (1 - beta)),

    beta in [0, 1] and c = `mix`. At beta = 1 it is the ReLU; with c = 1 it is SiLU at 1/2 and x/2 at 0. The first part
    lies below the ReLU and the second above; half of each keeps the mean. Differentiable in beta below 1.
    """
    if not isinstance(beta, Tensor) and beta >= 1:
        return torch.relu(x)
    if isinstance(beta, Tensor):
        rest = (1 - beta).clamp_min(1e-6)
        first = x * torch.sigmoid(beta / rest * x)
        second = rest * F.softplus(x / rest)
        return torch.where(beta >= 1, torch.relu(x), mix * first + (1 - mix) * second)
    scale = beta / (1 - beta)
    parts = []
    if mix > 0:
        parts.append(mix * (F.silu(scale * x) / scale if scale > 0 else 0.5 * x))
    if mix < 1:
        parts.append((1 - mix) * F.softplus(x, beta=1 / (1 - beta)))
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def soften(
    model: nn.Module, beta: float | Mapping[str, float] = 0.5, *, mix: float = 0.5, trainable: bool = False
) -> Softened:
    """A copy of a network with every ReLU softened by beta; see `softened_relu`.

    No weight is touched: one number moves a trained network from its piecewise-affine self (1) to ever smoother ones.

    Args:
        model: A module; ReLUs may be modules or function calls. It is left as it is.
        beta: In [0, 1], for all ReLUs; or per path of the module that calls one (others stay at 1).
        mix: c, the share of the SiLU-like part.
        trainable: Make beta a parameter of the copy (`copy.beta`), the only one with gradients; what training moves out
            of [0, 1] is set back, to 0.9999 at the upper end: at 1 itself the gradient is 0.

    Returns:
        The copy, a module like the model.

    Example:
        >>> import torch, splinescope as ss
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        >>> x = torch.randn(5, 2)
        >>> torch.equal(ss.soften(net, beta=1.0)(x), net(x))
        True

    Reference: Balestriero and Baraniuk, "From Hard to Soft: Understanding Deep Network Nonlinearities via Vector
    Quantization and Statistical Inference"; Hu, Gamba, Balestriero, "Curvature Tuning: Provable Training-free Model
    Steering From a Single Parameter".
    """
    given = dict(beta) if isinstance(beta, Mapping) else {"": beta}
    betas = {path: checked_beta(value, f" for {path!r}" if path else "") for path, value in given.items()}
    if not 0 <= mix <= 1:
        raise InputError(f"mix must lie in [0, 1], got {mix!r}.")
    check_readable(unwrap(model), quantized=True)
    inner = copy.deepcopy(unwrap(model))
    if isinstance(inner, Softened):
        inner = inner.model
    known = {path for path, _ in inner.named_modules()}
    if unknown := [path for path in betas if path not in known]:
        raise InputError(f"beta must be given for paths of the model, got {', '.join(map(repr, unknown))}.")
    return Softened(inner, betas, mix, trainable).train(model.training)


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
        paths: Which ReLUs each entry of `beta` is for; "" for all.
        beta: `[len(paths)]`, a parameter if trainable, else a buffer.
        mix: Share of the SiLU-like part.
    """

    beta: Tensor

    def __init__(self, model: nn.Module, betas: Mapping[str, float], mix: float, trainable: bool) -> None:
        super().__init__()
        self.model, self.paths, self.mix, self.trainable = model, tuple(betas), mix, trainable
        like = next((p for p in model.parameters() if p.is_floating_point()), torch.zeros(()))
        values = torch.tensor(list(betas.values()), dtype=like.dtype, device=like.device)
        if trainable:
            model.requires_grad_(False)
            self.beta = nn.Parameter(values)
        else:
            self.register_buffer("beta", values)
        self._numbers = tuple(float(value) for value in betas.values())

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self.trainable and not torch.compiler.is_compiling():  # a step of training may have gone too far
            with torch.no_grad():
                if bool((self.beta < 0).any() | (self.beta > 1).any()):
                    self.beta[self.beta < 0] = 0.0
                    self.beta[self.beta > 1] = _MOST
        met: set[str] = set()

        def relu(x: Tensor, path: str) -> Tensor:
            met.add(path)
            return self._relu(x, path)

        with Replacing(relu, frozenset(("relu",)), self.model, by_path=self.paths != ("",)) as replacing:
            output = self.model(*args, **kwargs)
        if replacing.count == 0:
            raise UnsupportedModelError(
                "The model called no ReLU: softening it would change nothing. `harden` makes ReLUs of GELU, SiLU and "
                "the like."
            )
        if self.paths != ("",) and (idle := [path for path in self.paths if path not in met]):
            raise UnsupportedModelError(
                f"No ReLU is called by {', '.join(map(repr, idle))}: beta there would change nothing. ReLUs are called "
                f"by {', '.join(map(repr, sorted(met)))}."
            )
        return output

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        self._numbers = tuple(float(value) for value in self.beta)

    def _relu(self, x: Tensor, path: str) -> Tensor:
        place = 0 if self.paths == ("",) else self.paths.index(path) if path in self.paths else None
        if place is None:
            return torch.relu(x)
        return softened_relu(x, self.beta[place] if self.trainable else self._numbers[place], self.mix)

    def extra_repr(self) -> str:
        return f"beta={dict(zip(self.paths, self.beta.tolist(), strict=True))}, mix={self.mix}"


class Hardened(nn.Module):
    """A network whose smooth ReLUs run as ReLUs; made by `harden`."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with Replacing(lambda x, path: torch.relu(x), _SOFT, self.model, by_path=False):
            return self.model(*args, **kwargs)
