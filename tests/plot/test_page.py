"""The page, in a real browser: no errors, no requests, the right tile under the pointer, sharp at any zoom."""

import re

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.plot import _fewer, frame
from splinescope.tiling.measures.quantities import QUANTITIES
from tests.browser import PIXELS, becomes, colors, rest
from tests.studio.conftest import write_onnx

TO_CLIENT = """([x, y]) => { const box = view.overlay.getBoundingClientRect(), at = view.toScreen(x, y)
return [box.left + at[0], box.top + at[1]] }"""

TO_SLICE = """([x, y]) => { const box = view.overlay.getBoundingClientRect()
return view.toSlice(x - box.left, y - box.top) }"""


@pytest.fixture(scope="module")
def tiling():
    torch.manual_seed(5)
    net = nn.Sequential(nn.Linear(2, 12), nn.ReLU(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3, bias=False))
    return ss.tessellate(net, ss.Slice.through([-1.0, -1.0], [1.0, -0.8], [0.0, 1.0], pad=0.3))


AT_POINTER = """([x, y]) => { const box = view.overlay.getBoundingClientRect(), at = view.pointer
return at && Math.abs(box.left + at[0] - x) < 1 && Math.abs(box.top + at[1] - y) < 1 }"""


def hover(page, point):
    rest(page)
    place = page.evaluate(TO_CLIENT, list(map(float, point)))
    page.mouse.move(*place)
    page.wait_for_function(AT_POINTER, arg=place)


def shown(page, panel):
    """The rows of one of the page's lists, by name."""
    texts = page.locator(f"#{panel} > *").all_inner_texts()
    return dict(zip(texts[::2], texts[1::2], strict=True))


def test_hovering_shows_the_tile_at_every_depth_of_zoom(tiling, tmp_path, open_page):
    tiling.to_html(tmp_path / "page.html", title="A </script> & <b>title</b>")
    norms, areas, classes = tiling.slope_norms(), tiling.areas, tiling.classes()
    with open_page(tmp_path / "page.html") as page:
        assert page.inner_text("h1") == "A </script> & <b>title</b>"
        for tile in np.argsort(tiling.inradii())[-8:]:
            hover(page, tiling.centroids()[tile])
            rows = shown(page, "tile")
            assert rows["tile"] == str(tile)
            assert float(rows["slope norm ‖A‖₂"]) == pytest.approx(norms[tile], rel=1e-3)  # 5 digits of a float32
            assert float(rows["area"]) == pytest.approx(areas[tile], rel=1e-3)
            assert rows["class"] == str(classes[tile])
        page.mouse.move(1, 1)
        # around a corner where tiles meet, magnified 1e10 times: float32 alone would see nothing of this
        inner = tiling.walls.ends[tiling.walls.tiles[:, 1] >= 0].ravel().tolist()
        x, y = tiling.vertices[max(set(inner), key=inner.count)]
        page.evaluate("([x, y]) => view.lookAt(x, y, 200 * 1e10)", [float(x), float(y)])
        rest(page)
        seen = set()
        for angle in np.linspace(0, 2 * np.pi, 12, endpoint=False):
            point = np.array([x, y]) + 1e-10 * np.array([np.cos(angle), np.sin(angle)])
            hover(page, point)
            seen.add(int(shown(page, "tile")["tile"]))
        around = [np.array([x, y]) + 1e-10 * np.array([np.cos(a), np.sin(a)]) for a in np.linspace(0, 2 * np.pi, 200)]
        assert seen <= set(tiling.locate(around).tolist())
        assert len(seen) >= 3
        # in the middle of a long wall corners are 1e9 views away: in float32 it would be a picture's width off
        walls, ends = tiling.walls, tiling.vertices[tiling.walls.ends]
        along = ends[:, 1] - ends[:, 0]
        wall = int(np.argmax(np.linalg.norm(along, axis=1) * (walls.tiles[:, 1] >= 0)))
        middle, normal = ends[wall].mean(0), np.array([-along[wall, 1], along[wall, 0]]) / np.linalg.norm(along[wall])
        page.evaluate("([x, y]) => view.lookAt(x, y, 100 * 1e9)", middle.tolist())
        for side in (-1, 1):
            hover(page, middle + side * 1e-9 * normal)
            assert shown(page, "tile")["tile"] == str(tiling.locate((middle + side * 1e-6 * normal)[None])[0])


