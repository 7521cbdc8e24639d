"""Speed and memory of exact tilings: `python -m benchmarks.tiling` rewrites docs/benchmarks/tiling*.csv.

Every network runs in a fresh process (for its peak memory) on one thread. CPU seconds, best of three (of one for the
long ones); the limit is one plain float64 forward pass over the final vertices in the same process. Compare ratios:
seconds depend on the machine and on what else it does.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np
import torch

import splinescope as ss
from benchmarks.networks import CASES, conv_net, mlp, plane, square
from benchmarks.tables import write_table

HEAD = ("network", "tiles", "vertices", "CPU s", "µs per tile", "ratio", "wall s, 1 thread", "wall s, 2 threads",
        "peak MB")  # fmt: skip


def measure(name: str) -> dict[str, Any]:
    """Tile one case and time it."""
    case = CASES[name]
    model, view = case.make()
    network = ss.trace(model, torch.from_numpy(view.inputs(view.domain[:2])).to(torch.float32))
    small = ss.Slice(view.origin, view.basis, view.domain.mean(0) + 0.01 * (view.domain - view.domain.mean(0)))
    ss.tessellate(network, small, threads=1)  # kernels are loaded
    cpu, wall, wall_two = np.inf, np.inf, np.inf
    for _ in range(1 if case.long else 3):
        cpu_start, start = time.process_time(), time.perf_counter()
        tiling = ss.tessellate(network, view, threads=1)
        cpu, wall = min(cpu, time.process_time() - cpu_start), min(wall, time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if not case.long:
        for _ in range(3):
            start = time.perf_counter()
            ss.tessellate(network, view, threads=2)
            wall_two = min(wall_two, time.perf_counter() - start)
    return {
        "tiles": tiling.count, "vertices": len(tiling.vertices), "cpu": cpu, "wall": wall, "wall_two": wall_two,
        "limit": forward_seconds(network, tiling), "peak": peak,
    }  # fmt: skip


def forward_seconds(network: ss.SplineNetwork, tiling: ss.Tiling, most: int = 4096) -> float:
    """CPU seconds of one forward pass over the vertices, one thread (a sample of them, scaled up)."""
    program = network.program()
    chosen = np.random.default_rng(0).permutation(len(tiling.vertices))[:most]
    x = torch.from_numpy(tiling.view.inputs(tiling.vertices[chosen]))
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    block = 256 if x[0].numel() < 1000 else 64
    best = np.inf
    with torch.no_grad():
        for _ in range(2):
            start = time.process_time()
            for i in range(0, len(x), block):
                program.forward(x[i : i + block])
            best = min(best, time.process_time() - start)
    torch.set_num_threads(before)
    return best * len(tiling.vertices) / len(chosen)


def growth() -> list[tuple[str, list[int], float]]:
    """How CPU time grows with the number of tiles: the exponent fitted over slices of growing size."""
    results = []
    for name, model, views in (
        ("MLP 2-128x4-1", mlp(2, 128, 128, 128, 128, 1), [square(), *(_shrunk(square(), s) for s in (0.5, 0.25))]),
        ("ConvNet 1x64x64", conv_net(), [plane(1, 64, 64, share=s) for s in (0.03, 0.06, 0.12)]),
    ):
        network = ss.trace(model, torch.from_numpy(views[0].inputs(views[0].domain[:2])).to(torch.float32))
        tiles, seconds = [], []
        for view in views:
            best = np.inf
            for _ in range(3):
                start = time.process_time()
                tiles_here = ss.tessellate(network, view, threads=1).count
                best = min(best, time.process_time() - start)
            tiles.append(tiles_here)
            seconds.append(best)
        results.append((name, sorted(tiles), float(np.polyfit(np.log(tiles), np.log(seconds), 1)[0])))
    return results


def _shrunk(view: ss.Slice, share: float) -> ss.Slice:
    return ss.Slice(view.origin, view.basis, view.domain * share)


def against_relucent() -> list[tuple[str, int, float, int, float]]:
    """(network, our tiles, our CPU seconds, relucent's cells, its CPU seconds) where it finishes soon enough."""
    import relucent

    results = []
    for widths in ((2, 10, 10, 1), (2, 20, 20, 1)):
        network = ss.trace(mlp(*widths), torch.zeros(2, 2))
        ss.tessellate(network, square(), threads=1)
        start = time.process_time()
        tiling = ss.tessellate(network, square(), threads=1)
        ours = time.process_time() - start
        start = _all_cpu_seconds()
        cells = relucent.Complex(mlp(*widths))
        cells.bfs(cube_radius=3.0, cube_mode="intersect", nworkers=1, verbose=0)
        results.append(("-".join(map(str, widths)), tiling.count, ours, len(cells), _all_cpu_seconds() - start))
    return results


def _all_cpu_seconds() -> float:
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in usage)


def run_in_fresh_process(name: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.tiling", "--one", name],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},  # numpy's matrix products too
    )
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--one", choices=list(CASES), help="measure one network, print JSON")
    parser.add_argument("--short", action="store_true", help="leave out the long ones")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one)))
        return
    rows = []
    for name, case in CASES.items():
        if options.short and case.long:
            continue
        r = run_in_fresh_process(name)
        cpu, two = r["cpu"], "" if not np.isfinite(r["wall_two"]) else f"{r['wall_two']:.3f}"
        row = (name, f"{r['tiles']:,}", f"{r['vertices']:,}", f"{cpu:.3f}", f"{1e6 * cpu / r['tiles']:.2f}",
               f"{cpu / r['limit']:.2f}", f"{r['wall']:.3f}", two, f"{r['peak']:.0f}")  # fmt: skip
        print(*row, sep=" | ", flush=True)
        rows.append(row)
    write_table("tiling", HEAD, rows)
    grown = [(name, f"{power:.2f}", f"{tiles[0]:,}", f"{tiles[-1]:,}") for name, tiles, power in growth()]
    write_table("tiling_growth", ("network", "exponent", "from tiles", "to tiles"), grown)
    both = [(n, f"{t:,}", f"{s:.4f}", f"{c:,}", f"{rs:.1f}", f"{rs / s:,.0f}") for n, t, s, c, rs in against_relucent()]
    head = ("network on [-3, 3]²", "tiles", "CPU s", "relucent's cells", "its CPU s", "times")
    write_table("tiling_relucent", head, both)


if __name__ == "__main__":
    main()
