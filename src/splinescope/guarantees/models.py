"""Models as guarantees take them: read, near a smooth one within a tolerance, or several at once."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..network import SplineNetwork, load, trace
from ..network.program import Affine, Fold, Program, Smooth, Tournament
from ..network.ranges import reach
from ..network.readable import check_exact
from ..network.reading.export import DidNotRun
from ..support.checks import as_float64_array, check_module
from ..support.errors import InputError, UnsupportedModelError
from ..tiling.slice import Slice
from ..tiling.smooth_networks import Interpolated, curves_of, interpolants, planned_errors
from .property import Clause, Property

_RISING = frozenset({"sigmoid", "tanh", "log_sigmoid", "softplus", "exp"})  # of each output on its own


def as_network(model: Any, over: Any, asked: Property | None = None, smooth: bool = False) -> SplineNetwork:
    """The network of a module, of a file, or as it is."""
    if isinstance(model, SplineNetwork):
        return model
    if isinstance(model, (str, os.PathLike)):
        return load(model)
    module = check_module(model)
    first = next((m for m in module.modules() if next(m.parameters(recurse=False), None) is not None), None)
    shape: tuple[int, ...] = (first.in_features,) if isinstance(first, nn.Linear) else ()
    if asked is not None and not callable(asked.clauses) and asked.clauses:
        shape = (asked.clauses[0].inputs.shape[1],)
    if isinstance(over, Slice):
        shape = over.input_shape
    elif isinstance(over, (tuple, list)):
        shape = next((size for end in over if (size := as_float64_array(end, "over").shape)), shape)
    if not shape:
        raise InputError(
            "the shape of the model's inputs is not known: give over= with one number per input, or trace(model, x)."
        )
    try:
        return trace(module, torch.zeros(2, *shape), smooth=smooth)
    except DidNotRun as error:
        given = "over" if asked is None or over is not None else asked.name
        raise InputError(f"{given} has inputs of shape {shape}, with which the model does not run: {error}") from error


def checked_program(network: SplineNetwork) -> Program:
    """The network's program, refused if it has smooth steps."""
    return check_exact(network.program(), "`verify` takes them with a tolerance.")


def check_ending(model: Any, program: Program, asked: Property, clauses: Sequence[Clause] = ()) -> None:
    """Refuse what the values before a module's or file's ending do not decide; a traced network ends before it.

    Which of two outputs is larger, they do: endings keep the order.
    """
    if program.ending is None or isinstance(model, SplineNetwork):
        return
    rising = program.ending in _RISING
    if asked.slope is not None:
        same = rising
    else:
        pairs = (
            not y.any() or (np.count_nonzero(y) == 2 and y.sum() == 0 and end == 0 and not x.any())
            for clause in clauses for y, x, end in zip(clause.outputs, clause.inputs, clause.ends, strict=True)
        )  # fmt: skip
        same = all(pairs) and (rising or len(program.output_shape) == 1)
    if not same:
        raise UnsupportedModelError(
            f"The network ends in {program.ending}, behind which {asked.name} is not about values affine on tiles. "
            "Only comparisons of two of its outputs (`class_wins`) are decided; or state the property of the values "
            f"before the {program.ending}: verify(trace(model, x), ...)."
        )


@dataclass(frozen=True)
class Near:
    """A smooth network with a piecewise-affine one near it on a slice."""

    program: Program  # the near one
    real: Program  # the smooth one
    bound: float  # by how much any output differs at most on the slice: proven, but for rounding


def near(network: SplineNetwork, view: Slice, tolerance: float) -> Near:
    """Interpolants in place of smooth activations, planned for a difference of at most `tolerance`."""
    real = network.program()
    curves = curves_of(real)
    corners = torch.from_numpy(view.inputs(view.domain))
    errors, _ = planned_errors(real, curves, corners, tolerance)
    made = Interpolated(network, errors, corners).program()
    ranges, _ = reach(real, curves, errors, corners)
    pieces = interpolants(curves, errors, ranges)
    _, bound = reach(real, curves, {name: piece.error for name, piece in pieces.items()}, corners)
    return Near(made, real, float(bound))


def is_smooth(program: Program) -> bool:
    return any(isinstance(step, Smooth) for step in program.steps)


