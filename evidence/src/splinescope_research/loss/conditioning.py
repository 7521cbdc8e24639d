"""Why skip connections help: condition numbers of `D W` (ConvNet) and `I + D W` (ResNet), and their bounds.

D is the diagonal of slopes of the units: 0 or 1 for ReLU, eta or 1 for leaky ReLU, -1 or 1 for the absolute value.

* If `|D W| < 1` (largest singular value): `kappa(I + D W) <= (1 + |D W|) / (1 - |D W|)`.
* Without that there is no bound: `W = diag(-(1 - e), 0, ...)` gives `kappa = 1 / e`.
* `D W` of a ReLU layer is singular as soon as one unit is off: `kappa = inf`.
* If all slopes are at least |eta| > 0 in size and at most 1: `kappa(D W) <= kappa(W) / |eta|`.
* Bounds of a stack of layers multiply.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from splinescope.landscape.skip_conditioning import Conditioning, singular_conditions, skip_bound
from splinescope.support.checks import as_float64_array, check_positive, check_whole
from splinescope.support.errors import InputError

SLOPES: dict[str, tuple[float, float]] = {
    "relu": (0.0, 1.0),
    "leaky": (0.1, 1.0),
    "abs": (-1.0, 1.0),
    "linear": (1.0, 1.0),
}
"""Slope of each activation left and right of zero."""


def condition_number(matrices: Any) -> np.ndarray:
    """`[...]` largest over smallest singular value of matrices `[..., m, n]`; inf where numerically singular."""
    matrices = as_float64_array(matrices, "matrices")
    if matrices.ndim < 2 or 0 in matrices.shape[-2:]:
        raise InputError(f"matrices must have shape (..., m, n), got {matrices.shape}.")
    return singular_conditions(np.linalg.svd(matrices, compute_uv=False), max(matrices.shape[-2:]))


def layer_map(weight: Any, slopes: Any, *, skip: bool) -> np.ndarray:
    """`D W` or, with a skip connection, `I + D W`, for weights `[..., m, n]` and slopes `[..., m]`."""
    weight, slopes = as_float64_array(weight, "weight"), as_float64_array(slopes, "slopes")
    if weight.ndim < 2 or slopes.ndim < 1 or slopes.shape[-1] != weight.shape[-2]:
        raise InputError(
            f"slopes must have one number per row of weight, shapes [..., m] and [..., m, n], "
            f"got {slopes.shape} and {weight.shape}."
        )
    branch = slopes[..., :, None] * weight
    if not skip:
        return branch
    if weight.shape[-1] != weight.shape[-2]:
        raise InputError(f"weight must be square for a skip connection, got {weight.shape[-2:]}.")
    return branch + np.eye(weight.shape[-1])


def layer_conditioning(weight: Any, slopes: Any, *, skip: bool) -> Conditioning:
    """Condition numbers of `D W` or `I + D W` and bounds, for weights `[..., m, n]` and slopes `[..., m]`; exact.

    Example:
        >>> result = layer_conditioning([[0.5, 0.0], [0.0, -0.5]], [1.0, 1.0], skip=True)
        >>> float(result.condition), float(result.bound)
        (3.0, 3.0)

    Reference: Riedi, Balestriero, Baraniuk, "Singular Value Perturbation and Deep Network Optimization"; survey (7).
    """
    weight, slopes = as_float64_array(weight, "weight"), as_float64_array(slopes, "slopes")
    branch = layer_map(weight, slopes, skip=False)
    norm = np.linalg.norm(branch, 2, axis=(-2, -1))
    condition = condition_number(layer_map(weight, slopes, skip=skip))
    if skip:
        return Conditioning(condition, norm, skip_bound(norm))
    steep, flat = np.abs(slopes).max(-1), np.abs(slopes).min(-1)
    kappa = condition_number(weight)
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = np.where(flat > 0, kappa * steep / flat, np.inf)
    return Conditioning(condition, norm, bound)


def random_conditioning(
    width: int,
    scale: float,
    activation: str = "relu",
    *,
    skip: bool,
    depth: int = 1,
    draws: int = 200,
    generator: torch.Generator | None = None,
) -> Conditioning:
    """`[draws]` condition numbers of random layers: `W ~ N(0, scale^2 / width)`, each unit on or off at random.

    He initialization is the scale `sqrt(2)`. A stack's map is the product of its `depth` layers, its bound of theirs.
    """
    if activation not in SLOPES:
        raise InputError(f"activation must be one of {', '.join(map(repr, SLOPES))}, got {activation!r}.")
    for name, value in (("width", width), ("depth", depth), ("draws", draws)):
        check_whole(value, name)
    sigma = check_positive(scale, "scale") / np.sqrt(width)
    left, right = SLOPES[activation]
    shape = (draws, depth, width)
    weight = torch.randn(*shape, width, generator=generator, dtype=torch.float64).numpy() * sigma
    on = torch.randint(0, 2, shape, generator=generator).numpy()
    layers = layer_conditioning(weight, np.where(on == 1, right, left), skip=skip)
    if depth == 1:
        return Conditioning(layers.condition[:, 0], layers.norm[:, 0], layers.bound[:, 0])
    maps = layer_map(weight, np.where(on == 1, right, left), skip=skip)
    product = maps[:, 0]
    for i in range(1, depth):
        product = maps[:, i] @ product
    return Conditioning(condition_number(product), layers.norm.max(1), layers.bound.prod(1))
