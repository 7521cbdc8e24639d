"""Directions in parameter space: random, or along a training path; and checks of given ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..network import SplineNetwork
from ..network.network import module_of
from ..support.checks import check_positive, check_whole
from ..support.display import Result
from ..support.errors import InputError
from .inputs import Layers, Model, chosen_parameters, parameters_of

Direction = Mapping[str, Tensor]
"""Parameter path -> change of that parameter; parameters that are absent stay."""

State = Model | Mapping[str, Tensor]
"""A module (or the result of `trace` or `load`), or parameters by path (a state dict)."""


def random_directions(
    model: Model, count: int = 2, *, layer: Layers = None, generator: torch.Generator | None = None
) -> list[dict[str, Tensor]]:
    """Random directions, scaled like the model's own weights.

    Each filter (row of a matrix, output channel of a convolution) of a Gaussian direction is scaled to the norm of that
    filter of the weight, `d_ij <- d_ij |theta_ij| / |d_ij|`. Biases and normalization parameters (all tensors of fewer
    than two axes) do not move.

    Args:
        model: The module (or the result of `trace` or `load`); not changed.
        count: How many directions.
        layer: Module path or parameter paths to move; None for all.
        generator: Source of randomness.

    Returns:
        `count` mappings from parameter path to tensor, in the dtype of the parameters.

    Reference: Li, Xu, Taylor, Studer, Goldstein, "Visualizing the Loss Landscape of Neural Nets", section 4.
    """
    count = check_whole(count, "count")
    module = module_of(model)
    named = parameters_of(module)
    chosen = chosen_parameters(module, layer)
    if all(named[path].dim() < 2 for path in chosen):
        raise InputError(f"nothing moves: {layer!r} has only biases or normalization parameters; give directions.")
    result = []
    for _ in range(count):
        direction = {}
        for path in chosen:
            weight = named[path].detach()
            draw = torch.randn(weight.shape, generator=generator, dtype=torch.float64).to(weight)
            if weight.dim() >= 2:
                axes = tuple(range(1, weight.dim()))
                size = draw.square().sum(axes, keepdim=True).sqrt()
                target = weight.square().sum(axes, keepdim=True).sqrt()
                direction[path] = draw * (target / size.clamp_min(torch.finfo(size.dtype).tiny))
        result.append(direction)
    return result


@dataclass(frozen=True, eq=False, repr=False)
class PathPlane(Result):
    """The plane in which a training path moves most.

    Attributes:
        directions: The principal directions, unit vectors over all parameters, by parameter path.
        coordinates: `[T, d]` the path, projected to the plane, relative to its last point.
        explained: `[d]` share of the path's squared length (about its last point) along each direction.
    """

    directions: list[dict[str, Tensor]]
    coordinates: np.ndarray
    explained: np.ndarray
    certainty = "exact"


def principal_directions(path: Sequence[State], count: int = 2) -> PathPlane:
    """The principal directions of a training path, by SVD of its checkpoints relative to the last one.

    Args:
        path: At least count + 1 checkpoints (modules or state dicts), in order.
        count: 1 or 2 directions.

    Cost: one SVD of a matrix of checkpoints times parameters.
    """
    states = [_parameters(state) for state in path]
    if count not in (1, 2) or len(states) <= count:
        raise InputError(f"path must hold more than {count} checkpoints (count 1 or 2), got {len(states)}.")
    names = list(states[-1])
    if any(list(state) != names or any(state[n].shape != states[-1][n].shape for n in names) for state in states):
        raise InputError("path must hold checkpoints of one model: names or shapes of parameters differ.")
    rows = torch.stack([torch.cat([s[n].reshape(-1).double() for n in names]) for s in states])
    rows = rows - rows[-1]
    _, singular, basis = torch.linalg.svd(rows, full_matrices=False)
    if float(singular[count - 1]) <= 1e-12 * float(singular[0]):
        raise InputError(f"path must span {count} directions; its checkpoints lie on fewer.")
    sizes = [states[-1][n].numel() for n in names]
    directions = []
    for row in basis[:count]:
        parts = zip(names, row.split(sizes), strict=True)
        directions.append({n: part.reshape(states[-1][n].shape).to(states[-1][n]) for n, part in parts})
    explained = (singular[:count] ** 2 / (singular**2).sum()).numpy()
    return PathPlane(directions, (rows @ basis[:count].T).numpy(), explained)


def _parameters(state: Any) -> dict[str, Tensor]:
    """Floating-point parameters by path, detached; of a state dict without running statistics."""
    if isinstance(state, (nn.Module, SplineNetwork)):
        return {name: p.detach() for name, p in parameters_of(module_of(state)).items()}
    if not isinstance(state, Mapping):
        raise InputError(f"a checkpoint must be a module or a state dict, got {type(state).__name__}.")
    buffers = ("running_mean", "running_var", "num_batches_tracked")
    return {k: v.detach() for k, v in state.items() if v.is_floating_point() and not k.endswith(buffers)}


def check_direction(direction: Any, shapes: Mapping[str, torch.Size]) -> dict[str, Tensor]:
    """A direction as tensors, refused unless it maps parameters to finite changes of their shapes."""
    if not hasattr(direction, "items") or not direction:
        raise InputError(
            "each direction must be a mapping from parameter path to its change, like {'0.weight': tensor}, got "
            f"{'an empty mapping' if hasattr(direction, 'items') else type(direction).__name__}."
        )
    unknown = [path for path in direction if path not in shapes]
    if unknown:
        raise InputError(f"directions must name parameters, got {unknown[0]!r}; there are: {', '.join(shapes)}.")
    changes = {path: torch.as_tensor(change).detach() for path, change in direction.items()}
    for path, change in changes.items():
        if change.shape != shapes[path]:
            want, got = tuple(shapes[path]), tuple(change.shape)
            raise InputError(f"the direction of {path} must have its shape {want}, got {got}.")
        if not bool(change.isfinite().all()):
            raise InputError(f"the direction of {path} must be finite.")
    return changes


def checked_span(span: float | tuple[float, float]) -> tuple[float, float]:
    """`[-span, span]`, or the pair itself."""
    if not isinstance(span, (tuple, list)):
        half = check_positive(span, "span")
        return -half, half
    low, high = (float(v) for v in span)
    if not (np.isfinite([low, high]).all() and low < high):
        raise InputError(f"span must be a positive number or (low, high) with low < high, got {span!r}.")
    return low, high
