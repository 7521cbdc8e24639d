"""Compiles ahead what the first tilings on a machine would wait for."""

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import nn

from ..network import trace
from ..support.compile import notice
from ..support.progress import Progress, telling
from . import kernels
from .cells.hull import unit_box
from .measures.quantities import available
from .slice import Slice
from .tessellate import tessellate
from .tiling import Tiling

_SHAPE = (1, 12, 12)
_WAYS: tuple[dict[str, Any], ...] = ({"rows": "plain"}, {"rows": "factored"}, {"rows": "factored", "chunk_bytes": 1})


def warm_up(
    progress: Progress | bool | None = None,
    others: Mapping[str, Callable[[Mapping[int, Tiling]], object]] | None = None,
) -> None:
    """Compile the kernels that tilings in one to four dimensions are made, checked, measured and searched with.

    Small tilings do it; what is compiled already is loaded. `others` are more tasks by name, given a tiling of every
    dimension.
    """
    image = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(),
        nn.Conv2d(8, 8, 3, 2, 1, groups=8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 2),
    )  # fmt: skip
    pooled = nn.Sequential(nn.Conv2d(1, 2, 5, 3), nn.MaxPool2d(2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2))
    small = nn.Sequential(nn.Flatten(), nn.Linear(144, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2))
    random = np.random.default_rng(0)
    for parameter in [*image.parameters(), *pooled.parameters(), *small.parameters()]:
        parameter.data = torch.from_numpy(random.standard_normal(tuple(parameter.shape)))
    example = torch.zeros(1, *_SHAPE, dtype=torch.float64)
    networks = {
        "conv, ": (trace(image, example), 0.01),
        "max, ": (trace(pooled, example), 0.05),
        "": (trace(small, example), 0.2),
    }
    todo = [
        (dimension, kind, way)
        for dimension, kind, way in product(range(1, 5), networks, _WAYS)
        if dimension < (3 if "chunk_bytes" in way or kind == "conv, " else 5)  # more tiles compile nothing more
    ]
    tilings = dict[int, Tiling]()
    notice.quiet = True
    try:
        with telling(progress, "compiling kernels") as tell:
            for i, (dimension, kind, way) in enumerate(todo):
                tell(i / len(todo), f"{kind}{dimension}-D, {way['rows']} rows")
                network, size = networks[kind]
                view = Slice(np.zeros(_SHAPE), size * random.standard_normal((dimension, *_SHAPE)), unit_box(dimension))
                tilings[dimension] = tessellate(network, view, progress=False, **way)
                _measure(tilings[dimension])
            known, table = np.full(2, -1, np.int32), np.zeros(2, np.uint64)  # that of a million vertices grows
            kernels.enter_again(table, known, table.copy(), known.copy())
            for name, task in (others or {}).items():
                tell(1.0, name)
                task(tilings)
    finally:
        notice.quiet = False


def _measure(tiling: Tiling) -> None:
    """Ask a tiling for all that compiled loops find."""
    points = tiling.vertices[:2]
    tiling.check()
    tiling.locate(points)
    if tiling.dimension < 4:
        tiling.decision_boundary().distances(points)
        tiling.pieces()
        tiling.summary()
        for name in available(tiling):
            tiling.quantity(name)
    if tiling.dimension < 3:
        tiling.counts_near(points, 0.1)
    if tiling.dimension == 2:
        assert tiling.decision_boundary().polylines is not None
        tiling.fold_raster(2)
