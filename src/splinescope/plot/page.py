"""A tiling as one self-contained page to explore."""

from __future__ import annotations

import base64
import html
import os
import re
import zlib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from .._files import replacing
from .frame import pack, tiling_frame

if TYPE_CHECKING:
    from ..tiling import Tiling

MODULES = ("frame.js", "colors.js", "gl.js", "pointer.js", "words.js", "mesh.js", "painter.js", "viewer.js", "panel.js")
"""The viewer's modules, each after those that it imports."""


def write_page(
    tiling: Tiling, path: str | os.PathLike[str], *, title: str = "Tiling", color: str | None = None
) -> None:
    """Write a page with pan, zoom and hover; see `Tiling.to_html`."""
    text = render_page(tiling, title=title, color=color)
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def render_page(tiling: Tiling, *, title: str = "Tiling", color: str | None = None) -> str:
    """The page as text: template, viewer and data (a compressed frame in base64) in one, with no links out."""
    frame = zlib.compress(pack(tiling_frame(tiling, title=title, color=color)), 1)
    parts = {
        "title": html.escape(title),
        "style": web_file("tiling.css"),
        "body": web_file("explorer.html"),
        "data": base64.b64encode(frame).decode("ascii"),
        "script": viewer_script(),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], web_file("tiling.html"))


@cache
def web_file(name: str) -> str:
    """The text of one of the viewer's files."""
    return (resources.files(__package__) / "web" / name).read_text(encoding="utf-8")


@cache
def viewer_script() -> str:
    """The viewer's modules as one text without imports and exports: what a page without a server can carry."""
    text = "\n".join(map(web_file, MODULES))
    return re.sub(r"^import .*\n|^export (?=\w)", "", text, flags=re.MULTILINE)
