"""Cost of token geometry and of tilings within a tolerance, steering, memory. Writes docs/benchmarks/smooth.md.

    python -m benchmarks.smooth

Times are CPU seconds of one thread, the least of several rounds in which all competitors run one after the other.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from tests import real
from tests.smooth.models import GPT2Block, LanguageModel, LlamaBlock
from tests.smooth.networks import ACTIVATIONS, deviation_at, random_network
from torch import Tensor, nn

import splinescope as ss
from benchmarks import smooth_memory
from benchmarks.timing import race

TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-4)


def overhead(rounds: int) -> list[str]:
    """Token geometry against the bare forward pass."""
    lines = [
        "| model | tokens | forward pass | with geometry | ratio | without attention |",
        "|---|---|---|---|---|---|",
    ]
    for name, block, size, layers in (
        ("GPT-2-shaped, width 768", GPT2Block, 768, 2),
        ("Llama-shaped, width 768", LlamaBlock, 768, 2),
        ("GPT-2-shaped, width 256", GPT2Block, 256, 4),
        ("Llama-shaped, width 256", LlamaBlock, 256, 4),
    ):
        torch.manual_seed(0)
        model = LanguageModel(block, size=size, heads=size // 64, layers=layers, vocabulary=1000).eval()
        ids = torch.randint(0, 1000, (4, 256))

        def bare(model: nn.Module = model, ids: Tensor = ids) -> None:
            with torch.no_grad():
                model(ids)

        times = race(
            {
                "bare": bare,
                "all": lambda model=model, ids=ids: ss.token_geometry(model, ids),
                "some": lambda model=model, ids=ids: ss.token_geometry(model, ids, attention=False),
            },
            rounds,
        )
        lines.append(
            f"| {name}, {layers} layers | {ids.numel()} | {times['bare']:.2f} s | {times['all']:.2f} s | "
            f"{times['all'] / times['bare']:.2f} | {times['some'] / times['bare']:.2f} |"
        )
    return lines


def by_tolerance() -> list[str]:
    """Knots, tiles and time of a GELU network as the tolerance shrinks, on a line and on a plane."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 16), nn.GELU(), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 2)).double()
    line = ss.Slice.segment([-2.0, -1.0], [2.0, 1.5])
    plane = ss.Slice.axes([0.0, 0.0], (0, 1), -1, 1)
    lines = ["| tolerance | cuts per unit | tiles on a line | tiles on a plane | bound | deviation | basis | CPU |",
             "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    seen = []
    for tolerance in TOLERANCES:
        on_line = ss.tessellate(net, line, tolerance=tolerance, threads=1)
        start = time.process_time()
        tiling = ss.tessellate(net, plane, tolerance=tolerance, threads=1) if tolerance >= 1e-3 else None
        seconds = time.process_time() - start
        shown = on_line if tiling is None else tiling
        seen.append((tolerance, on_line.count))
        lines.append(
            f"| {tolerance:g} | {sum(s.units for s in on_line.sites) / 32:.1f} | {on_line.count} | "
            f"{'-' if tiling is None else tiling.count} | {shown.bound:.1e} | {shown.deviation:.1e} | "
            f"{shown.approximation.basis} | {'-' if tiling is None else f'{seconds:.1f} s'} |"
        )
    slope = np.polyfit(*np.log(np.array(seen).T), 1)[0]
    return [*lines, "", f"Tiles on the line grow as tolerance^({slope:.2f})."]


def many_networks(count: int, points: int) -> str:
    """Random smooth networks: how often a point deviates by more than the bound, and how loose the bound is."""
    ratios, proven, above = [], 0, 0
    for seed in range(count):
        net, view = random_network(seed)
        tiling = ss.tessellate(net, view, tolerance=0.05, threads=1)
        deviation = deviation_at(net, tiling, points)
        above += deviation > tiling.bound
        proven += tiling.approximation.basis == "bound"
        if deviation > 0:  # 0 behind a ReLU that is off throughout
            ratios.append(tiling.bound / deviation)
    return (
        f"{count} random smooth networks (MLP, convolutional, residual; `tests/smooth/networks.py`), tolerance 0.05, "
        f"{points} points each: {above} have a point beyond the bound; {proven} are proven by it; bound over largest "
        f"deviation: median {np.median(ratios):.1f}, largest {max(ratios):.1f}."
    )


def two_layers() -> list[str]:
    """How loose the bound is on networks of two layers, by their width."""
    ends = np.random.default_rng(0).normal(size=(2, 64))
    lines = ["| network | hidden units | median | largest |", "|---|---|---|---|"]
    for width in (8, 16, 32, 64, 128, 256, 512):
        view = ss.Slice.segment([-2.0, -1.0], [2.0, 1.5])
        nets = [
            seeded(seed, lambda act=act, w=width: nn.Sequential(nn.Linear(2, w), act, nn.Linear(w, 2)))
            for act in ACTIVATIONS
            for seed in (0, 1)
        ]
        lines.append(f"| MLP 2-{width}-2 | {width} | {looseness(nets, view, 0.02)} |")
    for channels in (2, 8, 16, 32):
        view = ss.Slice.segment(*ends)
        nets = [
            seeded(0, lambda act=act, c=channels: nn.Sequential(
                nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, c, 3, padding=1), act, nn.Flatten(), nn.Linear(64 * c, 4)))
            for act in ACTIVATIONS
        ]  # fmt: skip
        lines.append(
            f"| convolution of 8 x 8, {channels} channels, and a layer | {64 * channels} | "
            f"{looseness(nets, view, 0.05)} |"
        )
    return lines


