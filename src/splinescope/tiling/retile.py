"""`Retiler`: the same network tiled again and again, as its weights move or the window does."""

from __future__ import annotations

from typing import Any

from torch import nn

from ..network import SplineNetwork
from ..support.display import Shown
from .engine.options import Options
from .networks import check_slice, traced
from .slice import Slice
from .tessellate import tessellate
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
        check_slice(view)
        Options(rtol=rtol, max_tiles=max_tiles, time_limit=time_limit, threads=threads)
        self.view = view
        self._module: nn.Module | None = None
        self._smooth = tolerance is not None
        if isinstance(model, SplineNetwork):
            self.network = model
        else:
            self._module = model
            self._follow(view)
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
