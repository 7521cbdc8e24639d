"""A network as the engine sees it: a straight line of affine steps and folds over named values.

Every value is a batch `[N, *shape]` of float64. An **affine** step is an op that is affine in its inputs; the
real torch op runs. A **fold** bends: its output is

    output = (affine in the inputs) + sum_j gains[j] * relu(cuts_j(inputs)) * e[elements[j]]

where each `cuts_j` is affine in the inputs and its zero set is the fold of unit j. ReLU, leaky ReLU, clamp,
abs and maximum are all of this form, so the engine needs to know one kind of fold only.

A max over a window is a tournament of `maximum` folds. Some walls that a tournament draws are not walls of the
max (two losers meet there); the **tournament** step that ends it says how to tell: a wall of stage s is real only where
the stage's winner is also the winner of the whole, or where a later fold lies on it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from splinescope.support.display import Shown, table

from .patches import Patches

_SHOWN = 35  # steps in a summary


@dataclass(frozen=True)
class Site:
    """One place in a network where a non-linearity acts.

    Attributes:
        path: Module path in the user's model, e.g. "layer1.0.relu" ("" for the model itself).
        op: Name of the non-linearity, e.g. "relu".
        shape: Shape of its output (of the pairs, where pairs are sorted), without the batch axis.
        units: How many folds it has: one per hinge of an element (two for a clamp with two bounds), one per window of
            a max-pool (the set where its winner changes), one per pair that is sorted.
        depth: 1 + number of folds on the longest way from the input to it.
        cuts: By how many cuts they are made: a window of k competitors needs k - 1, in a tournament. Cut j belongs to
            unit j % units.
    """

    path: str
    op: str
    shape: tuple[int, ...]
    units: int
    depth: int
    cuts: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        if self.cuts == 0:
            object.__setattr__(self, "cuts", self.units)

    @property
    def neurons(self) -> int:
        """How many numbers bend: a unit per fold, but a number that bends twice (ReLU6, a clamp) is one neuron."""
        return min(self.units, math.prod(self.shape))

    @property
    def label(self) -> str:
        """Path and op, or the op alone for a function of the model itself."""
        return f"{self.path} {self.op}".lstrip()


def site_names(sites: Sequence[Site]) -> list[str]:
    """The one name of each site, wherever sites are told apart: its number in `sites`, its path and its op."""
    return [f"{i} {site.label}" for i, site in enumerate(sites)]


def units_of_cuts(sites: Sequence[Site], cuts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Index of the site and of the unit in it of cuts, which are numbered over all sites (-1, no cut: -1 and -1)."""
    if not sites:
        return np.full(cuts.shape, -1), np.full(cuts.shape, -1)
    starts = np.cumsum([0, *(site.cuts for site in sites)])
    where = np.searchsorted(starts, cuts, side="right") - 1
    units = (cuts - starts[where]) % np.array([site.units for site in sites])[np.minimum(where, len(sites) - 1)]
    return np.where(cuts < 0, -1, where), np.where(cuts < 0, -1, units)


@dataclass(frozen=True, eq=False)
class Affine:
    """`output = run(*inputs)`, affine in the inputs.

    `magnitude` is the same op with absolute constants, to be run on absolute values: it gives the size of the
    terms that are summed, so the size of the rounding error, whatever cancels. `linear`, where there is one, is the op
    without constants, on rows that vanish outside a window each (see `Patches`). `convolution` counts the products of
    two numbers in a convolution of one row, 0 for other ops: a measure of what it costs.
    """

    output: str
    inputs: tuple[str, ...]
    run: Callable[..., Tensor]
    magnitude: Callable[..., Tensor]
    linear: Callable[..., Patches] | None = None
    convolution: int = 0


@dataclass(frozen=True, eq=False)
class Product:
    """A matrix product with its bias, `x W^T + b` of rows `[N, K]`, as an `Affine.run`.

    A BLAS starts its sums at aligned addresses, so with rows of odd length the last bits of a row would depend on its
    position: `weight` `[out, K + missing]` is filled up with zeros that change nothing else, and so are the rows.
    """

    weight: Tensor
    bias: Tensor | None
    missing: int = 0

    def __call__(self, x: Tensor) -> Tensor:
        return functional.linear(self._filled(x), self.weight, self.bias)

    def into(self, x: Tensor, out: Tensor) -> None:
        """The same bits, written to `out` `[N, out]`."""
        if self.bias is None:
            torch.mm(self._filled(x), self.weight.t(), out=out)
        else:
            torch.addmm(self.bias, self._filled(x), self.weight.t(), out=out)

    def _filled(self, x: Tensor) -> Tensor:
        return torch.constant_pad_nd(x, (0, self.missing)) if self.missing else x


