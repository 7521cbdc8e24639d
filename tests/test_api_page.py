"""The reference is complete: every public name of every part stands on the API page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import splinescope as ss

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "api.md").read_text(encoding="utf-8")
WHOLE_PARTS = set(re.findall(r"automodule:: splinescope\.(\w+)", PAGE))
SINGLE_NAMES = set(re.findall(r"auto(?:function|class|data):: splinescope\.(\w+)", PAGE))


@pytest.mark.parametrize("name", sorted(ss.__all__))
def test_every_public_name_is_in_the_reference(name: str) -> None:
    if name not in SINGLE_NAMES | WHOLE_PARTS:
        assert getattr(ss, name).__module__.split(".")[1] in WHOLE_PARTS


def test_names_listed_one_by_one_exist() -> None:
    assert {name for name in SINGLE_NAMES if not hasattr(ss, name)} == set()
