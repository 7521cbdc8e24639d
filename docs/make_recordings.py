"""Records the studio's stories as pages with a slider: `python docs/make_recordings.py FOLDER [STORY...]`.

Each page is one file that needs nothing else. `make docs` writes them beside the page of ideas.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from splinescope.plot.page import write_film_page, write_points_page
from splinescope.studio.recipe import Recipe
from splinescope.studio.scenes import read_scene
from splinescope.studio.trainer import REACH, Trainer
from splinescope.support.threads import one_torch_thread

Moments = Iterator[dict[str, Any]]


def read_stories() -> dict[str, dict[str, Any]]:
    """Name, title, text, recipe, colors and scene of every story, off the studio's own file."""
    source = (resources.files("splinescope.studio") / "web" / "stories.js").read_text(encoding="utf-8")
    found = {}
    for block in re.findall(r"^  \{\n(.*?)^  \},\n", source, flags=re.MULTILINE | re.DOTALL):
        story = {key: json.loads(text) for key, text in re.findall(r'\b(name|title|scene): ("[^"]*")', block)}
        story["text"] = json.loads(re.search(r"\btext: (\[.*\]),\n", block)[1])  # type: ignore[index]
        for key in ("recipe", "look"):
            if given := re.search(rf"\b{key}: (\{{.*?\}})", block):
                story[key] = json.loads(re.sub(r"(\w+):", r'"\1":', given[1]))
        found[story["name"]] = story
    return found


# ---- what each story shows, moment by moment


def train(story: dict[str, Any], steps: tuple[int, ...], name: str = "step {}", **changed: Any) -> Moments:
    trainer = trainer_of(story, **changed)
    for step in steps:
        trainer.train(step - trainer.steps)
        yield moment(story, trainer, name.format(step))


def drag(story: dict[str, Any], unit: int, layers: int = 0) -> Moments:
    """Folds layer by layer, then a fold of the first layer on its way across the square and back."""
    trainer = trainer_of(story)
    for layer in range(1, layers + 1):
        yield {**moment(story, trainer, f"folds to layer {layer}"), "layers": layer}
    tiling = trainer.tile()
    ends = tiling.vertices[tiling.walls.ends[tiling.walls.cuts == unit]]
    middle, along = ends.mean((0, 1)), ends[0, 1] - ends[0, 0]
    across = np.array([-along[1], along[0]]) / np.linalg.norm(along)
    for way in 0.5 * REACH * np.sin(np.linspace(0, 2 * np.pi, 33)):
        trainer.move_fold(0, unit, *(middle + way * across))
        yield moment(story, trainer, "a fold of layer 1 is dragged")


def choices(story: dict[str, Any], key: str, names: dict[Any, str]) -> Moments:
    for value, name in names.items():
        yield moment(story, trainer_of(story, **{key: value}), name)


def batch_norm(story: dict[str, Any]) -> Moments:
    yield moment(story, trainer_of(story, norm="none"), "no norm")
    yield moment(story, trainer_of(story), "batch norm")
    yield moment(story, trainer_of(story, norm="none", init="mean"), "no norm, centered on data")


def skip(story: dict[str, Any]) -> Moments:
    steps = (0, 10, 20, 40, 60)
    yield from train(story, steps, "without skips, step {}", skip=False)
    yield from train(story, steps, "with skips, step {}")


def jitter(story: dict[str, Any]) -> Moments:
    yield from train(story, tuple(range(16)), "batches of 8, step {}")
    yield from train(story, tuple(range(16)), "batches of 64, step {}", batch=64)


def smooth(story: dict[str, Any]) -> Moments:
    for tolerance in (1.0, 0.3, 0.1, 0.03, 0.01):
        yield moment(story, trainer_of(story, tolerance=tolerance), f"within {tolerance:g}")
    yield moment(story, trainer_of(story, activation="relu"), "ReLU instead: one fold a unit")


NORMS = {"none": "no norm", "rms": "RMS norm", "layer": "layer norm", "group": "group norm", "batch": "batch norm"}
RECORDED: dict[str, Callable[[dict[str, Any]], Moments]] = {
    "fold": lambda story: drag(story, 0, layers=3),
    "learn": lambda story: train(story, tuple(range(0, 301, 10))),
    "batch-norm": batch_norm,
    "migration": lambda story: train(story, (0, 10, 25, 50, 100, 200, 400, 700, *range(1000, 3201, 200))),
    "skip": skip,
    "jitter": jitter,
    "absolute": lambda story: drag(story, 0),
    "norms": lambda story: choices(story, "norm", NORMS),
    "smooth": smooth,
}


def trainer_of(story: dict[str, Any], **changed: Any) -> Trainer:
    return Trainer(Recipe.read({**story["recipe"], **changed}))


def moment(story: dict[str, Any], trainer: Trainer, name: str) -> dict[str, Any]:
    """What the film shows of a network: positions as float32, and only what is drawn."""
    color = story["look"]["color"]
    frame = trainer.frame(shown=("class",) if color == "folds" else ("class", color))
    measures = frame["measures"]
    notes = [["tiles", f"{measures['tiles']:,}"], ["loss", f"{measures['loss']:.3g}"]]
    notes += [[f"tiles {key}", f"{measures[key]:.1f}"] for key in ("near data", "near boundary") if measures[key]]
    kept = ("title", "numbers", "rest", "offsets", "corners", "depths", "domain", "quantities")
    return {
        **{key: frame[key] for key in kept},
        "notes": notes,
        "moment": name,
        "vertices": frame["vertices"].astype(np.float32),
        "boundary": frame["boundary"].astype(np.float32)[: 0 if "boundary" in story["look"].get("hide", "") else None],
        "values": frame["values"].astype(np.float32),
        "anchors": frame["points"].ravel().tolist(),
        "labels": frame["classes"].tolist(),
    }


@one_torch_thread()  # more would wait for each other
def write_recordings(folder: Path, only: tuple[str, ...] = ()) -> list[Path]:
    """The pages of all stories, or of some, in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    chosen = {name: story for name, story in read_stories().items() if not only or name in only}
    for name, story in chosen.items():
        path, title, words = folder / f"{name}.html", story["title"], story["text"]
        if "scene" in story:
            write_points_page(read_scene(story["scene"], 0), path, title=title, words=words)
        else:
            write_film_page(
                list(RECORDED[name](story)), path, title=title, color=story["look"]["color"], words=words, start=0
            )
        written.append(path)
    return written


if __name__ == "__main__":
    for page in write_recordings(Path(sys.argv[1]), tuple(sys.argv[2:])):
        print(f"{page}: {page.stat().st_size / 1e3:,.0f} kB")
