"""The playground in a real browser: training, dragging and looking change the exact tiles."""

import numpy as np
import pytest
import torch

from splinescope import InputError
from splinescope.studio.recipe import ACTIVATIONS, NORMS, SMOOTH, Recipe
from splinescope.studio.trainer import Trainer
from tests.browser import becomes, expect, rest
from tests.studio.conftest import DRAWN

VIEW = "studio.pages.playground.view"
TOLD = "() => !studio.pages.playground.telling"
TO_CLIENT = """([x, y]) => { const v = studio.pages.playground.view, box = v.overlay.getBoundingClientRect()
const at = v.toScreen(x, y)
return [box.left + at[0], box.top + at[1]] }"""
COVERED = """() => { const v = studio.pages.playground.view
const [x, y] = [v.width / 2, v.height / 2 - 20].map(pixels => v.ratio * pixels)
return v.overlay.getContext("2d").getImageData(x, y, 1, 1).data[3] }"""
FRAME = """() => { const f = studio.pages.playground.frame
return {step: f.step, measures: f.measures, vertices: Array.from(f.vertices),
  points: Array.from(f.points), running: f.running} }"""
SCENE_SHOWN = """name => { const label = document.getElementById("scene-label").textContent
return studio.pages.scene?.story?.scene === name && label && label !== "computing…" }"""
NEXT = """() => { const g = studio.pages.playground
window.last = g.frame // the server has not answered yet to what was done
studio.channel.order("color", {color: g.look.color}) }"""


def ready(page):
    """The frame that is shown, once it is told in words, too, and nothing moves any more."""
    page.wait_for_function(DRAWN)
    page.wait_for_function(TOLD)
    rest(page, VIEW)
    return page.evaluate(FRAME)


def drag(page, start, end):
    rest(page, VIEW)
    page.mouse.move(*page.evaluate(TO_CLIENT, start))
    page.mouse.down()
    page.mouse.move(*page.evaluate(TO_CLIENT, end), steps=4)
    page.mouse.up()


def in_address(page, *parts):
    page.wait_for_function("parts => parts.every(part => location.hash.includes(part))", arg=parts)


def test_training_moves_the_tiles_and_the_picture_is_that_of_the_recipe(studio):
    with studio("#width=8&depth=2&seed=3") as page:
        first = ready(page)
        assert first["step"] == 0
        trainer = Trainer(Recipe(width=8, depth=2, seed=3))
        trainer.hold_statistics()
        assert np.array_equal(np.array(first["vertices"]).reshape(-1, 2), trainer.tile().vertices)
        page.click("#step")
        page.wait_for_function("() => studio.pages.playground.frame.step === 1")
        trainer.train(1)
        measured = trainer.hold_statistics()
        after = ready(page)
        assert np.array_equal(np.array(after["vertices"]).reshape(-1, 2), trainer.tile().vertices)
        assert after["measures"]["loss"] == pytest.approx(measured["loss"])
        assert not np.array_equal(after["vertices"][:40], first["vertices"][:40])
        page.click("#play")
        page.wait_for_function("() => studio.pages.playground.frame.step > 20")
        page.click("#play")
        page.wait_for_function("() => !studio.pages.playground.frame.running")
        assert ready(page)["measures"]["loss"] < first["measures"]["loss"]
        expect(page.locator("#clock")).to_contain_text("tiles")


