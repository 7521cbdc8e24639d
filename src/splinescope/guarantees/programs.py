"""Programs made of programs: differences, further cuts at the end, and a network on rays instead of points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from ..network.program import Affine, Fold, Program, Site, Tournament
from ..support.errors import InputError


def difference_program(f: Program, g: Program) -> Program:
    """`[f - g, f]` flattened, both on the same input; f sets the scale of what differs by rounding alone."""
    first, second = renamed(f, "f:", f.input), renamed(g, "g:", f.input)
    last = Affine("f - g, f", (first.output, second.output), _beside(-1.0), _beside(1.0))
    return Program(
        f.input, f.input_shape, last.output, (2 * int(np.prod(f.output_shape)),),
        (*first.steps, *second.steps, last), paths={**first.paths, **second.paths},
        ops={**first.ops, **second.ops}, identity=(*f.identity, "-", *g.identity),
    )  # fmt: skip


def _beside(sign: float) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda a, b: torch.cat([a.flatten(1) + sign * b.flatten(1), a.flatten(1)], 1)


def renamed(program: Program, prefix: str, given: str) -> Program:
    """The program with a prefix to all its names but the input, which is called `given`."""

    def name(old: str) -> str:
        return given if old == program.input else prefix + old

    def names(old: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name(one) for one in old)

    steps: list[Affine | Fold | Tournament] = []
    for step in program.steps:
        if isinstance(step, Tournament):
            stages = tuple((name(one), windows) for one, windows in step.stages)
            steps.append(replace(step, competitors=name(step.competitors), stages=stages))
        else:
            steps.append(replace(step, output=name(step.output), inputs=names(step.inputs)))
    return replace(
        program, input=given, output=name(program.output), steps=tuple(steps),
        paths={name(k): v for k, v in program.paths.items()}, ops={name(k): v for k, v in program.ops.items()},
    )  # fmt: skip


def with_cuts(program: Program, outputs: np.ndarray, inputs: np.ndarray, ends: np.ndarray) -> Program:
    """The same function, cut further where `outputs @ y + inputs @ x == ends`, row by row.

    Args:
        outputs: `[m, C]` on the flattened outputs y.
        inputs: `[m, D]` on the flattened inputs x.
        ends: `[m]`.
    """
    c, d, e = (torch.from_numpy(np.ascontiguousarray(array, dtype=np.float64)) for array in (outputs, inputs, ends))

    def forms(y: Tensor, x: Tensor) -> Tensor:
        return y.flatten(1) @ c.T + x.flatten(1) @ d.T - e

    def magnitude(y: Tensor, x: Tensor) -> Tensor:
        return y.flatten(1) @ c.T.abs() + x.flatten(1) @ d.T.abs() + e.abs()

    count = len(e)
    site = Site("", "relu", (count,), count, 1 + max((s.depth for s in program.sites), default=0))
    fold = Fold(
        "cut forms", ("forms",), torch.relu, lambda z: z, lambda z: z, np.ones(count), np.arange(count), site,
        np.zeros(count),
    )  # fmt: skip
    # the fold must lead to the output to be met at all
    last = Affine("outputs", (program.output, fold.output), lambda y, z: y, lambda y, z: y)
    steps = (*program.steps, Affine("forms", (program.output, program.input), forms, magnitude), fold, last)
    return replace(program, steps=steps, output=last.output, identity=(*program.identity, "cut", c, d, e))


def homogeneous_program(program: Program) -> Program:
    """`F(x, s) = s f(x / s)` for s > 0, linear on cones: the last of D + 1 inputs is s.

    On every cone over a tile of f, `F = A x + c s` for the tile's map `A x + c`. So the tiles of F on the sides of a
    box about the origin are all tiles of f, those without bounds too.

    Raises:
        InputError: A fold bends elsewhere than through zero (a ReLU6): it has no such form.
    """
    size = int(np.prod(program.input_shape))
    random = torch.Generator().manual_seed(0)
    x = torch.randn(2, *program.input_shape, generator=random, dtype=torch.float64)
    bases: dict[str, Tensor] = {}
    with torch.no_grad():
        for step, inputs, _ in program.walk(x):
            if isinstance(step, Fold) and not _through_zero(step, inputs):
                where = program.paths.get(step.output) or "model"
                raise InputError(
                    f"all of space needs folds through zero, as those of ReLU, abs and max; {where} ({step.site.op}) "
                    "bends elsewhere: give a box in over."
                )
            if isinstance(step, Affine):
                bases[step.output] = step.run(*(torch.zeros_like(value[:1]) for value in inputs))
    steps: list[Affine | Fold | Tournament] = [
        Affine("x of rays", ("rays",), _head(size, program.input_shape), _head(size, program.input_shape)),
        Affine("s of rays", ("rays",), lambda r: r[:, size:], lambda r: r[:, size:]),
    ]
    inner = renamed(program, "", "x of rays")
    for one in inner.steps:
        if isinstance(one, Affine):
            base = bases[one.output]
            # no number of s is added to what does not move
            steps.append(
                Affine(one.output, (*one.inputs, "s of rays"), _scaled(one.run, base, -1.0),
                       _scaled(one.magnitude, base.abs(), 0.0)) if base.any() else one
            )  # fmt: skip
        else:
            steps.append(one)
    return Program(
        "rays", (size + 1,), inner.output, inner.output_shape, tuple(steps), paths=inner.paths, ops=inner.ops,
        identity=("rays", *program.identity),
    )  # fmt: skip


def _through_zero(fold: Fold, inputs: list[Tensor]) -> bool:
    """Whether a fold bends through zero alone: scaled inputs, however large or small, have the output scaled."""
    if fold.at is not None and np.any(fold.at):
        return False
    output = fold.run(*inputs)
    return all(torch.equal(fold.run(*(k * value for value in inputs)), k * output) for k in (2.0**-40, 2.0, 2.0**40))


def _head(size: int, shape: tuple[int, ...]) -> Callable[[Tensor], Tensor]:
    return lambda rays: rays[:, :size].reshape(len(rays), *shape)


def _scaled(run: Callable[..., Tensor], base: Tensor, shift: float) -> Callable[..., Tensor]:
    """The step with its constant times s: `run(...) + (s + shift) base`."""

    def scaled(*values: Tensor) -> Tensor:
        s = values[-1].reshape(len(values[-1]), *(1,) * (base.dim() - 1))
        return run(*values[:-1]) + (s + shift) * base

    return scaled
