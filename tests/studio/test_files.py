"""The playground without a server: the same page, with the networks in a worker; Python's engine is the oracle."""

import functools
import http.server
import json
import threading
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch

from splinescope import InputError
from splinescope.studio.files import CHOICES, write_playground
from splinescope.studio.models import make_network, make_set
from splinescope.studio.recipe import Recipe, limits
from splinescope.studio.trainer import Trainer
from tests.browser import expect, opened
from tests.studio.conftest import DRAWN

MADE = """async jobs => { const {Trainer} = await import("./static/trainer.js")
return jobs.map(([recipe, steps]) => {
  const trainer = new Trainer(recipe)
  trainer.train(steps)
  const frame = trainer.frame()
  return {measures: frame.measures, sheets: [...frame.sheets], wires: [...frame.wires],
    boundary: [...frame.boundary], x: [...frame.points],
    quantities: frame.quantities.map(({name, low, high, values}) => ({name, low, high, values: [...values]})),
    parameters: trainer.net.parameters().flatMap(([values]) => [...values])} }) }"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *what):
        pass


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A plain file server below whose /deep/ the playground lies, as on any host."""
    folder = tmp_path_factory.mktemp("host")
    write_playground(folder / "deep", scenes=("ellipse",))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/deep/"
    server.shutdown()
    server.server_close()


def made(browser, address, jobs):
    with opened(browser, address) as page:
        return page.evaluate(MADE, [[asdict(recipe), steps] for recipe, steps in jobs])


def assert_same_picture(trainer, found):
    frame, tiling = trainer.frame(), trainer.tile()
    boundary = tiling.decision_boundary()
    segments = np.array(found["boundary"]).reshape(-1, 2, 2)
    assert found["measures"]["tiles"] == tiling.count
    assert len(segments) == len(boundary)
    length = np.linalg.norm(segments[:, 0] - segments[:, 1], axis=1).sum()
    assert length == pytest.approx(boundary.length, rel=1e-4, abs=1e-4)
    assert np.abs(frame["sheets"].ravel() - np.array(found["sheets"], float)).max() <= 2  # of 255, in units' pictures
    assert frame["wires"] == pytest.approx(found["wires"], rel=1e-3, abs=1e-3)
    for name in ("loss", "accuracy", "test", "near data", "near boundary"):
        expected, got = frame["measures"][name], found["measures"][name]
        assert (got is None) == (expected is None), name
        assert expected is None or got == pytest.approx(expected, rel=2e-3, abs=1e-6), name


SEEDS = 4
ARCHITECTURES = [
    Recipe(data="moons", depth=3, width=6),
    Recipe(data="circles", depth=2, width=7, norm="batch", init="he"),
    Recipe(data="star", depth=3, width=5, activation="leaky", skip=True, init="zero bias"),
    Recipe(data="spirals", depth=2, width=6, activation="abs", norm="batch", skip=True),
    Recipe(data="blobs", depth=3, width=5, activation="abs"),
    Recipe(data="star", depth=2, width=8, init="mean", noise=0.0),  # its folds meet at the data's mean
]


def test_random_networks_have_python_s_tiles_boundary_and_measures(browser, address):
    jobs = [(replace(recipe, seed=seed), 0) for recipe in ARCHITECTURES for seed in range(SEEDS)]
    found = made(browser, address, jobs)
    for first in range(0, len(jobs), SEEDS):
        trainer = Trainer(jobs[first][0])  # traced once; then others' weights
        for (recipe, _), got in zip(jobs[first : first + SEEDS], found[first : first + SEEDS], strict=True):
            trainer.x, trainer.y = make_set(recipe)
            trainer.test = make_set(recipe, seed=recipe.seed + 1_000_003)
            trainer.recipe = recipe
            trainer.model.load_state_dict(make_network(recipe, trainer.classes, trainer.x).state_dict())
            assert np.concatenate([p.detach().ravel() for p in trainer.model.parameters()]) == pytest.approx(
                got["parameters"],
                abs=1e-6,  # the same seed draws the same weights
            )
            assert trainer.x.numpy().ravel() == pytest.approx(got["x"], abs=1e-5)
            assert_same_picture(trainer, got)


