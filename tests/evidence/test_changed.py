"""Verdicts that changed: CHANGELOG.md lists them, and beside each claim stands what was changed after a full run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from splinescope.evidence import Verdict, find, ids

ROOT = Path(__file__).parents[2]
VERDICTS = {
    (record["id"], number): claim["verdict"]
    for record in json.loads((ROOT / "docs" / "evidence.json").read_text(encoding="utf-8"))
    for number, claim in enumerate(record["claims"], 1)
}
WORDS = "|".join(sorted((v for v in Verdict if v is not Verdict.UNJUDGED), key=len, reverse=True))
ENTRY = re.compile(rf"- `([a-z0-9-]+)` (\d+): ({WORDS}) \(was: ({WORDS})\); \S")


def entries() -> list[str]:
    """Of the list of verdicts that changed, one text each."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    section = changelog.split("### Verdicts that changed\n")[1].split("\n### ")[0]
    return ["- " + entry for entry in re.split(r"^- ", section, flags=re.MULTILINE)[1:]]


LISTED = {(found[1], int(found[2])): (found[3], found[4]) for entry in entries() if (found := ENTRY.match(entry))}
NOTES = {(name, number): note for name in ids() for number, note in find(name).changed.items()}


def test_the_list_is_one_line_for_each_claim_in_one_form() -> None:
    assert [entry for entry in entries() if not ENTRY.match(entry)] == []
    assert len(LISTED) == len(entries()) > 20


@pytest.mark.parametrize("claim", LISTED, ids=str)
def test_a_verdict_that_changed_has_a_note_beside_its_claim(claim: tuple[str, int]) -> None:
    now, before = LISTED[claim]
    assert now != before
    assert VERDICTS[claim] == now, "the changelog has another verdict than docs/evidence.json"
    assert before in re.findall(WORDS, NOTES.get(claim, "")), "no note says what the verdict was"


@pytest.mark.parametrize("claim", NOTES, ids=str)
def test_a_note_that_tells_of_other_verdicts_alone_is_listed(claim: tuple[str, int]) -> None:
    told = re.findall(WORDS, NOTES[claim])
    assert told, "a note says what the verdict was before"
    assert VERDICTS[claim] in told or claim in LISTED
