"""Draws the pictures of the guides anew from the gallery's examples: `python docs/make_images.py [PART...]`.

`hero` is the picture of README and the first page, `first-steps` those of that page, and `thumbnails` the small ones:
one panel of each example, 600 by 420 pixels.
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


def hero() -> None:
    """The first picture of README and of the first page."""
    figure = _figure("tiling/plot_three_digits.py")
    figure.savefig(IMAGES / "hero.png", dpi=130, bbox_inches=None, pad_inches=0)
    _shrink(IMAGES / "hero.png", 128)


def first_steps() -> None:
    """The pictures of the page "first steps", from its own code, and the first screen of its report."""
    page = (ROOT / "docs" / "first-steps.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for code in re.findall(r"^```python\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE):
            exec(code, names)
        for number, name in zip(plt.get_fignums(), ("tiles", "classes"), strict=False):
            plt.figure(number).savefig(IMAGES / f"first-steps-{name}.png", dpi=110, bbox_inches="tight")
        _screen(Path("report.html").resolve(), IMAGES / "first-steps-report.png")
    for name in ("tiles", "classes", "report"):
        _shrink(IMAGES / f"first-steps-{name}.png", 128)


def thumbnails() -> None:
    """Every example's first plane, surface or chart as `images/gallery/TOPIC-NAME.png`, without its axes."""
    for script in sorted((ROOT / "examples").glob("*/plot_*.py")):
        _thumbnail(script)


def _thumbnail(script: Path) -> None:
    from PIL import Image, ImageOps

    figure = _figure(f"{script.parent.name}/{script.name}")
    charts = [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]
    chosen = max(charts, key=lambda ax: (ax.get_aspect() != "auto", ax.get_position().width * ax.get_position().height))
    if len(charts) > 2 or chosen.get_aspect() != "auto":
        chosen = charts[-1] if charts[-1].get_aspect() != "auto" else chosen
    figure.canvas.draw()
    plain = chosen.get_aspect() != "auto" or hasattr(chosen, "get_zlim")
    if plain:
        chosen.axis("off")
        chosen.set_title("")
    box = (chosen.get_window_extent() if plain else chosen.get_tightbbox()).transformed(
        figure.dpi_scale_trans.inverted()
    )
    stream = io.BytesIO()
    figure.savefig(stream, dpi=1.4 * _THUMBNAIL[0] / box.width, bbox_inches=box, pad_inches=0)
    with Image.open(stream) as image:
        picture = image.convert("RGB")
    if plain:
        picture = ImageOps.fit(picture, _THUMBNAIL)
    else:
        picture = ImageOps.pad(picture, _THUMBNAIL, color="white")
    name = f"{script.parent.name}-{script.stem.removeprefix('plot_')}"
    picture.quantize(96).save(IMAGES / "gallery" / f"{name}.png", optimize=True)
    plt.close("all")
    print(name, flush=True)


def _figure(script: str) -> Any:
    """The first figure of an example, in the house style."""
    plt.close("all")
    with plt.style.context("splinescope.plot.house"), tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        runpy.run_path(str(ROOT / "examples" / script))
    return plt.figure(min(plt.get_fignums()))


def _shrink(file: Path, colours: int) -> None:
    from PIL import Image

    with Image.open(file) as image:
        image.convert("RGB").quantize(colours).save(file, optimize=True)


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
    others = {"hero": hero, "first-steps": first_steps, "thumbnails": thumbnails}
    for part in parts or [*PICTURES, *others]:
        if part in others:
            others[part]()
        elif part.endswith(".py"):
            _thumbnail(ROOT / "examples" / part)
        else:
            _figure(PICTURES[part]).savefig(IMAGES / f"{part}.png", dpi=100, bbox_inches="tight")
            _shrink(IMAGES / f"{part}.png", 192)
        print(part, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