def test_points_folds_and_weights_can_be_dragged(studio):
    with studio("#width=6&depth=2&data=circles&noise=0") as page:
        before = ready(page)
        drag(page, before["points"][:2], [0.1, -0.2])
        page.evaluate(NEXT)
        moved = "(f => f !== last && [...f.points.slice(0, 2)])(studio.pages.playground.frame)"
        becomes(page, moved, pytest.approx([0.1, -0.2], abs=0.03))  # half a pixel
        assert ready(page)["points"][2:] == before["points"][2:]
        # a fold: choose a unit by its button, then drag a point of its wall
        page.click("button[data-unit='0,2']")
        unit = """() => { const f = studio.pages.playground.frame, v = f.vertices, c = f.corner_cuts.indexOf(2)
        const t = f.offsets.findLastIndex(o => o <= c), n = c + 1 < f.offsets[t + 1] ? c + 1 : f.offsets[t]
        return [0, 1].map(k => (v[2 * f.corners[c] + k] + v[2 * f.corners[n] + k]) / 2) }"""
        start = page.evaluate(unit)
        end = [start[0] + 0.4, start[1] + 0.3]
        page.uncheck("label:has-text('data') input")  # or a point under the pointer would be taken
        drag(page, start, end)
        trainer = Trainer(Recipe(width=6, depth=2, data="circles", noise=0.0))
        trainer.move_fold(0, 2, *end)
        offset = pytest.approx(trainer.model[0].linear.bias[2].item(), abs=0.05)
        becomes(page, "studio.pages.playground.frame.selected?.offset", offset)
        # a weight
        page.locator("#weight-0").fill("1.5")
        becomes(page, "studio.pages.playground.frame.selected.weights[0]", pytest.approx(1.5))


def test_hover_colors_layers_and_keys_show_the_tile(studio):
    with studio("#width=8&depth=3") as page:
        ready(page)
        tiling = Trainer(Recipe(width=8, depth=3)).tile()
        tile = int(np.argmax(tiling.inradii()))
        page.mouse.move(*page.evaluate(TO_CLIENT, tiling.centroids()[tile].tolist()))
        expect(page.locator("#tile dd").first).to_have_text(str(tile))
        rows = page.locator("#tile > *").all_inner_texts()
        told = dict(zip(rows[::2], rows[1::2], strict=True))
        assert float(told["area"]) == pytest.approx(tiling.areas[tile], rel=1e-3)
        assert "output 1 here" in told
        page.select_option("#look-color", "folds")
        page.locator("#look-layers").fill("1")
        becomes(page, f"{VIEW}.layers", 1)
        in_address(page, "color=folds", "layers=1")
        page.reload()
        page.wait_for_selector("body[data-ready]")
        ready(page)
        assert page.evaluate(f"[{VIEW}.layers, {VIEW}.colored]") == [1, "folds"]


def test_own_points_begin_with_words_and_not_with_a_network(studio):
    with studio("#data=own&width=4&depth=1") as page:
        page.wait_for_function(f"() => {VIEW}")
        expect(page.locator("#own-hint")).to_be_visible()
        expect(page.locator("#clock")).to_have_text("")
        page.wait_for_function(f"() => ({COVERED})() === 255")
        rest(page, VIEW)
        for label, place in ((0, [-1, -1]), (1, [1, 1])):
            page.click(f"button[aria-label='set points of class {label}']")
            page.mouse.click(*page.evaluate(TO_CLIENT, place))
        page.wait_for_function("() => studio.pages.playground.frame.points.length === 4")
        expect(page.locator("#own-hint")).to_be_hidden()
        page.wait_for_function(f"() => ({COVERED})() === 0")  # the tiles are seen
        shown = np.array(ready(page)["points"]).reshape(-1, 2)
        assert np.abs(shown - [[-1, -1], [1, 1]]).max() < 0.05  # where they were set, but for a pixel


def test_own_points_are_read_from_a_csv_file(studio, tmp_path):
    (tmp_path / "mine.csv").write_text('\ufeffx;y;kind\n0;0;"red"\n10;0;blue\n5;5;red\n')
    (tmp_path / "words.csv").write_text("a,b\n1,x\n")
    with studio("#data=own&width=4&depth=1") as page:
        page.wait_for_function(DRAWN)
        page.set_input_files(".own input[type=file]", tmp_path / "mine.csv")
        becomes(page, "studio.pages.playground.recipe.points", [[-1.6, -0.8, 1], [1.6, -0.8, 0], [0, 0.8, 1]])
        expect(page.locator("#own-hint")).to_be_hidden()
        page.set_input_files(".own input[type=file]", tmp_path / "words.csv")
        expect(page.locator("#message")).to_contain_text("two numbers a row, x and y, and a class; got “1,x”")


