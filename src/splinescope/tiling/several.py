"""`tessellate_each`: the tilings of one network on a list of slices."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any

import numpy as np
from torch import nn

from ..network import SplineNetwork, trace
from ..support.errors import InputError, LimitReached, SplinescopeError
from ..support.progress import Progress, check_progress, telling
from .engine.options import Options
from .networks import checked_network, traced
from .slice import Slice
from .tessellate import tessellate, tiled_lines
from .tiling import Tiling

_OF_ONE = {"out", "workers", "folder"}
_LINES_BYTES = 64 << 20  # of the pre-activations that say what is zero on lines that are tiled together
_PROBES_AND_ENDS = 8  # points at which each line asks for them


def tessellate_each(
    model: nn.Module | SplineNetwork, views: Sequence[Slice], *, progress: Progress | bool | None = None, **options: Any
) -> list[Tiling]:
    """The tilings of a network on several slices, each bit for bit as `tessellate(model, view, **options)` gives it.

    Args:
        model: As for `tessellate`; it is read once.
        views: Slices of its input space, of any dimensions. Lines are tiled all at once: they share matrix products.
        progress: As for `tessellate`, of the slices that are done.
        options: What else `tessellate` takes for one process and in memory; limits are for each slice by itself.

    Raises:
        LimitReached: A slice met a limit; the message says which, `.partial` is what was found on that one.
        SplinescopeError: What `tessellate` raises, with the number of the slice, from 1.

    Example:
        >>> import torch, splinescope as ss
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        >>> lines = [ss.Slice.segment([-1.0, y], [1.0, y]) for y in (0.0, 0.5)]
        >>> [tiling.dimension for tiling in ss.tiling.tessellate_each(net, lines)]
        [1, 1]
    """
    views = _checked(views)
    check_progress(progress)
    known = [name for name in signature(tessellate).parameters if name not in {"model", "view", "progress", *_OF_ONE}]
    if unknown := set(options).difference(known):
        raise InputError(f"options must be of {', '.join(known)}, got {', '.join(sorted(unknown))}.")
    output = options.pop("output", None)
    if isinstance(model, SplineNetwork):
        network = trace(model, None, output=output)
    else:
        network = traced(model, views[0], output, smooth=options.get("tolerance") is not None)
    with telling(progress, "slices") as report:
        found = _lines_together(network, views, options, report)
        for i, view in enumerate(views):
            if i not in found:
                found[i] = _one(network, view, f"slice {i + 1} of {len(views)}", options)
                report(len(found) / len(views), f"{len(found)} of {len(views)} slices")
    return [found[i] for i in range(len(views))]


def _checked(views: Any) -> list[Slice]:
    if isinstance(views, Slice) or not isinstance(views, Sequence) or not views:
        raise InputError(f"views must be a list of at least one Slice, got {type(views).__name__}.")
    for i, view in enumerate(views):
        if not isinstance(view, Slice):
            raise InputError(f"views must be Slices, got {type(view).__name__} as number {i + 1}.")
        if view.input_shape != views[0].input_shape:
            raise InputError(
                f"views must lie in one input space: number 1 has inputs of shape {views[0].input_shape}, "
                f"number {i + 1} of {view.input_shape}."
            )
    return list(views)


def _lines_together(
    network: SplineNetwork, views: list[Slice], options: dict[str, Any], report: Progress
) -> dict[int, Tiling]:
    """The lines among the slices, those that can be tiled together, by their place."""
    places = [i for i, view in enumerate(views) if view.dimension == 1]
    found: dict[int, Tiling] = {}
    if len(places) < 2 or options.get("tolerance") is not None:
        return found
    how = Options(**{name: value for name, value in options.items() if name != "tolerance"}, progress=False)
    try:
        network, program = checked_network(network, views[places[0]])
    except SplinescopeError:
        return found  # which a slice by itself meets, too, with its number
    numbers = sum(fold.site.units for fold in program.folds) + int(np.prod(program.input_shape))
    together = max(1, _LINES_BYTES // (8 * _PROBES_AND_ENDS * numbers))
    for start in range(0, len(places), together):
        some = places[start : start + together]

        def tell(share: float, now: str, done: int = start, count: int = len(some)) -> None:
            report((done + share * count) / len(views), f"{done + int(share * count)} of {len(views)} slices")

        tilings = tiled_lines(network, program, [views[i] for i in some], how, tell)
        if tilings is None:
            return found
        found.update(zip(some, tilings, strict=True))
    return found


def _one(network: SplineNetwork, view: Slice, name: str, options: dict[str, Any]) -> Tiling:
    """One slice, with its name in errors."""
    try:
        return tessellate(network, view, progress=False, **options)
    except LimitReached as error:
        raise LimitReached(f"{name}: {error}", error.partial) from error
    except SplinescopeError as error:
        raise type(error)(f"{name}: {error}") from error
