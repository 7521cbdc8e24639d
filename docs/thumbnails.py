"""Thumbnails of the gallery: one panel of an example's first figure, where sphinx-gallery would shrink all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from make_images import panel
from matplotlib import pyplot as plt
from PIL import Image
from sphinx_gallery.scrapers import matplotlib_scraper

_PANELS: dict[Path, Image.Image] = {}
"""Script -> its panel, until sphinx-gallery has written its own thumbnails."""


def scrape(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any], **kwargs: Any) -> str:
    """What sphinx-gallery makes of the figures of a block; the first figure of a script becomes its panel."""
    figures = [plt.figure(number) for number in plt.get_fignums()]
    text: str = matplotlib_scraper(block, block_vars, gallery_conf, **kwargs)
    script = Path(block_vars["src_file"])
    if figures and figures[0].axes and script not in _PANELS:
        _PANELS[script] = panel(figures[0])
    return text


def write_thumbnails(app: Any) -> None:
    """Put the panels in the place of the thumbnails; of scripts that did not run again they are there."""
    for script, picture in _PANELS.items():
        folder = Path(app.srcdir, "gallery", script.parent.name, "images", "thumb")
        picture.save(folder / f"sphx_glr_{script.stem}_thumb.png")


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", write_thumbnails, priority=900)  # after sphinx-gallery
    return {"parallel_read_safe": True}
