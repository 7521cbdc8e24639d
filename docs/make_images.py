"""Draws the pictures of the guides anew from the gallery's examples: `python docs/make_images.py [PART...]`.

`hero` is the picture of README and the first page, `film` its moving version, `first-steps` those of that page, and
`thumbnails` the small ones: one panel of each example, 600 by 420 pixels. Pictures of guides have a dark variant, which
docs/dark.py shows.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
PICTURES = {
    "slopes": "tiling/plot_slopes.py",
    "migration": "complexity/plot_migration.py",
    "guarantees": "guarantees/plot_real_unsafe_set.py",
    "landscape": "landscape/plot_exact_pieces.py",
    "normalization": "normalization/plot_folds_on_data.py",
    "representation": "representation/plot_angles.py",
    "meanfield": "meanfield/plot_neurons_on_the_ellipse.py",
    "generative": "generative/plot_manifold.py",
    "smooth": "smooth/plot_within_a_tolerance.py",
    "blocks": "smooth/plot_block.py",
    "space": "space/plot_tile_of_a_digit.py",
}
"""Picture -> the example whose first figure it is."""


_THUMBNAIL = (600, 420)  # pixels
_WIDTH = 1400  # pixels: twice what a page shows


def hero() -> None:
    """The first picture of README and of the first page."""
    figure = _figure("tiling/plot_three_digits.py")
    figure.savefig(IMAGES / "hero.png", dpi=130, bbox_inches=None, pad_inches=0)


def film() -> None:
    """The moving hero: the tiles of its plane while the network learns."""
    import torch
    from torch import nn

    import splinescope as ss

    torch.manual_seed(0)
    x, y = ss.data.digits()
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.003, weight_decay=0.1)
    steps = sorted({round(600 ** (i / 35)) - 1 for i in range(36)})
    kept: dict[int, dict[str, Any]] = {}
    for step in range(steps[-1] + 1):
        if step in steps:
            kept[step] = {name: value.clone() for name, value in net.state_dict().items()}
        batch = torch.randint(1500, (64,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
        optimizer.step()
    view = ss.Slice.through(*x[:3], pad=0.6)
    story = ss.complexity.timeline(net.eval(), kept, view, x={"digits": x[:60]}, progress=False)
    ss.plot.film(story, IMAGES / "training.webp", frames_per_second=6, dpi=90)


def first_steps() -> None:
    """The pictures of the page "first steps", from its own code, and the first screen of its report."""
    from PIL import Image

    page = (ROOT / "docs" / "first-steps.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for code in re.findall(r"^```python\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE):
            exec(code, names)
        for ending, styles in (("", []), ("-dark", ["splinescope.plot.dark"])):
            for name, color in (("tiles", "slope"), ("classes", "class")):
                with plt.style.context(["splinescope.plot.house", *styles]):
                    figure = names["tiling"].plot(color=color, boundary=True).figure
                    file = IMAGES / f"first-steps-{name}{ending}.png"
                    figure.savefig(file, dpi=110, bbox_inches="tight", facecolor=figure.get_facecolor())
                _shrink(file, 256)
        _screen(Path("report.html").resolve(), IMAGES / "first-steps-report.png")
    _shrink(IMAGES / "first-steps-report.png", 128)
    with Image.open(IMAGES / "first-steps-report.png") as image:
        image.convert("RGB").resize(_THUMBNAIL).quantize(96).save(IMAGES / "gallery" / "report.png", optimize=True)


def star() -> None:
    """Folds of layers 3, 7 and 11 around a star, on one scale: zero biases, random biases, batch norm."""
    import numpy as np
    import torch
    from matplotlib.colors import LogNorm

    import splinescope as ss
    from splinescope_evidence.shared.normalization import star as points_of_star
    from splinescope_research.normalization.normalizations import normalized_mlp, sign_changes

    x, layers = points_of_star(50), (3, 7, 11)
    view = ss.Slice.axes([0.0, 0.0], (0, 1), -3.0, 3.0)
    names = {"zero bias": "zero biases", "random bias": "random biases", "batch": "batch norm"}
    rasters = {}
    for kind in names:
        model = normalized_mlp((2, *[1024] * 11), kind, generator=torch.Generator().manual_seed(0))
        model = ss.normalization.with_statistics(model, x) if kind == "batch" else model.eval()
        found = sign_changes(model, x, view, cells=96)
        rasters[kind] = [np.asarray(found.rasters[depth].values) for depth in layers]
    norm = LogNorm(1, max(raster.max() for row in rasters.values() for raster in row))
    for ending, styles in (("", []), ("-dark", ["splinescope.plot.dark"])):
        with plt.style.context(["splinescope.plot.house", *styles]):
            figure, axes = plt.subplots(3, 3, figsize=(8.6, 7.3), layout="constrained")
            for i, (kind, row) in enumerate(rasters.items()):
                for ax, raster, depth in zip(axes[i], row, layers, strict=True):
                    shades = ax.imshow(
                        np.maximum(raster, 1), norm=norm, origin="lower", extent=(-3, 3, -3, 3), cmap="magma"
                    )
                    ax.plot(*np.asarray(x).T, ".", color="white", markersize=2)
                    ax.set(xticks=[], yticks=[])
                    ax.spines[:].set_visible(False)
                    if i == 0:
                        ax.set_title(f"layer {depth}")
                axes[i, 0].set_ylabel(names[kind])
            figure.colorbar(shades, ax=axes, label="folds per cell, one scale for all", shrink=0.6)
            figure.savefig(IMAGES / f"star{ending}.png", dpi=120)
        _shrink(IMAGES / f"star{ending}.png", 192)


def cost() -> None:
    """CPU time against tiles, from the table of the benchmarks."""
    import csv

    with (ROOT / "docs" / "benchmarks" / "tiling.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    kinds = {"MLP": "o", "ConvNet": "s", "": "D"}  # fully connected, convolutional, residual
    for ending, styles in (("", []), ("-dark", ["splinescope.plot.dark"])):
        with plt.style.context(["splinescope.plot.house", *styles]):
            figure, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
            for microseconds in (1, 10, 100):
                ax.plot([1e3, 3e6], [1e-3 * microseconds, 3 * microseconds], ":", color="0.6", linewidth=1)
                ax.text(3.3e6, 3 * microseconds, f"{microseconds} µs a tile", va="center", fontsize="small")
            for kind, marker in kinds.items():
                own = [r for r in rows if next(k for k in kinds if k in r["network"].replace("DQN", "MLP")) == kind]
                tiles = [int(r["tiles"].replace(",", "")) for r in own]
                seconds = [float(r["CPU s"]) for r in own]
                ax.plot(
                    tiles, seconds, marker, label={"MLP": "fully connected", "": "residual"}.get(kind, "convolutional")
                )
            ax.set(xscale="log", yscale="log", xlabel="tiles on a plane", ylabel="CPU seconds", xlim=(7e2, 1.6e7))
            ax.legend(loc="upper left")
            figure.savefig(IMAGES / f"cost{ending}.png", dpi=160, facecolor=figure.get_facecolor())
        _shrink(IMAGES / f"cost{ending}.png", 64)


def thumbnails() -> None:
    """What pages show as `images/gallery/TOPIC-NAME.png`: an example's first plane, surface or chart, without axes."""
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    for topic, name in sorted(set(re.findall(r"images/gallery/([a-z]+)-(\w+)\.png", pages))):
        _thumbnail(ROOT / "examples" / topic / f"plot_{name}.py")