def test_training_from_the_same_seed_gives_python_s_network(browser, address):
    optimizers = ("sgd", "momentum", "adam", "adamw")
    recipes = [
        replace(recipe, optimizer=optimizer, decay=0.01, seed=5)
        for recipe, optimizer in zip(ARCHITECTURES, optimizers, strict=False)
    ]
    for recipe, found in zip(recipes, made(browser, address, [(each, 200) for each in recipes]), strict=True):
        trainer = Trainer(recipe)
        trainer.train(200)
        parameters = torch.cat([p.detach().ravel() for p in trainer.model.parameters()]).numpy()
        assert np.abs(parameters - found["parameters"]).max() < 2e-4 * np.abs(parameters).max(), recipe.optimizer
        assert_same_picture(trainer, found)
        for quantity, got in zip(trainer.frame()["quantities"], found["quantities"], strict=True):
            assert got["name"] == quantity["name"]
            assert [got["low"], got["high"]] == pytest.approx([quantity["low"], quantity["high"]], rel=0.02)
            assert np.median(got["values"]) == pytest.approx(np.median(quantity["values"]), rel=0.01, abs=1e-6)


def test_the_page_trains_drags_and_tells_stories_without_a_server(browser, address):
    with opened(browser, address + "#width=8&depth=2&seed=3", allow=(address,)) as page:
        page.wait_for_selector("body[data-ready]")
        expect(page.locator(".unhosted")).to_be_hidden()
        page.wait_for_function(DRAWN)
        trainer = Trainer(Recipe(width=8, depth=2, seed=3))
        assert page.evaluate("studio.pages.playground.frame.measures.tiles") == trainer.tile().count
        page.click("#play")
        page.wait_for_function("() => studio.pages.playground.frame.step > 20")
        page.click("#play")
        picture = "document.querySelector(`[data-unit='0,2'] canvas`).toDataURL()"
        before = page.evaluate(picture)
        page.click("button[data-unit='0,2']")
        page.locator("#weight-0").fill("1.5")
        page.wait_for_function("() => studio.pages.playground.frame.selected?.weights[0] === 1.5")
        page.wait_for_function(f"before => {picture} !== before", arg=before)  # its own folded sheet
        expect(page.locator("nav a")).to_have_count(2)  # no microscope
        assert "gelu" not in page.inner_html("#switch-activation")
        page.evaluate("() => { location.hash = '#story=ellipse' }")
        page.wait_for_function("() => studio.pages.scene?.scene?.moments.length > 10")
        page.evaluate("() => { location.hash = '#story=batch-norm' }")
        page.wait_for_function("() => studio.pages.playground.frame.quantities[0].values.length > 2000")
        page.evaluate("() => { location.hash = '#view=playground&depth=1000000' }")
        expect(page.locator("#message")).to_contain_text("depth must be a whole number from 1 to 6, got '1000000'")


def test_a_page_opened_from_disk_says_that_it_needs_a_web_host(tmp_path, browser):
    page = write_playground(tmp_path / "out", scenes=())
    with opened(browser, page, allow=(page.parent.as_uri(),), expect=("CORS", "ERR_FAILED")) as shown:
        expect(shown.locator(".unhosted")).to_contain_text("python -m http.server")
        expect(shown.locator(".unhosted")).to_be_visible()


def test_a_folder_that_holds_something_is_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="new or empty folder"):
        write_playground(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["mine.txt"]


def test_what_the_files_offer_is_a_part_of_what_the_studio_does(tmp_path):
    page = write_playground(tmp_path / "out", scenes=())
    offered = json.loads((page.parent / "static" / "limits.json").read_text())
    for name, values in limits()["choices"].items():
        assert set(offered["choices"][name]) <= set(values)
    for name in CHOICES:
        assert offered["defaults"][name] in offered["choices"][name]
    assert sum(each.stat().st_size for each in page.parent.rglob("*")) < 1_000_000
