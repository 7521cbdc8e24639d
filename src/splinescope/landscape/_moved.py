"""A network as a function of where its parameters are: coordinates t in, outputs at fixed data points out.

Along `theta(t) = theta0 + sum_i t_i d_i`, with directions d_i that move the parameters of one layer only, the layer's
output at a data point is affine in t, and all that follows is the network itself: the outputs at the data are a
continuous piecewise-affine function of t. It is written down as a `Program` of t, so the tiling engine cuts the plane
of t exactly as it cuts a slice of input space.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..network import SplineNetwork
from ..network.ops.merged_rows import by_window, per_point
from ..network.program import Affine, Fold, Program, Site, Tournament, walk
from ..support.errors import InputError
from .parameters import parameters_of

Direction = Mapping[str, Tensor]
"""Parameter path -> change of that parameter; parameters that are absent stay."""

_AFFINE_RTOL = 1e-9  # a layer that is affine in its parameters agrees to rounding; one that is not, is far off


class NotOneLayer(InputError):
    """The directions move parameters that multiply each other, so outputs are not piecewise affine in t."""


@dataclass(frozen=True)
class Block:
    """Some data points as a program of t; names carry the block's tag, so blocks can follow each other.

    Attributes:
        program: `t [B, d] -> [B, n, *output shape]`.
        count: n, the number of points.
    """

    program: Program
    count: int


class ParameterNetwork(SplineNetwork):
    """Outputs at data as a piecewise-affine network of t; blocks of data follow each other in its program.

    Values of one block are dropped before the next begins, so the memory of a row of t does not grow with the number
    of data points. The program's own output is that of the last block; `blocks` has them all.
    """

    def __init__(self, network: SplineNetwork, blocks: Sequence[Block], dimension: int) -> None:
        self.blocks = tuple(blocks)
        last = blocks[-1].program
        steps = tuple(step for block in blocks for step in block.program.steps)
        identity = network.program().identity
        self._program = Program("t", (dimension,), last.output, last.output_shape, steps, identity=identity)
        self.input_shape = (dimension,)
        self.output_shape = last.output_shape
        self.sites = self._program.sites
        self.ending = None

    def program(self, replace: Mapping[str, Tensor] | None = None) -> Program:
        """The program of t; its parameters are fixed."""
        if replace:
            raise InputError("the parameters of a network of t are its input; none can be replaced.")
        return self._program

    def fingerprint(self) -> str:
        """The fingerprint of the network whose parameters move, as it was when they began to."""
        return self._program.fingerprint

    def __repr__(self) -> str:
        points = sum(block.count for block in self.blocks)
        return f"ParameterNetwork({self.input_shape[0]} coordinates -> outputs at {points} points)"


class Mover:
    """Lowers a network at the parameters that a family of directions needs, and makes blocks of data from it."""

    def __init__(self, network: SplineNetwork, directions: Sequence[Direction]) -> None:
        self.network = network
        self.directions = list(directions)
        paths = sorted({path for direction in directions for path in direction})
        self.start = {path: parameter_of(network, path) for path in paths}
        self.using = network.steps_using(paths)
        zero = {path: torch.zeros_like(value) for path, value in self.start.items()}
        self.base = network.program()
        self._zero = network.program(zero)
        self._along = [network.program({**zero, **direction}) for direction in directions]
        self._all = network.program(self.at(np.ones(len(self.directions))))

    def at(self, t: np.ndarray) -> dict[str, Tensor]:
        """The moved parameters at coordinates t."""
        result = dict(self.start)
        for amount, direction in zip(t, self.directions, strict=True):
            for path, change in direction.items():
                result[path] = result[path] + float(amount) * change
        return result

    def program_at(self, t: np.ndarray) -> Program:
        """The network of x with its parameters at coordinates t."""
        return self.network.program(self.at(t))

    def degrees(self) -> dict[str, int]:
        """Degree in t, on a piece, of every value of the network: moved layers on the longest way to it."""

        def degree(step: Affine | Fold, inputs: list[int]) -> int:
            return max(inputs, default=0) + (step.output in self.using)

        every = walk(self.base.steps, {self.base.input: 0}, {self.base.output}, degree)
        return {step.output: degree for step, _, degree in every}

    def values_at(self, t: Tensor, x: Tensor) -> Iterator[tuple[Affine | Fold, list[Tensor], Tensor]]:
        """Run the network on data `[n, ...]` at every t `[B]` of the first direction: (step, inputs, output) in turn.

        Rows are `[B n, ...]`, t slowest; a step that uses moved parameters is `base + t (along - zero)`.
        """
        rows = t.repeat_interleave(len(x))

        def evaluate(step: Affine | Fold, inputs: list[Tensor]) -> Tensor:
            output = step.run(*inputs)
            if step.output not in self.using:
                return output
            i = self.base.steps.index(step)
            slope = self._along[0].steps[i].run(*inputs) - self._zero.steps[i].run(*inputs)  # type: ignore[union-attr]
            return output + rows.reshape(-1, *(1,) * (output.dim() - 1)) * slope

        values = {self.base.input: x.expand(len(t), *x.shape).reshape(-1, *x.shape[1:])}
        return walk(self.base.steps, values, {self.base.output}, evaluate)

    def block(self, x: Tensor, tag: str) -> Block:
        """Data `[n, *input shape]` as a program of t.

        Raises:
            NotOneLayer: A step multiplies moved parameters with a value that moves already.
        """
        count = len(x)
        fixed: dict[str, Tensor] = {self.base.input: x}
        moving: set[str] = set()
        steps: list[Affine | Fold | Tournament] = []
        tournaments = [step for step in self.base.steps if isinstance(step, Tournament)]
        windows = {name: math.prod(tournament.shape) for tournament in tournaments for name, _ in tournament.stages}
        with torch.no_grad():
            for i, step in enumerate(self.base.steps):
                lives = any(name in moving for name in step.inputs)
                if isinstance(step, Tournament):
                    if lives:
                        steps.append(_lifted_tournament(step, count, tag))
                    continue
                if step.output in self.using:
                    steps.append(self._entry(i, step, self.fixed_inputs(step, fixed), tag))
                    moving.add(step.output)
                elif lives:
                    steps.append(_lifted(step, fixed, moving, count, tag, windows.get(step.output)))
                    moving.add(step.output)
                else:
                    fixed[step.output] = step.run(*(fixed[name] for name in step.inputs))
        self.check_reaches(moving)
        shape = (count, *self.base.output_shape)
        return Block(Program("t", (len(self.directions),), f"{self.base.output}@{tag}", shape, tuple(steps)), count)

    def check_reaches(self, moving: Container[str]) -> None:
        """An error unless the output is among the values that move."""
        if self.base.output not in moving:
            raise InputError(f"directions must move parameters that the output depends on, got {sorted(self.start)}.")

    def fixed_inputs(self, step: Affine | Fold, fixed: Mapping[str, Tensor]) -> list[Tensor]:
        """Inputs of a moved step, none of which may move already."""
        if any(name not in fixed for name in step.inputs):
            raise NotOneLayer(
                "the directions move several layers together (or one that is used twice), so the pieces of the loss "
                "are polynomials of higher degree: use polynomial_section (a line) or certified_surface (a plane), or "
                "move one layer."
            )
        return [fixed[name] for name in step.inputs]

    def at_data(self, i: int, inputs: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Step i, a moved one: its value at theta0 and what a unit of each direction adds `[d, ...]`."""

        def at(program: Program) -> Tensor:
            return program.steps[i].run(*inputs)  # type: ignore[union-attr]

        slopes = torch.stack([at(program) - at(self._zero) for program in self._along])
        self.check_affine(i, inputs, slopes)
        return at(self.base), slopes

    def _entry(self, i: int, step: Affine | Fold, inputs: list[Tensor], tag: str) -> Affine:
        """The moved layer at the data: affine in t, by its values at theta0, at zero and along each direction."""
        origin, slopes = self.at_data(i, inputs)
        sizes, origin_size = slopes.abs(), origin.abs()
        return Affine(
            f"{step.output}@{tag}",
            ("t",),
            lambda t: origin + torch.tensordot(t, slopes, 1),
            lambda t: origin_size + torch.tensordot(t, sizes, 1),
        )

    def along(self, direction: int, i: int) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
        """What a unit of a direction adds to step i, an affine function of its inputs, and a bound of its magnitude."""
        moved, zero = self._along[direction].steps[i], self._zero.steps[i]
        assert isinstance(moved, Affine)
        assert isinstance(zero, Affine)
        return (
            lambda *inputs: moved.run(*inputs) - zero.run(*inputs),
            lambda *sizes: moved.magnitude(*sizes) + zero.magnitude(*sizes),
        )

    def check_affine(self, i: int, inputs: Sequence[Tensor], slopes: Tensor) -> None:
        """An error unless step i, moved along all directions, is its value at theta0 plus all slopes `[d, ...]`."""
        origin, moved = (program.steps[i].run(*inputs) for program in (self.base, self._all))  # type: ignore[union-attr]
        error = (moved - origin - slopes.sum(0)).abs().amax()
        size = origin.abs().amax() + slopes.abs().sum(0).amax()
        if not float(error) <= _AFFINE_RTOL * float(size):  # NaN is not affine either
            name = self._all.steps[i].output  # type: ignore[union-attr]
            raise InputError(
                f"{name} is not affine in the moved parameters (relative error {float(error / size):.2g}): a "
                "parametrized weight (weight_norm)? Move the parameters of a plain layer."
            )


