"""`Retiler`: the same network tiled again and again, as its weights move or the window does."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from .._display import Shown
from .._errors import InputError, LimitReached
from .._threads import one_torch_thread
from ..network import SplineNetwork
from ._grid import Grid
from ._parts import closed_seams
from .slice import Slice
from .tessellate import CHUNK_BYTES, check_arguments, check_slice, checked_network, tessellate, tiling_of, traced
from .tiling import Tiling


class Retiler(Shown):
    """Tiles one network repeatedly: for an animation of training, or a window that is moved by hand.

    The module is read once, and again if more than its parameters has changed; every `tile` reads its parameters as
    they are at that moment and reuses whatever does not depend on what has changed. The tilings are those of
    `tessellate`, bit for bit.

    Args:
        model: A torch module (in eval mode if it has batch norm or dropout), or the result of `trace` or `load`.
        view: The slice that is tiled unless another one is given.
        tolerance, rtol, max_tiles, time_limit, threads: As in `tessellate`; one thread by default, which is best for
            tilings that take a few milliseconds.

    Cost of a tiling: about three milliseconds, half of them to compare the module with what was read, plus one or two
    microseconds per tile of a small network.

    Example:
        >>> import torch, splinescope as ss
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        >>> retiler = ss.tiling.Retiler(net, ss.Slice.axes([0.0, 0.0], (0, 1), -3, 3))
        >>> before = retiler.tile()
        >>> with torch.no_grad():
        ...     _ = net[0].bias.add_(0.1)
        >>> after = retiler.tile()
        >>> before.fingerprint == after.fingerprint
        False
    """

    def __init__(
        self,
        model: nn.Module | SplineNetwork,
        view: Slice,
        *,
        tolerance: float | None = None,
        rtol: float = 1e-12,
        max_tiles: int | None = None,
        time_limit: float | None = None,
        threads: int | None = 1,
    ) -> None:
        check_arguments(view, rtol, max_tiles, time_limit, threads, CHUNK_BYTES, "auto")
        self.view = view
        self._module: nn.Module | None = None
        self._smooth = tolerance is not None
        if isinstance(model, SplineNetwork):
            self.network = model
        else:
            self._module = model
            self._follow(view)
        self._grid: Grid | None = None
        self._options: dict[str, Any] = {
            "tolerance": tolerance, "rtol": rtol, "max_tiles": max_tiles, "time_limit": time_limit, "threads": threads,
        }  # fmt: skip

    def __repr__(self) -> str:
        return f"Retiler({self.network!r}, {self.view!r})"

    def summary(self) -> str:
        """What is tiled, and where."""
        return f"Tiles anew when asked, .tile(): {self.network.summary()}\n{self.view.summary()}"

    def _follow(self, view: Slice) -> None:
        """Read the module anew if more than its parameters has changed, which `tessellate` would see too."""
        if self._module is not None:
            self.network = traced(self._module, view, smooth=self._smooth)

    def tile(self, view: Slice | None = None) -> Tiling:
        """The tiling of the network as it is now, on `view` (default: the view given at the start).

        Raises:
            LimitReached: With `.partial`, as `tessellate` does.
        """
        view = self.view if view is None else view
        self._follow(view)
        return tessellate(self.network, view, progress=False, **self._options)

    def cover(self, view: Slice | None = None) -> Tiling:
        """The tiling of a rectangle that holds `view`, another window of the same plane, from parts that are kept.

        The plane is divided by a grid, four to eight cells along a window; cells that were tiled before, with the same
        weights, are not tiled again, and the seams between cells are taken out: moving a window costs the strip that
        comes into sight. Exact as `tile`, with tiles in another order; what counts as zero is set by the view given at
        the start. Worth it where a tile costs more than some ten microseconds (convolutional networks): of small ones
        `tile` is as fast as putting kept parts together.

        Raises:
            InputError: The view is not a window of that plane.
            LimitReached: With `.partial`; cells that were finished are kept.
        """
        view = self.view if view is None else view
        plane = self.view
        check_slice(view)
        same = np.array_equal(view.origin, plane.origin) and np.array_equal(view.basis, plane.basis)
        if not same or view.dimension != 2:
            raise InputError("view must be a window of the Retiler's own plane: the same origin and 2-D basis.")
        if self._options["tolerance"] is not None:
            raise InputError("cover holds for piecewise-affine networks; within a tolerance, use tile.")
        self._follow(view)
        network, program = checked_network(self.network, plane, False)
        with one_torch_thread(), torch.no_grad():
            if self._grid is None or self._grid.program is not program:
                self._grid = Grid(program, plane, self._options["rtol"], CHUNK_BYTES)
            limits = self._options["max_tiles"], self._options["time_limit"]
            mesh, outline, stopped = self._grid.over(view.domain, *limits)
        window = Slice(plane.origin, plane.basis, outline, view.anchors)
        mesh = closed_seams(mesh, program, complete=stopped is None)
        tiling = tiling_of(network, program, window, self._options["rtol"], mesh, complete=stopped is None)
        if stopped is not None:
            raise LimitReached(f"{stopped}; {tiling.count} tiles were finished.", tiling)
        return tiling
