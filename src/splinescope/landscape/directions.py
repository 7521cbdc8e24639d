"""Directions in parameter space: random and filter-normalized, between checkpoints, along a training path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from ..network import SplineNetwork
from ..network.module import module_of
from ..support.checks import check_choice, check_whole
from ..support.display import Result
from ..support.errors import InputError
from .parameters import Layers, Model, chosen_parameters, parameters_of

State = Model | Mapping[str, Tensor]
"""A module (or the result of `trace` or `load`), or parameters by path (a state dict)."""


def random_directions(
    model: Model,
    count: int = 2,
    *,
    normalize: Literal["filter", "layer", "none"] = "filter",
    layer: Layers = None,
    generator: torch.Generator | None = None,
) -> list[dict[str, Tensor]]:
    """Random directions, scaled like the model's own parameters.

    With "filter", each filter (row of a matrix, output channel of a convolution) of a Gaussian direction is scaled to
    the norm of that filter of the weight, `d_ij <- d_ij |theta_ij| / |d_ij|`. Biases and normalization parameters (all
    tensors of fewer than two axes) do not move. "layer" does the same with whole tensors; "none" leaves the Gaussian.

    Args:
        model: The module (or the result of `trace` or `load`); not changed.
        count: How many directions.
        normalize: See above.
        layer: Module path or parameter paths to move; None for all.
        generator: Source of randomness.

    Returns:
        `count` mappings from parameter path to tensor, in the dtype of the parameters.

    Reference: Li, Xu, Taylor, Studer, Goldstein, "Visualizing the Loss Landscape of Neural Nets", section 4.
    """
    check_choice(normalize, "normalize", ("filter", "layer", "none"))
    count = check_whole(count, "count")
    module = module_of(model)
    named = parameters_of(module)
    result = []
    for _ in range(count):
        direction = {}
        for path in chosen_parameters(module, layer):
            weight = named[path].detach()
            draw = torch.randn(weight.shape, generator=generator, dtype=torch.float64).to(weight)
            if normalize == "none":
                direction[path] = draw
            elif weight.dim() >= 2:
                axes = tuple(range(1, weight.dim())) if normalize == "filter" else tuple(range(weight.dim()))
                size = draw.square().sum(axes, keepdim=True).sqrt()
                target = weight.square().sum(axes, keepdim=True).sqrt()
                direction[path] = draw * (target / size.clamp_min(torch.finfo(size.dtype).tiny))
        if not direction:
            raise InputError(
                f"nothing moves: {layer!r} has only biases or normalization parameters; use normalize='none'."
            )
        result.append(direction)
    return result


def direction_between(start: State, end: State) -> dict[str, Tensor]:
    """`end - start`: t = 0 is the first checkpoint, t = 1 the second."""
    first, last = _parameters(start), _parameters(end)
    if first.keys() != last.keys() or any(first[k].shape != last[k].shape for k in first):
        raise InputError("start and end must have the same parameters, of the same shapes.")
    return {name: last[name] - first[name] for name in first}


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

    def summary(self) -> str:
        """The plane in words."""
        shares = ", ".join(f"{share:.1%}" for share in self.explained)
        return (
            f"{len(self.coordinates)} checkpoints in {len(self.directions)} directions, which hold {shares} of the "
            f"path's squared length about its last point.\n{self.assurance}"
        )


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
    directions = [
        {
            name: part.reshape(states[-1][name].shape).to(states[-1][name].dtype)
            for name, part in zip(names, row.split(sizes), strict=True)
        }
        for row in basis[:count]
    ]
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
