"""Cost of curvature products, exact sections and surfaces, in multiples of one gradient or forward pass.

Run with `python -m benchmarks.landscape`; rewrites docs/benchmarks/landscape*.csv. CPU time, one thread, medians.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import numpy as np
import torch
from torch import nn

import splinescope as ss
from benchmarks.tables import write_table
from splinescope.landscape.spectrum import extreme_eigenvalues
from splinescope_research import loss_section


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


def products() -> list[tuple[str, str, str]]:
    model, (x, y) = network().double(), data(1024)
    x, y = x.double(), y.double()

    def gradient() -> None:
        for i in range(0, len(x), 256):
            loss = (model(x[i : i + 256]) - y[i : i + 256]).square().sum()
            torch.autograd.grad(loss, list(model.parameters()))

    unit = seconds(gradient)
    count = sum(p.numel() for p in model.parameters())
    rows = [(f"one gradient, 1,024 points, {count:,} parameters", "1", "gradient")]
    vector = np.random.default_rng(0).normal(size=count)
    for kind, label in (("ggn", "Gauss-Newton product"), ("hessian", "Hessian product")):
        matrix = ss.curvature(model, x, y, kind=kind)
        rows.append((label, f"{seconds(lambda matrix=matrix: matrix @ vector) / unit:.1f}", "gradient"))
    many = np.random.default_rng(0).normal(size=(len(vector), 32))
    matrix = ss.curvature(model, x, y)
    each = seconds(lambda: matrix @ many, 1) / 32
    rows.append(("32 Gauss-Newton products at once, per product", f"{each / unit:.1f}", "gradient"))
    generator = torch.Generator().manual_seed(0)
    top = seconds(lambda: extreme_eigenvalues(matrix, 1, generator=generator), 1)
    rows.append(("largest eigenvalue (to 1e-10)", f"{top / unit:.0f}", "gradient"))
    return rows


def surfaces() -> list[tuple[str, str, str]]:
    model, (x, y) = network(), data(1024)
    moves = ss.landscape.random_directions(model, 2, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        unit = seconds(lambda: [model(x[i : i + 256]) for i in range(0, len(x), 256)])
    took = seconds(lambda: ss.loss_surface(model, x, y, moves, resolution=5, loss="squared"), 1)
    return [("grid point of a surface", f"{took / 25 / unit:.1f}", "forward pass")]


def sections() -> list[tuple[object, ...]]:
    model = network().double()
    rows = []
    x, y = (v.double() for v in data(2))
    loss_section(model, x, y, ss.landscape.random_directions(model, 1, layer="6")[0])  # loads the kernels
    for layer, count in (("0", 16), ("6", 64), ("6", 256)):
        x, y = (v.double() for v in data(count))
        move = ss.landscape.random_directions(model, 1, layer=layer, generator=torch.Generator().manual_seed(0))[0]
        with torch.no_grad():
            unit = seconds(lambda x=x: model(x))
        start = time.process_time()
        section = loss_section(model, x, y, move)
        took = time.process_time() - start
        each = took / section.count
        rows.append((layer, count, f"{section.count:,}", f"{took:.1f}", f"{each * 1e6:.0f}", f"{each / unit:.2f}"))
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
    loss_section(model, x, y, move, span=0.1, batch_size=32)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    torch.set_num_threads(1)
    write_table("landscape", ("what", "cost", "in units of"), [*products(), *surfaces()])
    head = ("layer", "points", "pieces", "seconds", "microseconds per piece", "forward passes per piece")
    write_table("landscape_sections", head, sections())
    peaks = [(f"{count:,}", f"{peak(count):.0f}") for count in (256, 1024, 4096)]
    write_table("landscape_memory", ("points", "MB"), peaks)


if __name__ == "__main__":
    measure_peak(int(sys.argv[1])) if len(sys.argv) > 1 else main()
