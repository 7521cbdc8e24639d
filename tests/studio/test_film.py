"""Earlier moments: a click on a curve goes back to one, and a film page carries them all."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageSequence

import splinescope as ss
from tests.browser import becomes, expect, opened, rest
from tests.studio.conftest import DRAWN
from tests.studio.test_take_home import taken

VIEW = "studio.pages.playground.view"
KEPT = "studio.pages.playground.moments.map(each => [each.step, each.offsets.length - 1])"
SHOWN = "() => [Number(document.querySelector('#time').value), view.count]"


def pictures(path):
    with Image.open(path) as image:
        return [each.convert("RGB") for each in ImageSequence.Iterator(image)]


def test_a_training_is_taken_home_as_a_film_and_looked_back_at(studio, browser, tmp_path):
    with studio("#width=6&depth=2&color=slope") as page:
        page.wait_for_function(DRAWN)
        page.click("#play")
        page.wait_for_function("() => studio.pages.playground.moments.length > 12")
        page.click("#play")
        page.wait_for_function("() => !studio.pages.playground.frame.running && !studio.pages.playground.telling")
        kept = page.evaluate(KEPT)
        film = taken(page, "Film page", tmp_path)
        page.select_option("#look-color", "class")
        becomes(page, f"{VIEW}.colored", "class")
        page.mouse.move(0, 0)
        png, moving = (pictures(taken(page, name, tmp_path)) for name in ("PNG", "GIF"))
        page.select_option("#look-color", "slope")
        page.locator(".curve canvas").first.click(position={"x": 48, "y": 20})  # near its beginning
        expect(page.locator("#clock")).to_contain_text("looking back")
        step = int(re.search(r"step (\d+) of", page.inner_text("#clock"))[1])
        assert page.evaluate("studio.pages.playground.view.count") == dict(kept)[step]
        page.click("#step")  # what comes next is now again
        page.wait_for_function("step => studio.pages.playground.frame.step === step + 1", arg=kept[-1][0])
        becomes(page, "studio.pages.playground.view.data === studio.pages.playground.frame", True)
    assert len(moving) == len(kept)
    assert (tmp_path / "playground.gif").stat().st_size < 5e6
    width = moving[0].width
    shown, first, last = (
        np.asarray(each.resize((width, each.height * width // each.width)), int)[: width // 2]
        for each in (png[0], moving[0], moving[-1])
    )
    assert np.abs(last - shown).mean() < 4  # 255 colors
    assert np.abs(first - last).mean() > 10
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


def test_a_saved_timeline_has_its_slider_and_is_taken_home_as_a_gif(studio, shelf, tmp_path):
    story = ss.complexity.load_timeline(shelf / "life.timeline")
    with studio("#view=microscope&file=first.onnx&kind=axes") as page:
        page.wait_for_function("() => studio.pages.microscope.tiled")
        expect(page.locator("#home-microscope button:has-text('GIF')")).to_be_hidden()
        page.click("#entries button:has-text('life.timeline')")
        page.wait_for_function("() => studio.pages.microscope.story && !studio.pages.microscope.fetching")
        for index in (2, 0):
            page.locator("#moment").fill(str(index))
            page.wait_for_function("() => !studio.pages.microscope.fetching")
            expect(page.locator("#moment-text")).to_have_text(f"step {story.steps[index]}")
            count = page.evaluate("studio.pages.microscope.panes.a.view.count")
            assert count == story.tilings[index].count
        assert len(pictures(taken(page, "GIF", tmp_path, of="microscope"))) == 3
        assert page.evaluate("studio.pages.microscope.panes.a.view.count") == count
        page.click("#pane-a canvas >> nth=1")  # and the picture still answers
        expect(page.locator("#details h2")).to_contain_text("Tile")


def test_every_story_is_recorded_as_a_page_with_a_slider(studio, browser, tmp_path):
    made = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "make_recordings.py"))
    with studio("#view=stories") as page:
        told = page.evaluate("async () => (await import('/static/stories.js')).STORIES")
    read = made["read_stories"]()
    assert [[each.get(key) for key in ("name", "title", "text", "recipe", "scene")] for each in told] == [
        [each.get(key) for key in ("name", "title", "text", "recipe", "scene")] for each in read.values()
    ]
    assert set(made["RECORDED"]) == {name for name, story in read.items() if "recipe" in story}
    ideas = (Path(__file__).parents[2] / "docs" / "ideas.md").read_text(encoding="utf-8")
    assert re.findall(r"recordings/([\w-]+)\.html", ideas) == list(read)
    folds, points = made["write_recordings"](tmp_path, ("absolute", "odd-point"))
    with opened(browser, folds) as page:
        page.wait_for_selector("body[data-ready]")
        rest(page)
        assert page.evaluate("view.colored") == "folds"
        before = page.evaluate("[...view.data.vertices]")
        page.locator("#time").fill("8")
        expect(page.locator(".film output")).to_have_text("a fold of layer 1 is dragged")
        assert page.evaluate("[...view.data.vertices]") != before
        expect(page.locator("aside")).to_contain_text("kaleidoscope")
    with opened(browser, points) as page:
        page.wait_for_selector("body[data-ready]")
        page.locator("#time").fill("79")
        expect(page.locator(".film output")).to_have_text("layer 80")
        expect(page.locator("#notes")).to_contain_text("the odd point's length")
        expect(page.locator("canvas")).to_have_attribute("aria-label", re.compile("layer 80$"))
