"""Plain against factored rows: `python -m benchmarks.rows [PART OF A NAME ...]` rewrites docs/benchmarks/rows.csv.

CPU milliseconds of one thread, best of three after a first run, on planes of 3,000 to 16,000 tiles (a slice is made
smaller or larger until it has so many), some of 25,000 to 100,000 as well, and on lines of 300 to 1,500. The thresholds
of `tiling/engine/plan.py` are read off here. With names, only those rows are printed and nothing is written.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from torch import nn

import splinescope as ss
from benchmarks.networks import SmallResNet, mlp, plane, resnet_20
from benchmarks.tables import write_table

Made = tuple[nn.Module, ss.Slice]
HEAD = ("network", "slice", "tiles", "plain", "factored", "auto", "plain / factored", "auto / better")


def _mlp(inputs: int, width: int, layers: int) -> Made:
    view = ss.Slice.axes([0.0, 0.0], (0, 1), -1.0, 1.0) if inputs == 2 else plane(inputs)
    return mlp(inputs, *[width] * layers, 10), view


def _convolutions(channels: int, layers: int) -> Made:
    torch.manual_seed(0)
    body: list[nn.Module] = []
    for i in range(layers):
        body += [nn.Conv2d(channels if i else 1, channels, 3, padding=1), nn.ReLU()]
    head = (nn.Flatten(), nn.Linear(channels * 256, 32), nn.ReLU(), nn.Linear(32, 10))
    return nn.Sequential(*body, *head), plane(1, 16, 16)


def _lenet() -> Made:
    torch.manual_seed(0)
    body = (nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.AvgPool2d(2))
    head = (nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))
    return nn.Sequential(*body, *head), plane(1, 28, 28)


def _generator() -> Made:
    torch.manual_seed(0)
    body = (nn.Linear(8, 256), nn.ReLU(), nn.Unflatten(1, (16, 4, 4)), nn.ConvTranspose2d(16, 16, 4, 2, 1), nn.ReLU())
    end = (nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(8, 1, 4, 2, 1))
    return nn.Sequential(*body, *end), ss.Slice.axes(np.zeros(8), (0, 1), -2.0, 2.0)


CASES: dict[str, Callable[[], Made]] = {
    f"MLP {inputs}-{width}x{layers}-10": lambda inputs=inputs, width=width, layers=layers: _mlp(inputs, width, layers)
    for inputs in (2, 784)
    for width, layers in ((256, 2), (256, 4), (512, 3), (512, 4), (512, 6), (1024, 2), (1024, 3), (2048, 2), (2048, 3))
}
CASES |= {
    f"{layers} convolutions of {256 * channels}": lambda channels=channels, layers=layers: _convolutions(
        channels, layers
    )
    for channels in (2, 4, 8, 16)
    for layers in (2, 4, 8)
}
CASES |= {
    "LeNet-5": _lenet,
    "generator, 8 to 32 x 32": _generator,
    "residual, max-pool, 3 x 32 x 32": lambda: (SmallResNet().eval(), plane(3, 32, 32)),
    "ResNet-20, CIFAR-10": resnet_20,
    "MLP 2-4096-64-64-2": lambda: (mlp(2, 4096, 64, 64, 2), ss.Slice.axes([0.0, 0.0], (0, 1), -1.0, 1.0)),
}


TILES = {"plane": (3_000, 16_000), "large plane": (25_000, 100_000), "line": (300, 1_500)}
LARGE = ("512x4", "512x6", "1024x3", "2048x2", "LeNet", "2 convolutions of 2048", "generator", "max-pool", "64-64")


def _sized(network: ss.SplineNetwork, view: ss.Slice, kind: str) -> ss.Slice:
    """A window of the slice, or a diagonal of one, with about as many tiles as it should have."""
    fewest, most = TILES[kind]
    center, share = view.domain.mean(0), 0.3
    for _ in range(14):
        window = ss.Slice(view.origin, view.basis, center + share * (view.domain - center))
        if kind == "line":
            corners = window.inputs(window.domain)
            window = ss.Slice.segment(corners[0], corners[2])
        try:
            count = ss.tessellate(network, window, threads=1, max_tiles=most).count
        except ss.LimitReached:
            share *= 0.55
            continue
        if count >= fewest or share >= 1.0:
            break
        share = min(1.0, 1.7 * share)
    return window


def _milliseconds(network: ss.SplineNetwork, view: ss.Slice, rows: Literal["auto", "plain", "factored"]) -> float:
    times: list[float] = []
    while len(times) < 4 and sum(times) < 6.0:
        start = time.process_time()
        ss.tessellate(network, view, threads=1, rows=rows)
        times.append(time.process_time() - start)
    return 1e3 * min(times[1:] or times)


def measure(name: str, kind: str) -> tuple[str, ...]:
    """One row of the table."""
    model, view = CASES[name]()
    network = ss.trace(model, torch.from_numpy(view.inputs(view.domain[:2])).float())
    window = _sized(network, view, kind)
    tiles = ss.tessellate(network, window, threads=1).count
    plain, factored, auto = (_milliseconds(network, window, rows) for rows in ("plain", "factored", "auto"))
    ratios = plain / factored, auto / min(plain, factored)
    times = [f"{each:.1f}" for each in (plain, factored, auto)]
    return (name, kind, f"{tiles:,}", *times, *(f"{ratio:.2f}" for ratio in ratios))


def main() -> None:
    wanted = sys.argv[1:]
    rows = []
    for name in CASES:
        if not wanted or any(part in name for part in wanted):
            for kind in TILES if any(part in name for part in LARGE) else ("plane", "line"):
                rows.append(measure(name, kind))
                print(*rows[-1], sep=" | ", flush=True)
    if not wanted:
        write_table("rows", HEAD, rows)


if __name__ == "__main__":
    main()
