"""Counterexamples: looked for by samples and gradients, and run through the user's own model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ..network.program import Program
from ..support.display import Shown
from ..support.evaluating import evaluating
from ..tiling.slice import Slice

_SAMPLES = 1024
_STARTS = 48
_STEPS = 40


@dataclass(frozen=True, eq=False, repr=False)
class Witness(Shown):
    """An input that violates a property.

    Attributes:
        x: It, of the network's input shape, float64.
        y: The network's outputs there in float64.
        clause: Which clause of the property it meets.
        excess: By how much: all of the clause's constraints are met by at least this.
        seen_by: What else ran it: "torch.float32", "onnxruntime"; None if nothing did.
        seen_y: What that gave.
        confirmed: Whether that is unsafe as well; False: only float64 sees the violation.
    """

    x: np.ndarray
    y: np.ndarray
    clause: int
    excess: float
    seen_by: str | None = None
    seen_y: np.ndarray | None = None
    confirmed: bool | None = None


def samples(program: Program, view: Slice, count: int = _SAMPLES) -> tuple[np.ndarray, np.ndarray]:
    """Points of a slice, its corners among them, and the program's outputs there."""
    points = np.concatenate([view.domain, spread_over(view, count)])
    with torch.no_grad():
        return points, program.forward(torch.from_numpy(view.inputs(points))).numpy()


def spread_over(view: Slice, count: int) -> np.ndarray:
    """`[count, d]` random points of a slice's domain, always the same."""
    rng = np.random.default_rng(0)
    if is_box(view):
        return rng.uniform(view.domain.min(0), view.domain.max(0), (count, view.dimension))
    return rng.dirichlet(np.full(len(view.domain), 0.5), count) @ view.domain


def is_box(view: Slice) -> bool:
    """Whether a slice's domain is a box along its own coordinates."""
    low, high = view.domain.min(0), view.domain.max(0)
    return len(view.domain) == 2**view.dimension and bool(((view.domain == low) | (view.domain == high)).all())


def descend(
    program: Program, view: Slice, points: np.ndarray, values: np.ndarray, starts: int = _STARTS, steps: int = _STEPS
) -> np.ndarray:
    """Points nearer to a violation than the best of those given: gradient steps of falling size on the least output.

    On domains that are no box none are made: the points come back.
    """
    if not is_box(view):
        return points[np.argsort(values.min(1))[:starts]]
    low, high = (torch.from_numpy(view.domain.min(0)), torch.from_numpy(view.domain.max(0)))
    t = torch.from_numpy(points[np.argsort(values.min(1), kind="stable")[:starts]].copy())
    basis = torch.from_numpy(view.basis.reshape(view.dimension, -1).copy())
    origin = torch.from_numpy(view.origin.reshape(-1).copy())
    best, least = t.clone(), torch.full((len(t),), torch.inf, dtype=torch.float64)
    for step in range(steps):
        t.requires_grad_(True)
        with torch.enable_grad():
            x = (origin + t @ basis).reshape(-1, *view.input_shape)
            value = program.forward(x).amin(1)
            (slope,) = torch.autograd.grad(value.sum(), t)
        with torch.no_grad():
            better = value < least
            best[better], least[better] = t[better], value[better]
            size = 0.3 * (1 - step / steps) ** 2
            t = (t - size * (high - low) * slope.sign()).clamp(low, high)
    return best.detach().numpy()


def run_own(model: Any, x: np.ndarray, output: int | str | None = None) -> tuple[str, np.ndarray] | None:
    """What the user's own model makes of an input, and what ran it; None if there is nothing to run."""
    if isinstance(model, (str, Path)) and str(model).lower().endswith(".onnx"):
        return _by_onnxruntime(Path(model), x)
    if isinstance(model, nn.Module):
        parameter = next(model.parameters(), None)
        dtype = parameter.dtype if parameter is not None else torch.get_default_dtype()
        device = parameter.device if parameter is not None else torch.device("cpu")
        with evaluating(model), torch.no_grad():
            y = model(torch.from_numpy(x[None]).to(device=device, dtype=dtype))
        if isinstance(y, torch.Tensor):
            return str(dtype), y[0].double().cpu().numpy()
    return None


def _by_onnxruntime(path: Path, x: np.ndarray) -> tuple[str, np.ndarray] | None:
    try:
        import onnxruntime
    except ImportError:
        return None
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    given = session.get_inputs()
    if len(given) != 1:
        return None
    shape = [n if isinstance(n, int) and n > 0 else 1 for n in given[0].shape]
    kind = np.float64 if "double" in given[0].type else np.float32
    if int(np.prod(shape)) != x.size:
        return None
    y = session.run(None, {given[0].name: x.astype(kind).reshape(shape)})[0]
    return "onnxruntime", np.asarray(y, np.float64).reshape(-1)