def test_a_link_leads_to_the_same_network_seen_from_the_same_place(studio):
    state = "#width=6&depth=2&seed=3&step=120&look=0.5,-0.25,1.5&hide=walls,points"
    with studio(state) as page:
        page.wait_for_function("() => studio.pages.playground.frame?.step === 120")
        trainer = Trainer(Recipe(width=6, depth=2, seed=3))
        trainer.train(120)
        trainer.hold_statistics()
        shown = np.array(ready(page)["vertices"]).reshape(-1, 2)
        assert np.array_equal(shown, trainer.tile().vertices)
        place = (
            "() => { const v = studio.pages.playground.view; return [v.x, v.y, Math.min(v.width, v.height) / v.scale] }"
        )
        assert page.evaluate(place) == pytest.approx([0.5, -0.25, 1.5])
        assert page.evaluate(
            "() => { const {look} = studio.pages.playground; return [look.walls, look.boundary, look.points] }"
        ) == [False, True, False]
        page.click("#step")
        page.wait_for_function("() => location.hash.includes('step=121')")
        page.click("#looks >> text=Show all")
        page.wait_for_function("() => !location.hash.includes('look=')")


def test_a_story_stays_while_its_suggestions_are_tried(studio):
    with studio("#story=batch-norm") as page:
        ready(page)
        tag = page.evaluate("studio.pages.playground.tag")
        page.select_option("#switch-norm", "none")
        page.wait_for_function("tag => studio.pages.playground.frame.tag > tag", arg=tag)
        expect(page.locator("#story li").nth(1)).to_be_visible()
        becomes(page, "location.hash", "#story=batch-norm&norm=none")
        expect(page.locator("nav a[data-view=stories]")).to_have_attribute("aria-current", "page")
        page.click("#story >> text=Close")  # what is seen stays, and is told in full
        in_address(page, "data=star", "color=folds")
        assert "story" not in page.evaluate("location.hash")


def test_stories_open_by_link_and_say_what_to_try(studio):
    with studio("#view=stories") as page:
        cards = page.locator(".card")
        expect(cards.nth(5)).to_be_visible()
        links = [cards.nth(i).get_attribute("href") for i in range(cards.count())]
        page.wait_for_function("() => [...document.querySelectorAll('.card img')].every(each => each.complete)")
        assert page.evaluate(
            "() => [...document.querySelectorAll('.card img')].every(each => each.naturalWidth === 320)"
        )
        cards.nth(1).click()
        page.wait_for_function("link => location.hash === link", arg=links[1])
        page.wait_for_function("() => document.querySelectorAll('#story li').length >= 2")
        for link in links:  # each recipe is one that the server makes
            scene = page.evaluate(
                "async link => (await import('/static/stories.js')).storyNamed(link.split('=')[1]).scene", link
            )
            tag = page.evaluate("link => { location.hash = link; return studio.pages.playground.tag }", link)
            if scene:
                page.wait_for_function(SCENE_SHOWN, arg=scene)
                continue
            shown = "tag => { const g = studio.pages.playground; return g.tag > tag && g.frame?.tag === g.tag }"
            page.wait_for_function(shown, arg=tag)
            assert page.is_hidden("#message"), (link, page.inner_text("#message"))
        page.evaluate("() => { location.hash = '#story=nonsense' }")
        page.wait_for_selector("#story:has-text('no story named “nonsense”')")


