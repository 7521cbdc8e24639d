"""Cost of token geometry and of tilings within a tolerance, steering, memory. Writes docs/benchmarks/smooth_*.csv.

    python -m benchmarks.smooth

Times are CPU seconds of one thread, the least of several rounds in which all competitors run one after the other.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from tests import real
from tests.smooth.models import GPT2Block, LanguageModel, LlamaBlock
from tests.smooth.networks import ACTIVATIONS, deviation_at, random_network
from torch import Tensor, nn

import splinescope as ss
import splinescope_research
from benchmarks import smooth_memory
from benchmarks.tables import write_table
from benchmarks.timing import race

TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-4)
Rows = list[tuple[object, ...]]


def overhead(rounds: int) -> Rows:
    """Token geometry against the bare forward pass."""
    rows: Rows = []
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
        bare_time, whole = times["bare"], times["all"]
        rows.append((f"{name}, {layers} layers", ids.numel(), f"{bare_time:.2f} s", f"{whole:.2f} s",
                     f"{whole / bare_time:.2f}", f"{times['some'] / bare_time:.2f}"))  # fmt: skip
    return rows


def by_tolerance() -> tuple[Rows, float]:
    """Knots, tiles and time of a GELU network as the tolerance shrinks, on a line and on a plane; the growth on it."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 16), nn.GELU(), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 2)).double()
    line = ss.Slice.segment([-2.0, -1.0], [2.0, 1.5])
    plane = ss.Slice.axes([0.0, 0.0], (0, 1), -1, 1)
    rows: Rows = []
    seen = []
    for tolerance in TOLERANCES:
        on_line = ss.tessellate(net, line, tolerance=tolerance, threads=1)
        start = time.process_time()
        tiling = ss.tessellate(net, plane, tolerance=tolerance, threads=1) if tolerance >= 1e-3 else None
        seconds = time.process_time() - start
        shown = on_line if tiling is None else tiling
        seen.append((tolerance, on_line.count))
        on_plane = ("-", "-") if tiling is None else (tiling.count, f"{seconds:.1f} s")
        rows.append((f"{tolerance:g}", f"{sum(s.units for s in on_line.sites) / 32:.1f}", on_line.count, on_plane[0],
                     f"{shown.bound:.1e}", f"{shown.deviation:.1e}", shown.approximation.basis,
                     on_plane[1]))  # fmt: skip
    return rows, float(np.polyfit(*np.log(np.array(seen).T), 1)[0])


def many_networks(count: int, points: int) -> Rows:
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
    return [
        (f"random networks (MLP, convolutional, residual), tolerance 0.05, {points:,} points each", count),
        ("with a point beyond the bound", above),
        ("proven by the bound", proven),
        ("bound over largest deviation, median", f"{np.median(ratios):.1f}"),
        ("bound over largest deviation, largest", f"{max(ratios):.1f}"),
    ]


def two_layers() -> Rows:
    """How loose the bound is on networks of two layers, by their width."""
    ends = np.random.default_rng(0).normal(size=(2, 64))
    rows: Rows = []
    for width in (8, 16, 32, 64, 128, 256, 512):
        view = ss.Slice.segment([-2.0, -1.0], [2.0, 1.5])
        nets = [
            seeded(seed, lambda act=act, w=width: nn.Sequential(nn.Linear(2, w), act, nn.Linear(w, 2)))
            for act in ACTIVATIONS
            for seed in (0, 1)
        ]
        rows.append((f"MLP 2-{width}-2", width, *looseness(nets, view, 0.02)))
    for channels in (2, 8, 16, 32):
        view = ss.Slice.segment(*ends)
        nets = [
            seeded(0, lambda act=act, c=channels: nn.Sequential(
                nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, c, 3, padding=1), act, nn.Flatten(), nn.Linear(64 * c, 4)))
            for act in ACTIVATIONS
        ]  # fmt: skip
        name = f"convolution of 8 x 8, {channels} channels, and a layer"
        rows.append((name, 64 * channels, *looseness(nets, view, 0.05)))
    return rows


def seeded(seed: int, make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(seed)
    return make().double()


def looseness(nets: list[nn.Module], view: ss.Slice, tolerance: float) -> tuple[str, str]:
    """Median and largest bound over deviation."""
    ratios = []
    for net in nets:
        tiling = ss.tessellate(net, view, tolerance=tolerance, threads=1, progress=False)
        if tiling.approximation is None or tiling.approximation.basis != "bound":
            raise AssertionError("the bound of a network of two layers was given up")
        ratios.append(tiling.bound / max(deviation_at(net, tiling, 4_000), tiling.deviation))
    return f"{np.median(ratios):.1f}", f"{max(ratios):.1f}"


def steered() -> Rows:
    """A public ResNet-20 at some betas, on 100 test images."""
    x, y = real.cifar_images()
    betas = (0.8, 0.9, 0.95, 1.0)
    effort = {"steps": 7, "restarts": 1, "queries": 10, "places": 16}
    found = splinescope_research.steer(real.resnet20(), x, y, epsilon=2 / 255 / 0.226, betas=betas, **effort)
    rows = zip(found.betas, found.accuracy, found.robust, found.curvature, found.curvature_error, strict=True)
    return [(f"{b:g}", f"{a:.2f}", f"{r:.2f}", f"{c:.4f} ± {e:.4f}") for b, a, r, c, e in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--networks", type=int, default=40)
    parser.add_argument("--points", type=int, default=100_000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    head = ("model", "tokens", "forward pass", "with geometry", "ratio", "without attention")
    write_table("smooth_tokens", head, overhead(arguments.rounds))
    rows, power = by_tolerance()
    head = ("tolerance", "cuts per unit", "tiles on a line", "tiles on a plane", "bound", "deviation", "basis", "CPU")
    write_table("smooth_tolerance", head, rows)
    more = [("tiles on the line grow as tolerance to the power", f"{power:.2f}")]
    write_table("smooth_more", ("what", "measured"), [*more, *many_networks(arguments.networks, arguments.points)])
    write_table("smooth_width", ("network", "hidden units", "median", "largest"), two_layers())
    write_table("smooth_memory", ("tool", "small case, MB", "this one, MB"), smooth_memory.table())
    if real.FOLDER.is_dir():  # the trained networks are at hand
        write_table("smooth_steering", ("beta", "accuracy", "under attack", "turn of the boundary"), steered())


if __name__ == "__main__":
    main()
