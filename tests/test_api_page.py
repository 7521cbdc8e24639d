"""The reference is complete: every public name of every part stands on its page, with when to use it."""

import importlib
import re
from pathlib import Path

import pytest

import splinescope as ss
from tests.test_door import PARTS, public

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "api"
SECTIONS = {page.stem: page.read_text(encoding="utf-8") for page in FOLDER.glob("*.md")}
PAGE = "\n".join(SECTIONS.values())


@pytest.mark.parametrize("part", [*sorted(set(PARTS) - {"cli"}), "splinescope_research"])
def test_every_public_name_has_a_line_that_says_when_to_use_it(part: str) -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.{10,}) \|$", SECTIONS[part], re.MULTILINE)
    module = public(part) if part in PARTS else importlib.import_module(part)
    assert sorted(name for name, _ in rows) == sorted(module.__all__)


@pytest.mark.parametrize("name", sorted(set(ss.__all__) - set(PARTS)))
def test_every_name_at_the_top_level_is_in_the_reference(name: str) -> None:
    assert f"   splinescope.{name}\n" in PAGE


def test_names_listed_one_by_one_exist() -> None:
    for name in re.findall(r"auto(?:function|class|data):: ([\w.]+)", PAGE):
        module, _, last = name.rpartition(".")
        assert hasattr(importlib.import_module(module), last), name
