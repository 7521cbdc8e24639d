"""Earlier moments: a click on a curve goes back to one, and a film page carries them all."""

import re

import pytest

import splinescope as ss
from tests.browser import becomes, expect, opened, rest
from tests.studio.conftest import DRAWN
from tests.studio.test_take_home import taken

KEPT = "studio.pages.playground.moments.map(each => [each.step, each.offsets.length - 1])"
SHOWN = "() => [Number(document.querySelector('#time').value), view.count]"


def test_a_training_is_taken_home_as_a_film_and_looked_back_at(studio, browser, tmp_path):
    with studio("#width=6&depth=2&color=slope") as page:
        page.wait_for_function(DRAWN)
        page.click("#play")
        page.wait_for_function("() => studio.pages.playground.moments.length > 12")
        page.click("#play")
        page.wait_for_function("() => !studio.pages.playground.frame.running && !studio.pages.playground.telling")
        kept = page.evaluate(KEPT)
        film = taken(page, "Film page", tmp_path)
        page.locator(".curve canvas").first.click(position={"x": 48, "y": 20})  # near its beginning
        expect(page.locator("#clock")).to_contain_text("looking back")
        step = int(re.search(r"step (\d+) of", page.inner_text("#clock"))[1])
        assert page.evaluate("studio.pages.playground.view.count") == dict(kept)[step]
        page.click("#step")  # what comes next is now again
        page.wait_for_function("step => studio.pages.playground.frame.step === step + 1", arg=kept[-1][0])
        becomes(page, "studio.pages.playground.view.data === studio.pages.playground.frame", True)
    assert film.stat().st_size < 5e6
    with opened(browser, film) as page:
        page.wait_for_selector("body[data-ready]")
        rest(page)
        assert page.evaluate("view.colored") == "slope"
        for i in (0, len(kept) - 1, 3):
            page.locator("#time").fill(str(i))
            becomes(page, SHOWN, [i, kept[i][1]])
            expect(page.locator(".film output")).to_have_text(f"step {kept[i][0]}")
        ends = page.inner_text("#legend")
        page.locator("#time").fill("0")
        assert page.inner_text("#legend") == ends  # one scale for all moments
        page.click("#play")
        page.wait_for_function("() => Number(document.querySelector('#time').value) > 2")


@pytest.mark.parametrize("ending", ["html", "webp"])
def test_a_timeline_is_filmed(shelf, browser, tmp_path, ending):
    story = ss.complexity.load_timeline(shelf / "life.timeline")
    path = tmp_path / f"life.{ending}"
    ss.plot.film(story, path)
    assert path.stat().st_size < 5e6
    if ending == "webp":
        assert path.read_bytes()[8:12] == b"WEBP"
        return
    with opened(browser, path) as page:
        page.wait_for_selector("body[data-ready]")
        becomes(page, SHOWN, [len(story.steps) - 1, story.tilings[-1].count])
        page.locator("#time").fill("0")
        becomes(page, SHOWN, [0, story.tilings[0].count])
        expect(page.locator(".film output")).to_have_text(f"step {story.steps[0]}: {story.tilings[0].count:,} tiles")
