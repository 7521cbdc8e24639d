"""Speed and memory of exact tilings: `python -m benchmarks.tiling` rewrites docs/benchmarks/tiling.md.

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
from pathlib import Path
from typing import Any

import numpy as np
import torch

import splinescope as ss
from benchmarks.networks import CASES, conv_net, mlp, plane, square

NOTES = """
## Where the time goes

The ConvNet on 10% of its square, with rows in factored form up to its second convolution (one thread): about 40% is
running the torch ops on basis rows, 15% finding the units that cut, 15% merging basis rows when a chunk is split, 15%
handing over to plain rows where the layers are narrow, 15% the two later linear maps, 5% cutting. Vertices cost no
convolution. The ratio is further from the design's than the time: the plain forward pass it is measured by is twice as
fast here (370 microseconds a vertex, not 700).

The max-pool network is another architecture than the prototype's, which was not given.

The MLPs: of 34 ms for 2-64x4-1, 35% is the cutting kernel, 20% matrix products over old vertices, 15% delta
propagation, 4% numbering the vertices, the rest Python between them. A network of a thousand tiles takes two to three
milliseconds, half of them Python around the kernels; parameters are compared with those of the last call at every call,
because a tensor changed through `.data` does not tell.
"""

TABLE = Path(__file__).parents[1] / "docs" / "benchmarks" / "tiling.md"


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
    lines = [
        "# Tilings: speed and memory",
        "",
        "Written by `make bench`. One thread, float64, CPU seconds; *ratio* is time over one plain forward pass over",
        "the final vertices in the same process; *design* is what a prototype reached on another machine.",
        "",
        "| network | tiles | vertices | CPU s | µs per tile | ratio | wall s, 1 thread | wall s, 2 threads "
        "| peak MB | design: tiles, µs, ratio |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, case in CASES.items():
        if options.short and case.long:
            continue
        r = run_in_fresh_process(name)
        design = "" if case.reference is None else "{:,}, {:g}, {:g}".format(*case.reference)
        two = "" if not np.isfinite(r["wall_two"]) else f"{r['wall_two']:.3f}"
        row = (
            f"| {name} | {r['tiles']:,} | {r['vertices']:,} | {r['cpu']:.3f} | {1e6 * r['cpu'] / r['tiles']:.2f} "
            f"| {r['cpu'] / r['limit']:.2f} | {r['wall']:.3f} | {two} | {r['peak']:.0f} | {design} |"
        )
        print(row, flush=True)
        lines.append(row)
    lines += ["", "## Growth", "", "CPU time grows as tiles to the power of:", ""]
    lines += [
        f"- {name}: {exponent:.2f} ({' to '.join(f'{t:,}' for t in (tiles[0], tiles[-1]))} tiles)"
        for name, tiles, exponent in growth()
    ]
    lines += [
        "",
        "## Beside relucent",
        "",
        "| network on [-3, 3]² | tiles | CPU s | relucent's cells | its CPU s | times |",
        "|---|---|---|---|---|---|",
    ]
    lines += [f"| {n} | {t:,} | {s:.4f} | {c:,} | {rs:.1f} | {rs / s:,.0f} |" for n, t, s, c, rs in against_relucent()]
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    TABLE.write_text("\n".join(lines) + "\n" + NOTES, encoding="utf-8")
    print(f"wrote {TABLE}", file=sys.stderr)


if __name__ == "__main__":
    main()
