"""The microscope in a real browser: files, slices, zoom, time and two networks side by side."""

import json
import re

import httpx
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import splinescope as ss
from tests.browser import PATIENCE, becomes, expect, rest

TILED = "n => studio.pages.microscope?.tiled >= n"
STATE = """pane => { const p = studio.pages.microscope.panes[pane], f = p.frame
return {count: f.offsets.length - 1, domain: f.domain, window: f.window,
  x: p.view.x, y: p.view.y, scale: p.view.scale} }"""
TO_CLIENT = """([x, y]) => { const v = studio.pages.microscope.panes.a.view, box = v.overlay.getBoundingClientRect()
const at = v.toScreen(x, y)
return [box.left + at[0], box.top + at[1]] }"""
AMID = """() => { const a = studio.pages.microscope.panes.a.frame.anchors
return [0, 1].map(k => (a[k] + a[2 + k] + a[4 + k]) / 3) }"""
PIXELS = """() => [...document.getElementById("input").getContext("2d").getImageData(0, 0, 4, 4).data]
.filter((_, i) => i % 4 === 0)"""
PLACE = """() => { const v = studio.pages.microscope.panes.a.view
return [v.x, v.y, v.scale * 0.5 / Math.min(v.width, v.height), v.show.boundary] }"""
FIELDS = ("#axis-x", "#axis-y", "#low", "#high")
AXES = "#view=microscope&kind=axes&low=-2&high=2&file="


def tiled(page, times=1):
    """What is shown, once so many tilings have come."""
    page.wait_for_function(TILED, arg=times)
    return page.evaluate(STATE, "a")


def on_screen(page, place):
    rest(page, "studio.pages.microscope.panes.a.view")
    return page.evaluate(TO_CLIENT, list(map(float, place)))


def in_address(page, part):
    page.wait_for_function("part => location.hash.includes(part)", arg=part)


def test_a_network_is_tiled_and_zooming_tiles_the_window_anew(studio, shelf):
    network = ss.load(shelf / "first.onnx")
    whole = ss.tessellate(network, ss.Slice.axes([0.0, 0.0], (0, 1), -2, 2))
    with studio(AXES + "first.onnx") as page:
        assert tiled(page)["count"] == whole.count
        page.evaluate("studio.pages.microscope.panes.a.view.lookAt(0.3, -0.4, 3000)")
        seen = tiled(page, 2)
        assert seen["window"]
        window = np.array(seen["domain"]).reshape(-1, 2)
        assert np.ptp(window, axis=0).max() < 1
        view = ss.Slice(whole.view.origin, whole.view.basis, window)
        assert seen["count"] == ss.tessellate(network, view).count
        page.click("#lens-home")  # and the whole again
        assert tiled(page, 3)["count"] == whole.count
        # another plane through the point that was clicked
        page.mouse.click(*on_screen(page, [0.5, 0.5]))
        page.click("text=A random plane through this point")
        tiled(page, 4)
        in_address(page, "at=")


def test_hover_and_click_tell_the_map_and_the_units_of_the_walls(studio, shelf):
    tiling = ss.tessellate(ss.load(shelf / "first.onnx"), ss.Slice.axes([0.0, 0.0], (0, 1), -2, 2))
    tile = int(np.argmax(tiling.inradii()))
    with studio(AXES + "first.onnx") as page:
        tiled(page)
        page.mouse.click(*on_screen(page, tiling.centroids()[tile]))
        expect(page.locator("#lens-tile dd").first).to_have_text(str(tile))
        page.wait_for_selector("#details table")
        cells = page.locator("#details tr").nth(1).locator("td").all_inner_texts()
        slope, offset = tiling.slopes([tile])[0], tiling.offsets([tile])[0]
        assert [float(cell) for cell in cells[1:]] == pytest.approx([*slope[0], offset[0]], rel=1e-3)
        labels = tiling.corner_labels[slice(*tiling.tiles.offsets[tile : tile + 2])]
        told = re.findall(r"site (\d) \S+ relu, units? ([\d, ]+)", page.inner_text("#details"))
        walls = {16 * int(site) + int(unit) for site, units in told for unit in units.split(",")}
        assert walls == set(labels[labels >= 0].tolist())
        norm = float(tiling.input_slope_norms([tile])[0])
        assert f"{norm:.5g}"[:5] in page.inner_text("#details")
        page.click("#entries button:has-text('second.onnx')")  # what was told of one network is not left beside another
        tiled(page, 2)
        expect(page.locator("#details")).to_have_text("")


