"""`level_set`: a level set of a network on a 3-D box, without tiling what it cannot meet."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from ..network import SplineNetwork
from ..support.checks import as_float64_array, check_index
from ..support.errors import InputError, LimitReached
from ..support.progress import Progress
from ..tiling.cells.tiles import Tiles
from ..tiling.engine.advance import Keep
from ..tiling.engine.options import Options
from ..tiling.engine.output_bounds import output_range
from ..tiling.engine.plan import Plan
from ..tiling.engine.rows_plain import PlainRows
from ..tiling.measures.surfaces import SurfaceMesh, level_surface
from ..tiling.networks import checked_network
from ..tiling.slice import Slice
from ..tiling.tessellate import tile

_SLACK = 1e-9  # of the output's size: tiles nearer to the level than rounding are kept


def level_set(
    model: nn.Module | SplineNetwork,
    view: Any,
    level: float = 0.0,
    *,
    output: int = 0,
    max_tiles: int | None = None,
    time_limit: float | None = None,
    progress: Progress | bool | None = None,
    threads: int | None = None,
) -> SurfaceMesh:
    """The surface on which one output of a network takes a value: the shape of a signed-distance or occupancy network.

    Exact up to rounding: a mesh of convex polygons, one per tile that the surface crosses. Tiles whose bounds
    of the output exclude the level are dropped before every fold; `tiles` of the mesh number those that are left.

    Args:
        model: A torch module, or the result of `trace` or `load`.
        view: A pair (low, high), each a number or one per input, of a network with three inputs; or any 3-D `Slice`.
        level: The value.
        output: Which output, an index into the flattened outputs.
        max_tiles, time_limit, progress, threads: As in `tessellate`.

    Raises:
        LimitReached: Without a part of the surface: what was found is not closed.

    Cost: a few microseconds per tile of the shell, times the number of folds still to come when it is looked at.

    Example:
        >>> import torch, splinescope as ss
        >>> net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        >>> ss.space.level_set(net, (-1.0, 1.0)).vertices.shape[1]
        3
    """
    if not isinstance(view, Slice):
        if not isinstance(view, (tuple, list)) or len(view) != 2:
            raise InputError("view must be a pair (low, high) of corners, or a 3-D Slice.")
        view = Slice.axes(np.zeros(3), (0, 1, 2), *view)
    if view.dimension != 3:
        raise InputError(f"view must be a 3-D slice, got a {view.dimension}-D one.")
    options = Options(max_tiles=max_tiles, time_limit=time_limit, progress=progress, threads=threads, rows="plain")
    network, program = checked_network(model, view)
    check_index(output, "output", int(np.prod(program.output_shape)))
    height = as_float64_array(level, "level")
    if height.ndim:
        raise InputError(f"level must be one number, got shape {height.shape}.")
    with torch.no_grad():
        corners = program.forward(torch.from_numpy(view.inputs(view.domain))).abs().max()
    slack = _SLACK * max(float(corners), abs(float(height)))

    def shell(plan: Plan) -> Keep:
        if not plan.keeps_output:
            raise InputError("surfaces need a network of at most 64 outputs: wrap it to return the one that is meant.")

        def may_meet(stage: int, rows: PlainRows, tiles: Tiles, points: np.ndarray) -> np.ndarray | None:
            bounds = output_range(plan, stage, rows, tiles, program.output, output)
            return None if bounds is None else (bounds[0] <= height + slack) & (bounds[1] >= height - slack)

        return may_meet

    tiling, stopped = tile(network, program, view, options, keep=shell)
    if stopped is not None:
        raise LimitReached(f"{stopped}: the surface would have holes.", None)
    return level_surface(tiling, float(height), np.zeros(0) if tiling.values is None else tiling.values[:, output])