def test_a_page_is_named_after_its_model_and_needs_nothing_else(tmp_path):
    class Bent(nn.Sequential):
        pass

    view = ss.Slice.axes([0.0, 0.0], (0, 1), -1, 1)
    named = ss.tessellate(Bent(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)), view)
    named.to_html(tmp_path / "named.html")
    text = (tmp_path / "named.html").read_text()
    assert "<title>Bent</title>" in text
    assert not re.search(r"https?://|//cdn|src=|@import", re.sub(r'id="data">[^<]*<', "", text))  # of no other machine
    write_onnx(tmp_path / "a <b>.onnx", (2, 3, 2), seed=0)
    ss.tessellate(ss.load(tmp_path / "a <b>.onnx"), view).to_html(tmp_path / "file.html")
    assert "<title>a &lt;b&gt;</title>" in (tmp_path / "file.html").read_text()
    named.save(tmp_path / "tiling")
    ss.load_tiling(tmp_path / "tiling").to_html(tmp_path / "unknown.html")
    assert "<title>Tiling</title>" in (tmp_path / "unknown.html").read_text()


def test_max_tiles_is_a_whole_number_and_more_than_there_are_is_all(tiling, tmp_path):
    assert frame.tiling_frame(tiling, max_tiles=tiling.count)["rest"] is None
    for wrong in (0, -1, 2.5, "many"):
        with pytest.raises(ss.InputError, match="max_tiles"):
            tiling.to_html(tmp_path / "page.html", max_tiles=wrong)


def test_wheel_keys_drag_and_button_move_the_view(tiling, tmp_path, open_page):
    tiling.to_html(tmp_path / "page.html")
    with open_page(tmp_path / "page.html") as page:
        home = page.evaluate("[view.x, view.y, view.scale]")
        x, y = 200, 300  # whole pixels: what a mouse event carries
        page.mouse.move(x, y)
        point = page.evaluate(TO_SLICE, [x, y])
        page.mouse.wheel(0, -500)
        page.wait_for_function("scale => view.scale > 2 * scale", arg=home[2])
        assert page.evaluate(TO_CLIENT, point) == pytest.approx([x, y], abs=0.01)  # the point stays put
        page.mouse.down()
        page.mouse.move(x + 50, y + 20)
        page.mouse.up()
        becomes(page, lambda: page.evaluate(TO_CLIENT, point), pytest.approx([x + 50, y + 20], abs=0.01))
        page.keyboard.press("Tab")
        page.locator("#view canvas").last.focus()
        before = page.evaluate("view.x")
        page.keyboard.press("ArrowRight")
        page.wait_for_function("before => view.x > before", arg=before)
        page.click("#home")
        becomes(page, "[view.x, view.y, view.scale]", pytest.approx(home))


def test_every_color_choice_paints_the_tiles_in_its_colors(tiling, tmp_path, open_page):
    tiling.to_html(tmp_path / "page.html", color="class")
    point = tiling.centroids()[np.argmax(tiling.inradii())]
    with open_page(tmp_path / "page.html") as page:
        colors = {}
        page.uncheck("#boundary")
        for name in page.eval_on_selector_all("#color option", "options => options.map(o => o.value)"):
            page.select_option("#color", name)
            rest(page)
            colors[name] = pixel(page, point)
        assert next(iter(colors)) == "class"
        assert set(colors) == {*QUANTITIES, "folds"}
        assert len(set(colors.values())) >= 4
        assert page.inner_text("#legend").startswith("depth of the fold")
        first = re.search(r"rgb\((\d+), (\d+), (\d+)", page.eval_on_selector("#bar", "bar => bar.style.background"))
        assert max(map(int, first.groups())) > 120  # seen on the dark ground


