"""How long tilings take to draw, save and load: `python -m benchmarks.pictures` rewrites docs/benchmarks/pictures.csv.

CPU seconds of one run each, which a busy machine disturbs less than wall time.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import torch
from torch import nn

import splinescope as ss
from benchmarks.tables import write_table
from splinescope import plot

mpl.use("Agg")
WIDTHS = (64, 240, 600)


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def picture(draw: Callable[[], mpl.axes.Axes], path: Path) -> None:
    figure = draw().figure
    figure.savefig(path, dpi=150)
    mpl.pyplot.close(figure)


def dense(width: int) -> ss.Tiling:
    """A 2-width-width-width-4 network at initialization on the square [-3, 3]^2."""
    torch.manual_seed(0)
    layers = [nn.Linear(2, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
    net = nn.Sequential(*layers, nn.Linear(width, 4))
    return ss.tessellate(net, ss.Slice.axes([0.0, 0.0], (0, 1), -3, 3), progress=False)


def convolutional() -> ss.Tiling:
    """An ordinary CNN at initialization on a plane through three digits of 8 x 8 pixels."""
    from sklearn.datasets import load_digits

    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 10))
    digits = torch.from_numpy(load_digits().images[:3, None] / 16)
    return ss.tessellate(net, ss.Slice.through(*digits, pad=1.2), progress=False)


def measure(name: str, tiling: ss.Tiling, folder: Path) -> list[str]:
    """One row, with the network attached."""
    jobs = {
        "tiles by slope": lambda: picture(lambda: tiling.plot(color="slope"), folder / "tiles.png"),
        "folds by layer": lambda: picture(lambda: plot.plot_folds(tiling), folder / "folds.png"),
        "save": lambda: tiling.save(folder / "net.tiling"),
        "load": lambda: ss.load_tiling(folder / "net.tiling"),
    }
    row = [name, f"{tiling.count:,}", *(f"{seconds(job):.2f}" for job in jobs.values())]
    row.append(f"{(folder / 'net.tiling').stat().st_size / 1e6:.1f}")
    took = seconds(lambda: tiling.to_html(folder / "net.html"))
    return [*row, f"{took:.2f}", f"{(folder / 'net.html').stat().st_size / 1e6:.1f}"]


def main() -> None:
    head = [
        "network",
        "tiles",
        "tiles by slope, PNG",
        "folds by layer, PNG",
        "save",
        "load",
        "file, MB",
        "page",
        "page, MB",
    ]
    with tempfile.TemporaryDirectory() as folder:
        measure("", dense(16), Path(folder))  # loads kernels and fonts
        rows = [measure(f"2-{width}-{width}-{width}-4", dense(width), Path(folder)) for width in WIDTHS]
        rows.append(measure("CNN, 8 x 8 pixels", convolutional(), Path(folder)))
    write_table("pictures", head, rows)


if __name__ == "__main__":
    main()
