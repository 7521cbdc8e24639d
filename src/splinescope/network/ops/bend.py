"""Reading a forward pass: on which side of the folds of a torch call each row is.

A call is seen with the arguments that the user's code gave; `Given` names them as ATen does, so that one description
of an activation (its hinges, its windows) serves lowering and watching alike.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils import _pytree

Hinge = tuple[Any, Any]
"""(at, gain): where a function bends and by how much its slope grows; numbers, or constants that broadcast to one row.

A gain of None is a jump."""


class Arguments(Protocol):
    """The arguments of an op by ATen name, of a node of a graph or of a call that is being watched."""

    @property
    def rank(self) -> int:
        """Number of axes of one row of the first argument."""

    def __getitem__(self, argument: str) -> Any: ...

    def constant(self, argument: str) -> Any:
        """A number or tensor that does not depend on the input (its row without a batch axis); None if not given."""


Hinges = Callable[[Any], Sequence[Hinge]]
"""From `Arguments` to the hinges of an elementwise function."""


class Given:
    """The arguments of a watched call of `name` ("relu_"), in the table `op` ("relu"), the batch axis first."""

    def __init__(self, name: str, op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.name, self.op = name, op
        keywords = {"self" if key == "input" else key: value for key, value in kwargs.items()}
        tensor = len(args) > 1 and isinstance(args[1], Tensor)
        names, defaults = _schema(op, len(args), tensor, frozenset(keywords))
        self._values = {**defaults, **dict(zip(names, args, strict=False)), **keywords}

    @property
    def rank(self) -> int:
        return int(self["self"].dim()) - 1

    def __getitem__(self, argument: str) -> Any:
        return self._values[argument]

    def constant(self, argument: str) -> Any:
        return self._values.get(argument)

    def tensors(self) -> list[Tensor]:
        """The tensors among the arguments."""
        return [leaf for leaf in _pytree.tree_leaves(self._values) if isinstance(leaf, Tensor)]


@functools.lru_cache(maxsize=256)
def _schema(
    op: str, positional: int, second_is_tensor: bool, keywords: frozenset[str]
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Names of an op's arguments in order and their defaults, from the overload that fits what was given best."""
    packet = getattr(torch.ops.aten, op, None)
    found = [getattr(packet, name)._schema.arguments for name in packet.overloads()] if packet is not None else []
    if not found:  # a Python function of torch.nn.functional
        return ("self",), {}

    def misfit(arguments: Any) -> tuple[int, bool]:
        takes_tensor = len(arguments) > 1 and "Tensor" in str(arguments[1].type)
        left_over = len(keywords - {a.name for a in arguments}) + max(0, positional - len(arguments))
        return left_over, takes_tensor != second_is_tensor

    best = min(found, key=misfit)
    return tuple(a.name for a in best), {a.name: a.default_value for a in best if a.has_default_value()}


@dataclass(frozen=True)
class Bend:
    """How to read a call.

    Attributes:
        state: From the arguments, values whose sign matters or, if `winner`, places of winners; None: nothing bends.
        cuts: For a winner: `[N, k, U]`, each competitor's value minus the winner's. Else as `state`.
        both: (state, the call's own result), where one computation gives both.
        own_shape: Whether the site has the shape of `state` and not that of the call's result.
        idle: Share of `state`'s elements that stand for no fold (hinges of no gain); they are constant.
    """

    state: Callable[[Given], Tensor | None]
    cuts: Callable[[Given], Tensor | None]
    winner: bool = False
    both: Callable[[Given], tuple[Tensor, Any]] | None = None
    own_shape: bool = False
    idle: Callable[[Given], float] = lambda given: 0.0


def called(op: str, arguments: Arguments) -> str:
    """What an op is called where it stands: `nn.ReLU6` runs as a hardtanh from 0 to 6."""
    six = op == "hardtanh" and (arguments["min_val"], arguments["max_val"]) == (0, 6)
    return "relu6" if six else op


COARSE = (
    "casts to {0}, which is coarser than the model: rounding makes steps, not affine pieces; leave the cast out, or "
    "convert the whole model with model.to(dtype)."
)


def is_coarser(dtype: torch.dtype, precision: torch.dtype) -> bool:
    """Whether numbers of a dtype are rounded more than those of another."""
    return dtype.is_floating_point and torch.finfo(dtype).eps > torch.finfo(precision).eps


def hinged(hinges: Hinges) -> Bend:
    """Elementwise: the distances to the hinges, in a last axis of their own if there are several."""

    def state(given: Given) -> Tensor | None:
        x = given["self"]
        parts = [_distance(x, at, gain) for at, gain in hinges(given)]
        kept = [part for part in parts if part is not None]
        return torch.stack(kept, -1) if len(kept) > 1 else kept[0] if kept else None

    def idle(given: Given) -> float:
        shares = [float(_present(given["self"], at, gain).double().mean()) for at, gain in hinges(given)]
        kept = [share for share in shares if share > 0]
        return 1 - sum(kept) / len(kept) if kept else 0.0

    return Bend(state, state, idle=idle)


def _present(x: Tensor, at: Any, gain: Any) -> Tensor:
    """Where a hinge is one: it has a gain, at a finite place."""
    here = torch.as_tensor(at, device=x.device).isfinite()
    return here if gain is None else here & (torch.as_tensor(gain, device=x.device) != 0)


def _distance(x: Tensor, at: Any, gain: Any) -> Tensor | None:
    if not isinstance(at, Tensor) and not isinstance(gain, Tensor):
        if at in (torch.inf, -torch.inf) or gain == 0:
            return None
        return x if at == 0 else x - at
    present = _present(x, at, gain)
    if bool(present.all()):
        return x - at
    return torch.where(present, x - at, 1.0) if bool(present.any()) else None


def behind(values: Tensor) -> Tensor:
    """`[N, k, U]`: each of `[N, k, ...]` competitors minus the winner over axis 1."""
    values = values.flatten(2) if values.dim() > 2 else values.unsqueeze(-1)
    return values - values.gather(1, values.argmax(1, keepdim=True))
