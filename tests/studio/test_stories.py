"""Stories do what they say: each is run as its recipe is, and the numbers in its sentences are measured."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from splinescope.studio.models import Layer
from splinescope.studio.recipe import Recipe
from splinescope.studio.scenes import SCENES, read_scene
from splinescope.studio.trainer import Trainer
from tests.browser import expect
from tests.studio.conftest import DRAWN


@pytest.fixture(scope="module")
def stories(server, browser):
    """What `stories.js` exports, by name."""
    page = browser.new_page()
    page.goto(server.address + "#view=stories")
    page.wait_for_selector("body[data-ready]")
    found = page.evaluate("async () => (await import('/static/stories.js')).STORIES")
    page.close()
    return {story["name"]: story for story in found}


def trainer_of(story, **changed):
    return Trainer(Recipe.read({**story["recipe"], **changed}))


def words(story):
    return " ".join([*story["text"], *story["tries"]])


def near(trainer):
    return trainer.frame()["measures"]["near data"]


def test_every_story_has_its_test(stories):
    told = {name[len("test_story_") :].replace("_", "-") for name in globals() if name.startswith("test_story_")}
    assert told == set(stories)
    assert {story["scene"] for story in stories.values() if "scene" in story} == set(SCENES)


def test_press_play_is_said_only_where_nothing_plays(stories):
    for story in stories.values():
        assert not (story.get("run") and "Press Play" in words(story)), story["name"]


def bends(trainer, layer):
    """Number of corners where the fold of a unit of that layer turns, over all its units."""
    tiling = trainer.tile()
    walls = tiling.walls
    width = trainer.recipe.width
    turns = 0
    for unit in range(width):
        ends = walls.ends[walls.cuts == layer * width + unit]
        direction = tiling.vertices[ends[:, 1]] - tiling.vertices[ends[:, 0]]
        if len(direction):
            angle = np.arctan2(direction[:, 1], direction[:, 0]) % np.pi
            turns += len(np.unique(angle.round(6) % np.round(np.pi, 6))) - 1
    return turns


def test_story_fold(stories):
    trainer = trainer_of(stories["fold"])
    assert bends(trainer, 0) == 0  # straight lines
    assert bends(trainer, 1) > 0
    assert bends(trainer, 2) > 0


def test_story_learn(stories):
    trainer = trainer_of(stories["learn"])
    trainer.train(300)
    boundary = trainer.tile().decision_boundary()
    assert len(np.unique(boundary.tiles)) == len(boundary)  # one straight piece a tile
    assert trainer.hold_statistics()["accuracy"] > 0.95


def test_story_batch_norm(stories):
    story = stories["batch-norm"]
    with_norm, without = near(trainer_of(story)), near(trainer_of(story, norm="none"))
    assert "about six times as many tiles" in words(story)
    assert 5.5 < with_norm / without < 6.5
    assert near(trainer_of(story, norm="none", init="mean")) == pytest.approx(with_norm, rel=0.05)  # "the same"


def test_story_migration(stories):
    story = stories["migration"]
    assert story["until"] == 3200
    trainer = trainer_of(story)
    trainer.train(100)
    assert trainer.hold_statistics()["accuracy"] == 1
    trainer.train(900)
    early = trainer.frame()["measures"]
    trainer.train(2200)
    late = trainer.frame()
    assert "24 meet a disc about a point at step 1,000, and 5 one about the boundary" in words(story)
    assert early["near data"] == pytest.approx(24, abs=1.5)  # other machines round other sums
    assert early["near boundary"] == pytest.approx(5, abs=1.5)
    assert "at step 3,200, where this story pauses, it is 12 and 14" in words(story)
    assert late["measures"]["near data"] == pytest.approx(12, abs=1.5)
    assert late["measures"]["near boundary"] == pytest.approx(14, abs=2.5)
    tiling = trainer.tile()
    slopes = tiling.slope_norms()
    at_boundary = np.median(slopes[tiling.decision_boundary().tiles])
    at_data = np.median(slopes[tiling.locate(trainer.x.numpy())])
    assert "tiles about twice as steep as those that hold the data" in words(story)
    assert at_boundary / at_data == pytest.approx(2, abs=0.5)


def test_story_skip(stories):
    story = stories["skip"]
    slopes, gradients, losses = [], [], []
    for skip in (True, False):
        trainer = trainer_of(story, skip=skip)
        tiling = trainer.tile()
        low, high = tiling.quantity("slope").limits
        assert low > 1e-6 * high  # the bar shows slopes, not rounding
        slopes.append(np.average(tiling.slope_norms(), weights=tiling.areas))
        F.cross_entropy(trainer.model.train()(trainer.x), trainer.y).backward()
        gradients.append(float(trainer.model[0].linear.weight.grad.norm()))
        trainer.train(60)
        losses.append(trainer.hold_statistics()["loss"])
    assert "slopes are about a hundred times smaller" in words(story)
    assert 80 < slopes[0] / slopes[1] < 130
    assert "more than a hundred times" in words(story)
    assert gradients[0] / gradients[1] > 100
    assert "0.15 with skips, 0.57 without" in words(story)
    assert losses == pytest.approx([0.15, 0.57], abs=0.02)


def test_story_jitter(stories):
    story = stories["jitter"]

    def trembling(**changed):
        trainer = trainer_of(story, **changed)
        trainer.train(1)
        grid = torch.from_numpy(np.random.default_rng(0).uniform(-2.6, 2.6, (2000, 2)))
        seen = []
        for _ in range(12):
            trainer.hold_statistics()
            with torch.no_grad():
                seen.append(trainer.model.eval()(grid).argmax(1))
        return float(torch.stack(seen).float().std(0).mean())  # how often a place changes its class

    small, large, still = trembling(), trembling(batch=64), trembling(statistics="data")
    assert still == 0
    assert small > 1.5 * large > 0


def test_story_absolute(stories):
    """Two folds at right angles: what lies on one side of each is the mirror image of the other side."""
    trainer = trainer_of(stories["absolute"])
    first = trainer.model[0]
    assert isinstance(first, Layer)
    weight, bias = first.linear.weight.detach(), first.linear.bias.detach()
    cosine = float(weight[0] @ weight[1] / weight[0].norm() / weight[1].norm())
    assert abs(cosine) < 0.01
    points = torch.from_numpy(np.random.default_rng(0).uniform(-1.5, 1.5, (500, 2)))
    outputs = trainer.model.eval()
    with torch.no_grad():
        plain = outputs(points)
        for unit in range(2):
            normal = weight[unit] / weight[unit].norm() ** 2
            mirrored = points - 2 * (points @ weight[unit] + bias[unit])[:, None] * normal
            assert (outputs(mirrored) - plain).abs().mean() < 0.02 * plain.std()
    assert trainer.tile().count > 60  # and there is something to mirror


def test_story_norms(stories):
    story = stories["norms"]
    for norm in ("rms", "none"):
        inner = np.abs(trainer_of(story, norm=norm).tile().vertices).max(1) < 2.599
        assert inner.sum() == 1  # all folds meet in one point
    trained = trainer_of(story)
    trained.train(20)
    trained.hold_statistics()
    assert (np.abs(trained.tile().vertices).max(1) < 2.599).sum() > 1
    assert "three times as many tiles" in words(story)
    assert near(trainer_of(story, norm="batch")) / near(trainer_of(story)) == pytest.approx(3, abs=0.5)


def test_story_smooth(stories):
    story = stories["smooth"]
    cuts = [trainer_of(story, tolerance=each).tile().sites[0].cuts for each in (0.03, 0.01)]
    assert "from 0.03 to 0.01: three times the precision takes about 1.7 times the folds" in words(story)
    assert cuts[1] / cuts[0] == pytest.approx(1.7, abs=0.15)
    assert trainer_of(story, activation="relu").tile().sites[0].cuts == story["recipe"]["width"]
    within = trainer_of(story).frame()["within"]
    assert within["basis"] == "bound"
    assert within["bound"] <= 0.03


def test_story_uniform(stories):
    scene = read_scene("uniform", 0)
    ratios = [float(dict(moment["notes"])["densest facet over sparsest"]) for moment in scene["moments"]]
    assert ratios[0] > 2
    assert ratios == sorted(ratios, reverse=True)  # it evens out all along
    assert ratios[-1] == pytest.approx(1)


def test_story_odd_point(stories):
    text = words(stories["odd-point"])
    scene = read_scene("odd", 0)
    last = {name: float(value.rstrip("°")) for name, value in scene["moments"][-1]["notes"]}
    assert "batch of 24 points" in text
    assert len(scene["classes"]) == 24
    assert "twenty times as long" in text
    assert last["the odd point's length over the others'"] == pytest.approx(20, abs=4)
    assert last["its angle to their mean"] == pytest.approx(90, abs=1)  # "at right angles"
    assert last["the others' median angle to that mean"] < 30  # "gather"


def test_story_ellipse(stories):
    text = words(stories["ellipse"])
    scene = read_scene("ellipse", 0)
    assert {places.shape for moment in scene["moments"] for places in moment["places"]} == {(80, 2)}
    assert scene["moments"][-1]["places"][0] ** 2 @ [5.0, 1.0] == pytest.approx(1, abs=1e-5)  # "bᵀSb = 1"
    risks = [float(dict(moment["notes"])["loss"]) for moment in scene["moments"]]
    assert risks[-1] < 0.1 * risks[0]
    lines = scene["panels"][0]["lines"]
    assert any(np.array_equal(line[[1, 3]], [0, 0]) for line in lines)  # it has axes
    assert np.abs(lines[:180, 0]).max() == pytest.approx(5**-0.5, rel=1e-3)  # "narrow along the first axis"
    shares = [float(dict(moment["notes"])["neurons within 30° of an end of axis 1"].rstrip("%"))
              for moment in scene["moments"]]  # fmt: skip
    last = scene["moments"][-1]
    assert "red squares: positive output weights" in scene["panels"][0]["title"]
    assert last["classes"][last["places"][0][:, 0] > 0.2].mean() > 0.9  # what a target of relu(x_1) asks for
    assert "about half are within 30° of them at first, 80% at the end" in text
    assert shares[0] == pytest.approx(50, abs=8)
    assert shares[-1] == pytest.approx(80, abs=5)


def test_a_story_pauses_at_the_step_that_it_is_about(studio):
    with studio() as page:
        page.wait_for_function(DRAWN)
        page.evaluate("""async () => { const {storyNamed} = await import('/static/stories.js')
            Object.assign(storyNamed("migration"), {until: 60, recipe: {width: 4, depth: 1}})
            location.hash = "#story=migration" }""")
        page.wait_for_function("() => studio.pages.playground.frame.step === 60 && !studio.pages.playground.running")
        expect(page.locator("#play")).to_have_text("Play")
        page.click("#play")  # and goes on from there
        page.wait_for_function("() => studio.pages.playground.frame.step > 60")