def _thumbnail(script: Path) -> None:
    name = f"{script.parent.name}-{script.stem.removeprefix('plot_')}"
    picture = panel(_figure(f"{script.parent.name}/{script.name}"))
    picture.quantize(96).save(IMAGES / "gallery" / f"{name}.png", optimize=True)
    plt.close("all")
    print(name, flush=True)


def panel(figure: Any) -> Any:
    """One panel of a figure as a picture of 600 by 420 pixels, planes and surfaces without axes. Changes the figure."""
    from PIL import Image, ImageOps

    charts = [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]
    chosen = max(
        charts, key=lambda ax: (ax.get_aspect() != "auto", round(ax.get_position().width * ax.get_position().height, 6))
    )
    if len(charts) > 2 or chosen.get_aspect() != "auto":
        chosen = charts[-1] if charts[-1].get_aspect() != "auto" else chosen
    figure.canvas.draw()
    figure.set_layout_engine("none")  # what is hidden below shall leave its place empty
    plain = chosen.get_aspect() != "auto" or hasattr(chosen, "get_zlim")
    if plain:
        chosen.axis("off")
        chosen.set_title("")
        for other in {*figure.axes, *figure.texts} - {chosen}:
            other.set_visible(False)
    box = chosen.get_window_extent().expanded(0.97, 0.97) if plain else chosen.get_tightbbox().padded(8)  # no edge
    box = box.transformed(figure.dpi_scale_trans.inverted())
    stream = io.BytesIO()
    figure.savefig(stream, dpi=1.4 * _THUMBNAIL[0] / box.width, bbox_inches=box, pad_inches=0)
    with Image.open(stream) as image:
        picture = image.convert("RGB")
    return ImageOps.fit(picture, _THUMBNAIL) if plain else ImageOps.pad(picture, _THUMBNAIL, color="white")


def _figure(script: str, *styles: str) -> Any:
    """The first figure of an example, in the house style."""
    plt.close("all")
    with (
        plt.style.context(["splinescope.plot.house", *styles]),
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
    ):
        runpy.run_path(str(ROOT / "examples" / script))
    return plt.figure(min(plt.get_fignums()))


def _shrink(file: Path, colors: int, margin: int = 10) -> None:
    """Cut off empty margins, and write with a palette."""
    from PIL import Image, ImageChops, ImageOps

    with Image.open(file) as opened:
        image = opened.convert("RGB")
    ground: Any = image.getpixel((0, 0))
    inner = image.crop(ImageChops.difference(image, Image.new("RGB", image.size, ground)).getbbox())
    ImageOps.expand(inner, margin, ground).quantize(colors).save(file, optimize=True)


def _screen(page: Path, out: Path) -> None:
    """The first screen of a page."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1000, "height": 700})
        tab.goto(page.as_uri())
        tab.screenshot(path=out)
        browser.close()


def main(parts: list[str]) -> None:
    """Run the examples of these parts and keep the first figure of each."""
    others = {
        "hero": hero,
        "film": film,
        "first-steps": first_steps,
        "star": star,
        "cost": cost,
        "thumbnails": thumbnails,
    }
    for part in parts or [*PICTURES, *others]:
        if part in others:
            others[part]()
        elif part.endswith(".py"):
            _thumbnail(ROOT / "examples" / part)
        else:
            for ending, styles in (("", ()), ("-dark", ("splinescope.plot.dark",))):
                file = IMAGES / f"{part}{ending}.png"
                figure = _figure(PICTURES[part], *styles)
                dpi = _WIDTH / figure.get_figwidth()
                figure.savefig(file, dpi=dpi, bbox_inches="tight", facecolor=figure.get_facecolor())
                _shrink(file, 256)
        print(part, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
