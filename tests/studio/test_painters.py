"""With a graphics card or without, the picture is the same."""

import numpy as np

from tests.browser import PIXELS, colors
from tests.studio.conftest import DRAWN

BOTH = """async ([zoom, color, walls]) => {
  const {TilingView} = await import("/viewer/viewer.js"), {Painter} = await import("/viewer/painter.js")
  const {SoftwarePainter} = await import("/viewer/software.js"), frame = studio.pages.playground.frame
  const stepped = canvas => { // without smoothing, so that pixels can be compared
    canvas.getContext("webgl2", {alpha: false, antialias: false, preserveDrawingBuffer: true})
    return new Painter(canvas)
  }
  return [stepped, canvas => new SoftwarePainter(canvas)].map(painter => {
    const box = document.body.appendChild(document.createElement("div"))
    box.style.cssText = "position:fixed;left:0;top:0;width:300px;height:240px"
    const view = new TilingView(box, frame, painter)
    view.show.boundary = false
    view.show.folds = walls
    view.colorBy(color)
    const middle = 4 * Math.floor(frame.boundary.length / 8) // of a segment of the decision boundary
    if (zoom > 1) view.lookAt(frame.boundary[middle], frame.boundary[middle + 1], view.scale)
    view.lookAt(view.x, view.y, view.scale * zoom)
    view.draw()
    const all = (PIXELS)(view.canvas, [0, 0, 300, 240])
    box.remove()
    return all
  })
}""".replace("PIXELS", PIXELS)


def test_both_painters_draw_the_same_picture(studio):
    with studio("#width=12&depth=2&seed=2&norm=batch") as page:
        page.wait_for_function(DRAWN)
        for zoom, color, walls in (
            (1, "class", False),
            (1, "slope", False),
            (16, "class", False),  # tiles beyond the picture's edge
            (0.2, "slope", False),  # dust
            (1, "folds", True),
            (1, "slope", True),
        ):
            both = page.evaluate(BOTH, [zoom, color, walls])
            card, software = (colors(text).reshape(240, 300, 4) for text in both)
            assert len(np.unique(card.reshape(-1, 4), axis=0)) >= 2, (zoom, color)
            differ = (np.abs(card - software) > 3).any(-1)
            if not walls:
                assert differ.mean() < 0.01, (zoom, color)  # pixels whose center is on a wall, by rounding
                continue
            # one draws walls in steps, the other smoothly: the same ink, seen from further off
            blurred = [pixels[..., :3].reshape(24, 10, 30, 10, 3).mean((1, 3)) for pixels in (card, software)]
            assert np.abs(blurred[0] - blurred[1]).mean() < 8, color
            assert differ.any()