@dataclass(frozen=True, eq=False)
class Fold:
    """`output = run(*inputs)`, bent where `cuts(*inputs)[:, j] == 0` for some unit j (see the module's text).

    Attributes:
        cuts: Inputs to `[N, U]`; affine.
        cut_magnitude: `cuts` with absolute constants and sums for differences, for absolute values.
        gains: `[U]` change of slope across each unit's fold, from its negative to its positive side.
        elements: `[U]` flat index of the output element that each unit bends.
        site: Where this is in the user's model; its units are the cuts of this fold, a stage of a tournament or not.
        at: `[U]` where the fold acts on each number of its one input x by itself: `cuts_j = x[elements[j]] - at[j]`.
    """

    output: str
    inputs: tuple[str, ...]
    run: Callable[..., Tensor]
    cuts: Callable[..., Tensor]
    cut_magnitude: Callable[..., Tensor]
    gains: np.ndarray
    elements: np.ndarray
    site: Site
    at: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Smooth(Fold):
    """A smooth function of each number of its one input, in place of a fold: no tiling can hold it as it is.

    Only in programs of networks traced with `smooth=True`. Its units are its elements, at no gain; an interpolant makes
    it a fold with as many cuts as knots are reached.

    Attributes:
        arguments: Its other arguments by name, plain numbers or words.
    """

    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Tournament:
    """Ends a tournament, whose folds follow each other: each takes the output of the one before.

    A wall that some unit j of a stage drew is real only where the stage's winner is also the winner of the whole,
    `stage output[elements[j]] == final[windows[j]]`, for that unit or for another one that is zero there too.

    Attributes:
        competitors: Name of the value that goes into the first stage.
        stages: Per stage, the output name of its fold and `[U]` the flat index in `final` of each unit's window.
        shape: What the windows form together: the shape of the max, without the batch axis.
    """

    competitors: str
    stages: tuple[tuple[str, np.ndarray], ...]
    shape: tuple[int, ...]

    @property
    def final(self) -> str:
        """Name of the value that the tournament ends with."""
        return self.stages[-1][0]

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.competitors, *(name for name, _ in self.stages))


Step = Affine | Fold | Tournament


@dataclass(frozen=True, eq=False, repr=False)
class Program(Shown):
    """A float64 snapshot of a network, ready to run on batches: it owns its constants and needs no module.

    Attributes:
        input: Name of the input value.
        input_shape: Its shape without the batch axis.
        output: Name of the last value (before any ending such as softmax).
        output_shape: Its shape without the batch axis.
        steps: In execution order.
        ending: Name of what follows the last affine piece ("softmax") and is left out; or None.
        paths: Name of a step's output -> path of the module that computes it.
        ops: Name of a step's output -> name of the operation that it is (part of).
        identity: What the fingerprint is taken of: lines of text and the constants, in order.
    """

    input: str
    input_shape: tuple[int, ...]
    output: str
    output_shape: tuple[int, ...]
    steps: tuple[Step, ...]
    ending: str | None = None
    paths: Mapping[str, str] = field(default_factory=dict, repr=False)
    ops: Mapping[str, str] = field(default_factory=dict, repr=False)
    identity: tuple[str | Tensor, ...] = field(default=(), repr=False)
    folds: tuple[Fold, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "folds", tuple(s for s in self.steps if isinstance(s, Fold)))

    def __repr__(self) -> str:
        units, ending = sum(fold.site.units for fold in self.folds), f", before {self.ending}" if self.ending else ""
        shapes = f"{self.input_shape} to {self.output_shape}"
        return f"Program({shapes}, {len(self.steps)} steps, {len(self.folds)} folds of {units} units{ending})"

    def summary(self) -> str:
        """A table of the steps in execution order: the value it makes, what it is, where in the model."""
        sites = {fold.output: fold.site for fold in self.folds}
        rows = [("step", "what", "operation", "module", "units")]
        for step in self.steps:
            if isinstance(step, Tournament):
                rows.append((step.final, "ends a max", "", self.paths.get(step.final, ""), ""))
                continue
            what, units = type(step).__name__.lower(), f"{sites[step.output].units:,}" if step.output in sites else ""
            rows.append((step.output, what, self.ops.get(step.output, ""), self.paths.get(step.output, ""), units))
        if len(rows) > _SHOWN + 1:
            rows[_SHOWN:] = [(f"... {len(rows) - _SHOWN} more", "", "", "", "")]
        numbers = sum(constant.numel() for constant in self.constants)
        return f"{self!r}\n{table(rows)}\nA snapshot in float64, with {numbers:,} numbers of its own."

    @cached_property
    def sites(self) -> tuple[Site, ...]:
        """The places where the network folds, in execution order; a tournament is one, whatever its stages."""
        finals = {step.final: step for step in self.steps if isinstance(step, Tournament)}
        return tuple(
            self._site_of(finals[fold.output], fold.site) if fold.output in finals else fold.site
            for fold in self.folds
            if fold.output in self.site_numbers
        )

    @cached_property
    def site_numbers(self) -> dict[str, int]:
        """Number in `sites` of the site that a fold is, by its output; a tournament's is that of its last fold."""
        stages = {name for step in self.steps if isinstance(step, Tournament) for name, _ in step.stages[:-1]}
        outputs = [fold.output for fold in self.folds if fold.output not in stages]
        return {output: number for number, output in enumerate(outputs)}

    def _site_of(self, end: Tournament, last: Site) -> Site:
        """One site for all stages of a tournament; the cuts of each go through the windows in order."""
        cuts = sum(len(windows) for _, windows in end.stages)
        return Site(last.path, last.op, end.shape, math.prod(last.shape), last.depth, cuts)

    @cached_property
    def constants(self) -> tuple[Tensor, ...]:
        """The tensors it was made from, in order."""
        return tuple(part for part in self.identity if isinstance(part, Tensor))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of structure and constants: equal for equal networks, whatever their dtype or device."""
        digest = hashlib.sha256()
        for part in self.identity:
            if isinstance(part, Tensor):
                digest.update(f"{tuple(part.shape)}".encode())
                digest.update(part.contiguous().numpy().data)
            else:
                digest.update(part.encode())
        return digest.hexdigest()

    def forward(self, x: Tensor) -> Tensor:
        """The network on a batch `[N, *input_shape]`, in float64."""
        return walked(self.steps, {self.input: x.to(torch.float64)}, {self.output})[self.output]

    def walk(self, x: Tensor) -> Iterator[tuple[Affine | Fold, list[Tensor], Tensor]]:
        """Run the network on a batch `[N, *input_shape]` step by step: (step, its inputs, its output) in turn."""
        return walk(self.steps, {self.input: x.to(torch.float64)}, {self.output})

    def patterns(self, x: Tensor) -> Iterator[np.ndarray]:
        """For each fold, `[N, U]` booleans: where a batch `[N, *input_shape]` is on a unit's positive side."""
        for step, inputs, _ in self.walk(x):
            if isinstance(step, Fold):
                yield (step.cuts(*inputs) > 0).numpy()


