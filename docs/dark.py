"""Pictures on dark pages: where `NAME-dark.png` lies beside `NAME.png`, a dark page shows that one.

Pages name the light picture only, so that they read well without Sphinx, too. Line drawings, all SVG among them, and
pictures of pages have no dark picture: the style sheet inverts their lightness and keeps their hues.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from docutils import nodes
from PIL import Image
from sphinx.transforms.post_transforms import SphinxPostTransform


class DarkPictures(SphinxPostTransform):
    """Puts the dark picture beside the light one, each with the class by which the theme chooses."""

    default_priority = 5  # before images are collected

    def run(self, **kwargs: Any) -> None:
        for image in list(self.document.findall(nodes.image)):
            if "://" in image["uri"]:
                continue
            light = Path(self.env.srcdir, image["uri"])
            dark = light.with_name(f"{light.stem}-dark{light.suffix}")
            if dark.is_file():
                other = image.deepcopy()
                other["uri"] = str(dark.relative_to(self.env.srcdir))
                other["candidates"] = {"*": other["uri"]}
                self.env.images.add_file(self.env.docname, other["uri"])
                image["classes"].append("only-light")
                other["classes"].append("only-dark")
                image.parent.insert(image.parent.index(image) + 1, other)
            elif light.suffix == ".svg" or is_drawing(light):
                image["classes"].append("drawing")


def is_drawing(picture: Path) -> bool:
    """Whether a picture is lines on white paper, and no field of colors, which would mean something else inverted."""
    with Image.open(picture) as opened:
        return bool((np.asarray(opened.convert("RGB")).min(axis=2) > 240).mean() > 0.75)


def setup(app: Any) -> dict[str, bool]:
    app.add_post_transform(DarkPictures)
    return {"parallel_read_safe": True}
