"""The page of a 3-D tiling, in a real browser: exact sections and level sets, the right cell under the pointer."""

import re

import numpy as np
import pytest
import torch
from scipy.spatial import ConvexHull
from torch import nn

import splinescope as ss
from splinescope.plot.solid_frame import solid_frame
from splinescope.tiling.measures.quantities import available
from tests.browser import becomes, expect, rest

AREAS = """heights => { // of the polygons where heights are zero, in slice units, by tile
const found = view.solid.zeros(heights()), {unit} = view.solid, sizes = []
found.tiles.forEach((tile, f) => {
  const at = i => [0, 1, 2].map(k => found.position[3 * i + k] * unit[k]), a = at(found.offsets[f]), sum = [0, 0, 0]
  for (let i = found.offsets[f] + 1; i + 1 < found.offsets[f + 1]; i++) {
    const b = at(i).map((v, k) => v - a[k]), c = at(i + 1).map((v, k) => v - a[k])
    for (const k of [0, 1, 2]) sum[k] += (b[(k + 1) % 3] * c[(k + 2) % 3] - b[(k + 2) % 3] * c[(k + 1) % 3]) / 2
  }
  sizes.push([tile, Math.hypot(...sum)])
})
return sizes }"""
PIXEL = """([x, y]) => { const gl = view.painter.gl, pixel = new Uint8Array(4)
gl.readPixels(x * view.ratio, view.canvas.height - y * view.ratio, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, pixel)
return [...pixel.slice(0, 3)] }"""
DRAWN = """([tile, t]) => view.camera.toScreen(
view.solid.fromSlice(t).map((v, k) => v + view.pull * view.solid.centers[3 * tile + k])).slice(0, 2)"""
CLASS_COLORS = [[0x88, 0xCC, 0xEE], [0xCC, 0x66, 0x77], [0xDD, 0xCC, 0x77]]


@pytest.fixture(scope="module")
def tiling():
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(3, 10), nn.ReLU(), nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 3)).double()
    return ss.tessellate(net, ss.Slice.axes(np.zeros(3), (0, 1, 2), [-2, -2, -1], 2))


@pytest.fixture(scope="module")
def file(tiling, tmp_path_factory):
    path = tmp_path_factory.mktemp("space") / "page.html"
    points = np.random.default_rng(0).uniform(-1, 1, (6, 3))
    tiling.to_html(path, title="A </script> <b>title</b>", color="class", x=points, y=np.arange(6) % 3)
    return path


def shown(page, panel):
    texts = page.locator(f"#{panel} > *").all_inner_texts()
    return dict(zip(texts[::2], texts[1::2], strict=True))


def by_tile(count, pairs):
    sizes = np.zeros(count)
    for tile, size in pairs:
        sizes[int(tile)] += size
    return sizes


def areas_on(tiling, normal, through):
    """What a plane cuts out of each cell: the hull of where it meets segments between corners."""
    basis = np.linalg.svd(normal[None])[2][1:]
    areas = np.zeros(tiling.count)
    for i in range(tiling.count):
        corners = tiling.tile(i) - through
        height = corners @ normal
        above, below = np.flatnonzero(height > 1e-12), np.flatnonzero(height < -1e-12)
        p, q = np.repeat(above, len(below)), np.tile(below, len(above))
        share = (height[p] / (height[p] - height[q]))[:, None]
        met = [corners[p] + share * (corners[q] - corners[p]), corners[np.abs(height) <= 1e-12]]
        points = np.concatenate(met) @ basis.T
        if len(above) and len(below):
            areas[i] = ConvexHull(points).volume
    return areas


