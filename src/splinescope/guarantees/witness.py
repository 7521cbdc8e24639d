"""Counterexamples: looked for by samples and gradients, and run through the user's own model."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ..network.program import Program
from ..support.display import Shown
from ..support.evaluating import evaluating
from ..tiling.measures.differentiate import blocks
from ..tiling.slice import Slice
from .forms import Formed, with_forms
from .rounding import error_at
from .sets import Part, is_box

_SAMPLES = 1024
_STARTS = 48
_STEPS = 40
_FIRST_STEP = 0.05  # of the domain's width
_BATCH = 8192  # rows that stay in the cache
_PAIRS = 64  # of points on either side of an equality
_HALVINGS = 20


@dataclass(frozen=True, eq=False, repr=False)
class Witness(Shown):
    """An input that violates a property.

    Attributes:
        x: It, of the network's input shape, float64.
        y: The network's outputs there in float64.
        clause: Which clause of the property it meets.
        excess: By how much: all of the clause's constraints are met by at least this (infinite: it has none).
        seen_by: What else ran it: "torch.float32", "onnxruntime"; None if nothing did.
        seen_y: What that gave.
        confirmed: Whether that is unsafe as well; False: only float64 sees the violation.
        tensors: For a VNN-LIB 2 file, inputs and outputs of its networks under the names that it gives them.
    """

    x: np.ndarray
    y: np.ndarray
    clause: int
    excess: float
    seen_by: str | None = None
    seen_y: np.ndarray | None = None
    confirmed: bool | None = None
    tensors: dict[str, np.ndarray] = field(default_factory=dict)


def values_at(program: Program, view: Slice, points: np.ndarray) -> np.ndarray:
    """`[n, clauses]` the program's outputs at points of a slice."""
    with torch.no_grad():
        found = [program.forward(torch.from_numpy(view.inputs(points[b]))) for b in blocks(len(points), _BATCH)]
    return torch.cat(found).reshape(len(points), -1).numpy()


