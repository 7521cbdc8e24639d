"""One node of the exported graph as a rule sees it: named arguments, constants known, steps to emit."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..patches import Patches
from ..program import Affine, Fold, Site, Smooth, Step, Tournament
from .bend import called, is_coarser


@dataclass(frozen=True)
class Live:
    """A value that depends on the input: its name, shape without the batch axis, and folds before it.

    `merged` is how many rows of the model's value each row of the network has (`x.view(-1, C)` makes several).
    """

    name: str
    shape: tuple[int, ...]
    depth: int
    merged: int = 1

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Rows:
    """A constant with a batch axis, the same in every row: `tensor` is `[1, *shape]`."""

    tensor: Tensor


class Batch:
    """The number of rows, where a model reads `x.shape[0]`."""


BATCH = Batch()


class Refusal(Exception):
    """Raised by a rule: this node is not piecewise affine, and why."""


class Curved(Refusal):
    """This node is a smooth function of each number: refused, except in a network traced with `smooth=True`."""


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    """`function` on every leaf of nested lists and tuples."""
    if isinstance(tree, (list, tuple)):
        return type(tree)(tree_map(function, item) for item in tree)
    return function(tree)


def leaves(tree: Any) -> list[Any]:
    """The leaves of nested lists and tuples."""
    if isinstance(tree, (list, tuple)):
        return [leaf for item in tree for leaf in leaves(item)]
    return [tree]


def split_arguments(target: Any, arguments: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments by name as a call of the op takes them: positional ones and keywords."""
    schema = target._schema.arguments
    positional = [arguments[a.name] for a in schema if not a.kwarg_only]
    return positional, {a.name: arguments[a.name] for a in schema if a.kwarg_only}


