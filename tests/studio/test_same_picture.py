"""What is taken home shows what the page shows: PNG, SVG, HTML and Python have the colors of its canvas."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from splinescope.studio.recipe import Recipe
from splinescope.studio.trainer import Trainer
from tests.browser import becomes, opened, rest
from tests.studio.conftest import DRAWN
from tests.studio.test_take_home import taken

VIEW = "studio.pages.playground.view"
CANVAS = "view => { view.draw(); return view.canvas.toDataURL() }"
PLACES = "([points, view]) => points.map(([x, y]) => view.toScreen(x, y).map(v => v * view.ratio))"


def places_to_compare(trainer, count=1500):
    """Points of the square that are some pixels off every wall, the boundary and the data."""
    tiling = trainer.tile()
    points = np.random.default_rng(0).uniform(-2.5, 2.5, (8000, 2))
    walls = tiling.vertices[tiling.walls.ends]
    lines = np.concatenate([walls, tiling.decision_boundary().segments])
    a, b = lines[:, 0], lines[:, 1]
    along = ((points[:, None] - a) * (b - a)).sum(2) / ((b - a) ** 2).sum(1)
    away = np.linalg.norm(points[:, None] - a - along.clip(0, 1)[..., None] * (b - a), axis=2).min(1)
    data = np.linalg.norm(points[:, None] - trainer.x.numpy(), axis=2).min(1)
    return points[(away > 0.06) & (data > 0.14)][:count]


def colors_at(image, places):
    return np.asarray(image.convert("RGB"), int)[np.floor(places[:, 1]).astype(int), np.floor(places[:, 0]).astype(int)]


def from_data_url(text):
    return read_image(base64.b64decode(text.partition(",")[2]))


def read_image(content):
    return Image.open(io.BytesIO(content))


@pytest.mark.parametrize("color", ["class", "slope"])
def test_all_that_is_taken_home_shows_the_page_s_own_picture(studio, browser, tmp_path, color):
    recipe = Recipe(data="blobs", width=8, depth=2, seed=1)
    trainer = Trainer(recipe)
    trainer.train(200)
    trainer.hold_statistics()
    points = places_to_compare(trainer)
    assert len(points) > 200
    with studio(f"#data=blobs&width=8&depth=2&seed=1&step=200&color={color}") as page:
        page.wait_for_function(DRAWN)
        page.wait_for_function("() => studio.pages.playground.frame.step === 200")
        rest(page, VIEW)
        own = page.evaluate(f"() => ({PLACES})([{points.tolist()}, {VIEW}])")
        shown = colors_at(from_data_url(page.evaluate(f"() => ({CANVAS})({VIEW})")), np.array(own))
        scale = page.inner_text("#legend")
        png = read_image(taken(page, "PNG", tmp_path).read_bytes())
        svg, html = taken(page, "SVG", tmp_path), taken(page, "HTML", tmp_path)
        page.click("text=Python…")
        code = page.inner_text("dialog pre")
        size = page.evaluate(f"[{VIEW}.width, {VIEW}.height]")
        marks = page.evaluate(
            "async () => { const {markOf} = await import('/viewer/colors.js'); return [0, 1, 2].map(markOf) }"
        )
    assert len(np.unique(shown, axis=0)) >= (3 if color == "class" else 5)

    # PNG: the same pixels, and a legend below them
    assert png.height > size[1] + 20
    assert np.abs(colors_at(png, np.array(own)) - shown).max() <= 1
    legend = np.asarray(png.convert("L"))[int(size[1]) :]
    assert legend.std() > 5

    # SVG, drawn by the browser
    with opened(browser, svg, width=int(size[0]) + 1, height=png.height + 1) as page:
        drawn = read_image(page.screenshot())
        assert np.abs(colors_at(drawn, np.array(own)) - shown).max() <= 1
        words = page.evaluate("() => document.querySelector('.legend').textContent")
        assert "decision boundary" in words
        assert "data of class 2" in words
        corners = page.evaluate("() => [...document.querySelectorAll('.point')].map(point => point.points.length)")
        assert corners == [len(marks[label]) for label in trainer.y]

    # the page, opened by itself: the same coloring, data and window
    with opened(browser, html, width=int(size[0]), height=int(size[1])) as page:
        page.wait_for_selector("body[data-ready]")
        rest(page, "view")
        assert page.title() == "2 x 8 relu on blobs, step 200"
        assert page.evaluate("view.colored") == color
        assert page.evaluate("view.data.anchors.length") == 2 * recipe.count
        becomes(page, lambda: page.inner_text("#legend"), scale)
        there = np.array(page.evaluate(f"() => ({PLACES})([{points.tolist()}, view])"))
        assert np.abs(colors_at(from_data_url(page.evaluate(f"() => ({CANVAS})(view)")), there) - shown).max() <= 1

    # Python
    names = {}
    exec(compile(code.replace('"playground.png"', repr(str(tmp_path / "code.png"))), "playground", "exec"), names)
    ax = names["ax"]
    image = read_image((tmp_path / "code.png").read_bytes())
    at = ax.transData.transform(points)
    at[:, 1] = image.height - at[:, 1]
    assert np.abs(colors_at(image, at) - shown).max() <= (1 if color == "class" else 6)  # 256 colors, rounded elsewhere
    (dots,) = [each for each in ax.collections if len(each.get_offsets()) > 1]  # the data and no other dot
    assert len(dots.get_offsets()) == recipe.count
    for outline, label in zip(dots.get_paths(), trainer.y, strict=True):  # in the mark of its class
        assert 2 * outline.vertices[:-1] == pytest.approx(np.array(marks[label]))
