"""Compiles ahead what the first tilings on a machine would wait for."""

from itertools import product
from typing import Literal

import numpy as np
import torch
from torch import nn

from ..network import trace
from ..support.compile import notice
from ..support.progress import Progress, telling
from .cells.hull import unit_box
from .slice import Slice
from .tessellate import tessellate


def warm_up(progress: Progress | bool | None = None) -> None:
    """Compile the kernels that lines, planes and solids are tiled, checked and searched with, max-pools among them.

    Small tilings do it; what is compiled already is loaded. Randomness of the caller is left as it was.
    """
    plain = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
    pooled = nn.Sequential(nn.Conv2d(1, 2, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(2, 2))
    random = np.random.default_rng(0)
    for parameter in [*plain.parameters(), *pooled.parameters()]:
        parameter.data = torch.from_numpy(random.standard_normal(tuple(parameter.shape)))
    example = torch.zeros(1, 1, 4, 4, dtype=torch.float64)
    networks = {"": trace(plain, example), "max-pool, ": trace(pooled, example)}
    views = {
        name: Slice(np.zeros((1, 4, 4)), random.standard_normal((dimension, 1, 4, 4)), unit_box(dimension))
        for dimension, name in enumerate(("lines", "planes", "solids"), start=1)
    }
    both: tuple[Literal["plain", "factored"], ...] = ("plain", "factored")
    todo = list(product(views.items(), networks.items(), both))
    notice.quiet = True
    try:
        with telling(progress, "compiling kernels") as tell:
            for i, ((place, view), (kind, network), rows) in enumerate(todo):
                tell(i / len(todo), f"{kind}{place}, {rows} rows")
                tiling = tessellate(network, view, rows=rows, progress=False)
                tiling.check()
                tiling.slopes()
                tiling.locate(tiling.vertices[:1])
                tiling.decision_boundary()
    finally:
        notice.quiet = False
