"""Draws the stories' pictures, for cards in the studio and the page of ideas, and the studio's own.

`python docs/make_story_pictures.py` draws all, `python docs/make_story_pictures.py studio` the last only.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

from PIL import Image, ImageOps
from playwright.sync_api import Page, ViewportSize, sync_playwright

CARDS = Path(__file__).parents[1] / "src" / "splinescope" / "studio" / "web"
IDEAS = Path(__file__).parent / "images" / "ideas"
SIZE = 320, 200
LARGE = 560, 560
WINDOW: ViewportSize = {"width": 1280, "height": 900}
SOON = 120_000
DRAWN = "() => { const g = studio.pages.playground; return g.drawn > 0 && g.frame?.tag === g.tag }"
MORE = {"fold": "layers=3", "learn": "step=250", "migration": "step=3200", "jitter": "step=150"}
"""What is added to the link of a story for its picture: the moment that its text speaks of."""
MOMENTS = {"odd-point": "12"}
"""Which moment of a scene is drawn, if not its last: there the odd point's others are one dot."""


def main() -> None:
    command = [sys.executable, "-m", "splinescope", "studio", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as tools:
        assert server.stdout is not None
        found = re.search(r"http\S+", server.stdout.readline())
        assert found is not None
        browser = tools.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport=WINDOW, device_scale_factor=1)
        show_training(page, found[0])
        page.goto(f"{found[0]}#view=stories")
        page.wait_for_selector(".card", timeout=SOON)
        cards = [] if sys.argv[1:] == ["studio"] else page.locator(".card").all()
        for link in [card.get_attribute("href") or "" for card in cards]:
            name = link.removeprefix("#story=")
            shot = draw(page, found[0], name)
            drawn = Image.open(io.BytesIO(shot)).convert("RGB")
            ImageOps.fit(drawn, SIZE).save(CARDS / f"story-{name}.webp", quality=72)
            ImageOps.fit(drawn, LARGE).save(IDEAS / f"{name}.webp", quality=72)
        browser.close()
        server.terminate()


def show_training(page: Page, address: str) -> None:
    """The picture of the studio's page: the whole window, after 600 steps on two spirals."""
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(f"{address}#data=spirals&width=16&noise=0.03&count=160&color=slope")
    page.wait_for_function(DRAWN, timeout=SOON)
    page.select_option("#speed", "10")
    page.click("#play")
    page.wait_for_function("() => studio.pages.playground.frame.step >= 600", timeout=SOON)
    page.click("#play")
    page.wait_for_timeout(800)
    shown = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    shown.quantize(256).save(IDEAS.with_name("studio.png"), optimize=True)
    page.set_viewport_size(WINDOW)


def draw(page: Page, address: str, name: str) -> bytes:
    """The picture of a story, without what stands around it."""
    page.goto("about:blank")
    page.goto(f"{address}&lecture#story={name}&{MORE.get(name, '')}")  # lines that are seen when small
    page.wait_for_selector("body[data-ready]", timeout=SOON)
    if page.evaluate("() => document.body.dataset.view") == "scene":
        page.wait_for_function("() => studio.pages.scene.scene", timeout=SOON)
        page.evaluate("() => studio.pages.scene.setBold(1)")  # points would hide how dense they are
        moment = page.locator("#scene-moment")
        moment.fill(MOMENTS.get(name) or moment.get_attribute("max") or "0")
        return page.locator("#scene .panel:not([hidden]) canvas").last.screenshot()
    page.wait_for_function(DRAWN, timeout=SOON)
    page.wait_for_timeout(800)
    page.evaluate("() => { document.getElementById('held').hidden = true }")  # would be cut off
    box = page.locator("#tiles").bounding_box()
    assert box is not None
    side = 0.93 * min(box["width"], box["height"])  # without its edge
    left, top = box["x"] + (box["width"] - side) / 2, box["y"] + (box["height"] - side) / 2
    return page.screenshot(clip={"x": left, "y": top, "width": side, "height": side})


if __name__ == "__main__":
    main()
