"""A network as a function of its parameters: coordinates t in, outputs at fixed data points out.

Along `theta(t) = theta0 + sum_i t_i d_i`, with directions that move one layer only, the outputs at the data are
piecewise affine in t: a `Program` of t, which the tiling engine cuts as it cuts a slice of input space.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from splinescope.landscape.directions import Direction, check_direction, checked_span
from splinescope.landscape.inputs import (
    Model,
    check_batch_size,
    check_data,
    fitting_inputs,
    parameters_of,
    precision_of,
)
from splinescope.network import SplineNetwork, trace
from splinescope.network.ops.merged_rows import lifted
from splinescope.network.program import Affine, Fold, Program, Step, Tournament, walk
from splinescope.support.checks import check_rows_of
from splinescope.support.errors import InputError, UnsupportedModelError
from splinescope.support.losses import check_targets

_AFFINE_RTOL = 1e-9  # a layer that is affine in its parameters agrees to rounding; one that is not, is far off


class NotOneLayer(InputError):
    """The directions move parameters that multiply each other, so outputs are not piecewise affine in t."""


class ParameterNetwork(SplineNetwork):
    """Outputs at data as a piecewise-affine network of t.

    Blocks of data follow each other in its program, so the memory of a row of t does not grow with the data; the
    program's own output is that of the last block.
    """

    def __init__(self, network: SplineNetwork, blocks: Sequence[Program], dimension: int) -> None:
        last = blocks[-1]
        steps = tuple(step for block in blocks for step in block.steps)
        identity = network.program().identity
        self._program = Program("t", (dimension,), last.output, last.output_shape, steps, identity=identity)
        self.input_shape = (dimension,)
        self.output_shape = last.output_shape
        self.sites = self._program.sites
        self.ending = None

    def program(self, replace: Mapping[str, Tensor] | None = None) -> Program:
        """The program of t; its parameters are fixed."""
        assert not replace
        return self._program


class Mover:
    """Lowers a network at the parameters that a family of directions needs, and makes blocks of data from it."""

    def __init__(self, network: SplineNetwork, directions: Sequence[Direction]) -> None:
        self.network = network
        self.directions = list(directions)
        named = parameters_of(network.module)
        paths = sorted({path for direction in directions for path in direction})
        self.start = {path: named[path].detach().to("cpu", torch.float64) for path in paths}
        self.using = network.steps_using(paths)
        zero = {path: torch.zeros_like(value) for path, value in self.start.items()}
        self.base = network.program()
        self._zero = network.program(zero)
        self._along = [network.program({**zero, **direction}) for direction in directions]
        self._all = self.program_at(np.ones(len(self.directions)))

    def program_at(self, t: np.ndarray) -> Program:
        """The network of x with its parameters at coordinates t."""
        moved = dict(self.start)
        for amount, direction in zip(t, self.directions, strict=True):
            for path, change in direction.items():
                moved[path] = moved[path] + float(amount) * change
        return self.network.program(moved)

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
            slope = self.change(0, self.base.steps.index(step))(*inputs)
            return output + rows.reshape(-1, *(1,) * (output.dim() - 1)) * slope

        values = {self.base.input: x.expand(len(t), *x.shape).reshape(-1, *x.shape[1:])}
        return walk(self.base.steps, values, {self.base.output}, evaluate)

    def block(self, x: Tensor, tag: str) -> Program:
        """Data `[n, *input shape]` as a program `t [B, d] -> [B, n, *output shape]`, its names marked by the tag."""
        fixed: dict[str, Tensor] = {self.base.input: x}
        moving: set[str] = set()
        steps: list[Step] = []
        with torch.no_grad():
            for i, (step, on_rows) in enumerate(
                zip(self.base.steps, lifted(list(self.base.steps), len(x)), strict=True)
            ):
                lives = any(name in moving for name in step.inputs)
                if isinstance(step, Tournament):
                    steps += [_filled(on_rows, fixed, tag)] if lives else []
                    continue
                if step.output in self.using:
                    steps.append(self._entry(i, step, self.fixed_inputs(step, fixed), tag))
                    moving.add(step.output)
                elif lives:
                    steps.append(_filled(on_rows, fixed, tag))
                    moving.add(step.output)
                else:
                    fixed[step.output] = step.run(*(fixed[name] for name in step.inputs))
        self.check_reaches(moving)
        shape = (len(x), *self.base.output_shape)
        return Program("t", (len(self.directions),), f"{self.base.output}@{tag}", shape, tuple(steps))

    def check_reaches(self, moving: Container[str]) -> None:
        """An error unless the output is among the values that move."""
        if self.base.output not in moving:
            raise InputError(f"directions must move parameters that the output depends on, got {sorted(self.start)}.")

    def fixed_inputs(self, step: Affine | Fold, fixed: Mapping[str, Tensor]) -> list[Tensor]:
        """Inputs of a moved step, none of which may move already."""
        if any(name not in fixed for name in step.inputs):
            raise NotOneLayer(
                "the directions move several layers together (or one that is used twice), so the pieces of the loss "
                "are polynomials of higher degree: use polynomial_section (a line), or move one layer."
            )
        return [fixed[name] for name in step.inputs]

    def change(self, k: int, i: int) -> Callable[..., Tensor]:
        """What a unit of direction k adds to step i, an affine function of its inputs."""
        moved, zero = self._along[k].steps[i], self._zero.steps[i]
        return lambda *inputs: moved.run(*inputs) - zero.run(*inputs)  # type: ignore[union-attr]

    def at_data(self, i: int, inputs: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Step i, a moved one: its value at theta0 and what a unit of each direction adds `[d, ...]`."""
        origin, moved = (program.steps[i].run(*inputs) for program in (self.base, self._all))  # type: ignore[union-attr]
        slopes = torch.stack([self.change(k, i)(*inputs) for k in range(len(self.directions))])
        error = (moved - origin - slopes.sum(0)).abs().amax()
        size = origin.abs().amax() + slopes.abs().sum(0).amax()
        if not float(error) <= _AFFINE_RTOL * float(size):  # NaN is not affine either
            name = self._all.steps[i].output  # type: ignore[union-attr]
            raise InputError(
                f"{name} is not affine in the moved parameters (relative error {float(error / size):.2g}): a "
                "parametrized weight (weight_norm)? Move the parameters of a plain layer."
            )
        return origin, slopes

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


