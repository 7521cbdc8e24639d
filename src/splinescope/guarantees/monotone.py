"""Properties of slopes: whether an output only ever rises, or falls, with an input."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

from ..network import SplineNetwork
from ..support.checks import check_index
from ..support.errors import InputError, LimitReached
from ..support.progress import Progress
from ..tiling.measures.tile_shapes import UNIT
from ..tiling.slice import Slice
from ..tiling.tessellate import tessellate
from .property import Property
from .sets import view_of
from .verdict import Verdict
from .witness import Witness

_ESTIMATED = "Not rigorous: the rounding of slopes is estimated."


def verify_slope(
    network: SplineNetwork, asked: Property, over: Any, *, max_tiles: int | None, time_limit: float | None,
    progress: Progress | bool | None,
) -> Verdict:  # fmt: skip
    """`verify` of `Property.monotone`: the least slope over all tiles of the set."""
    assert asked.slope is not None
    started = time.monotonic()
    x, output, sign = asked.slope
    program = network.program()
    shape = tuple(program.input_shape)
    check_index(x, "index", int(np.prod(shape)))
    check_index(output, "output", int(np.prod(program.output_shape)))
    if over is None:
        raise InputError("over must say for which inputs the slope is meant: a Slice, or a pair (low, high).")
    view = view_of(over, shape)
    if not isinstance(view, Slice):
        raise InputError("over must have an input that is free, got a single point.")
    along = np.linalg.lstsq(view.basis.reshape(view.dimension, -1).T, np.eye(int(np.prod(shape)))[x], rcond=None)[0]
    if np.abs(view.basis.reshape(view.dimension, -1).T @ along - np.eye(int(np.prod(shape)))[x]).max() > 1e-12:
        raise InputError(f"over must let input {x} move: it is fixed on the set.")
    try:
        tiling = tessellate(network, view, max_tiles=max_tiles, time_limit=time_limit, progress=progress)
    except LimitReached as error:
        seconds = time.monotonic() - started
        return Verdict(None, None, False, np.inf, -np.inf, f"Undecided: {error}", 0, 0, seconds)
    slopes = sign * (tiling.slopes().reshape(tiling.count, -1, view.dimension)[:, output] @ along)
    # an estimate, so that no verdict on slopes is called rigorous: terms of the products along ways through the network
    sizes = np.abs(slopes).max(initial=0.0)
    terms = sum(fold.site.units + 2 for fold in program.folds) + int(np.prod(shape))
    rounding = float(16 * terms * UNIT * max(sizes, 1e-300))
    worst = int(np.argmin(slopes))
    margin, seconds = float(slopes[worst]), time.monotonic() - started
    place = view.inputs(tiling.centroids()[worst : worst + 1])[0]
    counts = (tiling.count, tiling.count, seconds)
    if abs(margin) <= rounding and margin != 0.0:
        reason = f"A tie: the least slope is {margin:.3g}, its rounding up to {rounding:.3g}."
        return Verdict(None, None, False, rounding, margin, reason, *counts)
    if margin < 0:
        with torch.no_grad():
            y = program.forward(torch.from_numpy(place[None]))[0].numpy()
        witness = Witness(place, y, 0, -margin)
        reason = f"Violated: the slope is {sign * margin:.6g} on the tile about the witness. {_ESTIMATED}"
        return Verdict(False, witness, False, rounding, margin, reason, *counts)
    reason = f"Holds: the least slope in that direction is {margin:.6g}. {_ESTIMATED}"
    return Verdict(True, None, False, rounding, margin, reason, *counts, None, lambda: (margin, place))