def seeded(seed: int, make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(seed)
    return make().double()


def looseness(nets: list[nn.Module], view: ss.Slice, tolerance: float) -> str:
    """Median and largest bound over deviation."""
    ratios = []
    for net in nets:
        tiling = ss.tessellate(net, view, tolerance=tolerance, threads=1, progress=False)
        if tiling.approximation is None or tiling.approximation.basis != "bound":
            raise AssertionError("the bound of a network of two layers was given up")
        ratios.append(tiling.bound / max(deviation_at(net, tiling, 4_000), tiling.deviation))
    return f"{np.median(ratios):.1f} | {max(ratios):.1f}"


def steered() -> list[str]:
    """A public ResNet-20 at some betas, on 100 test images; where the trained networks are at hand."""
    if not real.FOLDER.is_dir():
        return [f"The trained networks were not at {real.FOLDER.name}: not measured."]
    x, y = real.cifar_images()
    found = ss.smooth.steer(real.resnet20(), x, y, epsilon=2 / 255 / 0.226, betas=(0.8, 0.9, 0.95, 1.0), steps=7,
                            restarts=1, queries=10, places=16)  # fmt: skip
    lines = ["| beta | accuracy | under attack | turn of the boundary |", "|---|---|---|---|"]
    rows = zip(found.betas, found.accuracy, found.robust, found.curvature, found.curvature_error, strict=True)
    return [*lines, *(f"| {b:g} | {a:.2f} | {r:.2f} | {c:.4f} ± {e:.4f} |" for b, a, r, c, e in rows)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--networks", type=int, default=40)
    parser.add_argument("--points", type=int, default=100_000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    page = Path(__file__).parent.parent / "docs" / "benchmarks" / "smooth.md"
    page.write_text(
        "\n".join(
            [
                "# Smooth networks: cost and bounds",
                "",
                "Written by `python -m benchmarks.smooth`. CPU seconds of one thread.",
                "",
                f"**Token geometry** against the bare forward pass, least of {arguments.rounds} interleaved rounds:",
                "",
                *overhead(arguments.rounds),
                "",
                "**Tilings within a tolerance**, MLP 2-16-16-2 with GELU:",
                "",
                *by_tolerance(),
                "",
                many_networks(arguments.networks, arguments.points),
                "",
                "Bound over largest deviation on networks of two layers, 16 activations each, on lines; all are "
                "proven. The bound adds up the errors of all units, which partly cancel: it grows as the square root "
                "of the width.",
                "",
                *two_layers(),
                "",
                "**Steering** a public ResNet-20 by beta, no weight touched; one network, 100 test images, "
                "L-inf 2/255, 16 places on the boundary (radians per unit of distance, normalised images):",
                "",
                *steered(),
                "",
                "**Memory** of each tool in a fresh process: its peak above what `import torch, splinescope` takes, "
                "model and weights included. The small case is mostly libraries that load on first use (torch's "
                "exporter, numba, scipy):",
                "",
                *smooth_memory.table(),
                "",
            ]
        ),
        encoding="utf-8",
    )
    print(page.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
