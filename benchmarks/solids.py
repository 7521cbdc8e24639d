"""Speed and memory of tilings in 3-D and beyond: `python -m benchmarks.solids` rewrites its tables in docs.

Every row runs in a fresh process (for its peak memory) on one thread, in CPU seconds after the kernels are loaded.
Compare ratios: seconds depend on the machine and on what else it does. What was measured is kept in out/solids, so that
an interrupted run goes on where it stopped: delete it to measure anew.
"""

from __future__ import annotations

import json
import os
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
from benchmarks.tables import write_table
from splinescope_research import topology

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "chair.png"
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
KEPT = Path(__file__).parents[1] / "out" / "solids"
REFERENCE = (
    "3-20x3-1",
    "3-64x2-1",
    "4-16x2-1",
    "4-24x2-1",
    "5-12x2-1",
    "5-16x2-1",
)  # plain Python can too
RELUCENT = ((3, 6, 6, 1), (3, 8, 8, 1))  # those that relucent can
FRAMES = """(() => { // milliseconds a frame, read back so that nothing is left to do
const gl = view.painter.gl, pixel = new Uint8Array(4)
const each = (count, change) => {
  const frame = i => { change(i); view.draw(); gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, pixel) }
  frame(0)
  const start = performance.now()
  for (let i = 1; i <= count; i++) frame(i)
  return (performance.now() - start) / count
}
const turn = () => view.camera.turnBy(0.02, 0), found = {}
view.moving = true
found["turning"] = each(20, turn)
found["dragging the plane"] = each(10, i => view.setPlane(view.plane.normal, -0.2 + 0.04 * i))
view.pull = 0.5
found["turning, pulled apart"] = each(10, turn)
clearTimeout(view.rest)
view.moving = false
found["at rest, pulled apart"] = each(2, turn)
view.pull = 0
found["at rest"] = each(5, turn)
const start = performance.now()
for (let i = 0; i < 10; i++) view.hover(300 + 10 * i, 300)
found["finding the cell under the pointer"] = (performance.now() - start) / 10
return found })()"""


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
    seconds: list[float] = []
    while sum(seconds) < 0.5:  # the fastest of some: what else the machine does only adds to it
        start = time.process_time()
        tiling = ss.tessellate(traced, view, threads=1)
        seconds.append(time.process_time() - start)
    row = {"cells": tiling.count, "vertices": len(tiling.vertices), "cpu": min(seconds)}
    row |= {"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "base": before}
    if name in REFERENCE:
        from tests.tiling.cells.cell_reference import reference_cells

        start = time.process_time()
        found = reference_cells(net, half, exact=False)
        row["reference"] = time.process_time() - start
        assert len(found) == tiling.count
    return row


def horizontal_cas() -> tuple[ss.SplineNetwork, ss.Slice]:
    """The collision-avoidance network and its whole 3-D box."""
    from tests.real import FOLDER

    file = FOLDER / "horizontalcas" / "HCAS_rect_v6_pra0_tau00_25HU_3000.nnet"
    numbers = [line for line in file.read_text().splitlines() if not line.startswith("//")]
    low, high = (np.array([float(v) for v in numbers[i].strip().rstrip(",").split(",")])[:3] for i in (3, 4))
    return ss.load(file), ss.Slice.axes(np.zeros(3), (0, 1, 2), low, high)


def advisories() -> dict[str, Any]:
    """Where each advisory is given; and plain Python on the same box."""
    net, view = horizontal_cas()
    center, half = view.domain.mean(0), np.ptp(view.domain, axis=0) / 50
    ss.tessellate(net, ss.Slice.axes(center, (0, 1, 2), center - half, center + half))
    start = time.process_time()
    tiling = ss.tessellate(net, view, threads=1)
    cpu = time.process_time() - start
    start = time.process_time()
    found = topology(tiling)
    return {
        "cells": tiling.count, "cpu": cpu, "topology": time.process_time() - start,
        "shares": (found.sizes / view.size).tolist(), "betti": found.betti.tolist(),
        "ok": tiling.check().ok,
    }  # fmt: skip


def page() -> dict[str, Any]:
    """The page of the same network in a browser without a GPU: bytes, seconds to write and to open, frames."""
    import tempfile

    from tests.browser import open_browser, opened

    net, view = horizontal_cas()
    tiling = ss.tessellate(net, view)
    tiling.walls, tiling.areas  # noqa: B018  made before, as for any other use of the tiling
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "page.html")
        start = time.process_time()
        tiling.to_html(path, title="HorizontalCAS", color="class")
        row: dict[str, Any] = {"cells": tiling.count, "bytes": path.stat().st_size, "cpu": time.process_time() - start}
        with open_browser() as browser, opened(browser, path, width=1100, height=720) as shown:
            shown.wait_for_selector("body[data-ready]", timeout=120_000)
            row["open"] = shown.evaluate("performance.now()") / 1000
            row["frames"] = shown.evaluate(FRAMES)
            row["apart"] = shown.evaluate("(view.pull = 1, view.drawn())")
    row["load"] = os.getloadavg()[0]
    return row


