"""The pages of open questions: complete, listed, and in step with the runs they tell of."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.answers import FIGURES

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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_shows_its_answer_and_says_how_to_read_it(page: Path) -> None:
    figures = re.findall(
        r"!\[([^\]]+)\]\(\.\./images/(answer-[\w-]+\.png)\)\n\n\*\*How to read it\.\*\* ", page.read_text("utf-8")
    )
    assert figures[0][1] == f"answer-{page.stem}.png"
    for told, name in figures:
        assert len(told) > 60  # for those who do not see it
        assert 5_000 < (DOCS / "images" / name).stat().st_size < 80_000


def test_every_figure_of_an_answer_is_drawn_and_shown() -> None:
    drawn = {path.name for path in (DOCS / "images").glob("answer-*.png")}
    assert drawn == {f"answer-{name}.png" for name in FIGURES}
    assert drawn == {name for page in PAGES for name in re.findall(r"answer-[\w-]+\.png", page.read_text("utf-8"))}


def test_criteria_were_committed_before_the_first_row() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| ([0-9a-f]{7}) \| ([0-9a-f]{7}) \|", INDEX, flags=re.MULTILINE)
    asked = set(re.findall(r"`((?:survey|essay)-[a-z-]+)`", INDEX))
    assert asked == {name for name, _, _ in rows}
    if not (DOCS.parent / ".git").exists() or git("rev-parse", "--is-shallow-repository") != "false":
        pytest.skip("the history is not here")
    for name, criteria, first in rows:
        assert git("merge-base", criteria, first) == git("rev-parse", criteria) != git("rev-parse", first)
        assert f'"{name}"' in git("show", f"{first}:docs/evidence.json")
        assert f'"{name}"' not in git("show", f"{first}~1:docs/evidence.json")


def test_the_index_says_which_experiments_were_run_with_another_seed() -> None:
    again = {row["id"]: row for row in json.loads((DOCS / "evidence-again.json").read_text(encoding="utf-8"))}
    asked = set(re.findall(r"`((?:survey|essay)-[a-z-]+)`", INDEX))
    present = {name for name in asked & set(again) if again[name]["source"] == RECORDS[name]["source"]}
    told = re.search(r"Of these experiments only (.+?) (?:was|were) run as a whole with another seed", INDEX, re.DOTALL)
    assert told is not None
    assert set(re.findall(r"`([a-z-]+)`", told[1])) == present


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=DOCS, capture_output=True, text=True, check=True).stdout.strip()


def test_every_question_has_an_example() -> None:
    named = re.findall(r"\]\((\.\./\.\./examples/[a-z_/]+\.py)\)", INDEX)
    assert len(set(named)) == len(PAGES)
    assert all((DOCS / "open_questions" / name).is_file() for name in named)