def test_the_section_and_the_level_set_are_those_of_the_tiling(tiling, file, open_page):
    with open_page(file) as page:
        corner = tiling.vertices[40]
        for normal, through in (([1, 2, -0.5], [0.3, 0.1, 0]), ([0, -1, 0], [0, 0, 0]), ([1, 1, 1], corner)):
            page.evaluate(
                """([n, p]) => { const scaled = n.map((v, k) => v * view.solid.unit[k]), at = view.solid.fromSlice(p)
                const height = scaled[0] * at[0] + scaled[1] * at[1] + scaled[2] * at[2]
                view.setPlane(scaled, height / Math.hypot(...scaled)) }""",
                [list(map(float, normal)), list(map(float, through))],
            )
            drawn = by_tile(tiling.count, page.evaluate(f"({AREAS})(() => view.solid.heightsOver(view.plane))"))
            assert drawn == pytest.approx(areas_on(tiling, np.array(normal), np.array(through)), abs=1e-10)
        level = float(np.median(tiling.values[:, 1]))
        mesh = tiling.level_set(level, output=1)
        drawn = by_tile(tiling.count, page.evaluate(f"({AREAS})(() => view.solid.heightsOf(1, {level!r}))"))
        assert len(mesh) > 10
        assert drawn == pytest.approx(by_tile(tiling.count, zip(mesh.tiles, mesh.areas, strict=True)), abs=1e-10)


@pytest.mark.parametrize("pull", [0.0, 0.7])
def test_the_cell_under_the_pointer_is_told_with_its_map(tiling, file, open_page, pull):
    with open_page(file) as page:
        page.evaluate(f"view.setPull({pull}), view.setPlane([0.4, -1, 0.3], 0.1)")
        rest(page)
        a, limit = np.split(np.array(page.evaluate("view.planeInSlice()")), [3])
        box = page.evaluate("(r => [r.left, r.top, r.width, r.height])(view.overlay.getBoundingClientRect())")
        tiles = set()
        for x, y in np.random.default_rng(3).uniform(0.3, 0.7, (25, 2)):
            page.mouse.move(box[0] + round(x * box[2]), box[1] + round(y * box[3]))
            rest(page)  # what is under the pointer is told before it is drawn
            rows = shown(page, "tile")
            if rows["cell"] == "none":
                continue
            tile, point = int(rows["cell"]), np.array([float(rows[f"at t{k}"]) for k in "₁₂₃"])
            assert page.evaluate(DRAWN, [tile, point.tolist()]) == pytest.approx(
                [round(x * box[2]), round(y * box[3])], abs=0.5
            )  # the place that is told, where its cell is drawn, is the one under the pointer
            inside = point + 1e-4 * (tiling.centroids()[tile] - point)  # places are told to 5 digits
            assert tiling.locate(inside[None])[0] == tile
            room = np.append(tiling.view.hull.offsets - tiling.view.hull.normals @ point, limit - a @ point)
            if pull == 0:
                assert abs(room.min()) < 1e-4  # cells that touch hide all but the outside and the section
            assert room.min() > -1e-4
            assert float(rows["volume"]) == pytest.approx(tiling.areas[tile], rel=1e-3)
            line = page.locator("#map > div").first.inner_text()
            found = re.findall(r"[+−-]? ?\d[\d.e-]*", line)
            numbers = [float(v.replace("−", "-").replace(" ", "").lstrip("+")) for v in found]
            assert numbers[1:4] == pytest.approx(tiling.slopes()[tile, 0], rel=1e-3, abs=1e-6)
            assert numbers[-1] == pytest.approx(tiling.outputs(point[None])[0, 0], abs=1e-3)
            tiles.add(tile)
        assert len(tiles) > 5


def test_classes_change_at_the_boundary_within_the_section(tiling, file, open_page):
    with open_page(file) as page:
        for box in ("#folds", "#boundary", "#points"):
            page.uncheck(box)
        page.evaluate("view.hover(-1, -1)")
        rest(page)
        seen = set()
        for x, z in np.random.default_rng(0).uniform(-0.9, 0.9, (60, 2)):
            point = np.array([2 * x, 0.0, 1.4 * z + 0.5])
            outputs = np.sort(tiling.outputs(point[None])[0])
            at = page.evaluate("t => view.toScreen(t).slice(0, 2)", point.tolist())
            handles = page.evaluate("(h => [h.middle, h.tip])(view.handles())")
            if outputs[-1] - outputs[-2] < 0.01 or min(np.hypot(*(np.array(at) - h)) for h in handles) < 12:
                continue
            best = int(tiling.outputs(point[None])[0].argmax())
            assert page.evaluate(PIXEL, at) == CLASS_COLORS[best]
            seen.add(best)
        assert len(seen) > 1