def beside_relucent(name: str) -> dict[str, Any]:
    """A small network by both, in CPU seconds."""
    import relucent

    from benchmarks.tiling import _all_cpu_seconds

    widths = tuple(map(int, name.split("-")))
    net = network(widths)
    traced = ss.trace(net, torch.zeros(2, widths[0], dtype=torch.float64))
    ss.tessellate(traced, cube(widths[0], 1.0), threads=1)
    start = time.process_time()
    tiling = ss.tessellate(traced, cube(widths[0], 1.0), threads=1)
    ours = time.process_time() - start
    start = _all_cpu_seconds()
    found = relucent.Complex(net)
    found.bfs(cube_radius=1.0, cube_mode="intersect", nworkers=1, verbose=0)
    return {"cells": tiling.count, "cpu": ours, "their cells": len(found), "their cpu": _all_cpu_seconds() - start}


def chair() -> dict[str, Any]:
    """The exact surface of a signed-distance network beside marching cubes on two grids, in one run."""
    import onnx
    import onnxruntime
    from skimage.measure import marching_cubes
    from tests.real import FOLDER

    file = FOLDER / "sdf_chair" / "chair.onnx"
    net = ss.load(file)
    program = net.program()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    model = onnx.load(file)
    for end in (model.graph.input[0], model.graph.output[0]):
        end.type.tensor_type.shape.dim[0].dim_param = "N"  # the file says one row at a time
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    entry = session.get_inputs()[0].name
    ss.space.level_set(net, (-0.1, 0.1), threads=1, progress=False)  # kernels are loaded

    def values(points: np.ndarray) -> np.ndarray:  # in float64
        parts = np.array_split(points, max(1, len(points) // 65_536))
        return np.concatenate([program.forward(torch.from_numpy(part))[:, 0].numpy() for part in parts])

    def on_grid(axis: np.ndarray) -> np.ndarray:  # as a grid is commonly filled: float32, by onnxruntime
        ys, zs = (part.ravel() for part in np.meshgrid(axis, axis, indexing="ij"))
        layers = [np.stack([np.full_like(ys, x), ys, zs], 1) for x in axis]
        return np.stack([session.run(None, {entry: one})[0].reshape(len(axis), -1) for one in layers])

    def off(vertices: np.ndarray, triangles: np.ndarray) -> float:
        """Largest |f| at corners, middles and one random point of each triangle."""
        weights = np.random.default_rng(0).dirichlet(np.ones(3), len(triangles))
        corners = vertices[triangles]
        points = [vertices, corners.mean(1), (weights[:, :, None] * corners).sum(1)]
        return float(np.abs(values(np.concatenate(points))).max())

    def volume(vertices: np.ndarray, triangles: np.ndarray) -> float:
        a, b, c = (vertices[triangles[:, k]] for k in range(3))
        return abs(float((a * np.cross(b, c)).sum() / 6))

    start = time.process_time()
    mesh = ss.space.level_set(net, (-1.0, 1.0), threads=1, progress=False)
    exact = {"method": "exact", "cpu": time.process_time() - start, "faces": len(mesh), "closed": mesh.closed}
    exact |= {"triangles": len(mesh.triangles[0]), "off": off(mesh.vertices, mesh.triangles[0])}
    exact |= {"volume": volume(mesh.vertices, mesh.triangles[0]), "components": mesh.components, "euler": mesh.euler}
    rows, drawn = [exact], {"exact": (mesh.vertices, mesh.triangles[0])}
    for n in (128, 256):
        start = time.process_time()
        axis = np.linspace(-1.0, 1.0, n, dtype=np.float32)
        grid = on_grid(axis)
        vertices, triangles, *_ = marching_cubes(grid, 0.0, spacing=(2 / (n - 1),) * 3)
        vertices = vertices.astype(np.float64) - 1.0
        cpu = time.process_time() - start
        row = {"method": f"marching cubes, {n}³", "cpu": cpu, "faces": len(triangles), "triangles": len(triangles)}
        rows.append(row | {"off": off(vertices, triangles), "volume": volume(vertices, triangles)})
        if n == 128:
            drawn[row["method"]] = (vertices, triangles)
    _draw_chairs(drawn)
    return {"rows": rows, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


CORNER = np.array([[-0.33, 0.78, 0.15], [-0.12, 0.93, 0.45]])
"""The top of a post of the chair's back, which the picture shows in large."""


def _draw_chairs(meshes: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    """The chairs side by side, each with the triangles of one corner."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    from splinescope.plot.solid import plot_mesh

    order, middle, half = [2, 0, 1], CORNER.mean(0), np.ptp(CORNER, axis=0) / 2
    for ending, styles in (("", ()), ("-dark", ("splinescope.plot.dark",))):
        with pyplot.style.context(["splinescope.plot.house", *styles]):
            figure = pyplot.figure(figsize=(8.6, 4.1))
            for i, (name, (vertices, triangles)) in enumerate(meshes.items()):
                near = (np.abs(vertices - middle) < 6 * half).all(1)[triangles].any(1)
                whole = figure.add_axes((0.5 * i - 0.1, -0.06, 0.44, 1.1), projection="3d")
                part = figure.add_axes((0.5 * i + 0.25, 0.12, 0.24, 0.24 * 8.6 / 4.1), projection="3d")
                for ax, shown in ((whole, triangles), (part, triangles[near])):
                    plot_mesh((vertices, shown), ax, axes="zxy", elevation=20, azimuth=-60)
                    ax.set_axis_off()
                    ax.patch.set_visible(False)  # it would hide the panel before
                part.collections[0].set(edgecolor=(0, 0, 0, 0.4), linewidth=0.12)
                part.set(**{f"{k}lim": tuple(CORNER[:, axis]) for k, axis in zip("xyz", order, strict=True)})
                part.set_box_aspect(half[order], zoom=3.0)  # beyond its frame, which cuts it
                figure.patches.append(pyplot.Rectangle((0, 0), 1, 1, transform=part.transAxes, fill=False, color="0.5"))
                figure.text(0.5 * i + 0.25, 0.93, f"{name}: {len(triangles):,} triangles", ha="center")
            figure.savefig(PICTURE.with_stem(f"chair{ending}"), dpi=130)
            pyplot.close(figure)


def run(kind: str, name: str = "") -> dict[str, Any]:
    """One measurement in a fresh process, or what is kept of it."""
    kept = KEPT / f"{kind}{name}.json"
    if kept.exists():
        found: dict[str, Any] = json.loads(kept.read_text())
        return found
    done = subprocess.run([sys.executable, "-m", "benchmarks.solids", kind, name], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    KEPT.mkdir(parents=True, exist_ok=True)
    kept.write_text(done.stdout.splitlines()[-1])
    return run(kind, name)


GROWTH = {3: ("3-16x2-1", "3-64x2-1"), 4: ("4-10x2-1", "4-24x2-1"), 5: ("5-8x2-1", "5-16x2-1")}
"""Networks by dimension between which the growth of the time is read off."""


def write() -> None:
    rows, found = [], {}
    for name in CASES:
        row = found[name] = run("cells", name)
        times = f"{row['reference'] / row['cpu']:.0f}" if "reference" in row else ""
        each = 1e6 * row["cpu"] / row["cells"]
        memory = f"{row['peak']:.0f} ({row['base']:.0f})"
        rows.append((name, f"{row['cells']:,}", f"{row['vertices']:,}", f"{each:.1f}", memory, times))
    head = ("network", "cells", "vertices", "µs a cell", "peak MB (before)", "plain Python, times")
    write_table("solids", head, rows)
    rows = []
    for widths in RELUCENT:
        name = "-".join(map(str, widths))
        row = run("relucent", name)
        theirs = row["their cpu"]
        rows.append((name, f"{row['cells']:,}", f"{row['cpu']:.4f}", f"{row['their cells']:,}", f"{theirs:.1f}",
                     f"{theirs / row['cpu']:,.0f}"))  # fmt: skip
    head = ("network on [-1, 1]³", "cells", "CPU s", "relucent's cells", "its CPU s", "times")
    write_table("solids_relucent", head, rows)
    more = []
    for d, (small, large) in GROWTH.items():
        a, b = found[small], found[large]
        power = np.log(b["cpu"] / a["cpu"]) / np.log(b["cells"] / a["cells"])
        more.append((f"{'' if more else 'growth of CPU time with cells, exponent, '}d = {d}", f"{power:.2f}"))
    more += [*_advisories(run("advisories")), *_page(run("page"))]
    write_table("solids_more", ("what", "measured"), more)
    _chair(run("chair"))


def _advisories(row: dict[str, Any]) -> list[tuple[str, str]]:
    regions = zip(row["shares"], row["betti"], strict=True)
    head = ("advisory", "share of the volume", "components", "holes", "voids")
    write_table("solids_regions", head, [(i, f"{share:.2%}", *betti) for i, (share, betti) in enumerate(regions)])
    checks = f"all checks {'passed' if row['ok'] else 'NOT passed'}"
    tiled = f"{row['cells']:,} cells in {row['cpu']:.2f} s ({1e6 * row['cpu'] / row['cells']:.1f} µs each), {checks}"
    return [("HorizontalCAS, whole 3-D box", tiled), ("topology of its five regions", f"{row['topology']:.1f} s")]


def _page(row: dict[str, Any]) -> list[tuple[str, str]]:
    frames = [(name, f"{ms:.0f}", f"{1000 / ms:.1f}") for name, ms in row["frames"].items()]
    write_table("solids_frames", ("what", "ms a frame", "frames a second"), frames)
    size = f"{row['bytes'] / 1e6:.1f} MB ({row['bytes'] / row['cells']:.0f} bytes a cell)"
    times = f"written in {row['cpu']:.1f} s, opened in {row['open']:.1f} s"
    return [("its page", f"{size}, {times}"), ("pulled apart, the page draws", row["apart"])]


def _chair(row: dict[str, Any]) -> None:
    exact, rows = row["rows"][0], []
    for one in row["rows"]:
        off = "" if one is exact else f"{one['volume'] / exact['volume'] - 1:+.3%}"
        rows.append((one["method"], f"{one['cpu']:.2f}", f"{one['faces']:,}", f"{one['triangles']:,}",
                     f"{one['off']:.1e}", f"{one['volume']:.6f}", off))  # fmt: skip
    head = ("method", "CPU s", "faces", "triangles", "largest abs(f)", "volume", "difference")
    write_table("solids_chair", head, rows)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        kinds = {"advisories": advisories, "page": page, "chair": chair}
        named = {"cells": cells, "relucent": beside_relucent}
        print(json.dumps(kinds[sys.argv[1]]() if sys.argv[1] in kinds else named[sys.argv[1]](sys.argv[2])))
    else:
        write()
