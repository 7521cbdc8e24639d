"""Numbers that a guide quotes beside a link to a card are those of records that the guide links to, rounded."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
RECORDS = {r["id"]: r for r in json.loads((DOCS / "evidence.json").read_text(encoding="utf-8"))}
QUOTES = [
    (page.name, " ".join(item.split()))
    for page in sorted(DOCS.glob("*.md"))
    for item in re.split(r"\n(?=- )|\n\n", page.read_text(encoding="utf-8"))
    if "(findings/" in item and page.name != "evidence.md"
]
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)(?:e[-+]?\d+)?")


@pytest.mark.parametrize(("page", "item"), QUOTES)
def test_a_guide_quotes_what_was_measured(page: str, item: str) -> None:
    whole = (DOCS / page).read_text(encoding="utf-8")
    names = re.findall(r"findings/\w+\.md#([\w-]+)", whole)
    told = " ".join(claim["measured"] for name in names for claim in RECORDS[name]["claims"])
    for answer in re.findall(r"open_questions/\w+\.md", item):
        told += (DOCS / answer).read_text(encoding="utf-8")
    measured = [float(n) for n in re.findall(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?", told)]
    text = re.sub(r"\[[^\]]*\]\([^)]*\)|`[^`]*`|\$[^$]*\$", "", item)
    for number in NUMBER.findall(text):
        digits = len(number.partition(".")[2].partition("e")[0])
        near = [m for m in measured if f"{abs(m):.{digits}f}" == f"{abs(float(number)):.{digits}f}"]
        assert near, f"{page} says {number}, which {', '.join(names)} did not measure: {item}"
