"""Pictures of landscapes, the page in a browser, and the monitor."""

import json

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.landscape.skip_conditioning import BlockConditioning, Conditioning, SkipConditioning
from splinescope.landscape.skips import Skip
from splinescope.landscape.surface import LossSurface
from splinescope.plot.landscape import plot_conditioning, plot_loss_surface, write_surface_page
from splinescope.train import Every
from tests.browser import becomes, expect, open_page

from .networks import case

pyplot = pytest.importorskip("matplotlib.pyplot")


def bowl():
    axis = np.linspace(-1, 1, 21)
    u, v = np.meshgrid(axis, axis, indexing="ij")
    return LossSurface((axis, axis), u**2 + 3 * v**2 + 0.1, np.array([[1.0, 1.0], [0.5, 0.2], [0.0, 0.0]]))


def test_surfaces_and_conditioning_are_drawn():
    assert plot_loss_surface(bowl()).get_xlabel() == "$t_1$"
    assert plot_loss_surface(bowl(), kind="surface").get_zlabel() == "$\\log_{10}$ loss"
    line = LossSurface((bowl().axes[0],), bowl().losses[10])
    assert plot_loss_surface(line).get_yscale() == "log"
    norms, infinite = np.full(9, 0.4), np.full(9, np.inf)
    kinds = {
        "DW": Conditioning(infinite, norms, infinite),
        "I + DW": Conditioning(np.linspace(1.1, 2.2, 9), norms, np.full(9, 7 / 3)),
    }
    assert [t.get_text() for t in plot_conditioning(kinds).get_xticklabels()] == ["DW", "I + DW"]
    pair = BlockConditioning(Skip("b", "b", True, "add", "s", "f"), kinds["I + DW"], kinds["DW"])
    blocks = plot_conditioning(SkipConditioning((pair,), 9))
    assert [t.get_text() for t in blocks.get_xticklabels()] == ["b\nwith", "b\nwithout"]
    assert set(kinds["I + DW"].condition) <= {float(v) for line in blocks.get_lines()[:1] for v in line.get_ydata()}
    with pytest.raises(ss.InputError, match="no skip connections"):
        plot_conditioning(SkipConditioning((), 9))
    with pytest.raises(ss.InputError, match="log=False"):
        plot_loss_surface(LossSurface(bowl().axes, bowl().losses - 1))


def test_the_page_shows_every_cell_turns_and_reads_values(tmp_path):
    target = tmp_path / "surface.html"
    write_surface_page(bowl(), target, title="a <bowl>")
    assert "http" not in target.read_text().replace("http-equiv", "")
    with open_page(target) as page:
        assert page.title() == "a <bowl>"
        assert page.locator("#label").inner_text() == "sampled at 441 points"
        assert page.locator("body").get_attribute("data-quads") == "400"
        before = page.locator("#view").screenshot()
        page.mouse.move(500, 400)
        expect(page.locator("#readout")).to_contain_text("loss")
        page.mouse.down()
        page.mouse.move(600, 430)
        page.mouse.up()
        becomes(page, lambda: page.locator("#view").screenshot() != before, True)
        low = page.locator("#low").inner_text()
        assert float(low) == pytest.approx(0.1)
        page.locator("#log").uncheck()
        becomes(page, lambda: float(page.locator("#high").inner_text()), pytest.approx(4.1))
    with pytest.raises(ss.InputError, match="2-D surfaces"):
        write_surface_page(LossSurface((bowl().axes[0],), bowl().losses[0]), target)


TURNED = """delay => new Promise(done => { // the strides of the next two pictures, each frame after a delay in ms
const whole = draw, strides = []
draw = limit => { whole(limit); if (strides.push(document.body.dataset.stride) === 2) { draw = whole; done(strides) } }
if (delay) requestAnimationFrame = callback => setTimeout(callback, delay)
turn(0.1, 0) })"""


def test_the_page_of_a_large_surface_is_drawn_coarser_while_it_turns(tmp_path):
    axis = np.linspace(-1, 1, 550)  # half of it are more numbers than JavaScript takes as arguments of one call
    losses = 1 + axis[:, None] ** 2 + axis**2
    losses[10, 20] = np.nan  # a hole of four cells, or of none where it is passed over
    write_surface_page(LossSurface((axis, axis), losses), tmp_path / "large.html")
    with open_page(tmp_path / "large.html") as page:
        body = page.locator("body")
        assert float(page.locator("#high").inner_text()) == pytest.approx(3.0)
        assert body.get_attribute("data-stride") == "2"
        assert int(body.get_attribute("data-quads")) == 275**2 - 4
        for delay in (0, 400):  # where frames come late the whole picture must not come before the coarse one
            moving, resting = page.evaluate(TURNED, delay)
            assert int(moving) > 2
            assert resting == "2"
        page.mouse.move(500, 400)
        expect(page.locator("#readout")).to_contain_text("loss")


def test_near_cells_hide_far_ones_from_every_side(tmp_path):
    """A wall across the middle: from four sides, what is seen beside it is never the low ground behind."""
    axis = np.linspace(-1, 1, 41)
    u = np.broadcast_to(axis[:, None], (41, 41))
    write_surface_page(LossSurface((axis, axis), 1 + 9 * (np.abs(u) < 0.06)), tmp_path / "wall.html")
    with open_page(tmp_path / "wall.html") as page:
        seen = page.evaluate(
            """() => [0.8, 2.3, 3.9, 5.5].map(turn => {
                view.turn = turn; view.tilt = 0.3; draw();
                const [x, y] = project(20, 20, 0.9).map(Math.round);  // on the wall, near its top
                const pixel = context.getImageData(x, y, 1, 1).data;
                return [pixel[0], pixel[1], pixel[2]];
            })"""
        )
    for red, green, blue in seen:  # viridis: high is yellow, low is violet
        assert red + green > 2.2 * blue, seen


@pytest.mark.parametrize("statistics", ["data", "running"])
def test_the_monitor_follows_the_dense_curvature_and_leaves_training_alone(tmp_path, statistics):
    model, x, y, _ = case("convnet, convolution")
    model.train()
    given = {} if statistics == "data" else {"statistics": statistics}  # the first is the default with batch norm
    monitor = ss.landscape.CurvatureMonitor(model, x, y, layers=(None, "0"), schedule=Every(2), out=tmp_path, **given)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(4):
        monitor.step(step)
        assert model.training
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert [record["step"] for record in monitor.records] == [0, 2]
    record = monitor.measure(4)
    same = ss.normalization.with_statistics(model, x) if statistics == "data" else model.eval()
    for name, layer in (("all", None), ("0", "0")):
        values = np.linalg.eigvalsh(ss.curvature(same, x, y, layer=layer).dense())
        assert record[f"{name}/largest"] == pytest.approx(values[-1], rel=1e-8)
        assert record[f"{name}/trace"] == pytest.approx(values.sum(), rel=1.0)  # 8 probes: the order of magnitude
    curves = monitor.plot()
    assert {line.get_label() for line in curves.get_lines()} == {"all/largest", "all/trace", "0/largest", "0/trace"}
    assert curves.get_ylabel() == "curvature"
    lines = (tmp_path / "curvature.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["format"] == "splinescope.curvature"
    assert len(lines) == 4
