"""A page in a real browser: `open_page(path_or_address)` gives a playwright page that has seen no error.

Uses the system's chromium with software rendering; where there is none, the test is skipped with that reason.
"""

import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ARGUMENTS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--disable-dev-shm-usage"]


@contextmanager
def open_page(target, *, width=1000, height=700, allow=()):
    """A loaded page; on leaving, fails if it logged an error or asked for an address not in `allow` (prefixes)."""
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    from playwright.sync_api import sync_playwright

    address = target.as_uri() if isinstance(target, Path) else target
    errors, requests = [], []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        try:
            page = browser.new_page(viewport={"width": width, "height": height})
            page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.on("request", lambda request: requests.append(request.url))
            page.goto(address)
            yield page
        finally:
            browser.close()
    assert errors == []
    foreign = [url for url in requests if not url.startswith((address, "data:", *allow))]
    assert foreign == []
