"""For a lecture hall and for everyone in it: large, by keys, in gray, and without chatter."""

import pytest

from tests.browser import becomes, expect, rest
from tests.studio.conftest import DRAWN
from tests.studio.test_playground import VIEW

SIZES = """() => [...document.querySelectorAll("#playground *")].filter(each => each.checkVisibility()
  && !each.matches(".unseen, option")
  && [...each.childNodes].some(node => node.nodeType === 3 && node.textContent.trim()))
  .map(each => [parseFloat(getComputedStyle(each).fontSize), each.textContent.slice(0, 30)])"""


def test_lecture_mode_is_large_and_has_picture_story_legend_and_one_curve(studio):
    with studio("#story=migration&step=20", query="lecture&", width=1920, height=1080) as page:
        page.wait_for_function(DRAWN)
        rest(page, VIEW)
        sizes = page.evaluate(SIZES)
        assert min(sizes)[0] >= 22, min(sizes)
        box = page.locator("#tiles").bounding_box()
        assert box["height"] > 900
        assert box["width"] > 1200
        for seen in ("#story", "#legend .line", "#play"):
            expect(page.locator(seen)).to_be_visible()
        for hidden in (".top", "#switches", "#units", "#looks"):
            expect(page.locator(hidden)).to_be_hidden()
        expect(page.locator(".curve:visible")).to_have_count(1)
        expect(page.locator(".curve:visible")).to_contain_text("tiles nearby")
        assert page.evaluate(f"{VIEW}.bold") == 2
        curve = page.locator(".curve:visible canvas").bounding_box()
        assert curve["height"] > 170
        assert curve["y"] + curve["height"] < 1080  # in sight beside the longest story
        expect(page.locator("#legend")).to_contain_text("data of class 0 1")
        page.set_viewport_size({"width": 960, "height": 540})  # a zoom of 200%
        rest(page, VIEW)
        box = page.locator("#tiles").bounding_box()
        assert box["height"] > 0.8 * 540
        page.set_viewport_size({"width": 1920, "height": 1080})
        page.evaluate("() => { location.hash = '#story=fold' }")
        becomes(page, f"[{VIEW}.layers, {VIEW}.show.boundary]", [1, False])  # lines that are not drawn turn no boundary
        page.keyboard.press("2")
        becomes(page, f"{VIEW}.layers", 2)
        page.evaluate("() => { location.hash = '#story=norms' }")
        expect(page.locator("#held")).to_contain_text("an approximation")
        assert min(page.evaluate(SIZES))[0] >= 22
        page.keyboard.press("l")
        expect(page.locator("#switches")).to_be_visible()


def test_an_embedded_page_keeps_story_and_legend_in_sight(studio):
    with studio("#story=migration", query="embed&", width=900, height=600) as page:
        page.wait_for_function(DRAWN)
        for seen in ("#story p >> nth=0", "#legend .line", "#play"):
            expect(page.locator(seen)).to_be_in_viewport(ratio=1)
        for hidden in (".top", "#switches", "#curves", "#lecture", "#story ul"):
            expect(page.locator(hidden)).to_be_hidden()
        assert page.locator("#tiles").bounding_box()["height"] > 0.8 * 600


@pytest.mark.parametrize(("query", "size"), [("lecture&", (1920, 1080)), ("embed&", (900, 600))])
def test_a_network_under_the_microscope_is_large_too(studio, query, size):
    with studio("#view=microscope&file=first.onnx", query=query, width=size[0], height=size[1]) as page:
        page.wait_for_function("() => studio.pages.microscope.tiled > 0")
        box = page.locator("#pane-a").bounding_box()
        assert box["width"] > 0.6 * size[0]
        assert box["height"] > 0.9 * size[1]
        expect(page.locator("#lens-legend")).to_be_in_viewport(ratio=1)
        for hidden in (".top", "#entries", "#home-microscope", "#lens-looks"):
            expect(page.locator(hidden)).to_be_hidden()
        assert page.evaluate("studio.pages.microscope.panes.a.view.bold") == (2 if query == "lecture&" else 1)
        page.keyboard.press(" ")  # plays nothing that is out of sight
        assert not page.evaluate("studio.pages.playground.running")


