"""How long tilings take to draw, save and load: `python -m benchmarks.pictures` rewrites docs/benchmarks/pictures.md.

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
from splinescope import plot

mpl.use("Agg")
WIDTHS = (64, 240, 600)
TABLE = Path(__file__).parents[1] / "docs" / "benchmarks" / "pictures.md"


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def picture(draw: Callable[[], mpl.axes.Axes], path: Path) -> None:
    figure = draw().figure
    figure.savefig(path, dpi=150)
    mpl.pyplot.close(figure)


def measure(width: int, folder: Path) -> list[str]:
    """One row: a 2-width-width-width-4 network at initialisation on the square [-3, 3]^2."""
    torch.manual_seed(0)
    layers = [nn.Linear(2, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
    net = nn.Sequential(*layers, nn.Linear(width, 4))
    tiling = ss.tessellate(net, ss.Slice.axes([0.0, 0.0], (0, 1), -3, 3), progress=False)
    jobs = {
        "tiles by slope": lambda: picture(lambda: tiling.plot(color="slope"), folder / "tiles.png"),
        "folds by layer": lambda: picture(lambda: plot.plot_folds(tiling), folder / "folds.png"),
        "save": lambda: tiling.save(folder / "net.tiling"),
        "load": lambda: ss.load_tiling(folder / "net.tiling"),
    }
    row = [f"{tiling.count:,}", *(f"{seconds(job):.2f}" for job in jobs.values())]
    row.append(f"{(folder / 'net.tiling').stat().st_size / 1e6:.1f}")
    if tiling.count > 200_000:  # what a page is made for
        return [*row, "", ""]
    took = seconds(lambda: tiling.to_html(folder / "net.html"))
    return [*row, f"{took:.2f}", f"{(folder / 'net.html').stat().st_size / 1e6:.1f}"]


def main() -> None:
    head = ["tiles", "tiles by slope, PNG", "folds by layer, PNG", "save", "load", "file, MB", "page", "page, MB"]
    with tempfile.TemporaryDirectory() as folder:
        measure(16, Path(folder))  # loads kernels and fonts
        rows = [measure(width, Path(folder)) for width in WIDTHS]
    lines = ["| " + " | ".join(cells) + " |" for cells in [head, ["---:"] * len(head), *rows]]
    text = "# Pictures and files\n\nCPU seconds (one run each); `python -m benchmarks.pictures` rewrites this page.\n\n"
    TABLE.write_text(text + "\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
