"""How fast the studio is, end to end: `python -m benchmarks.studio` rewrites docs/benchmarks/studio_*.csv.

Pictures a second are wall time and depend on what else the machine does; CPU milliseconds per picture do so far less.
The browser is the system's chromium, headless, as it starts by itself: on a machine without a graphics card it draws in
software.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import torch
from tests.browser import open_browser, opened
from tests.studio.conftest import Server
from torch import nn

import splinescope as ss
from benchmarks.tables import write_table
from splinescope.plot.frame import pack, tiling_frame
from splinescope.studio.recipe import Recipe
from splinescope.studio.trainer import Trainer

LIVE = {"22 x 3": {"width": 22, "depth": 3}, "50 x 4": {"width": 50, "depth": 4}}
WIDTHS = (120, 250, 560)  # of networks with about 50,000, 200,000 and a million tiles
SECONDS = 6
RATE = """async seconds => { const g = studio.pages.playground, n = g.drawn, t = performance.now()
while (performance.now() < t + 1000 * seconds) await new Promise(done => setTimeout(done, 20))
return [g.drawn - n, (performance.now() - t) / 1000, g.frame.measures.tiles] }"""
FRAMES = """async zoom => { const view = studio.pages.microscope.panes.a.view
view.onview = () => {} // the window is not tiled anew: what is measured is drawing
view.home(); view.draw()
const next = () => new Promise(requestAnimationFrame), count = 30
view.zoom(zoom); await next()
const [x, y, scale] = [view.x, view.y, view.scale], start = performance.now()
let drawing = 0
for (let i = 0; i < count; i++) { // once around a circle of 40 pixels, as a hand pans
  const turn = i / count * 2 * Math.PI
  view.lookAt(x + 40 / scale * Math.cos(turn), y + 40 / scale * Math.sin(turn), scale * (1 + i / count))
  const t = performance.now(); view.draw(); drawing += performance.now() - t
  await next() }
return [1000 * count / (performance.now() - start), drawing / count, view.mesh.dust.length] }"""


def milliseconds(work: Callable[[], Any], rounds: int = 20) -> float:
    """CPU time of one round, the mean after a first one."""
    work()
    start = time.process_time()
    for _ in range(rounds):
        work()
    return 1000 * (time.process_time() - start) / rounds


def stages() -> list[list[str]]:
    """CPU milliseconds of what the server does for one picture."""
    columns: list[list[str]] = []
    for name, sizes in LIVE.items():
        trainer = Trainer(Recipe(**sizes))  # type: ignore[arg-type]
        trainer.train(20)
        frame = trainer.frame(None, ("class",))
        tiling = trainer.tile()
        times = {
            "a step of training": milliseconds(lambda t=trainer: t.train(1)),
            "loss, accuracy, statistics": milliseconds(trainer.hold_statistics),
            "tiling": milliseconds(trainer.tile),
            "boundary, classes, depths": milliseconds(lambda t=tiling: tiling_frame(_fresh(t), only=("class",))),
            "tiles nearby (7 times a second)": milliseconds(
                lambda t=trainer, g=tiling, f=frame: t._tiles_near(_fresh(g), f["boundary"])
            ),
            "packing": milliseconds(lambda f=frame: pack(f)),
        }
        if not columns:
            columns.append(["what the server does", *times])
        columns.append(
            [f"{name}, {tiling.count:,} tiles, {len(pack(frame)) / 1e3:,.0f} kB", *(f"{v:.2f}" for v in times.values())]
        )
    return [list(row) for row in zip(*columns, strict=True)]


def _fresh(tiling: ss.Tiling) -> ss.Tiling:
    """The same tiling without what it remembers."""
    from dataclasses import replace

    return replace(tiling)


@contextmanager
def studio(*arguments: Any) -> Iterator[tuple[Server, Any]]:
    """A server and a browser."""
    server = Server(*arguments)
    try:
        with open_browser() as browser:
            yield server, browser
    finally:
        server.interrupt()


def page_of(server: Server, browser: Any, state: str) -> Any:
    allow = (server.origin, server.origin.replace("http", "ws"))
    return opened(browser, server.address + state, allow=allow, width=1280, height=800)


def spent(server: Server) -> dict[str, float]:
    """CPU seconds so far of the server, the page's process and the rest of the browser."""
    out = {"server": _cpu(psutil.Process(server.process.pid)), "page": 0.0, "browser": 0.0}
    for process in psutil.Process().children(recursive=True):
        if "chrom" in process.name():
            out["page" if "--type=renderer" in process.cmdline() else "browser"] += _cpu(process)
    return out


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def live() -> list[list[str]]:
    """Training in the playground, a picture per step."""
    rows = [["network", "tiles", "pictures a second", "server, ms", "page, ms", "rest of the browser, ms"]]
    with studio() as (server, browser):
        for name, sizes in LIVE.items():
            state = "#" + "&".join(f"{key}={value}" for key, value in sizes.items())
            with page_of(server, browser, state) as page:
                page.wait_for_selector("body[data-ready]", timeout=120_000)
                page.wait_for_function("() => studio.pages.playground.drawn > 0", timeout=120_000)
                page.click("#play")
                page.wait_for_function("() => studio.pages.playground.frame.step > 20", timeout=120_000)
                before = spent(server)
                count, seconds, tiles = page.evaluate(RATE, SECONDS)
                cost = {key: 1000 * (value - before[key]) / count for key, value in spent(server).items()}
                rows.append([name, f"{tiles:,}", f"{count / seconds:.1f}", *(f"{cost[k]:.1f}" for k in before)])
    return rows


def frames() -> list[list[str]]:
    """A finished tiling under the microscope, panned and zoomed."""
    rows = [["tiles", "below two pixels", "frames a second, all in view", "drawing, ms", "at 8 times", "drawing, ms"]]
    with tempfile.TemporaryDirectory() as folder:
        for width in WIDTHS:
            write_tiling(Path(folder, f"{width}.tiling"), width)
        with studio(folder) as (server, browser):
            for width in WIDTHS:
                with page_of(server, browser, f"#view=microscope&color=slope&file={width}.tiling") as page:
                    page.wait_for_selector("body[data-ready]", timeout=240_000)
                    page.wait_for_function("() => studio.pages.microscope?.tiled >= 1", timeout=240_000)
                    count = page.evaluate("studio.pages.microscope.panes.a.view.count")
                    far, near = page.evaluate(FRAMES, 1), page.evaluate(FRAMES, 8)
                    cells = [f"{count:,}", f"{far[2] / count:.0%}", f"{far[0]:.1f}", f"{far[1]:.1f}"]
                    rows.append([*cells, f"{near[0]:.1f}", f"{near[1]:.1f}"])
                    print(rows[-1], flush=True)
    return rows


def write_tiling(path: Path, width: int) -> None:
    torch.manual_seed(0)
    layers = [nn.Linear(2, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
    net = nn.Sequential(*layers, nn.Linear(width, 4))
    ss.tessellate(net, ss.Slice.axes([0.0, 0.0], (0, 1), -3, 3), progress=False).save(path)


def main() -> None:
    for name, measure in (("studio_live", live), ("studio_server", stages), ("studio_tilings", frames)):
        head, *rows = measure()
        write_table(name, head, rows)


if __name__ == "__main__":
    main()
