"""A tiling as one self-contained page to explore."""

from __future__ import annotations

import base64
import html
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

from ..network.outputs import Picked
from ..support.errors import InputError
from ..support.files import replacing
from ..tiling import Tiling
from ..tiling.measures.folds import need_tiling
from .frame import packed_pieces, tiling_frame
from .solid_frame import solid_frame

_BYTES_TOGETHER = 1 << 22
_SHARED = ("frame.js", "colors.js", "gl.js", "pointer.js", "words.js")
_PLANE = ("mesh.js", "software.js", "painter.js", "viewer.js", "panel.js")
_SPACE = ("solid.js", "camera.js", "space_painter.js", "space.js", "space_panel.js")


@dataclass(frozen=True)
class Viewer:
    """What draws tilings of one dimension.

    Attributes:
        frame: (tiling, title=, color=, ...) -> what is drawn, ready for `pack`.
        modules: Its JavaScript, each module after those that it imports.
        body: The page's elements.
        explore: Name of the function that fills them.
    """

    frame: Callable[..., dict[str, Any]]
    modules: tuple[str, ...]
    body: str
    explore: str


_VIEWERS = {
    2: Viewer(tiling_frame, _SHARED + _PLANE, "explorer.html", "explore"),
    3: Viewer(solid_frame, _SHARED + _SPACE, "space.html", "exploreSpace"),
}

_POINTS = Viewer(dict, ("frame.js", "colors.js", "words.js", "points.js"), "points.html", "explorePoints")


def viewer_of(tiling: Tiling) -> Viewer:
    """The viewer for a tiling's dimension, refused in words for lines and for four dimensions and more."""
    need_tiling(tiling)
    if tiling.dimension not in _VIEWERS:
        draws = (
            "tiling.plot() draws it as a graph" if tiling.dimension == 1 else "tile a slice of three directions of it"
        )
        raise InputError(f"a page shows 2-D and 3-D tilings, got a {tiling.dimension}-D one: {draws}.")
    return _VIEWERS[tiling.dimension]


def write_page(tiling: Tiling, path: str | os.PathLike[str], *, title: str | None = None, **options: Any) -> None:
    """Write a page to explore; see `Tiling.to_html`, also for the options."""
    _write(path, _pieces(tiling, title, **options))


def page_text(tiling: Tiling, *, title: str, color: str, max_tiles: int) -> str:
    """The text of a page to explore, for a frame inside another page."""
    return b"".join(_pieces(tiling, title, color=color, max_tiles=max_tiles)).decode()


def _write(path: str | os.PathLike[str], pieces: Iterable[bytes]) -> None:
    with replacing(path) as partial, open(partial, "wb") as file:
        file.writelines(pieces)


def write_film_page(
    frames: list[dict[str, Any]], path: str | os.PathLike[str], *, title: str, color: str, words: Sequence[str] = (),
    start: int | None = None,
) -> None:  # fmt: skip
    """Write moments of a training as one page with a slider through time.

    Args:
        frames: One per moment, with its name as `moment`; `layers` shows its folds up to that depth only.
        path: The page.
        title: Its title.
        color: The quantity that tiles are colored by, or "folds".
        words: Paragraphs beside the picture.
        start: The moment that is shown first; the last one by default.
    """
    look = {"color": color, "hide": [], "layers": 255, "at": None, "start": start}
    content = {"moments": frames, "look": look, "words": list(words)}
    _write(path, _assembled(replace(_VIEWERS[2], explore="exploreFilm"), title, content))


def write_points_page(
    scene: dict[str, Any], path: str | os.PathLike[str], *, title: str, words: Sequence[str] = ()
) -> None:
    """Write a scene of moving points (`web/points.js` says what it holds) as one page with a slider."""
    _write(path, _assembled(_POINTS, title, {**scene, "words": list(words)}))


def _pieces(tiling: Tiling, title: str | None, **options: Any) -> Iterator[bytes]:
    """The page piece by piece: the data of millions of tiles is never there as a whole."""
    viewer = viewer_of(tiling)
    if title is None:  # the model's file or class, where the tiling knows its model
        module = None if tiling.network is None else tiling.network.module
        whole = module.whole if isinstance(module, Picked) else module
        title = "Tiling" if whole is None else vars(whole).get("file_stem", type(whole).__name__)
    yield from _assembled(viewer, title, viewer.frame(tiling, title=title, **options))


def _assembled(viewer: Viewer, title: str, content: dict[str, Any]) -> Iterator[bytes]:
    parts = {
        "title": html.escape(title),
        "style": web_file("tiling.css"),
        "body": web_file(viewer.body),
        "script": script_of(viewer),
        "explore": viewer.explore,
    }
    for number, text in enumerate(re.split(r"\{\{(\w+)\}\}", web_file("tiling.html"))):
        if number % 2 == 0:
            yield text.encode()
        elif text != "data":
            yield parts[text].encode()
        else:
            yield from _compressed(packed_pieces(content))


def _compressed(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """base64 of the compressed bytes of all pieces."""
    press, left = zlib.compressobj(1), b""
    for piece in pieces:
        for start in range(0, len(piece), _BYTES_TOGETHER):
            left += press.compress(piece[start : start + _BYTES_TOGETHER])
            whole = len(left) - len(left) % 3
            yield base64.b64encode(left[:whole])
            left = left[whole:]
    yield base64.b64encode(left + press.flush())


@cache
def web_file(name: str) -> str:
    """The text of one of the viewer's files."""
    return (resources.files(__package__) / "web" / name).read_text(encoding="utf-8")


@cache
def script_of(viewer: Viewer) -> str:
    """A viewer's modules as one text without imports and exports: what a page without a server can carry."""
    text = "\n".join(map(web_file, viewer.modules))
    return re.sub(r"^import .*\n|^export (?=\w)", "", text, flags=re.MULTILINE)
