"""The pages of open questions: short, with the answer first, a figure of its own, and a place in the index."""

import re
from pathlib import Path

import pytest

from tests.answers import FIGURES

DOCS = Path(__file__).resolve().parents[2] / "docs"
INDEX = (DOCS / "open_questions" / "index.md").read_text(encoding="utf-8")
PAGES = sorted(path for path in (DOCS / "open_questions").glob("*.md") if path.name != "index.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_short_answers_first_and_is_in_the_index(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(text.split()) <= 600
    assert text.split("\n\n")[1].startswith("**")  # the answer, right below the title
    assert "{" not in re.sub(r"\$.*?\$", "", text)  # every number is there
    assert f"]({page.name})" in INDEX


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem in FIGURES], ids=lambda page: page.stem)
def test_a_measured_answer_has_its_figure_and_says_how_it_was_measured(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    ((told, name),) = re.findall(r"!\[([^\]]+)\]\(\.\./images/(answer-[\w-]+\.png)\)", text)
    assert name == f"answer-{page.stem}.png"
    assert len(told) > 30  # for those who do not see it
    assert 5_000 < (DOCS / "images" / name).stat().st_size < 80_000
    for part in ("How it was measured.", "What would change it.", "Run next."):
        assert f"**{part}**" in text


def test_every_figure_of_an_answer_is_drawn_and_shown() -> None:
    drawn = {path.name for path in (DOCS / "images").glob("answer-*.png")}
    assert drawn == {f"answer-{name}.png" for name in FIGURES}
    shown = "".join(page.read_text("utf-8") for page in (*PAGES, *(DOCS / "findings").glob("*.md")))
    assert drawn == set(re.findall(r"answer-[\w-]+\.png", shown))


def test_the_examples_of_the_index_are_there() -> None:
    named = re.findall(r"\]\((\.\./\.\./examples/[a-z_/]+\.py)\)", INDEX)
    assert len(named) >= 9
    assert all((DOCS / "open_questions" / name).is_file() for name in named)