def test_scenes_play_and_their_slider_moves_the_points(studio):
    with studio("#story=odd-point&seed=1") as page:
        page.wait_for_function(SCENE_SHOWN, arg="odd")
        expect(page.locator("#scene-story li").nth(1)).to_be_visible()
        before = page.inner_text("#scene-notes")
        page.locator("#scene-moment").fill("40")
        expect(page.locator("#scene-label")).to_have_text("layer 41")
        assert page.inner_text("#scene-notes") != before
        page.click("#scene-play")
        page.wait_for_function("() => studio.pages.scene.at > 41")
        page.evaluate("() => { location.hash = '#view=playground' }")
        page.wait_for_function("() => document.body.dataset.view === 'playground' && !studio.pages.scene.playing")


def test_names_and_addresses_are_text_never_code(studio):
    with studio("#data=<img src=x onerror=alert(1)>&width=<script>&story=<b>") as page:
        expect(page.locator("#message")).to_contain_text("data must be one of")
        assert page.locator("#message img, #message script").count() == 0


@pytest.mark.parametrize("norm", NORMS)
def test_every_normalization_is_tiled_exactly_as_it_is_shown(norm):
    trainer = Trainer(Recipe(norm=norm, width=8, depth=2, count=40))
    trainer.train(3)
    trainer.hold_statistics()
    tiling = trainer.tile()
    points = torch.from_numpy(tiling.centroids())
    with torch.no_grad():
        outputs = trainer.model.eval()(points).numpy()
    assert np.abs(tiling.outputs(tiling.centroids()) - outputs).max() < 1e-9 * (1 + np.abs(outputs).max())
    assert trainer.frame()["held"] == (norm in ("layer", "group", "rms"))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_is_tiled_within_what_the_picture_says(activation):
    trainer = Trainer(Recipe(activation=activation, tolerance=0.3, width=5, depth=1, count=40))
    trainer.train(3)
    frame = trainer.frame()
    points = np.random.default_rng(0).uniform(-2.6, 2.6, (500, 2))
    with torch.no_grad():
        outputs = trainer.model.eval()(torch.from_numpy(points)).numpy()
    worst = np.abs(trainer.tile().outputs(points) - outputs).max()
    assert (frame["within"] is None) == (activation not in SMOOTH)
    assert worst < (1e-5 if frame["within"] is None else frame["within"]["bound"])
    assert frame["within"] is None or frame["within"]["bound"] <= 0.3
    # a wall of the picture is where the unit it names has the pre-activation it names
    cut = int(frame["corner_cuts"].max())
    layer, unit, knot = (int(frame["cut_layers"][cut]), int(frame["cut_units"][cut]), float(frame["cut_knots"][cut]))
    corner = int(np.flatnonzero(frame["corner_cuts"] == cut)[0])
    vertex = torch.tensor(frame["vertices"][frame["corners"][corner]])
    with torch.no_grad():
        assert float(trainer.model[layer].linear(vertex)[unit]) == pytest.approx(knot, abs=1e-5)


def test_a_fold_that_is_dragged_passes_through_the_place():
    for recipe in (Recipe(depth=2), Recipe(depth=2, norm="batch"), Recipe(depth=2, norm="layer")):
        trainer = Trainer(recipe)
        trainer.move_fold(1, 3, 0.3, -0.4)
        seen = []
        handle = trainer.model[1].act.register_forward_pre_hook(lambda _m, inputs, seen=seen: seen.append(inputs[0]))
        with torch.no_grad():
            trainer.model.eval()(torch.tensor([[0.3, -0.4]], dtype=torch.float64))
        handle.remove()
        assert abs(float(seen[0][0, 3])) < 1e-5
    with pytest.raises(InputError, match="no offset"):
        Trainer(Recipe(norm="rms")).move_fold(0, 0, 0.0, 0.0)


def test_looking_does_not_change_training():
    seen, unseen = (Trainer(Recipe(norm="batch", statistics="batch", batch=8)) for _ in range(2))
    for _ in range(3):
        seen.train(1)
        seen.frame()
    unseen.train(3)
    for a, b in zip(seen.model.parameters(), unseen.model.parameters(), strict=True):
        assert torch.equal(a, b)
