"""The page as a notebook widget (extra "widget"): the same viewer, fed by the kernel."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from ..support.checks import require
from .frame import pack
from .page import Viewer, script_of, title_of, viewer_of, web_file

if TYPE_CHECKING:
    from anywidget import AnyWidget

    from ..tiling import Tiling

HEIGHT = 480
"""Pixels; a notebook gives a widget its width only."""
_RENDER = """
const BODY = {body}
function bytesOf(model) {{ // what comes may start anywhere in its buffer; arrays need multiples of 8
  const view = model.get("frame")
  return view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength)
}}
export default {{
  render({{model, el}}) {{
    const root = document.createElement("div")
    root.className = "splinescope"
    root.style.height = "{height}px"
    root.innerHTML = BODY
    el.append(root)
    try {{
      const data = unpack(bytesOf(model)), view = {explore}(root, data)
      root.querySelector("h1").textContent = data.title
      root.view = view
      const change = () => view.setData(unpack(bytesOf(model)))
      model.on("change:frame", change)
      return () => model.off("change:frame", change)
    }} catch (error) {{ showError(root.querySelector("#view"), error) }}
  }},
}}
"""


def widget_module(viewer: Viewer) -> str:
    """The widget's ES module: a viewer and a `render` that takes a frame."""
    body = json.dumps(web_file(viewer.body))
    return script_of(viewer) + _RENDER.format(body=body, height=HEIGHT, explore=viewer.explore)


@cache
def _widget_class(viewer: Viewer) -> Any:
    anywidget = require("anywidget", "widget")
    traitlets = require("traitlets", "widget")

    class TilingWidget(anywidget.AnyWidget):  # type: ignore[name-defined]
        """A tiling to turn, zoom and hover; `frame` is what it draws."""

        _esm = widget_module(viewer)
        _css = web_file("tiling.css")
        frame = traitlets.Bytes().tag(sync=True)

    return TilingWidget


def tiling_widget(tiling: Tiling, *, color: str | None = None) -> AnyWidget:
    """See `Tiling.widget`."""
    viewer = viewer_of(tiling)
    made: AnyWidget = _widget_class(viewer)(frame=pack(viewer.frame(tiling, title=title_of(tiling), color=color)))
    return made
