"""Draws the pictures on the cards of the studio's stories: `python docs/make_story_pictures.py`."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

from PIL import Image, ImageOps
from playwright.sync_api import Page, ViewportSize, sync_playwright

OUT = Path(__file__).parents[1] / "src" / "splinescope" / "studio" / "web"
SIZE = 320, 200
WINDOW: ViewportSize = {"width": 1280, "height": 900}
SOON = 60_000
MORE = {"fold": "layers=3", "learn": "step=250", "migration": "step=400", "jitter": "step=150", "absolute": "width=7"}
"""What is added to the link of a story for its picture: most begin before there is much to see."""


def main() -> None:
    command = [sys.executable, "-m", "splinescope", "studio", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as tools:
        assert server.stdout is not None
        found = re.search(r"http\S+", server.stdout.readline())
        assert found is not None
        browser = tools.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport=WINDOW, device_scale_factor=1)
        page.goto(f"{found[0]}#view=stories")
        page.wait_for_selector(".card", timeout=SOON)
        for link in [card.get_attribute("href") or "" for card in page.locator(".card").all()]:
            name = link.removeprefix("#story=")
            shot = draw(page, found[0], name)
            drawn = Image.open(io.BytesIO(shot)).convert("RGB")
            ImageOps.fit(drawn, SIZE).save(OUT / f"story-{name}.webp", quality=72)
        browser.close()
        server.terminate()


def draw(page: Page, address: str, name: str) -> bytes:
    """The picture of a story, without what stands around it."""
    page.goto("about:blank")
    page.goto(f"{address}#story={name}" + f"&{MORE.get(name, '')}")
    page.wait_for_selector("body[data-ready]", timeout=SOON)
    if page.evaluate("() => document.body.dataset.view") == "scene":
        page.wait_for_function("() => studio.pages.scene.scene", timeout=SOON)
        page.locator("#scene-moment").fill("10")
        page.set_viewport_size(
            {"width": 352 + 32 + 2 * SIZE[0], "height": 100 + 2 * SIZE[1]}
        )  # what is left is its shape
        shot = page.locator("#scene .panel:not([hidden]) canvas").last.screenshot()
        page.set_viewport_size(WINDOW)
        return shot
    page.wait_for_function("() => studio.pages.playground.drawn > 0", timeout=SOON)
    page.wait_for_timeout(800)
    box = page.locator("#tiles").bounding_box()
    assert box is not None
    side = 0.93 * min(box["width"], box["height"])  # without its edge
    left, top = box["x"] + (box["width"] - side) / 2, box["y"] + (box["height"] - side) / 2
    return page.screenshot(clip={"x": left, "y": top, "width": side, "height": side})


if __name__ == "__main__":
    main()