def test_pages_refuse_lines_and_unknown_colors(tiling, tmp_path):
    line = ss.tessellate(tiling.network, ss.Slice.segment([-2.0, 0.0], [2.0, 1.0]))
    with pytest.raises(ss.InputError, match=r"a page shows 2-D and 3-D tilings, got a 1-D one: tiling.plot\(\)"):
        line.to_html(tmp_path / "line.html")
    with pytest.raises(ss.InputError, match="must be one of 'slope'"):
        tiling.to_html(tmp_path / "odd.html", color="flavour")
    assert list(tmp_path.iterdir()) == []


def pixel(page, point):
    """The color at a point of the slice."""
    x, y = page.evaluate("at => view.toScreen(...at).map(v => v * view.ratio)", list(map(float, point)))
    return tuple(pixels(page, x, y, 1, 1)[0])


def pixels(page, x, y, width, height):
    """`[pixels, 3]` colors of a part of the picture."""
    drawn = page.evaluate(f"box => ({PIXELS})(view.canvas, box)", [x, y, width, height])
    return colors(drawn)[:, :3]


@pytest.fixture(scope="module")
def dense():
    """Some twenty thousand tiles: hundreds for every ten pixels of a phone's width."""
    torch.manual_seed(0)
    layers = [nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)]
    return ss.tessellate(nn.Sequential(*layers), ss.Slice.axes([0.0, 0.0], (0, 1), -4, 4))


def test_tiles_below_a_pixel_are_drawn_as_the_mean_of_their_colors_and_leave_no_gap(dense, tmp_path, open_page):
    dense.to_html(tmp_path / "page.html", color="class")
    low, high = dense.view.domain.min(0), dense.view.domain.max(0)
    with open_page(tmp_path / "page.html", width=700, height=500) as page:
        page.uncheck("#folds")
        page.uncheck("#boundary")
        page.evaluate("view.lookAt(0, 0, 6)")  # the domain is 48 pixels wide: most tiles are dust
        rest(page)
        dust = page.evaluate("view.mesh.dust.length")
        assert dust > 0.5 * dense.count
        middle = page.evaluate("[(view.canvas.width - 40) / 2, (view.canvas.height - 40) / 2]")
        mean = pixels(page, *middle, 40, 40).mean(0)
        side = 40 / 6 / 2  # half of the square that was read, in slice coordinates
        points = np.random.default_rng(0).uniform(-side, side, (20_000, 2))
        assert (points > low).all()
        assert (points < high).all()
        colors = np.array([[0x88, 0xCC, 0xEE], [0xCC, 0x66, 0x77]])[dense.classes()[dense.locate(points)]]
        assert mean == pytest.approx(colors.mean(0), abs=4)  # of 255: the square's rim is in or out by half a cell
        hover(page, [0.3, 0.2])  # dust is looked up like any tile
        pointed = page.evaluate("view.toSlice(...view.pointer)")
        assert int(shown(page, "tile")["tile"]) == dense.locate([pointed])[0]
        # a tile of under two pixels may reach four cells of the raster, and be all that lies there beside polygons
        ground = 255 * np.array(page.evaluate("[...view.ground]"))
        for scale in (12, 25, 50):
            page.evaluate(f"view.lookAt(0, 0, {scale})")
            rest(page)
            assert page.evaluate("view.mesh.dust.length") > 0.05 * dense.count
            side = int(min(8 * scale - 4, 300))
            middle = page.evaluate(f"[(view.canvas.width - {side}) / 2, (view.canvas.height - {side}) / 2]")
            assert (np.abs(pixels(page, *map(int, middle), side, side) - ground).max(-1) > 3).all(), scale
        page.evaluate("view.lookAt(0, 0, 4000)")  # and is drawn one by one from near
        rest(page)
        assert page.evaluate("view.mesh.dust.length") < 0.1 * dense.count