def test_mouse_keys_and_controls_move_camera_plane_and_cells(file, open_page):
    with open_page(file) as page:
        assert page.inner_text("h1") == "A </script> <b>title</b>"
        assert page.eval_on_selector_all("#color option", "all => all.map(o => o.value)")[0] == "class"
        rest(page)
        left, top = page.evaluate("(r => [r.left, r.top])(view.overlay.getBoundingClientRect())")
        middle, tip = page.evaluate("(h => [h.middle, h.tip])(view.handles())")
        page.mouse.move(left + middle[0], top + middle[1])
        page.mouse.down()
        page.mouse.move(left + tip[0], top + tip[1])
        page.mouse.up()
        becomes(page, "view.plane.offset", pytest.approx(0.45, abs=0.02))  # the arrow's length
        tip = page.evaluate("view.handles().tip")
        page.mouse.move(left + tip[0], top + tip[1])
        page.mouse.down()
        page.mouse.move(left + tip[0] + 40, top + tip[1] - 30)
        page.mouse.up()
        page.wait_for_function("() => Math.abs(view.plane.normal[0]) > 0.05 || Math.abs(view.plane.normal[2]) > 0.05")
        assert np.linalg.norm(page.evaluate("view.plane.normal")) == pytest.approx(1)
        turn, distance = page.evaluate("[view.camera.turn, view.camera.distance]")
        page.mouse.move(left + 30, top + 30)
        page.mouse.down()
        page.mouse.move(left + 90, top + 30)
        page.mouse.up()
        becomes(page, "view.camera.turn", pytest.approx(turn - 0.008 * 60))
        page.mouse.wheel(0, -300)
        page.wait_for_function("distance => view.camera.distance < distance", arg=distance)
        page.locator("#view canvas").last.focus()
        for key, state in {"z": "plane.normal[2] === 1", "PageUp": "plane.offset > 0", "p": "pull > 0"}.items():
            page.keyboard.press(key)
            page.wait_for_function(f"() => view.{state}")
        page.click("#home")
        becomes(page, "view.camera.distance", distance)
        assert shown(page, "drawn") == {"cells drawn": "all"}
        page.evaluate("view.most = 20, view.setPull(0.5)")
        assert re.fullmatch(r"the largest 20, [\d.]+% of the volume", shown(page, "drawn")["cells drawn"])
        page.check("#level")
        page.wait_for_function("() => view.painter.batches.level?.polygons > 0")


def test_the_page_fits_a_phone_and_takes_the_dark(file, open_page):
    with open_page(file, width=390, height=844, color_scheme="dark", has_touch=True, is_mobile=True) as page:
        rest(page)
        page.touchscreen.tap(195, 330)
        expect(page.locator("#tile dd").first).not_to_have_text("none")
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        assert page.eval_on_selector("aside", "aside => aside.scrollWidth <= aside.clientWidth")
        rest(page)
        assert max(page.evaluate(PIXEL, [3, 3])) < 40


LABELS = """(turn, tilt) => { // left, top, right, bottom of the words at the axes, seen from one side
  const pen = view.overlay.getContext("2d"), boxes = [], half = words => pen.measureText(words).width / 2
  const fillText = (words, x, y) => boxes.push([x - half(words), y - 10, x + half(words), y + 2])
  Object.assign(view.camera, {turn, tilt})
  view.drawAxes({set font(name) { pen.font = name }, measureText: words => pen.measureText(words), fillText})
  return boxes }"""


def test_of_too_many_cells_the_largest_are_sent_and_the_page_says_so(tiling, tmp_path, open_page):
    everything, some = solid_frame(tiling), solid_frame(tiling, max_tiles=30)
    assert everything["numbers"] is None
    assert [q["name"] for q in everything["quantities"]] == available(tiling)
    assert sorted(some["numbers"]) == sorted(np.argsort(tiling.areas)[-30:])
    share = np.sort(tiling.areas)[-30:].sum() / tiling.areas.sum()
    assert dict(some["notes"])["shown"] == f"the largest 30, {share:.4%} of the volume"
    tiling.to_html(tmp_path / "some.html", max_tiles=30)
    with open_page(tmp_path / "some.html") as page:
        page.evaluate("view.setPull(1)")
        rest(page)
        drawn = page.evaluate("view.painter.batches.apart.polygons")
        assert drawn == np.isin(tiling.walls.tiles, some["numbers"]).sum()
