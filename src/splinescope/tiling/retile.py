"""`Retiler`: the same network tiled again and again, as its weights move or the window does."""

from __future__ import annotations

from torch import nn

from ..network import SplineNetwork
from .slice import Slice
from .tessellate import tessellate, traced
from .tiling import Tiling


class Retiler:
    """Tiles one network repeatedly: for an animation of training, or a window that is moved by hand.

    The module is read once; every `tile` reads its parameters as they are at that moment and reuses whatever does
    not depend on what has changed. The tilings are those of `tessellate`, bit for bit.

    Args:
        network: A torch module (in eval mode if it has batch norm or dropout), or the result of `trace` or `load`.
        view: The slice that is tiled unless another one is given.
        tolerance, rtol, max_tiles, time_limit, threads: As in `tessellate`; one thread by default, which is best for
            tilings that take a few milliseconds.

    Cost of a tiling: about a millisecond, plus one or two microseconds per tile of a small network.

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
        smooth = tolerance is not None
        self.network = model if isinstance(model, SplineNetwork) else traced(model, view, smooth=smooth)
        self.view = view
        self._options = {
            "tolerance": tolerance, "rtol": rtol, "max_tiles": max_tiles, "time_limit": time_limit, "threads": threads,
        }  # fmt: skip

    def tile(self, view: Slice | None = None) -> Tiling:
        """The tiling of the network as it is now, on `view` (default: the view given at the start).

        Raises:
            LimitReached: With `.partial`, as `tessellate` does.
        """
        return tessellate(self.network, self.view if view is None else view, progress=False, **self._options)  # type: ignore[arg-type]
