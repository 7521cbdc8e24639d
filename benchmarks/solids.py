"""Speed and memory of tilings in 3-D and beyond: `python -m benchmarks.solids` rewrites its page in docs.

Every row runs in a fresh process (for its peak memory) on one thread, in CPU seconds after the kernels are loaded.
Compare ratios: seconds depend on the machine and on what else it does.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import splinescope as ss

TABLE = Path(__file__).parents[1] / "docs" / "benchmarks" / "solids.md"
CASES = {
    "3-16x2-1": ((3, 16, 16, 1), 1.0),
    "3-32x2-1": ((3, 32, 32, 1), 1.0),
    "3-64x2-1": ((3, 64, 64, 1), 1.0),
    "3-20x3-1": ((3, 20, 20, 20, 1), 3.0),
    "3-120x3-1": ((3, 120, 120, 120, 1), 1.0),
    "4-10x2-1": ((4, 10, 10, 1), 1.0),
    "4-16x2-1": ((4, 16, 16, 1), 1.0),
    "4-24x2-1": ((4, 24, 24, 1), 1.0),
    "5-8x2-1": ((5, 8, 8, 1), 1.0),
    "5-12x2-1": ((5, 12, 12, 1), 1.0),
    "5-16x2-1": ((5, 16, 16, 1), 1.0),
}
REFERENCE = ("3-20x3-1", "4-16x2-1", "5-12x2-1")  # those that plain Python can finish


def network(widths: tuple[int, ...]) -> nn.Sequential:
    torch.manual_seed(0)
    layers = [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1]).double()


def cube(dimension: int, half: float) -> ss.Slice:
    return ss.Slice.axes(np.zeros(dimension), tuple(range(dimension)), -half, half)


def cells(name: str) -> dict[str, Any]:
    """Tile one network and time it; against plain Python where that can finish."""
    widths, half = CASES[name]
    net, view = network(widths), cube(widths[0], half)
    traced = ss.trace(net, torch.zeros(2, widths[0], dtype=torch.float64))
    ss.tessellate(traced, cube(widths[0], 0.3 * half), threads=1)  # kernels are loaded
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start = time.process_time()
    tiling = ss.tessellate(traced, view, threads=1)
    row = {"cells": tiling.count, "vertices": len(tiling.vertices), "cpu": time.process_time() - start}
    row |= {"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "base": before}
    if name in REFERENCE:
        from tests.tiling.cell_reference import reference_cells

        start = time.process_time()
        found = reference_cells(net, half, exact=False)
        row["reference"] = time.process_time() - start
        assert len(found) == tiling.count
    return row


def advisories() -> dict[str, Any]:
    """The collision-avoidance network on its whole 3-D box: where each advisory is given."""
    from tests.real import FOLDER

    file = FOLDER / "horizontalcas" / "HCAS_rect_v6_pra0_tau00_25HU_3000.nnet"
    net = ss.load(file)
    numbers = [line for line in file.read_text().splitlines() if not line.startswith("//")]
    low, high = (np.array([float(v) for v in numbers[i].strip().rstrip(",").split(",")])[:3] for i in (3, 4))
    view = ss.Slice.axes(np.zeros(3), (0, 1, 2), low, high)
    ss.tessellate(
        net, ss.Slice.axes((low + high) / 2, (0, 1, 2), *((low + high) / 2 + s * (high - low) / 50 for s in (-1, 1)))
    )
    start = time.process_time()
    tiling = ss.tessellate(net, view, threads=1)
    cpu = time.process_time() - start
    start = time.process_time()
    found = tiling.topology()
    return {
        "cells": tiling.count, "cpu": cpu, "topology": time.process_time() - start,
        "shares": (found.sizes / view.size).tolist(), "betti": found.betti.tolist(),
        "ok": tiling.check().ok,
    }  # fmt: skip


def run(kind: str, name: str = "") -> dict[str, Any]:
    """One measurement in a fresh process."""
    done = subprocess.run([sys.executable, "-m", "benchmarks.solids", kind, name], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def write() -> None:
    text = ["# Solids", "", "`python -m benchmarks.solids` writes this page; one thread, CPU seconds.", ""]
    text += ["## Cells", "", "| network | cells | vertices | µs a cell | peak MB (before) | plain Python, times |"]
    text += ["|---|---|---|---|---|---|"]
    found = {}
    for name in CASES:
        row = found[name] = run("cells", name)
        times = f"{row['reference'] / row['cpu']:.0f}" if "reference" in row else ""
        text.append(
            f"| {name} | {row['cells']:,} | {row['vertices']:,} | {1e6 * row['cpu'] / row['cells']:.1f} "
            f"| {row['peak']:.0f} ({row['base']:.0f}) | {times} |"
        )
    text += [
        "",
        "Growth of the time with the number of cells, as an exponent (smallest to largest two-layer network):",
    ]
    for d, (small, large) in {
        3: ("3-16x2-1", "3-64x2-1"),
        4: ("4-10x2-1", "4-24x2-1"),
        5: ("5-8x2-1", "5-16x2-1"),
    }.items():
        a, b = found[small], found[large]
        text.append(f"- d = {d}: {np.log(b['cpu'] / a['cpu']) / np.log(b['cells'] / a['cells']):.2f}")
    row = run("advisories")
    text += ["", "## HorizontalCAS on its whole 3-D box", ""]
    text.append(
        f"{row['cells']:,} cells in {row['cpu']:.2f} s ({1e6 * row['cpu'] / row['cells']:.1f} µs each), all checks "
        f"{'passed' if row['ok'] else 'NOT passed'}; the topology of the five regions took {row['topology']:.1f} s."
    )
    text += ["", "| advisory | share of the volume | components | holes | voids |", "|---|---|---|---|---|"]
    for i, (share, betti) in enumerate(zip(row["shares"], row["betti"], strict=True)):
        text.append(f"| {i} | {share:.2%} | {' | '.join(map(str, betti))} |")
    text.append("")
    TABLE.write_text("\n".join(text))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(advisories() if sys.argv[1] == "advisories" else cells(sys.argv[2])))
    else:
        write()
