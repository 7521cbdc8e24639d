"""Draws the pictures of the guides anew from the gallery's examples: `python docs/make_images.py [PART...]`.

`python docs/make_images.py thumbnails`, after `make docs`, takes the small ones of the first page, of the table of
questions and of README from the gallery that was built.
"""

from __future__ import annotations

import runpy
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

ROOT = Path(__file__).resolve().parents[1]
PICTURES = {
    "landscape": "landscape/plot_exact_pieces.py",
    "normalization": "normalization/plot_folds_on_data.py",
    "representation": "representation/plot_angles.py",
    "meanfield": "meanfield/plot_neurons_on_the_ellipse.py",
    "generative": "generative/plot_manifold.py",
    "smooth": "smooth/plot_within_a_tolerance.py",
    "blocks": "smooth/plot_block.py",
}
"""Picture -> the example whose first figure it is."""


_SIZE, _COLOURS = (200, 140), 64  # pixels; a few kilobytes each


def thumbnails() -> None:
    """Every example's thumbnail as `images/gallery/TOPIC-NAME.png`."""
    from PIL import Image

    for file in sorted((ROOT / "docs" / "gallery").glob("*/images/thumb/sphx_glr_plot_*_thumb.png")):
        name = file.name.removeprefix("sphx_glr_plot_").removesuffix("_thumb.png")
        with Image.open(file) as image:
            paper = Image.new("RGB", image.size, "white")
            paper.paste(image, mask=image.convert("RGBA").getchannel("A"))
        _keep(paper, f"{file.parents[2].name}-{name}")
    with tempfile.TemporaryDirectory() as folder:
        for name, file in _pages(Path(folder)).items():
            with Image.open(file) as image:
                _keep(image.convert("RGB"), name)


def _keep(image: Any, name: str) -> None:
    image.thumbnail(_SIZE)
    image.quantize(_COLOURS).save(ROOT / "docs" / "images" / "gallery" / f"{name}.png", optimize=True)


def _pages(folder: Path) -> dict[str, Path]:
    """What a report and a comparison look like, at the block of tiles."""
    import torch
    from playwright.sync_api import sync_playwright

    import splinescope as ss

    torch.manual_seed(0)
    nets = {
        str(n): torch.nn.Sequential(torch.nn.Linear(2, n), torch.nn.ReLU(), torch.nn.Linear(n, 3)) for n in (20, 60)
    }
    x, y = torch.randn(100, 2), torch.arange(100) % 3
    ss.report(nets["60"].eval(), x, y, out=folder / "report.html", progress=False)
    ss.compare_models(nets, x, y, out=folder / "compare.html", include=["tiles"], progress=False)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for name in ("report", "compare"):
            page = browser.new_page(viewport={"width": 1000, "height": 700})
            page.goto((folder / f"{name}.html").as_uri())
            page.evaluate("document.getElementById('tiles').scrollIntoView()")
            page.screenshot(path=folder / f"{name}.png")
        browser.close()
    return {name: folder / f"{name}.png" for name in ("report", "compare")}


def main(parts: list[str]) -> None:
    """Run the examples of these parts and keep the first figure of each."""
    if parts == ["thumbnails"]:
        thumbnails()
        return
    for part in parts or list(PICTURES):
        plt.close("all")
        runpy.run_path(str(ROOT / "examples" / PICTURES[part]))
        figure = plt.figure(min(plt.get_fignums()))
        figure.savefig(ROOT / "docs" / "images" / f"{part}.png", dpi=90, bbox_inches="tight")
        print(part, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