def prepared(
    model: Model, x: Any, y: Any, directions: Any, span: float | tuple[float, float], batch_size: int | None
) -> tuple[Mover, Tensor, Tensor, float, float, int]:
    """What a section is made from, checked: mover, inputs, targets, both ends, and the data points of a batch."""
    network, inputs, targets = traced_with_data(model, x, y)
    family = list(directions) if isinstance(directions, (list, tuple)) else [directions]
    mover = Mover(network, _checked_directions(network, family))
    width = max([int(np.prod(network.input_shape)), *(site.cuts for site in network.sites)])
    size = check_batch_size(batch_size, int(np.clip(20_000 // width, 1, 256)))  # fits the cache with a row of t
    return mover, inputs, targets, *checked_span(span), size


def traced_with_data(model: Model, x: Any, y: Any) -> tuple[SplineNetwork, Tensor, Tensor]:
    """The network and float64 data that fit it and the squared error.

    Whole numbers that the model takes as such (token ids) are refused as what they are, not turned into floats.
    """
    inputs, targets = check_data(x, y, torch.float64, whole=True)
    if isinstance(model, nn.Module) and not inputs.is_floating_point():
        inputs, _ = fitting_inputs(model, inputs, precision_of(model))
        if not inputs.is_floating_point():
            raise UnsupportedModelError(
                f"The model takes whole numbers ({inputs.dtype}, token ids), and sections are made of networks of "
                "numbers: give the part after its embedding, with the embedded x; loss_surface takes it as it is."
            )
    inputs = inputs.double()
    network = model if isinstance(model, SplineNetwork) else trace(model, inputs[:1])
    if network.ending is not None:
        raise UnsupportedModelError(
            f"The model ends in {network.ending}, so its outputs are not piecewise affine and the squared error is not "
            "piecewise quadratic; give the part before it."
        )
    inputs = check_rows_of(inputs, network.input_shape, "x")
    return network, inputs, check_targets("squared", tuple(network.output_shape), targets)


def _checked_directions(network: SplineNetwork, family: Sequence[Any]) -> list[dict[str, Tensor]]:
    """One or two directions as float64 tensors of the parameters' shapes, linearly independent."""
    if not 1 <= len(family) <= 2:
        raise InputError(f"directions must be one or two, got {len(family)}.")
    shapes = {path: p.shape for path, p in parameters_of(network.module).items()}
    changes = [check_direction(direction, shapes) for direction in family]
    result = [{path: c.to("cpu", torch.float64) for path, c in change.items() if bool(c.any())} for change in changes]
    paths = sorted({path for direction in result for path in direction})
    flat = [[d.get(p, torch.zeros(shapes[p], dtype=torch.float64)).reshape(-1) for p in paths] for d in result]
    if not paths or int(torch.linalg.matrix_rank(torch.stack([torch.cat(row) for row in flat]))) < len(flat):
        raise InputError("directions must be non-zero and linearly independent.")
    return result


def _filled(step: Step, fixed: Mapping[str, Tensor], tag: str) -> Step:
    """A step on rows `[B, n, *shape]` of what moves; values that do not, `[n, *shape]`, are filled in."""
    if isinstance(step, Tournament):
        stages = tuple((f"{name}@{tag}", index) for name, index in step.stages)
        return Tournament(f"{step.competitors}@{tag}", stages, step.shape)
    names = list(dict.fromkeys(name for name in step.inputs if name not in fixed))
    values = {name: fixed[name] for name in step.inputs if name in fixed}
    sizes = {name: value.abs() for name, value in values.items()}

    def filled(function: Callable[..., Tensor], held: Mapping[str, Tensor]) -> Callable[..., Tensor]:
        def run(*moved: Tensor) -> Tensor:
            rows = {name: value.expand(len(moved[0]), *value.shape) for name, value in held.items()}
            rows.update(zip(names, moved, strict=True))
            return function(*(rows[name] for name in step.inputs))

        return run

    marked: dict[str, Any] = {"output": f"{step.output}@{tag}", "inputs": tuple(f"{name}@{tag}" for name in names)}
    run = filled(step.run, values)
    if isinstance(step, Affine):
        return replace(step, **marked, run=run, magnitude=filled(step.magnitude, sizes))
    return replace(step, **marked, run=run, cuts=filled(step.cuts, values),
                   cut_magnitude=filled(step.cut_magnitude, sizes))  # fmt: skip