def absolute(value: Any) -> Any:
    """|value| for numbers, floating tensors and constant rows; anything else as it is."""
    if isinstance(value, Rows):
        return Rows(absolute(value.tensor))
    if isinstance(value, Tensor):
        return value.abs() if value.is_floating_point() else value
    return abs(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


COEFFICIENTS = frozenset({"alpha", "beta", "value", "other", "weight"})
"""Arguments that multiply or add when they are plain numbers (others are axes, sizes, strides)."""


@dataclass(eq=False)
class Call:
    """One op applied to arguments, some live.

    Attributes:
        target: The ATen overload.
        op: Its name without namespace and overload, e.g. "conv2d".
        arguments: Every argument of its schema by name: `Live`, `Rows`, float64 tensor or plain value.
        pick: Which output is wanted of an op with several, else None.
        shape: Shape of the output without the batch axis.
        merged: How many rows of the output each row of the network has.
        dtype: Of the output; float64 for every floating one.
        rounds_to: The dtype of the output in the model where that is coarser than the model's `precision`, else None.
        lives: The live arguments, each once, in order.
    """

    target: Any
    arguments: dict[str, Any]
    name: str
    path: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    pick: int | None
    precision: torch.dtype
    merged: int = 1

    def __post_init__(self) -> None:
        self.op = op_name(self.target)
        self.rounds_to = self.dtype if is_coarser(self.dtype, self.precision) else None
        self.dtype = torch.float64 if self.dtype.is_floating_point else self.dtype
        self.steps: list[Step] = []
        found = [leaf for value in self.arguments.values() for leaf in leaves(value) if isinstance(leaf, Live)]
        self.lives: tuple[Live, ...] = tuple(dict.fromkeys(found))
        self.depth = max((live.depth for live in self.lives), default=0)

    def __getitem__(self, argument: str) -> Any:
        return self.arguments[argument]

    def get(self, argument: str, default: Any = None) -> Any:
        return self.arguments.get(argument, default)

    @property
    def rank(self) -> int:
        """Number of axes of one row of the first live argument."""
        return len(self.lives[0].shape)

    def constant(self, argument: str) -> Any:
        """An argument that must not depend on the network's input, without its batch axis; None if not given."""
        value = self.arguments.get(argument)
        if isinstance(value, Live):
            raise Refusal("has a bound that depends on the input; use maximum or minimum.")
        return value.tensor[0] if isinstance(value, Rows) else value

    def is_live(self, argument: str) -> bool:
        """Whether the argument depends on the network's input."""
        return any(isinstance(leaf, Live) for leaf in leaves(self.arguments.get(argument)))

    def live(self, argument: str = "self") -> Live:
        """The argument, refused unless it is the only live one."""
        value = self.arguments[argument]
        if not isinstance(value, Live) or self.lives != (value,):
            raise Refusal(f"only its argument {argument!r} may depend on the network's input.")
        return value

    def values_only(self) -> None:
        """Refuse every output but the first (indices are not continuous)."""
        if self.pick not in (None, 0):
            raise Refusal("the indices it returns are not continuous in the input; only its values can be used.")

    # what to run

    def runner(self, constants: Callable[[Any], Any] | None = None) -> Callable[..., Tensor]:
        """The op as a function of the live values, `constants` applied to tensors and coefficients."""
        target, pick, arguments = self.target, self.pick, dict(self.arguments)
        positions = {live: i for i, live in enumerate(self.lives)}
        if constants is not None:
            for name, value in self.arguments.items():
                kinds: Any = object if name in COEFFICIENTS else (Tensor, Rows)
                arguments[name] = tree_map(partial(_where, constants, kinds), value)
        positional, keywords = split_arguments(target, arguments)
        moving = [i for i, v in enumerate(positional) if any(isinstance(a, (Live, Rows, Batch)) for a in leaves(v))]
        if moving == [0] and isinstance(positional[0], Live) and pick is None:  # nothing to look for at every call
            rest = positional[1:]
            return lambda x: target(x, *rest, **keywords)

        def run(*tensors: Tensor) -> Tensor:
            rows = tensors[0].shape[0]

            def real(value: Any) -> Any:
                if isinstance(value, Live):
                    return tensors[positions[value]]
                if isinstance(value, Rows):
                    return value.tensor.expand(rows, *value.tensor.shape[1:])
                return rows if isinstance(value, Batch) else value

            filled = list(positional)
            for i in moving:
                filled[i] = tree_map(real, positional[i])
            result = target(*filled, **keywords)
            return result if pick is None else result[pick]

        return run

    # what it becomes

    def affine(
        self, run: Callable[..., Tensor] | None = None, magnitude: Callable[..., Tensor] | None = None,
        inputs: Sequence[Live] | None = None, shape: tuple[int, ...] | None = None, suffix: str = "",
        linear: Callable[..., Patches] | None = None, convolution: int = 0,
    ) -> Live:  # fmt: skip
        """Emit an affine step; without arguments, the op itself, and its magnitude by absolute constants."""
        used = self.lives if inputs is None else tuple(inputs)
        depth = max((v.depth for v in used), default=0)
        output = Live(self.name + suffix, self.shape if shape is None else shape, depth)
        run, magnitude = run or self.runner(), magnitude or self.runner(absolute)
        self.steps.append(Affine(output.name, tuple(v.name for v in used), run, magnitude, linear, convolution))
        return output

    def fold(
        self, inputs: Sequence[Live], run: Callable[..., Tensor], cuts: Callable[..., Tensor],
        cut_magnitude: Callable[..., Tensor], gains: np.ndarray, elements: np.ndarray,
        shape: tuple[int, ...] | None = None, suffix: str = "", at: np.ndarray | None = None,
    ) -> Live:  # fmt: skip
        """Emit a fold, one level deeper than this call's inputs."""
        shape = self.shape if shape is None else shape
        site = Site(self.path, called(self.op, self), shape, len(gains), self.depth + 1)
        output = Live(self.name + suffix, shape, site.depth)
        names = tuple(v.name for v in inputs)
        gains, elements = np.ascontiguousarray(gains, np.float64), np.ascontiguousarray(elements, np.int64)
        self.steps.append(Fold(output.name, names, run, cuts, cut_magnitude, gains, elements, site, at))
        return output

    def smooth(self) -> Live:
        """Emit the op itself, a smooth function of each number of its live input."""
        x = self.live()
        if x.shape != self.shape:
            raise Refusal("spreads its input over a larger shape; only functions of each number by itself are known.")
        others = {key: value for key, value in self.arguments.items() if value is not x}
        if any(isinstance(leaf, (Tensor, Rows)) for value in others.values() for leaf in leaves(value)):
            raise Refusal("has tensors as parameters; only plain numbers are known here.")
        units = math.prod(self.shape)
        site = Site(self.path, self.op, self.shape, units, self.depth + 1)
        everywhere = np.zeros(units), np.arange(units)
        step = Smooth(self.name, (x.name,), self.runner(), _flat, _flat, *everywhere, site, arguments=others)
        self.steps.append(step)
        return Live(self.name, self.shape, site.depth)

    def end_tournament(self, competitors: Live, stages: Sequence[tuple[str, np.ndarray]]) -> None:
        """End a tournament: say how to tell its real walls."""
        self.steps.append(Tournament(competitors.name, tuple(stages), self.shape))


def _where(function: Callable[[Any], Any], kinds: Any, value: Any) -> Any:
    return function(value) if isinstance(value, kinds) else value


def _flat(x: Tensor) -> Tensor:
    return x.reshape(len(x), -1)


def op_name(target: Any) -> str:
    """ "conv2d" for `aten.conv2d.default`; the Python name for anything else."""
    schema = getattr(target, "_schema", None)
    if schema is None:
        return getattr(target, "__name__", str(target))
    namespace, _, name = schema.name.partition("::")
    return name if namespace == "aten" else f"{namespace}.{name}"
