"""Speed and memory of local complexity. Writes docs/benchmarks/complexity*.csv.

    python -m benchmarks.complexity

Times are CPU seconds of one thread, the least of several rounds; in a round all competitors run one after the other, so
that ratios hold on a busy machine.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import subprocess
import sys
import time

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.tables import write_table
from benchmarks.timing import race
from splinescope.complexity import ComplexityMonitor, local_complexity
from splinescope.complexity.neighborhoods import random_frame
from splinescope.train import At

RADIUS, DIRECTIONS = 0.05, 25


def mlp(inputs: int) -> nn.Module:
    torch.manual_seed(0)
    sizes = [inputs, 200, 200, 200, 200]
    layers = [layer for a, b in itertools.pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(200, 10))


def convnet() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 64, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def bare_passes(model: nn.Module, x: Tensor, frame: Tensor, points_at_once: int) -> None:
    """The forward passes that a frame needs and nothing else."""
    steps = RADIUS * torch.cat([frame, -frame]).to(x)
    with torch.no_grad():
        for points in x.split(points_at_once):
            model((points.unsqueeze(0) + steps.unsqueeze(1)).flatten(0, 1))


def stored_hulls(model: nn.Module, x: Tensor, frame: Tensor) -> list[Tensor]:
    """The way of public code: all vertices stored, a DataLoader over points, hooks that keep every pre-activation."""
    steps = RADIUS * torch.cat([frame, -frame]).to(x)
    hulls = x.unsqueeze(1) + steps.unsqueeze(0)
    kept: dict[nn.Module, Tensor] = {}
    layers = [m for m in model.modules() if isinstance(m, (nn.ReLU, nn.MaxPool2d))]
    handles = [m.register_forward_pre_hook(lambda m, a: kept.__setitem__(m, a[0].detach())) for m in layers]
    counts: list[list[Tensor]] = [[] for _ in layers]
    with torch.no_grad():
        for (batch,) in DataLoader(TensorDataset(hulls), batch_size=64):
            model(batch.flatten(0, 1))
            for place, layer in enumerate(layers):
                signs = torch.sign(kept[layer]).reshape(len(batch), len(steps), -1)
                counts[place].append((signs.sum(1).abs() != len(steps)).sum(1))
    for handle in handles:
        handle.remove()
    return [torch.cat(c) for c in counts]


HEAD = ("network", "points", "bare passes", "frame", "ratio", "stored hulls", "frame is faster by")


def measure(rounds: int) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    cases = [("MLP 64-200x4-10", mlp(64), (64,), 1000), ("MLP 784-200x4-10", mlp(784), (784,), 400),
             ("ConvNet 3x32x32 (16, 32 channels)", convnet(), (3, 32, 32), 40)]  # fmt: skip
    for name, model, shape, count in cases:
        x = torch.rand(count, *shape, generator=torch.Generator().manual_seed(1))
        frame = random_frame(DIRECTIONS, shape)
        widest = max([x[0].numel(), *(s.units for s in local_complexity(model, x[:1], radius=RADIUS).sites)])
        points_at_once = max(1, (4 << 20) // (4 * widest) // (2 * DIRECTIONS))
        times = race(
            {
                "bare": lambda m=model, x=x, f=frame, n=points_at_once: bare_passes(m, x, f, n),
                "frame": lambda m=model, x=x, f=frame: local_complexity(m, x, radius=RADIUS, directions=f),
                "hulls": lambda m=model, x=x, f=frame: stored_hulls(m, x, f),
            },
            rounds,
        )
        bare, ours, hulls = times["bare"], times["frame"], times["hulls"]
        rows.append((name, count, f"{bare:.2f} s", f"{ours:.2f} s", f"{ours / bare:.2f}", f"{hulls:.2f} s",
                     f"{hulls / ours:.1f}x"))  # fmt: skip
    return rows


def large() -> None:
    """10,000 points on a 784-200x4-10 MLP; prints CPU seconds and how much the peak memory grew."""
    model = mlp(784)
    x = torch.rand(10_000, 784)
    local_complexity(model, x[:50], radius=RADIUS)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    local_complexity(model, x, radius=RADIUS)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{time.process_time() - start:.1f} {grown / 1024:.0f}")


def monitor_share(budget: float | None) -> str:
    """Share of the time of 600 training steps that at most 19 log-spaced measurements take."""
    model = mlp(64)
    x, y = torch.rand(1000, 64), torch.randint(10, (1000,))
    optimizer = torch.optim.Adam(model.parameters())
    steps = [round(600 ** (k / 19)) for k in range(20)]
    monitor = ComplexityMonitor(model, x[:200], radius=RADIUS, schedule=At(steps), budget=budget)
    for step in range(601):
        monitor.step(step)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[:200]), y[:200]).backward()
        optimizer.step()
    return f"{monitor.overhead:.1%} of the time ({len(monitor.records)} measurements)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--large", action="store_true", help="only the large case, in this process")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.large:
        large()
        return
    write_table("complexity", HEAD, measure(arguments.rounds))
    fresh = subprocess.run(
        [sys.executable, "-m", "benchmarks.complexity", "--large"], capture_output=True, text=True, check=True
    )
    seconds, grown = fresh.stdout.split()
    write_table(
        "complexity_more",
        ("what", "measured"),
        [
            ("10,000 points on the MLP 784-200x4-10", f"{seconds} s; peak memory grows by {grown} MB"),
            ("training monitor, 200 points, 600 steps", monitor_share(None)),
            ("training monitor with budget=0.05", monitor_share(0.05)),
        ],
    )


if __name__ == "__main__":
    main()
