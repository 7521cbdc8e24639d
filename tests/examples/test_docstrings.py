"""The examples in all docstrings print what they say."""

import doctest
import importlib
from pathlib import Path

import pytest

import splinescope
import splinescope_research

ROOTS = [Path(package.__file__).parent for package in (splinescope, splinescope_research)]
MODULES = [
    ".".join(path.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")
    for root in ROOTS
    for path in sorted(root.rglob("*.py"))
    if ">>>" in path.read_text(encoding="utf-8")
]


def test_there_are_examples() -> None:
    assert len(MODULES) > 40


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_the_docstrings_are_true(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