@pytest.mark.parametrize("query", ["", "embed&"])
def test_on_a_phone_the_legend_stands_below_the_picture(studio, query):
    with studio("#view=microscope&file=first.onnx", query=query, width=390, height=844) as page:
        page.wait_for_function("() => studio.pages.microscope.tiled > 0")
        rest(page, "studio.pages.microscope.panes.a.view")
        picture, legend = (page.locator(name).bounding_box() for name in ("#pane-a", "#lens-legend"))
        assert 0 <= legend["y"] - picture["y"] - picture["height"] < 150
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_keys_play_and_move_the_chosen_point_or_fold(studio):
    with studio("#width=6&depth=1&seed=2") as page:
        page.wait_for_function(DRAWN)
        rest(page, VIEW)
        page.locator("#tiles canvas").last.focus()
        before = page.evaluate("[...studio.pages.playground.frame.points]")
        page.keyboard.press("n")
        page.keyboard.press("ArrowRight")
        page.wait_for_function("x => studio.pages.playground.frame.points[0] > x + .01", arg=before[0])
        assert page.evaluate("[...studio.pages.playground.frame.points.slice(1)]") == pytest.approx(
            before[1:], abs=1e-6
        )
        page.keyboard.press("Escape")
        page.click("button[data-unit='0,2']")
        page.wait_for_function("() => studio.pages.playground.frame.selected?.unit === 2")
        offset = page.evaluate("studio.pages.playground.frame.selected.offset")
        page.locator("#tiles canvas").last.focus()
        page.keyboard.press("ArrowUp")
        page.wait_for_function("b => Math.abs(studio.pages.playground.frame.selected.offset - b) > 1e-4", arg=offset)
        page.keyboard.press(" ")
        page.wait_for_function("() => studio.pages.playground.frame.step > 2")
        page.keyboard.press(" ")
        expect(page.locator("#play")).to_have_text("Play")


def test_classes_are_told_apart_in_gray(studio):
    """By the marks of points, and by hatching; curves by their dashes."""
    with studio("#data=blobs&width=5&depth=1&patterns=1") as page:
        page.wait_for_function(DRAWN)
        rest(page, VIEW)
        marks = page.evaluate(
            "async () => { const {markOf} = await import('/viewer/colors.js'); return [0, 1, 2].map(markOf) }"
        )
        assert len({len(mark) for mark in marks}) == 3
        drawn = f"""() => {{ const v = {VIEW}, pen = v.overlay.getContext("2d")
        v.draw()
        const count = () => {{ let n = 0; const d = pen.getImageData(0, 0, v.overlay.width, v.overlay.height).data
          for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n }}
        const hatched = count(); v.patterns = false; v.draw(); return [hatched, count()] }}"""
        hatched, plain = page.evaluate(drawn)
        assert hatched > plain + 2000
        borders = page.evaluate(
            "[...document.querySelectorAll('.curve i')].map(i => getComputedStyle(i).borderTopStyle)"
        )
        assert "solid" in borders
        assert "dashed" in borders


def test_training_does_not_chatter_to_screen_readers(studio):
    with studio("#width=4&depth=1") as page:
        page.wait_for_function(DRAWN)
        page.evaluate("""() => { window.said = 0
            for (const live of document.querySelectorAll("[role=status], [role=alert], output, [aria-live]")) {
              if (live.closest("[aria-live=off]")) continue
              const all = {childList: true, characterData: true, subtree: true}
              new MutationObserver(list => { window.said += list.length }).observe(live, all) } }""")
        page.click("#play")
        page.wait_for_function("() => studio.pages.playground.frame.step > 60")
        assert page.evaluate("said") == 0
        page.click("#play")
        expect(page.locator("#said")).to_contain_text("Paused at step")
        assert page.evaluate("said") <= 2