def test_a_page_of_too_many_tiles_has_the_largest_and_says_what_stands_for_the_others(
    dense, tmp_path, open_page, monkeypatch
):
    most, cells = dense.count // 20, 40
    monkeypatch.setattr(frame, "MOST_TILES", most)
    monkeypatch.setattr(_fewer, "CELLS", cells)
    drawn = frame.tiling_frame(dense, color="area")
    numbers, rest_of = drawn["numbers"], drawn["rest"]
    reach = np.array([np.ptp(dense.tile(i), axis=0).max() for i in range(dense.count)])
    left = np.setdiff1d(np.arange(dense.count), numbers)
    assert most <= len(numbers) <= most + cells**2
    assert rest_of["count"] == len(left) == dense.count - len(numbers)
    assert np.sort(reach)[-most:].min() >= reach[left].max()  # whatever reaches further is there
    # a tile that is left out lies in a cell that has one, which is no smaller
    cell = np.floor((dense.vertices[dense.tiles.corners] + 4) * cells / 8).astype(int)
    first, last = (f(cell, dense.tiles.offsets[:-1]) for f in (np.minimum.reduceat, np.maximum.reduceat))
    within = left[(first[left] == last[left]).all(1)]
    shown_there = numbers[rest_of["tiles"].reshape(cells, cells)[first[within, 1], first[within, 0]]]
    assert len(within) > 5000
    assert (dense.areas[shown_there] >= dense.areas[within]).all()
    areas = drawn["quantities"][0]["values"]
    assert areas == pytest.approx(dense.areas[numbers], rel=1e-6)
    dense.to_html(tmp_path / "page.html", color="class")
    with open_page(tmp_path / "page.html", width=900, height=700) as page:
        page.uncheck("#folds")
        assert shown(page, "notes")["tiles"] == f"{dense.count:,}"
        assert shown(page, "notes")["shown"].startswith(f"{len(numbers):,} tiles, ")
        ground = 255 * np.array(page.evaluate("[...view.ground]"))
        for scale in (25, 400):  # with and without dust among those that are there
            page.evaluate(f"view.lookAt(0, 0, {scale})")
            rest(page)
            side = int(min(8 * scale - 4, 480))
            middle = page.evaluate(f"[(view.canvas.width - {side}) / 2, (view.canvas.height - {side}) / 2]")
            assert (np.abs(pixels(page, *map(int, middle), side, side) - ground).max(-1) > 3).all(), scale
        page.evaluate("view.lookAt(0, 0, 400)")
        near = np.abs(dense.centroids()).max(1) < 0.4
        for tiles, words in ((numbers, None), (left, f"one of {len(left):,} that are too small for this page")):
            tile = max(tiles[near[tiles]], key=lambda i: dense.inradii()[i])
            hover(page, dense.centroids()[tile])
            assert shown(page, "tile")["tile"] == (words or str(tile))


def test_classes_change_at_the_boundary_not_at_the_tile(tiling, tmp_path, open_page):
    """A tile that the boundary splits has two: its color and what is told at the pointer follow its outputs there."""
    tiling.to_html(tmp_path / "page.html", color="class")
    ends = tiling.decision_boundary().segments
    segment = ends[np.argmax(np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1))]
    along = (segment[1] - segment[0]) / np.linalg.norm(segment[1] - segment[0])
    told = {}
    with open_page(tmp_path / "page.html") as page:
        page.uncheck("#folds")
        rest(page)
        for side in (-1, 1):
            point = segment.mean(0) + side * 4 / page.evaluate("view.scale") * np.array([-along[1], along[0]])
            table = [(0x88, 0xCC, 0xEE), (0xCC, 0x66, 0x77), (0xDD, 0xCC, 0x77)]
            assert pixel(page, point) == table[int(np.argmax(tiling.outputs(point[None])[0]))]
            hover(page, point)
            rows = shown(page, "tile")
            assert rows["class"] == str(int(np.argmax([float(rows[f"output {i} here"]) for i in range(3)])))
            told[rows["class"]] = rows["tile"]
    assert len(told) == 2
    assert len(set(told.values())) == 1