def parameter_of(network: SplineNetwork, path: str) -> Tensor:
    """A parameter of the traced model as float64, by path; an error lists the possible ones."""
    named = parameters_of(network.module)
    if path not in named:
        raise InputError(f"directions must name parameters of the model, got {path!r}; there are: {', '.join(named)}.")
    return named[path].detach().to("cpu", torch.float64)


def _lifted(
    step: Affine | Fold, fixed: dict[str, Tensor], moving: set[str], count: int, tag: str, windows: int | None
) -> Affine | Fold:
    """A step on rows `[B, n, *shape]`: the same op on `B n` rows, values that do not move filled in."""
    names = [f"{name}@{tag}" for name in dict.fromkeys(step.inputs) if name in moving]
    order = {name: i for i, name in enumerate(dict.fromkeys(n for n in step.inputs if n in moving))}
    constants = {name: fixed[name] for name in step.inputs if name not in moving}
    sizes = {name: value.abs() for name, value in constants.items()}

    def lift(function: Callable[..., Tensor], filling: dict[str, Tensor]) -> Callable[..., Tensor]:
        def run(*moved: Tensor) -> Tensor:
            rows = len(moved[0])
            flat = [
                moved[order[name]].reshape(rows * count, *moved[order[name]].shape[2:])
                if name in order
                else filling[name].expand(rows, *filling[name].shape).reshape(rows * count, *filling[name].shape[1:])
                for name in step.inputs
            ]
            result = function(*flat)
            return result.reshape(rows, count, *result.shape[1:])

        return run

    output = f"{step.output}@{tag}"
    if isinstance(step, Affine):
        return Affine(output, tuple(names), lift(step.run, constants), lift(step.magnitude, sizes))
    cuts, magnitude = lift(step.cuts, constants), lift(step.cut_magnitude, sizes)
    site = step.site
    size = int(np.prod(site.shape))
    places = by_window(site.units, windows, count)
    columns = torch.from_numpy(places)
    return Fold(
        output,
        tuple(names),
        lift(step.run, constants),
        lambda *moved: cuts(*moved).flatten(1)[:, columns],
        lambda *moved: magnitude(*moved).flatten(1)[:, columns],
        np.tile(step.gains, count)[places],
        per_point(step.elements, size, count)[places],
        Site(site.path, site.op, (count, *site.shape), count * site.units, site.depth),
    )


def _lifted_tournament(tournament: Tournament, count: int, tag: str) -> Tournament:
    windows = math.prod(tournament.shape)
    stages = tuple(
        (f"{name}@{tag}", per_point(index, windows, count)[by_window(len(index), windows, count)])
        for name, index in tournament.stages
    )
    return Tournament(f"{tournament.competitors}@{tag}", stages, (count, *tournament.shape))
