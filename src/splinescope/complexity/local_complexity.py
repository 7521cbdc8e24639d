"""`local_complexity`: how many folds pass through a neighborhood of each point."""

from __future__ import annotations

import math
import numbers
from typing import Any

import torch
from torch import Tensor, nn

from ..network import SplineNetwork
from ..network.readable import check_mode, unwrap
from ..network.watching.sites import Forward, sites_of
from ..support.checks import as_rows, check_choice, check_generator, check_rows_of, check_whole
from ..support.errors import InputError
from ..support.progress import Progress, check_progress, sharing
from ._result import LocalComplexity, Method
from .humayun2024_frame import frame_counts
from .linear_distance import distance_counts
from .neighborhoods import Radius, as_radius, random_frame

_BLOCK_BYTES = {"cpu": 4 << 20}  # of the widest site's values: stays in the cache, large enough for fast products
_BLOCK_BYTES_ELSEWHERE = 256 << 20
_DIRECTIONS = 25


def local_complexity(
    model: nn.Module | SplineNetwork, x: Any, *, radius: Radius = "auto", method: Method = "frame",
    directions: int | Any | None = None, forward: Forward | None = None, generator: torch.Generator | None = None,
    chunk_bytes: int | None = None, progress: Progress | bool | None = None,
) -> LocalComplexity:  # fmt: skip
    """Count, for each point and site, the folds that pass through a neighborhood of the point.

    Two methods:

    - "frame": P random orthonormal directions, shared by all points. A unit counts if its sign is not constant over
      the 2P vertices `x +- r v_p`. Never counts a fold that is not there; exact for the first site on the hull of
      those vertices, an undercount deeper where earlier folds bend. It reaches only `r * frame_reach(D, P)` along a
      fold's normal (0.0805 r for D = 784, P = 25), so values with different D, P or r are not comparable.
    - "distance": a unit counts if `|z| / ||grad_x z|| <= r`, the linearized distance to its fold. Exact for the first
      site, an estimate deeper.

    Both take any torch module: every activation that runs in its forward pass is a site, and smooth
    ones (GELU, SiLU, sigmoid, tanh) count by the sign of their gate. The model runs in its own dtype and on its own
    device, and is left as found. Batch norm and dropout in training mode are refused: call `model.eval()`, or use
    `ComplexityMonitor` inside a training loop.

    Args:
        model: A torch module, or the result of `trace` or `load`.
        x: `[N, *input shape]` points.
        radius: r, the size of the neighborhood. "auto" is half the median distance of a
            point of `x` to its nearest other point (`data_spacing`); the result tells it.
        method: "frame" or "distance". Exactly, in all dimensions, `space.explore` counts the tiles of a ball.
        directions: For "frame", the number P (25, or D if that is less) or `[P, *input shape]` orthonormal directions.
        forward: How to call the model on a batch, `(model, x) -> anything`, e.g.
            `lambda m, x: m(inputs_embeds=x)`; `model(x)` if None.
        generator: Source of random directions. None: a fresh one with seed 0, so that calls are comparable and the
            global random state is untouched.
        chunk_bytes: Bound on the values of one block at the widest site (4 MB on a CPU, which stays in its cache,
            256 MB elsewhere); the memory used is a few times that.
        progress: None: shown once it takes a few seconds; True, False, or a function of (share done, what it is at).

    Returns:
        Counts `[N, S]`, and what they are.

    Cost: "frame" 2P forward passes per point, at most 1.3 times their time; "distance" about 2D.

    Example:
        >>> import torch, splinescope as ss
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        >>> ss.local_complexity(net, torch.zeros(5, 2), radius=0.5).counts.shape
        torch.Size([5, 1])

    Reference: Humayun, Balestriero, Baraniuk, "Deep Networks Always Grok and Here is Why"; Balestriero, Humayun,
    Baraniuk, "On the Geometry of Deep Learning", "The dynamic geometry of learning".
    """
    check_choice(method, "method", ("frame", "distance"))
    check_progress(progress)
    if chunk_bytes is not None:
        chunk_bytes = check_whole(chunk_bytes, "chunk_bytes")
    points = _as_points(x)
    if isinstance(model, SplineNetwork):
        points = check_rows_of(points, model.input_shape, "x")
    if isinstance(model, nn.Module):
        check_mode(unwrap(model))
    radius = as_radius(radius, points)
    shape, size = tuple(points.shape[1:]), math.prod(points.shape[1:])
    if method == "distance" and directions is not None:
        raise InputError("directions belong to the method 'frame'; 'distance' has none.")
    frame = None
    if method == "frame":
        frame = _as_frame(min(size, _DIRECTIONS) if directions is None else directions, shape, generator)
    with sharing(progress, "local complexity") as share, sites_of(model, _three_rows(points, radius), forward) as net:
        points = points.to(net.device, torch.promote_types(net.dtype, torch.float32))
        block = chunk_bytes or _BLOCK_BYTES.get(net.device.type, _BLOCK_BYTES_ELSEWHERE)
        if frame is not None:
            found = frame_counts(net, points, frame, radius, block, share)
            where = f"frame of {len(frame)} directions and radius {radius:g}"
        else:
            found = distance_counts(net, points, radius, block, share)
            where = f"ball of radius {radius:g}"
        return LocalComplexity(*found, net.sites, method, radius, where, net.affine)


def _as_points(x: Any) -> Tensor:
    points = as_rows(x, "x")
    if not points.is_floating_point():
        raise InputError(
            f"x must hold floating-point numbers, got {points.dtype}: a neighborhood needs a continuous input; "
            "for token ids give their embeddings and forward=."
        )
    if points.dim() < 2:
        raise InputError(f"x must have shape (N, *input shape), got {tuple(points.shape)}.")
    if not bool(points.isfinite().all()):
        raise InputError("x must be finite, got NaN or infinite values.")
    return points


def _as_frame(directions: Any, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
    """Given or random orthonormal directions `[P, *shape]` in float64."""
    check_generator(generator)
    if isinstance(directions, numbers.Real):
        return random_frame(directions, shape, generator=generator)  # type: ignore[arg-type]
    frame = torch.as_tensor(directions).detach().to("cpu", torch.float64)
    if tuple(frame.shape[1:]) != shape or len(frame) == 0:
        raise InputError(f"directions must have shape (P, {', '.join(map(str, shape))}), got {tuple(frame.shape)}.")
    gram = frame.flatten(1) @ frame.flatten(1).T
    if not torch.allclose(gram, torch.eye(len(frame), dtype=torch.float64), atol=1e-4):
        raise InputError("directions must be orthonormal to 1e-4: the radius means a distance.")
    return frame


def _three_rows(points: Tensor, radius: float) -> Tensor:
    """Three different rows to find the sites with."""
    first = points[:1] if len(points) else points.new_zeros(1, *points.shape[1:])
    step = radius / math.prod(points.shape[1:]) ** 0.5
    return torch.cat([first, first + step, first - 2.5 * step])  # not balanced about the first