def test_a_picture_of_another_network_is_covered(studio):
    with studio(AXES + "first.onnx") as page:
        before = tiled(page)["count"]
        page.mouse.move(*on_screen(page, [0.5, 0.5]))
        expect(page.locator("#lens-tile dd").first).not_to_have_text("none")
        page.select_option("#slice-kind", "random")
        page.fill("#half", "60")
        page.click("#entries button:has-text('large.onnx')")
        expect(page.locator("#cover-a")).to_have_text("Tiling large.onnx…")
        expect(page.locator("#lens-tile dd").first).to_have_text("none")
        page.mouse.move(*on_screen(page, [0.4, 0.5]))
        page.wait_for_function("() => document.getElementById('busy-text').textContent.includes('tiles')")
        page.click("#cancel")
        page.wait_for_function("() => document.getElementById('busy').hidden")
        expect(page.locator("#message")).to_be_hidden()
        assert page.evaluate(STATE, "a")["count"] == before
        expect(page.locator("#cover-a")).to_have_text("large.onnx is not tiled on this slice.")
        expect(page.locator("#lens-tile dd").first).to_have_text("none")  # the pointer is over the cover
        page.click("#entries button:has-text('broken.onnx')")
        expect(page.locator("#cover-a")).to_have_text("broken.onnx could not be opened.")
        page.select_option("#slice-kind", "axes")
        page.click("#entries button:has-text('first.onnx')")
        tiled(page, 2)
        expect(page.locator("#cover-a")).to_be_hidden()
        page.click("#entries button:has-text('broken.onnx')")  # nothing was chosen instead: the picture is still right
        expect(page.locator("#message")).to_contain_text("broken.onnx")
        expect(page.locator("#cover-a")).to_be_hidden()


def test_rows_are_named_and_one_that_is_not_there_is_refused(studio, shelf):
    with studio("#view=microscope&kind=through&file=first.onnx") as page:
        tiled(page)
        expect(page.locator("#chosen")).to_have_text("12 rows of points.npy; classes: points.labels.npy")
        first = [int(row) for row in page.input_value("#rows").split(",")]
        labels = np.load(shelf / "points.labels.npy")
        assert len(set(labels[first].tolist())) == 2  # one of each class there is
        page.fill("#rows", "3, 5, 11")
        page.click("#run")
        tiled(page, 2)
        in_address(page, "rows=3,5,11")
        for wrong, named in (("0, 1, 99", "got 99."), ("0, x, 2", "got 'x'.")):
            page.fill("#rows", wrong)
            page.click("#run")
            expect(page.locator("#message")).to_contain_text(f"row must be a whole number from 0 to 11, {named}")
        expect(page.locator("#cover-a")).to_be_visible()


def test_two_networks_are_looked_at_through_linked_views(studio, shelf):
    with studio(AXES + "first.onnx&beside=second.onnx") as page:
        tiled(page, 2)
        other = ss.tessellate(ss.load(shelf / "second.onnx"), ss.Slice.axes([0.0, 0.0], (0, 1), -2, 2))
        assert page.evaluate(STATE, "b")["count"] == other.count
        first = ss.tessellate(ss.load(shelf / "first.onnx"), other.view)
        low, high = np.transpose([tiling.quantity("slope").limits for tiling in (first, other)])
        scales = "['a', 'b'].map(name => studio.pages.microscope.panes[name].view.quantity).map(q => [q.low, q.high])"
        becomes(page, scales, [pytest.approx([low.min(), high.max()])] * 2)  # one legend stands for both
        page.locator("#pane-a canvas").last.focus()
        before = page.evaluate(STATE, "a")
        page.keyboard.press("+")
        page.keyboard.press("ArrowRight")
        both = "studio.pages.microscope.panes"
        page.wait_for_function(
            f"before => {both}.a.view.x > before.x && {both}.a.view.scale > before.scale", arg=before
        )
        a, b = page.evaluate(f"[{both}.a, {both}.b].map(({{view}}) => [view.x, view.y, view.scale])")
        assert a == b


def test_a_network_that_cannot_be_opened_beside_another_is_told(studio):
    with studio(AXES + "first.onnx") as page:
        tiled(page)
        page.select_option("#beside", "broken.onnx")
        tiled(page, 2)
        expect(page.locator("#cover-b")).to_have_text("broken.onnx could not be opened.")
        expect(page.locator("#message")).to_contain_text("broken.onnx")
        expect(page.locator("#cover-a")).to_be_hidden()


