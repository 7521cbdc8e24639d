"""One word per idea: the table of words in CONTRIBUTING.md, held over every public signature."""

import dataclasses
import importlib
import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PARTS = (
    "network", "tiling", "train", "complexity", "representation", "meanfield", "normalization", "landscape",
    "generative", "smooth", "plot", "reports", "data",
)  # fmt: skip
CONTRIBUTING = (Path(__file__).resolve().parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)` \| (.+?) \| (.+?) \| (.*?) \|$", re.MULTILINE)


def table() -> dict[str, tuple[set[str], set[str]]]:
    """Word: the annotations it may have, and the words that are not used for it."""
    section = CONTRIBUTING.split("## Words", 1)[1].split("\n## ", 1)[0]
    ticks = re.compile(r"`([^`]+)`")
    return {
        word: (set(ticks.findall(kinds.replace("\\|", "|"))), set(ticks.findall(avoid)))
        for word, kinds, _, avoid in ROW.findall(section)
    }


def public_callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Functions, methods and constructors that users call; results (dataclasses) are made by the package."""
    for part in PARTS:
        module = importlib.import_module(f"splinescope.{part}")
        for name, thing in vars(module).items():
            if name.startswith("_") or not getattr(thing, "__module__", "").startswith("splinescope."):
                continue
            if inspect.isfunction(thing):
                yield f"{part}.{name}", thing
            elif inspect.isclass(thing):
                if not dataclasses.is_dataclass(thing) and inspect.isfunction(vars(thing).get("__init__")):
                    yield f"{part}.{name}", thing.__init__
                for method, value in vars(thing).items():
                    function = getattr(value, "__func__", value)
                    if not method.startswith("_") and inspect.isfunction(function):
                        yield f"{part}.{name}.{method}", function


def parameters() -> list[tuple[str, str, str]]:
    """(function, parameter, annotation as written) of every public signature."""
    return [
        (place, p.name, str(p.annotation))
        for place, function in public_callables()
        for p in inspect.signature(function).parameters.values()
        if p.name not in ("self", "cls", "args", "kwargs", "options")
    ]


WORDS, FOUND = table(), parameters()
INSIDE = {  # what is not a user's: the inside of a mesh speaks of vertices and labels of walls
    ("tiling.Cells.walls", "labels"), ("tiling.Polytopes.walls", "labels"),
    ("smooth.Block", "inputs"),
}  # fmt: skip


def test_the_table_is_read_and_the_signatures_are_many() -> None:
    assert {"model", "x", "y", "view", "generator", "batch_size", "progress"} <= WORDS.keys()
    assert len(FOUND) > 300


@pytest.mark.parametrize("word", sorted(WORDS))
def test_a_word_of_the_table_is_used_and_means_one_thing(word: str) -> None:
    kinds, _ = WORDS[word]
    used = [(place, annotation) for place, name, annotation in FOUND if name == word]
    assert used
    assert [(place, annotation) for place, annotation in used if annotation not in kinds] == []


def test_no_signature_uses_another_word_for_an_idea_of_the_table() -> None:
    avoided = set().union(*(avoid for _, avoid in WORDS.values()))
    assert [(p, name) for p, name, _ in FOUND if name in avoided and (p, name) not in INSIDE] == []


@pytest.mark.parametrize(("kind", "word"), [("torch.Generator", "generator"), ("Slice", "view"), ("Tiling", "tiling")])
def test_what_is_one_thing_has_one_name(kind: str, word: str) -> None:
    named = {name for place, name, annotation in FOUND
             if annotation.removesuffix(" | None") == kind and place != "tiling.compare_tilings"}  # fmt: skip
    assert named == {word}


def test_a_class_name_means_one_class() -> None:
    found = Counter()
    for part in PARTS:
        module = importlib.import_module(f"splinescope.{part}")
        found.update(name for name, thing in vars(module).items()
                     if inspect.isclass(thing) and thing.__module__.startswith(f"splinescope.{part}"))  # fmt: skip
    assert [name for name, times in found.items() if times > 1] == []
