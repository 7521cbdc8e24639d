"""The pages of open questions: complete, listed, and in step with the runs they tell of."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
INDEX = (DOCS / "open_questions" / "index.md").read_text(encoding="utf-8")
PAGES = sorted(path for path in (DOCS / "open_questions").glob("*.md") if path.name != "index.md")
RECORDS = {row["id"]: row for row in json.loads((DOCS / "evidence.json").read_text(encoding="utf-8"))}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_every_part_and_the_time_its_run_took(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for part in ("The question.", "The tool.", "The method", "The answer", "What would have changed it."):
        assert f"**{part}" in text
    experiment = re.search(r"\*\*The method\*\* \(`([a-z-]+)`\)", text)
    assert experiment is not None
    row = RECORDS[experiment[1]]
    assert row["size"] == "full"
    told = re.search(r"run took ([\d,]+) s\s+of\s+CPU\s+time", text)
    assert told is not None
    assert 1 / 1.5 < float(told[1].replace(",", "")) / row["cpu_seconds"] < 1.5  # a run made again takes about as long
    assert f"]({page.name})" in INDEX
    assert f"`{experiment[1]}`" in INDEX


def test_every_question_has_an_example() -> None:
    named = re.findall(r"\]\((\.\./\.\./examples/[a-z_/]+\.py)\)", INDEX)
    assert len(set(named)) == len(PAGES)
    assert all((DOCS / "open_questions" / name).is_file() for name in named)