def samples(view: Slice, count: int = _SAMPLES, seed: int = 0) -> np.ndarray:
    """`[n, d]` corners of a slice's domain and random points, crowded towards its faces: extremes are often there."""
    rng = np.random.default_rng(seed)
    if not is_box(view):
        return np.concatenate([view.domain, rng.dirichlet(np.full(len(view.domain), 0.5), count) @ view.domain])
    low, high = view.domain.min(0), view.domain.max(0)
    share = rng.uniform(size=(count, view.dimension))
    near = share**4
    near = np.where(rng.uniform(size=share.shape) < 0.5, near, 1 - near)
    crowded = rng.uniform(size=share.shape) < 0.4
    crowded[: count // 4] = False
    return np.concatenate([view.domain, low + np.where(crowded, near, share) * (high - low)])


def descend(program: Program, view: Slice, points: np.ndarray, values: np.ndarray, starts: int = _STARTS) -> np.ndarray:
    """Points nearer to a violation than those given: descents from the best points of every clause.

    Each point has its own step: half as long again after a success, 0.4 times after a failure. In a box a step is along
    the signs of the slope and clipped; elsewhere it is towards the corner that the slope favors.
    """
    each = min(max(starts // values.shape[1], 2), len(values))
    chosen = np.argpartition(values, each - 1, axis=0)[:each].reshape(-1)
    clauses = np.tile(np.arange(values.shape[1]), each)
    corners = torch.from_numpy(view.domain.copy())
    box = is_box(view)
    low, high = corners.amin(0), corners.amax(0)
    basis = torch.from_numpy(view.basis.reshape(view.dimension, -1).copy())
    origin = torch.from_numpy(view.origin.reshape(-1).copy())
    column = torch.from_numpy(clauses)[:, None]

    def evaluate(t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        t = t.detach().requires_grad_(True)
        with torch.enable_grad():
            x = (origin + t @ basis).reshape(-1, *view.input_shape)
            value = program.forward(x).reshape(len(t), -1).gather(1, column)[:, 0]
            if not value.requires_grad:  # the clause is constant
                return value, torch.zeros_like(t)
            (slope,) = torch.autograd.grad(value.sum(), t)
        return value.detach(), slope

    t = torch.from_numpy(points[chosen])
    value, slope = evaluate(t)
    size = torch.full((len(t), 1), _FIRST_STEP, dtype=torch.float64)
    for _ in range(_STEPS):
        if box:
            moved = (t - size * (high - low) * slope.sign()).clamp(low, high)
        else:
            moved = t + size.clamp_max(1.0) * (corners[(slope @ corners.T).argmin(1)] - t)
        new, new_slope = evaluate(moved)
        better = new < value
        t[better], value[better], slope[better] = moved[better], new[better], new_slope[better]
        size = torch.where(better[:, None], 1.5 * size, 0.4 * size)
    return np.asarray(t.numpy())


def crossing(
    program: Program, part: Part, formed: Formed, points: np.ndarray
) -> tuple[int, np.ndarray, np.ndarray] | None:
    """A clause that asks for an equality, an input next to one that meets it, and values of all clauses
    there, which are never below zero by more than rounding; None if none is found.

    Between two inputs of the set with a form surely below and surely above, a continuous network has the value itself.
    Halving brings them close together, so that bounds show all other rows of the clause to hold in between.
    """
    view = part.view
    assert isinstance(view, Slice)
    ends = view.inputs(view.domain)
    for number, clause in enumerate(part.clauses):
        if (pair := clause.equality) is None:
            continue
        rows = with_forms(program, [clause.part(np.array([i])) for i in range(len(clause))]).program
        values = values_at(rows, view, points)
        inside = (np.delete(values, pair, 1) < 0).all(1)
        sides = [points[inside & (sign * values[:, pair[0]] < 0)] for sign in (1, -1)]
        if not all(map(len, sides)):
            continue
        a, b = (np.resize(side, (min(_PAIRS, max(map(len, sides))), view.dimension)) for side in sides)
        for halving in range(3 * _HALVINGS):  # until float64 has nothing in between
            if halving == _HALVINGS:  # far enough apart for rounding, close enough for bounds
                x = torch.from_numpy(np.clip(view.inputs(np.stack([a, b], 1).reshape(-1, view.dimension)),
                                             ends.min(0), ends.max(0)))  # fmt: skip
            middle = (a + b) / 2
            below = values_at(rows, view, middle)[:, pair[0], None] < 0
            a, b = np.where(below, middle, a), np.where(below, b, middle)
        value, error = (found[:, pair[0]].reshape(-1, 2) for found in error_at(rows, x))
        around, reach = error_at(rows, (x[::2] + x[1::2]) / 2, 1.01 * (x[::2] - x[1::2]).abs() / 2)
        surely = (value[:, 0] < -error[:, 0]) & (value[:, 1] > error[:, 1])
        surely &= (np.delete(around + reach, pair, 1) < 0).all(1)
        if surely.any():
            found = np.clip(view.inputs(a[surely][:1]), ends.min(0), ends.max(0))
            return number, found[0], error_at(formed.program, torch.from_numpy(found))[0][0]
    return None


def run_own(model: Any, x: np.ndarray) -> tuple[str, np.ndarray] | None:
    """What the user's own model makes of an input, and what ran it; None if there is nothing to run."""
    if isinstance(model, (str, Path)) and str(model).lower().endswith(".onnx"):
        try:
            import onnxruntime
        except ImportError:
            return None
        session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
        given, *others = session.get_inputs()
        shape = [n if isinstance(n, int) and n > 0 else 1 for n in given.shape]
        if others or int(np.prod(shape)) != x.size:
            return None
        row = x.astype("double" if "double" in given.type else "single").reshape(shape)
        return "onnxruntime", np.asarray(session.run(None, {given.name: row})[0], np.float64).reshape(-1)
    if isinstance(model, nn.Module):
        parameter = next(model.parameters(), torch.zeros(0))
        with evaluating(model), torch.no_grad():
            y = model(torch.from_numpy(x[None]).to(parameter.device, parameter.dtype))
        if isinstance(y, torch.Tensor):
            return str(parameter.dtype), y[0].double().cpu().numpy()
    return None