def test_the_slider_shows_the_tiling_of_each_checkpoint(studio, shelf):
    with studio(AXES + "run") as page:
        tiled(page)
        page.click("#follow")
        page.wait_for_function("() => studio.pages.microscope.story")
        for index, step in enumerate((0, 10, 20)):
            page.locator("#moment").fill(str(index))
            page.wait_for_function("s => document.getElementById('moment-text').textContent === s", arg=f"step {step}")
            page.wait_for_function("() => !studio.pages.microscope.fetching")
            net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
            net.load_state_dict(load_file(shelf / "run" / f"step-{step}.safetensors"))
            expected = ss.tessellate(net.eval(), ss.Slice.axes([0.0, 0.0], (0, 1), -2, 2)).count
            assert page.evaluate(STATE, "a")["count"] == expected
        expect(page.locator("#lens-curves canvas").nth(1)).to_be_visible()
        x = torch.from_numpy(np.load(shelf / "points.npy")).float()
        right = (net(x).argmax(1).numpy() == np.load(shelf / "points.labels.npy")).mean()
        told = page.locator("#lens-curves .curve:has(b:text-is('accuracy')) .values")
        expect(told).not_to_have_text("")
        assert float(told.inner_text()) == pytest.approx(right, abs=1e-3)  # beside the picture, at the last checkpoint


def test_an_nnet_file_opens_where_its_inputs_lie(studio, shelf):
    """On two axes of like length, about the middle of the others, each from and to as the file has it."""
    network = ss.load(shelf / "ranges.nnet")
    whole = ss.tessellate(network, ss.Slice.axes([500.0, 0.0, 2.0], (1, 2), [-3, 0], [3, 4]))
    assert whole.count > 1
    with studio("#view=microscope&kind=axes&file=ranges.nnet") as page:
        seen = tiled(page)
        assert np.array_equal(np.reshape(seen["domain"], (-1, 2)), whole.view.domain)
        assert seen["count"] == whole.count
        assert [page.input_value(name) for name in FIELDS] == ["1", "2", "-3, 0", "3, 4"]
        expect(page.locator("#message")).to_be_hidden()
        link = page.evaluate("location.hash")
        page.fill("#axis-x", "0")
        page.click("#run")  # to scale this is a line, and the page says why
        page.wait_for_selector("#message:has-text('one axis is 250 times as long')")
        assert [page.input_value(name) for name in FIELDS] == ["0", "2", "0", "1000, 4"]
        page.click("#entries button:has-text('solid.onnx')")  # which says nothing of the kind
        tiled(page, 3)
        assert [page.input_value(name) for name in FIELDS] == ["0", "1", "-1", "1"]
        page.fill("#low", "nought")
        page.click("#run")
        page.wait_for_selector("#message:has-text('from and to must be numbers')")
    with studio(link) as page:
        assert tiled(page)["count"] == whole.count


def test_three_axes_are_seen_in_space_and_a_plane_again(studio, shelf):
    network = ss.load(shelf / "solid.onnx")
    space = ss.tessellate(network, ss.Slice.axes([0.0, 0.0, 0.0], (0, 1, 2), -1, 1))
    with studio("#view=microscope&kind=space&low=-1&high=1&file=solid.onnx") as page:
        page.wait_for_function("() => studio.pages.microscope?.space.view")
        assert page.evaluate("studio.pages.microscope.space.view.count") == space.count
        expect(page.locator("#space canvas").first).to_be_visible()
        in_address(page, "z=2")
        page.select_option("#slice-kind", "axes")
        page.click("#run")
        plane = ss.tessellate(network, ss.Slice.axes([0.0, 0.0, 0.0], (0, 1), -1, 1))
        assert tiled(page, 2)["count"] == plane.count
        expect(page.locator("#space")).to_be_hidden()


def test_bad_files_give_a_message_and_names_are_text(studio, shelf, tmp_path):
    with studio("#view=microscope&file=broken.onnx", expect=("400 (Bad Request)",)) as page:
        expect(page.locator("#message")).to_contain_text("broken.onnx")
        page.click("#entries button:has-text('onerror')")  # the name of a file, shown as it is
        tiled(page)
        assert page.locator("#entries img, #about img").count() == 0
        expect(page.locator("#message")).to_be_hidden()
        junk = tmp_path / "junk.nnet"
        junk.write_text("no numbers here\n")
        page.set_input_files("#file", junk)
        expect(page.locator("#message")).to_contain_text("upload/junk.nnet")
        expect(page.locator("#entries button:has-text('junk')")).to_have_count(0)  # what cannot be read is not kept
        good = tmp_path / "mine.onnx"
        good.write_bytes((shelf / "second.onnx").read_bytes())
        page.set_input_files("#file", good)
        tiled(page, 2)
        expect(page.locator("#entries button[aria-pressed=true]")).to_contain_text("upload/mine.onnx")