def joined(
    models: Mapping[str, Any] | Sequence[Any], asked: Property
) -> tuple[Program, tuple[Clause, ...], np.ndarray, list[tuple[Any, tuple[int, ...]]]]:
    """Several networks as one program, beside each other, the property's clauses about it, which of its inputs each
    input of the networks is, and the models in the file's order, each with the shape of its inputs.

    Inputs that every clause says are equal are one input of it, and add no free dimensions.
    """
    declared = asked.networks
    if isinstance(models, Mapping):
        given = dict(models)
    else:
        needed = [n.name for n in declared if n.equal_to is None or len(models) == len(declared)]
        given = dict(zip(needed, models, strict=False)) if len(models) == len(needed) else {}
    names = [n.name if n.name in given else n.equal_to for n in declared]
    if any(name not in given for name in names) or not set(given) <= {n.name for n in declared}:
        raise InputError(
            f"{asked.name} is about the networks {', '.join(n.name or 'without a name' for n in declared)}: model must "
            "be a dictionary with one for each of these names (or a list in their order), networks that are declared "
            f"equal to another may be left out; got {len(models)}."
        )
    programs = []
    for name, network in zip(names, declared, strict=True):
        size = int(np.prod(network.inputs))
        program = checked_program(as_network(given[str(name)], (np.zeros(size), np.zeros(size))))
        if program.ending is not None and not isinstance(given[str(name)], SplineNetwork):
            raise UnsupportedModelError(
                f"network {network.name} ends in {program.ending}: state the property of the values before it, and "
                "give trace(model, x), or a file that ends there."
            )
        sizes = tuple(int(np.prod(shape)) for shape in (program.input_shape, program.output_shape))
        if sizes != (size, int(np.prod(network.outputs))):
            raise InputError(
                f"network {network.name} of {asked.name} has inputs of shape {network.inputs} and outputs of shape "
                f"{network.outputs}, the model {program.input_shape} and {program.output_shape}."
            )
        programs.append(program)
    inputs = [int(np.prod(p.input_shape)) for p in programs]
    outputs = [int(np.prod(p.output_shape)) for p in programs]
    clauses = asked.sized(sum(inputs), sum(outputs))
    leader = _leaders(clauses, sum(inputs))
    kept, place = np.unique(leader, return_inverse=True)
    steps: list[Any] = []
    ends = []
    for i, program in enumerate(programs):
        columns = torch.from_numpy(place[sum(inputs[:i]) : sum(inputs[: i + 1])].copy())
        one = renamed(program, f"{i}:", f"{i}:x")
        steps += [_picked(f"{i}:x", columns, program.input_shape), *one.steps]
        ends.append(one.output)
    steps.append(Affine("all outputs", tuple(ends), _beside, _beside))
    program = Program("all inputs", (len(kept),), "all outputs", (sum(outputs),), tuple(steps), paths={}, ops={},
                      identity=tuple(part for p in programs for part in p.identity))  # fmt: skip
    gathered = np.eye(len(kept))[place]
    reduced = []
    for clause in clauses:
        gathered_inputs = clause.inputs @ gathered
        # rows that say nothing, 0 <= 0, go
        empty = ~clause.outputs.any(1) & ~gathered_inputs.any(1) & (clause.ends >= 0) & ~clause.strict
        reduced.append(replace(clause, inputs=gathered_inputs).part(np.flatnonzero(~empty)))
    own = [(given[str(name)], p.input_shape) for name, p in zip(names, programs, strict=True)]
    return program, tuple(reduced), place, own


def renamed(program: Program, prefix: str, given: str) -> Program:
    """The program with a prefix to all its names but the input, which is called `given`."""

    def name(old: str) -> str:
        return given if old == program.input else prefix + old

    steps: list[Affine | Fold | Tournament] = []
    for step in program.steps:
        if isinstance(step, Tournament):
            stages = tuple((name(one), windows) for one, windows in step.stages)
            steps.append(replace(step, competitors=name(step.competitors), stages=stages))
        else:
            steps.append(replace(step, output=name(step.output), inputs=tuple(map(name, step.inputs))))
    return replace(
        program, input=given, output=name(program.output), steps=tuple(steps),
        paths={name(k): v for k, v in program.paths.items()}, ops={name(k): v for k, v in program.ops.items()},
    )  # fmt: skip


def _picked(name: str, columns: Tensor, shape: tuple[int, ...]) -> Affine:
    def pick(x: Tensor) -> Tensor:
        return x[:, columns].reshape(len(x), *shape)

    return Affine(name, ("all inputs",), pick, pick)


def _beside(*values: Tensor) -> Tensor:
    return torch.cat([value.flatten(1) for value in values], 1)


def _leaders(clauses: Sequence[Clause], size: int) -> np.ndarray:
    """`[size]` per input the first one that every clause says it is equal to."""
    leader = np.arange(size)
    shared: set[tuple[int, int]] | None = None
    for clause in clauses:
        one_way = set()
        for row, other, end in zip(clause.inputs, clause.outputs, clause.ends, strict=True):
            used = np.flatnonzero(row)
            if len(used) == 2 and not other.any() and end == 0 and row[used[0]] == -row[used[1]]:
                one_way.add((int(used[row[used] > 0][0]), int(used[row[used] < 0][0])))
        equal = {(min(a, b), max(a, b)) for a, b in one_way if (b, a) in one_way}
        shared = equal if shared is None else shared & equal
    for a, b in sorted(shared or ()):
        leader[leader == leader[b]] = leader[a]
    return leader
