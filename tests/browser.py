"""A page in a real browser: `open_page(path_or_address)` gives a playwright page that has seen no error.

Uses the system's chromium, as it starts by itself. Where there is none the test is skipped with that reason, but never
under CI=true. `open_browser()` keeps one browser for several pages.

A page answers when it comes to it: tests wait for what they expect (`expect`, `becomes`, `page.wait_for_function`, all
patient) and read places on the screen from a view that rests (`rest`). With SPLINESCOPE_TEST_SLOWDOWN=8 every page is
eight times slower, which shows who did not wait.
"""

import base64
import os
import shutil
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect, sync_playwright

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu-watchdog"]  # a slow picture is no hung one
PATIENCE = 120
"""Seconds to wait for anything: only what never comes fails."""
SLOWDOWN = float(os.environ.get("SPLINESCOPE_TEST_SLOWDOWN", "1"))
expect.set_options(timeout=1000 * PATIENCE)
PIXELS = """(canvas, [x, y, width, height]) => {
  const copy = document.createElement("canvas").getContext("2d")
  Object.assign(copy.canvas, {width, height})
  copy.drawImage(canvas, -Math.floor(x), -Math.floor(y))
  const {data} = copy.getImageData(0, 0, width, height)
  return btoa(Array.from(data, byte => String.fromCharCode(byte)).join("")) }"""
"""JavaScript: a part of a canvas, whoever painted it, for `colors`; as text, which travels a hundred times faster."""


@contextmanager
def open_browser():
    """One browser; `opened(...)` takes it as `browser`."""
    if CHROMIUM is None:
        if os.environ.get("CI") == "true":
            pytest.fail("no chromium on this machine, and CI=true skips nothing")
        pytest.skip("no chromium on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS, timeout=1000 * PATIENCE)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser, target, *, width=1000, height=700, allow=(), expect=(), **context):
    """A loaded page; on leaving, fails if it logged an error or asked for an address not in `allow` (prefixes).

    `expect` are parts of error messages that the test provokes; `context` goes to the browser's context.
    """
    address = target.as_uri() if isinstance(target, Path) else target
    errors, requests = [], []
    inner = browser.new_context(viewport={"width": width, "height": height}, **context)
    inner.set_default_timeout(1000 * PATIENCE)
    try:
        page = inner.new_page()
        if SLOWDOWN > 1:
            inner.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": SLOWDOWN})
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(address)
        yield page
    finally:
        inner.close()
    unexpected = [error for error in errors if not any(part in error for part in expect)]
    assert unexpected == [], unexpected
    foreign = [url for url in requests if not url.startswith((address, "data:", "blob:", *allow))]
    assert foreign == [], foreign


@contextmanager
def open_page(target, **options):
    """A page in a browser of its own; see `opened`."""
    with open_browser() as browser, opened(browser, target, **options) as page:
        yield page


def colors(text):
    """`[pixels, 4]` red, green, blue and alpha of what `PIXELS` gave."""
    return np.frombuffer(base64.b64decode(text), np.uint8).reshape(-1, 4).astype(int)


def becomes(page, read, expected):
    """Wait until `read`, a function or JavaScript, gives what is expected; `expected` may be approximate."""
    end = time.monotonic() + PATIENCE
    while True:
        value = read() if callable(read) else page.evaluate(read)
        if value == expected or time.monotonic() > end:
            break
        page.wait_for_timeout(50)
    assert value == expected


REST = """async view => {
  const frame = () => new Promise(done => requestAnimationFrame(done))
  const laidOut = () => { const {left, top, width, height} = view.overlay.getBoundingClientRect()
    return [left, top, width, height, view.width, view.height].join() }
  for (let before = null; before !== laidOut() || view.frame || view.moving;) {
    before = laidOut()
    await frame()
    await frame()
  } }"""


def rest(page, view="view"):
    """Wait until a view keeps its place on the screen and is drawn, as finely as it is at rest.

    Then places can be read from it, and pixels.
    """
    page.evaluate(f"() => ({REST})({view})")