_FAR = 2.0**200  # beside it no constant of a network counts, and sums of it are still finite


def depends_on_input(program: Program) -> bool:
    """Whether any weight connects the output to the input (if none does, the output is constant everywhere).

    Follows which elements can move at all: those whose step answers to elements that can (all absolute weights added
    up, so that nothing cancels). A network that is constant only because its units are dead still depends on it.
    """

    def moved(step: Affine | Fold, inputs: list[Tensor]) -> Tensor:
        given = [_FAR * value for value in inputs]
        rest = [torch.zeros_like(value) for value in given]
        if isinstance(step, Affine):
            moves = step.magnitude(*given) != step.magnitude(*rest)
        else:
            still = step.run(*rest)
            moves = (step.run(*given) != still) | (step.run(*(-value for value in given)) != still)
        return moves.to(torch.float64)

    values = {program.input: torch.ones(1, *program.input_shape, dtype=torch.float64)}
    return bool(walked(program.steps, values, {program.output}, moved)[program.output].any())


def live_after(steps: Iterable[Step], keep: Iterable[str]) -> list[set[str]]:
    """For each step, the names still needed once it has run (`keep` is needed at the end)."""
    needed = set(keep)
    result: list[set[str]] = []
    for step in reversed(list(steps)):
        result.append(set(needed))
        needed |= set(step.inputs)
    return result[::-1]


Value = TypeVar("Value")


def walk(
    steps: Iterable[Step], values: dict[str, Value], keep: Iterable[str],
    evaluate: Callable[[Affine | Fold, list[Value]], Value] | None = None,
) -> Iterator[tuple[Affine | Fold, list[Value], Value]]:  # fmt: skip
    """The interpreter: evaluate steps in order, and give (step, its inputs, its output) in turn.

    What a value is, is up to `evaluate` (step, inputs) -> output: numbers by `step.run` if none is given, or intervals,
    polynomials, shapes. `values` is filled in place, and each is dropped after its last use unless `keep` names it.
    """
    steps = list(steps)
    for step, needed in zip(steps, live_after(steps, keep), strict=True):
        if not isinstance(step, Tournament):
            inputs = [values[name] for name in step.inputs]
            output = step.run(*inputs) if evaluate is None else evaluate(step, inputs)
            values[step.output] = output  # type: ignore[assignment]
            yield step, inputs, output  # type: ignore[misc]
        for name in [name for name in values if name not in needed]:
            del values[name]


def walked(
    steps: Iterable[Step], values: Mapping[str, Value], keep: Iterable[str],
    evaluate: Callable[[Affine | Fold, list[Value]], Value] | None = None,
) -> dict[str, Value]:  # fmt: skip
    """`walk` to the end: the values named in `keep`."""
    left = dict(values)
    for _ in walk(steps, left, keep, evaluate):
        pass
    return left
