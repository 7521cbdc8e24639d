"""Values whose first axis holds several rows per row of the network, as `x.view(-1, C)` makes them.

The program keeps them as `[N, m, ...]`. A step that was made for `[N m, ...]` is lifted: it runs on all rows at once.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from ..program import Affine, Step, Tournament


def lifted(steps: list[Step], m: int) -> list[Step]:
    """Steps on batches `[N m, ...]` as steps on `[N, m, ...]`."""
    windows = {name: int(np.prod(s.shape)) for s in steps if isinstance(s, Tournament) for name, _ in s.stages}
    return [_lifted(step, m, windows) for step in steps]


def _lifted(step: Step, m: int, windows: dict[str, int]) -> Step:
    if isinstance(step, Tournament):
        size = int(np.prod(step.shape))
        stages = tuple((name, per_point(index, size, m)[by_window(len(index), size, m)]) for name, index in step.stages)
        return Tournament(step.competitors, stages, (m, *step.shape))
    if isinstance(step, Affine):
        return replace(step, run=_all_rows(step.run, m), magnitude=_all_rows(step.magnitude, m), linear=None)
    site, places = step.site, by_window(step.site.units, windows.get(step.output), m)
    columns = torch.from_numpy(places)
    cuts, magnitude = _all_rows(step.cuts, m), _all_rows(step.cut_magnitude, m)
    return replace(
        step,
        run=_all_rows(step.run, m),
        cuts=lambda *values: cuts(*values).flatten(1)[:, columns],
        cut_magnitude=lambda *sizes: magnitude(*sizes).flatten(1)[:, columns],
        gains=np.tile(step.gains, m)[places],
        elements=per_point(step.elements, int(np.prod(site.shape)), m)[places],
        at=None,
        site=replace(site, shape=(m, *site.shape), units=m * site.units, cuts=m * site.cuts),
    )


def _all_rows(function: Callable[..., Tensor], m: int) -> Callable[..., Tensor]:
    def run(*values: Tensor) -> Tensor:
        result = function(*(value.reshape(len(value) * m, *value.shape[2:]) for value in values))
        return result.reshape(len(values[0]), m, *result.shape[1:])

    return run


def by_window(cuts: int, windows: int | None, count: int) -> np.ndarray:
    """Order for the cuts of all points, point by point: in a tournament they go through all windows in turn."""
    every = np.arange(cuts * count)
    return every if windows is None else every.reshape(count, -1, windows).transpose(1, 0, 2).reshape(-1)


def per_point(index: np.ndarray, size: int, count: int) -> np.ndarray:
    """Flat indices into one point's value of this size as indices into the values of all points."""
    return (np.arange(count)[:, None] * size + index[None]).reshape(-1)
