"""Ten million tiles from a mapped file: `python -m benchmarks.large FOLDER` prints CPU seconds and peak memory.

A network that folds the plane again and again is tiled into FOLDER/large.tiling (0.7 GB, kept); loading it, its
summary, a plot and a page follow, each in a fresh process. docs/benchmarks/index.md has the figures of one run.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

import splinescope as ss
from benchmarks.timing import peak_memory


class _Abs(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.abs()


def folding(layers: int) -> nn.Sequential:
    """x -> 2 |R x| - 1 for one rotation R after the other: each folds the plane along two lines."""
    modules: list[nn.Module] = []
    for i in range(layers):
        angle = 0.7 + 0.9 * i
        turn = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        linear = nn.Linear(2, 2)
        with torch.no_grad():
            linear.weight.copy_(2.0 * turn if i else turn)
            linear.bias.copy_(turn @ torch.tensor([-1.0, -1.0]) if i else torch.tensor([0.1, 0.2]))
        modules += [linear, _Abs()]
    torch.manual_seed(0)
    return nn.Sequential(*modules, nn.Linear(2, 1))


def _tile(folder: Path, layers: int) -> ss.Tiling:
    view = ss.Slice.axes([0.0, 0.0], (0, 1), -1.2, 1.2)
    return ss.tessellate(folding(layers), view, threads=1, out=folder / "large.tiling")


def _plot(tiling: ss.Tiling, folder: Path) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    figure = tiling.plot().figure
    assert figure is not None
    figure.savefig(folder / "large.png", dpi=150)


STEPS: dict[str, Callable[[ss.Tiling, Path], object]] = {
    "load": lambda tiling, folder: None,
    "summary": lambda tiling, folder: tiling.summary(),
    "plot": _plot,
    "page": lambda tiling, folder: tiling.to_html(folder / "large.html"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--layers", type=int, default=12, help="fewer for a trial")
    parser.add_argument("--step", choices=["tile", *STEPS], help="one step, in this process")
    options = parser.parse_args()
    if options.step is None:
        for step in ["tile", *STEPS]:
            more = ["--layers", str(options.layers), "--step", step]
            subprocess.run([sys.executable, "-m", "benchmarks.large", str(options.folder), *more], check=True)
        return
    before, start = peak_memory(), time.process_time()
    if options.step == "tile":
        tiling = _tile(options.folder, options.layers)
    else:
        tiling = ss.tiling.load_tiling(options.folder / "large.tiling")
        STEPS[options.step](tiling, options.folder)
    print(
        f"{options.step}: {tiling.count:,} tiles, {len(tiling.vertices):,} vertices, {time.process_time() - start:.1f} "
        f"CPU s, {peak_memory() / 1024:.2f} GB at the most, {before / 1024:.2f} before",
        flush=True,
    )


if __name__ == "__main__":
    main()
