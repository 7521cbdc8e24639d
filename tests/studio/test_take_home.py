"""What a reader takes home opens again and says the same; lecture pages show the picture alone."""

import numpy as np
import pytest
from PIL import Image

import splinescope as ss
from splinescope.studio.recipe import Recipe
from splinescope.studio.trainer import Trainer
from tests.browser import expect
from tests.studio.conftest import DRAWN


def taken(page, name, folder, of="playground"):
    with page.expect_download() as download:
        page.click(f"#home-{of} button:has-text('{name}')")
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def test_files_hold_the_tiling_that_is_shown(studio, tmp_path):
    with studio("#width=6&depth=2&seed=2&color=slope") as page:
        page.wait_for_function(DRAWN)
        tiling = Trainer(Recipe(width=6, depth=2, seed=2)).tile()
        saved = ss.load_tiling(taken(page, "Tiling file", tmp_path))
        assert np.array_equal(saved.vertices, tiling.vertices)
        table = np.genfromtxt(taken(page, "CSV", tmp_path), delimiter=",", names=True)
        assert len(table) == tiling.count
        assert table["slope"] == pytest.approx(tiling.slope_norms(), rel=1e-5)
        drawing = taken(page, "SVG", tmp_path).read_text()
        assert drawing.partition('class="tiles">')[2].partition("</g>")[0].count("<polygon") == tiling.count


def test_a_space_is_taken_home_too(studio, shelf, tmp_path):
    space = ss.tessellate(ss.load(shelf / "solid.onnx"), ss.Slice.axes([0.0, 0.0, 0.0], (0, 1, 2), -1, 1))
    with studio("#view=microscope&kind=space&file=solid.onnx") as page:
        page.wait_for_function("() => studio.pages.microscope?.space.view")
        saved = ss.load_tiling(taken(page, "Tiling file", tmp_path, of="space"))
        assert np.array_equal(saved.vertices, space.vertices)
        picture = np.asarray(Image.open(taken(page, "PNG", tmp_path, of="space")).convert("RGB"))
        assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 20  # cells in colors, not an empty canvas
        page.click("#home-space >> text=Python…")
        page.wait_for_selector("dialog pre:has-text('(0, 1, 2)')")


def test_the_studio_is_named_for_those_who_hear_it(studio):
    with studio("#width=4&depth=1") as page:
        page.wait_for_function(DRAWN)
        nameless = page.evaluate(
            """() => [...document.querySelectorAll("#playground :is(button, input, select, canvas[tabindex])")]
            .filter(each => each.checkVisibility() && !each.ariaLabel && !each.getAttribute("aria-label") && !each.title
              && !each.textContent.trim() && !each.labels?.length).map(each => each.outerHTML)"""
        )
        assert nameless == []
        page.keyboard.press("Tab")
        page.wait_for_function("() => document.activeElement.className === 'brand'")
        page.locator("#tiles canvas").last.focus()
        before = page.evaluate("studio.pages.playground.view.scale")
        page.keyboard.press("+")
        page.wait_for_function("before => studio.pages.playground.view.scale > before", arg=before)
        expect(page.locator("#tile dd").first).not_to_have_text("none")  # what is in the middle is told
