"""`soften` and `harden`: from hard tiles to soft ones by one number, and back; the posterior of the tile."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from .._display import Result
from .._errors import InputError, UnsupportedModelError
from ..complexity._sites import module_paths
from ..network._export import unwrap
from ..train import evaluating
from . import _functions as table
from .capture import Forward, plain_call, undisturbed

_SOFT = frozenset(("gelu", "silu", "mish", "softplus", "elu", "celu", "softened_relu"))


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
        trainable: Make beta a parameter of the copy (`copy.beta`), the only one with gradients.

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
    betas = dict(beta) if isinstance(beta, Mapping) else {"": beta}
    for path, value in betas.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
            raise InputError(f"beta must lie in [0, 1], got {value!r}{f' for {path!r}' if path else ''}.")
    if not 0 <= mix <= 1:
        raise InputError(f"mix must lie in [0, 1], got {mix!r}.")
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
        >>> bool((ss.harden(net)(torch.randn(5, 2)) >= 0).all())
        True
    """
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


class _Swapped(nn.Module):
    """A module run with some functions replaced."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def extra_repr(self) -> str:
        return ""


class Softened(_Swapped):
    """A network with softened ReLUs; made by `soften`.

    Attributes:
        model: The copy with its weights.
        paths: Which ReLUs each entry of `beta` is for; "" for all.
        beta: `[len(paths)]`, a parameter if trainable, else a buffer.
        mix: Share of the SiLU-like part.
    """

    beta: Tensor

    def __init__(self, model: nn.Module, betas: Mapping[str, float], mix: float, trainable: bool) -> None:
        super().__init__(model)
        self.paths, self.mix, self.trainable = tuple(betas), mix, trainable
        like = next((p for p in model.parameters() if p.is_floating_point()), torch.zeros(()))
        values = torch.tensor(list(betas.values()), dtype=like.dtype, device=like.device)
        if trainable:
            model.requires_grad_(False)
            self.beta = nn.Parameter(values)
        else:
            self.register_buffer("beta", values)
        self._numbers = tuple(float(value) for value in betas.values())

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with _Replacing(self._relu, frozenset(("relu",)), self.model, by_path=self.paths != ("",)):
            return self.model(*args, **kwargs)

    def _relu(self, x: Tensor, path: str) -> Tensor:
        place = 0 if self.paths == ("",) else self.paths.index(path) if path in self.paths else None
        if place is None:
            return torch.relu(x)
        return softened_relu(x, self.beta[place] if self.trainable else self._numbers[place], self.mix)

    def extra_repr(self) -> str:
        return f"beta={dict(zip(self.paths, self._numbers, strict=True))}, mix={self.mix}"


class Hardened(_Swapped):
    """A network whose smooth ReLUs run as ReLUs; made by `harden`."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with _Replacing(lambda x, path: torch.relu(x), _SOFT, self.model, by_path=False):
            return self.model(*args, **kwargs)


class _Replacing(TorchFunctionMode):
    """Calls of some functions of one tensor become another's."""

    def __init__(
        self, new: Callable[[Tensor, str], Tensor], names: frozenset[str], model: nn.Module, *, by_path: bool
    ) -> None:
        super().__init__()
        self._new, self._names, self._model, self._by_path = new, names, model, by_path
        self._paths: list[str] = []

    def __enter__(self) -> Any:
        if self._by_path:
            self._watch = module_paths(self._model)
            self._paths = self._watch.__enter__()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        if self._by_path:
            self._watch.__exit__(*error)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if table.plain_name(func) not in self._names:
            return func(*args, **kwargs)
        x = args[0] if args else kwargs["input"]
        path = self._paths[-1] if self._paths else ""
        if table.writes(func, kwargs):  # what gradients need must not be overwritten
            return x.copy_(self._new(x.clone(), path))
        return self._new(x, path)


@dataclass(frozen=True, eq=False, repr=False)
class RegionPosterior(Result):
    """How sure a softened network is of the tile that a point is in. N points, S sites.

    Attributes:
        paths: `[S]` where the ReLUs are.
        active: Per site `[N, units]` probability that a unit is active.
        entropy: `[N, S]` entropy of a site's code, in bits: 0 is certainty, one bit per undecided unit.
        log2_probability: `[N, S]` log2 of the probability of the code that the signs give.
        beta: As given.
    """

    paths: tuple[str, ...]
    active: tuple[np.ndarray, ...]
    entropy: np.ndarray
    log2_probability: np.ndarray
    beta: float
    certainty = "exact"

    @property
    def total(self) -> np.ndarray:
        """`[N]` entropy over all sites, in bits."""
        return self.entropy.sum(1)


def region_posterior(
    model: nn.Module, x: Any, *, beta: float = 0.5, mix: float = 1.0, forward: Forward | None = None
) -> RegionPosterior:
    """The soft assignment of points to tiles: for a unit of pre-activation z,

        P(active | x) = sigmoid(beta z / (1 - beta)),

    units independent given what enters their layer, which is that of the network softened by beta. Exact for this model
    of it; as beta goes to 1 it becomes the hard code with certainty.

    Args:
        model: A ReLU network.
        x: `[N, *input shape]` points.
        beta: In [0, 1).
        mix: As for `soften`; 1 is the network whose activation is the mean under this posterior.
        forward: How to call the model.

    Example:
        >>> import torch, splinescope as ss
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        >>> ss.region_posterior(net, torch.zeros(3, 2), beta=0.9).entropy.shape
        (3, 1)

    Reference: Balestriero and Baraniuk, "From Hard to Soft".
    """
    if not 0 <= beta < 1:
        raise InputError(f"beta must lie in [0, 1): at 1 the code is certain; got {beta!r}.")
    soft = soften(model, beta, mix=mix)
    points = torch.as_tensor(x)
    seen: list[tuple[str, Tensor]] = []

    def relu(z: Tensor, path: str) -> Tensor:
        seen.append((path, z.detach().double().flatten(1).cpu()))
        return softened_relu(z, beta, mix)

    with evaluating(soft), undisturbed(soft), _Replacing(relu, frozenset(("relu",)), soft.model, by_path=True):
        (forward or plain_call)(soft.model, points)
    if not seen:
        raise UnsupportedModelError("No ReLU was seen in the model's forward pass: it has no hard code to soften.")
    logits = [beta / (1 - beta) * z for _, z in seen]
    active = [torch.sigmoid(z) for z in logits]
    entropy = [(p * F.softplus(-z) + (1 - p) * F.softplus(z)).sum(1) for p, z in zip(active, logits, strict=True)]
    own = [-F.softplus(-z.abs()).sum(1) for z in logits]
    bits = np.log(2)
    return RegionPosterior(
        tuple(path for path, _ in seen),
        tuple(p.numpy() for p in active),
        torch.stack(entropy, 1).numpy() / bits,
        torch.stack(own, 1).numpy() / bits,
        beta,
    )