def test_data_that_is_dropped_on_the_page_are_examples(studio, tmp_path):
    """A network of nine inputs: no other test sends data of that many to the server that all share."""
    np.save(tmp_path / "mine.npy", np.eye(3, 9))
    np.save(tmp_path / "other.npy", np.eye(3, 5))
    with studio("#view=microscope&kind=random&half=1&file=nine.onnx") as page:
        tiled(page)
        assert page.locator("#examples button").count() == 0
        page.set_input_files("#file", tmp_path / "mine.npy")
        page.wait_for_function("() => document.querySelectorAll('#examples button').length === 3")
        expect(page.locator("#message")).to_be_hidden()
        page.set_input_files("#file", tmp_path / "other.npy")
        page.wait_for_selector("#message:has-text('do not fit')")


def test_inputs_are_drawn_as_bright_as_the_examples(studio, tmp_path):
    """An input of 16 numbers is an image; examples from -3 to 5 are drawn from black to white."""
    images = np.full((3, 16), -3.0)
    images[range(3), range(3)] = 5.0
    np.save(tmp_path / "images.npy", images)
    middle = images.mean(0)
    with studio("#view=microscope&kind=random&half=1&file=images.onnx") as page:
        tiled(page)
        assert page.locator("#examples canvas").count() == 0
        page.set_input_files("#file", tmp_path / "images.npy")
        page.wait_for_function("() => document.querySelectorAll('#examples canvas').length === 3")
        page.select_option("#slice-kind", "through")
        page.click("#run")
        tiled(page, 2)
        page.mouse.move(*on_screen(page, page.evaluate(AMID)))
        page.wait_for_selector("#input:visible")
        becomes(page, PIXELS, pytest.approx((middle + 3) / 8 * 255, abs=3))  # a pixel's worth of the pointer


def test_where_one_looks_is_in_the_address(studio):
    with studio(AXES + "run&look=0.3,-0.4,0.5&hide=boundary&theme=dark&step=10") as page:
        page.wait_for_function("() => studio.pages.microscope.story")
        page.wait_for_function("() => document.getElementById('moment-text').textContent === 'step 10'")
        page.wait_for_function("() => studio.pages.microscope.panes.a.view && !studio.pages.microscope.fetching")
        seen = page.evaluate(PLACE)
        assert seen == [0.3, -0.4, pytest.approx(1), False]
        becomes(page, "document.documentElement.dataset.theme", "dark")
        page.click("#lens-home")
        page.wait_for_function("() => !location.hash.includes('look=')")
        page.locator("#moment").fill("0")
        in_address(page, "step=0")
    with studio("#view=microscope&at={") as page:
        expect(page.locator("#message")).to_contain_text("cannot be read")


def test_a_long_run_shows_progress_and_can_be_cancelled(server):
    request = {"do": "tile", "name": "large.onnx", "pane": "a", "slice": {"kind": "random", "half": 60, "seed": 0}}
    with server.line() as line:
        line.send(json.dumps({"id": 1, **request}))
        while "progress" not in (message := json.loads(line.recv(PATIENCE))) or "tiles" not in message["now"]:
            assert "error" not in message
        line.send(json.dumps({"do": "cancel", "job": 1}))
        while "progress" in (message := json.loads(line.recv(PATIENCE))):
            pass
        assert message == {"id": 1, "error": "cancelled", "cancelled": True}


def test_nothing_outside_the_folder_is_opened(server, shelf):
    with server.line() as line:
        entries = server.ask(line, id=1, do="entries")["answer"]["entries"]
        names = [entry["name"] for entry in entries]
        assert "first.onnx" in names
        assert "out.onnx" not in names
        assert "lens_models.py" not in names
        for number, name in enumerate(
            ("../secret.onnx", "out.onnx", "/etc/passwd", "lens_models.py", "upload/../x", None), 2
        ):
            answer = server.ask(line, id=number, do="open", name=name)
            assert "error" in answer, name
    content = (shelf / "first.onnx").read_bytes()
    for name, status in (("../evil.onnx", 200), ("evil.py", 400), (".onnx", 400), ("a.pkl", 400), ("", 400)):
        headers = {"Authorization": f"Bearer {server.token}"}
        answer = httpx.post(
            f"{server.origin}/upload", params={"name": name}, content=content, headers=headers, timeout=PATIENCE
        )
        assert answer.status_code == status, name
        assert status != 200 or answer.text == "upload/evil.onnx"  # a name is only a name
    refused = httpx.post(f"{server.origin}/upload", params={"name": "a.onnx"}, content=b"x", timeout=PATIENCE)
    assert refused.status_code == 403
