"""Cost of curvature products, exact sections and surfaces, in multiples of one gradient or forward pass.

Run with `python -m benchmarks.landscape`; rewrites docs/benchmarks/landscape.md. CPU time, one thread, medians.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

import splinescope as ss
from splinescope.landscape.spectrum import extreme_eigenvalues

TABLE = Path(__file__).parent.parent / "docs" / "benchmarks" / "landscape.md"


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 3, padding=1, stride=2)),
        *(nn.ReLU(), nn.Flatten(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 10)),
    ).eval()


def data(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(count, 1, 8, 8, generator=generator), torch.randn(count, 10, generator=generator)


def seconds(work, repeats: int = 5) -> float:
    """Median CPU seconds of a call, after one call to warm up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return float(np.median(times))


def products() -> list[str]:
    model, (x, y) = network().double(), data(1024)
    x, y = x.double(), y.double()

    def gradient() -> None:
        for i in range(0, len(x), 256):
            loss = (model(x[i : i + 256]) - y[i : i + 256]).square().sum()
            torch.autograd.grad(loss, list(model.parameters()))

    unit = seconds(gradient)
    rows = [f"| one gradient, 1,024 points, {sum(p.numel() for p in model.parameters()):,} parameters | 1 |"]
    vector = np.random.default_rng(0).normal(size=sum(p.numel() for p in model.parameters()))
    for kind, label in (("ggn", "Gauss-Newton product"), ("hessian", "Hessian product")):
        matrix = ss.curvature(model, x, y, kind=kind)
        rows.append(f"| {label} | {seconds(lambda matrix=matrix: matrix @ vector) / unit:.1f} |")
    many = np.random.default_rng(0).normal(size=(len(vector), 32))
    matrix = ss.curvature(model, x, y)
    rows.append(
        f"| 32 Gauss-Newton products at once, per product | {seconds(lambda: matrix @ many, 1) / 32 / unit:.1f} |"
    )
    generator = torch.Generator().manual_seed(0)
    top = seconds(lambda: extreme_eigenvalues(matrix, 1, generator=generator), 1)
    rows.append(f"| largest eigenvalue (to 1e-10) | {top / unit:.0f} |")
    return rows


def surfaces() -> list[str]:
    model, (x, y) = network(), data(1024)
    moves = ss.landscape.random_directions(model, 2, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        unit = seconds(lambda: [model(x[i : i + 256]) for i in range(0, len(x), 256)])
    rows = []
    for mode in ("fixed", "reestimate"):
        took = seconds(
            lambda mode=mode: ss.loss_surface(model, x, y, moves, resolution=5, loss="squared", batch_norm=mode), 1
        )
        rows.append(f"| grid point of a surface, statistics {mode} | {took / 25 / unit:.1f} |")
    model, x, y = model.double(), x.double(), y.double()
    with torch.no_grad():
        unit = seconds(lambda: [model(x[i : i + 256]) for i in range(0, len(x), 256)])
    start = time.process_time()
    found = ss.landscape.certified_surface(model, x, y, moves, span=0.1, cells=6)
    took = time.process_time() - start
    rows.append(
        f"| cell of a certified surface (float64), {2 * found.half:.2g} wide: error at most "
        f"{found.errors.max() / found.losses.min():.2g} of the least loss | {took / found.losses.size / unit:.0f} |"
    )
    return rows


def sections() -> list[str]:
    model = network().double()
    rows = []
    x, y = (v.double() for v in data(2))
    ss.landscape.loss_section(model, x, y, ss.landscape.random_directions(model, 1, layer="6")[0])  # loads the kernels
    for layer, count in (("0", 16), ("6", 64), ("6", 256)):
        x, y = (v.double() for v in data(count))
        move = ss.landscape.random_directions(model, 1, layer=layer, generator=torch.Generator().manual_seed(0))[0]
        with torch.no_grad():
            unit = seconds(lambda x=x: model(x))
        start = time.process_time()
        section = ss.landscape.loss_section(model, x, y, move)
        took = time.process_time() - start
        rows.append(
            f"| {layer} | {count} | {section.count:,} | {took:.1f} | {took / section.count * 1e6:.0f} | "
            f"{took / section.count / unit:.2f} |"
        )
    return rows


def peak(count: int) -> float:
    """Peak megabytes of a 1-D section of this many points, in a fresh process."""
    out = subprocess.run([sys.executable, "-m", "benchmarks.landscape", str(count)], capture_output=True, check=True)
    return float(out.stdout.split()[-1])


def measure_peak(count: int) -> None:
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2)).double()
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(count, n, generator=generator).double() for n in (8, 2))
    move = ss.landscape.random_directions(model, 1, layer="2", generator=generator)[0]
    ss.landscape.loss_section(model, x, y, move, span=0.1, batch_size=32)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    torch.set_num_threads(1)
    memory = [f"| {count:,} | {peak(count):.0f} |" for count in (256, 1024, 4096)]
    lines = [
        "# Loss landscape", "",
        f"Made by `python -m benchmarks.landscape` (torch {torch.__version__}, one thread, CPU time).",
        "Network: two convolutions (8 and 16 channels, batch norm) and two linear layers on 8 x 8 images.", "",
        "## Curvature products, in gradients over the same data", "", "| what | gradients |", "|---|---|", *products(),
        "",
        "## Sampled surfaces, in forward passes over the same data", "", "| what | forward passes |", "|---|---|",
        *surfaces(), "", "## Exact 1-D sections of the squared error", "",
        "| layer | points | pieces | seconds | microseconds per piece | forward passes per piece |",
        "|---|---|---|---|---|---|", *sections(), "",
        "## Peak memory of an exact 1-D section in a fresh process (torch alone takes most of it)", "",
        "| points | MB |", "|---|---|", *memory, "",
    ]  # fmt: skip
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    TABLE.write_text("\n".join(lines), encoding="utf-8")
    print(TABLE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    measure_peak(int(sys.argv[1])) if len(sys.argv) > 1 else main()
