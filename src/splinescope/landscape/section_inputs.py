"""Checks of what a section is asked for: network, data, directions, span."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..network import SplineNetwork, trace
from ..support.checks import check_positive, check_rows_of
from ..support.errors import InputError, UnsupportedModelError
from ..support.losses import check_targets
from .losses import check_data, fitting_inputs
from .parameters import parameters_of


def traced_with_data(model: nn.Module | SplineNetwork, x: Any, y: Any) -> tuple[SplineNetwork, Tensor, Tensor]:
    """The network and float64 data that fit it and the squared error.

    Whole numbers that the model takes as such (token ids) are refused as what they are, not turned into floats.
    """
    inputs, targets = check_data(x, y, torch.float64, whole=True)
    if isinstance(model, nn.Module) and not inputs.is_floating_point():
        inputs, _ = fitting_inputs(model, inputs, next((p.dtype for p in model.parameters()), torch.float32))
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


def checked_directions(network: SplineNetwork, family: Sequence[Any], most: int = 2) -> list[dict[str, Tensor]]:
    """Directions as float64 tensors of the parameters' shapes, linearly independent."""
    if not 1 <= len(family) <= most:
        raise InputError(f"directions must be {'one or two' if most == 2 else most}, got {len(family)}.")
    named = {path: p.shape for path, p in parameters_of(network.module).items()}
    result = []
    for direction in family:
        clean = {path: change.to("cpu", torch.float64) for path, change in check_direction(direction, named).items()}
        result.append({path: change for path, change in clean.items() if bool(change.any())})
    paths = sorted({path for direction in result for path in direction})
    rows = [
        torch.cat(
            [direction.get(path, torch.zeros(named[path])).reshape(-1).double() for path in paths] or [torch.zeros(0)]
        )
        for direction in result
    ]
    if not paths or int(torch.linalg.matrix_rank(torch.stack(rows))) < len(rows):
        raise InputError("directions must be non-zero and linearly independent.")
    return result


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
    if isinstance(span, (tuple, list)):
        low, high = (float(v) for v in span)
        if not (np.isfinite([low, high]).all() and low < high):
            raise InputError(f"span must be a positive number or (low, high) with low < high, got {span!r}.")
        return low, high
    half = check_positive(span, "span")
    return -half, half


def default_batch(network: SplineNetwork) -> int:
    """Data points of which one row of t fits well into the cache together."""
    width = max([int(np.prod(network.input_shape)), *(site.cuts for site in network.sites)])
    return int(np.clip(20_000 // width, 1, 256))
