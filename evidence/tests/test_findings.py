"""The pages of findings: written from the records, short, with a picture and a call for every experiment."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

import pytest

import splinescope as ss
import splinescope_research
from splinescope_evidence import ids
from splinescope_evidence.framework.cards import Card, Line, card_of, cards, filled, joined, reckoning
from splinescope_evidence.framework.findings import AGAIN as OTHER_SEED
from splinescope_evidence.framework.findings import STRIP, counted, findings, in_reading_order, page_of
from splinescope_evidence.framework.pages import read_known, repeated
from splinescope_evidence.framework.pictures import alike
from splinescope_evidence.framework.registry import document_of

DOCS = Path(__file__).parents[2] / "docs"
RECORDS = read_known(DOCS / "evidence.json")
AGAIN = read_known(DOCS / "evidence-again.json")
FIGURES = DOCS / "findings" / "figures"
PAGES = [DOCS / "evidence.md", *sorted((DOCS / "findings").glob("*.md"))]


def measured_alone(text: str) -> str:
    """A page without the line on experiments that have no record yet: adding one breaks no test."""
    return re.sub(r"Not measured yet: .*\n\n", "", text)


def test_the_pages_are_what_the_records_give() -> None:
    texts = findings(RECORDS, AGAIN, (file.stem for file in FIGURES.glob("*.png")))
    for name, text in texts.items():
        there = (DOCS / name).read_text(encoding="utf-8")
        assert measured_alone(there) == measured_alone(text), f"{name} is older than the records: make evidence"
    made = {DOCS / name for name in texts}
    drawn = {*FIGURES.glob("*.svg"), DOCS / "findings" / "overview.svg"}
    there = {*PAGES, *drawn, *(DOCS / "findings").rglob("*.csv"), *(DOCS / "open_questions").glob("*.md")}
    assert there == made  # nothing of an experiment that is gone


def test_every_record_has_a_card_and_every_claim_of_it_a_line() -> None:
    assert {record["id"] for record in RECORDS} <= set(cards()) <= set(ids())
    for record in RECORDS:
        numbers = [number for line in card_of(record).lines for number in line.numbers]
        assert sorted(numbers) == list(range(1, len(record["claims"]) + 1)), record["id"]
        for line in card_of(record).lines:  # what is joined came out alike: no claim hides behind another
            assert len({record["claims"][number - 1]["verdict"] for number in line.numbers}) == 1, record["id"]


def test_the_findings_are_short() -> None:
    words = {page.name: len(page.read_text(encoding="utf-8").split()) for page in PAGES}
    assert words["evidence.md"] < 1500
    assert words["corrections.md"] < 1200
    assert sum(words.values()) < 16_000
    questions = sum(len(page.read_text(encoding="utf-8").split()) for page in (DOCS / "open_questions").glob("*.md"))
    assert questions < 5_600


@pytest.mark.parametrize("name", cards())
def test_a_card_is_plain(name: str) -> None:
    """Sentences of 25 words at most, in the field's words; calls that are there."""
    card = cards()[name]
    for line in (*card.lines, Line((), card.shows, "", "paper")):
        for text in (line.says, re.sub(r"\{[^}]+\}", "1", line.found)):
            for sentence in re.split(r"(?<=[.:;]) ", text):
                assert len(sentence.split()) <= 25, sentence
            assert not re.search(r"(?i)\bsure(ly)?\b|not judged|can be told", text), text
    assert card.call
    package, *names = re.match(r"[\w.]+", card.call)[0].split(".")  # type: ignore[index]
    functools.reduce(getattr, names, {"ss": ss, "splinescope_research": splinescope_research}[package])


def test_a_figure_has_a_caption_and_a_strip_has_its_own() -> None:
    """It says what is plotted and what to notice; strips of intervals, drawn from records, share one."""
    for name, card in cards().items():
        first, again = ((FIGURES / f"{name}{end}.png").is_file() for end in ("", "-again"))
        strip = not (card.figure or first or again)
        assert bool(card.shows) != strip, name
        assert not (again and (first or card.figure)), name
        page = (DOCS / "findings" / f"{page_of({'id': name, 'document': document_of(name)})}.md").read_text(
            encoding="utf-8"
        )
        below = page.partition(f"({name})=")[2].partition("\n- ")[0]
        assert f"\n*{STRIP if strip else card.shows + OTHER_SEED * again}*" in below, name


@pytest.mark.parametrize("name", cards())
def test_a_card_is_read_in_a_minute(name: str) -> None:
    """Some 120 words of claims and evidence, and a caption of one or two sentences."""
    card = cards()[name]
    texts = [re.sub(r"\{[^}]+\}", "1", f"{line.says} {line.found}") for line in card.lines]
    assert sum(len(text.split()) for text in texts) <= 150
    assert len(card.shows.split()) <= 40


def test_a_bar_in_a_correction_ends_no_cell() -> None:
    text = (DOCS / "findings" / "corrections.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert "|w x" in text
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {4}


def test_every_picture_is_there_and_all_are_small() -> None:
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", "".join(page.read_text(encoding="utf-8") for page in PAGES))
    assert len(pictures) == len(RECORDS)
    files = {(DOCS / "findings" / picture).resolve() for picture in pictures}
    assert all(file.is_file() for file in files)
    assert sum(file.stat().st_size for file in FIGURES.iterdir()) < 6e6


def test_claims_are_counted_by_kind() -> None:
    counts = counted(RECORDS, repeated(RECORDS, AGAIN))
    assert list(counts) == ["paper", "question", "ours"]
    assert sum(sum(found.values()) for found in counts.values()) == sum(len(card_of(r).lines) for r in RECORDS)


@pytest.mark.parametrize(
    ("first", "other", "shown"),
    [
        (["holds", "holds"], ["holds", "holds"], "holds"),
        (["holds", "holds with correction"], None, "holds with correction"),
        (["holds", "inconclusive"], None, "inconclusive"),
        (["inconclusive", "does not hold"], None, "does not hold"),
        (["holds", "holds"], ["holds", "does not hold"], "inconclusive"),  # the seeds oppose each other
        (["does not hold", "holds"], ["holds", "holds with correction"], "inconclusive"),
        (["holds", "holds"], ["inconclusive", "holds"], "holds"),  # said beside it
    ],
)
def test_a_line_holds_if_all_of_its_claims_do_and_no_seed_opposes(
    first: list[str], other: list[str] | None, shown: str
) -> None:
    record, again = ({"claims": [{"verdict": v} for v in verdicts]} for verdicts in (first, other or first))
    assert joined(record, Line((1, 2), "", "", "paper"), again if other else None)["verdict"] == shown


def test_a_record_without_a_card_is_shown_in_its_own_words() -> None:
    record = {"id": "own-sums", "document": "own", "claims": [{"text": "Sums are even.", "verdict": "holds"}]}
    assert card_of(record) == Card("own-sums", (Line((1,), "Sums are even.", "", "ours"),))
    assert in_reading_order([record])


def test_numbers_are_read_off_the_record() -> None:
    claim = {
        "measured": "zero bias 4.0/3.9, batch 7.2/-13.7e-2 (1,000 to 12%) 12345",
        "checks": [{"value": 2 / 3, "line": 0.5}],
    }
    assert filled("{batch+2}, {+1}, {batch+3}, {batch+4}, {.1}, {<1}", claim) == "-13.7e-2, 4.0, 1,000, 12%, 0.667, 0.5"
    assert filled("{batch+5}", claim) == "12,345"
    assert (
        filled("{+1} to {+2}, {+3}", {"measured": "7e+02 to 5.27e+03, 4.7e+07", "checks": []})
        == "700 to 5,270, 4.7e+07"
    )
    for missing in ("{random+1}", "{batch+9}"):
        with pytest.raises(ss.InputError, match="No number"):
            filled(missing, claim)


def test_a_sample_is_reckoned_from_the_interval() -> None:
    def asked(low: float, high: float, fails: float = 0.0) -> str:
        checks = [
            {"name": "lower end", "value": low, "sense": ">", "line": 0.0, "reason": "r", "role": "holds"},
            {"name": "upper end", "value": high, "sense": "<", "line": fails, "reason": "r", "role": "fails"},
        ]
        return reckoning({"cpu_seconds": 60.0}, checks)

    assert "4 times as large" in asked(-1.0, 3.0)  # middle 1, half width 2
    assert "(4 CPU min)" in asked(-1.0, 3.0)
    assert "4 times as large" in asked(-3.0, 1.0)  # towards a refutation
    assert "no feasible sample" in asked(-1.0, 1.001)
    assert "no sample size" in asked(-1.0, -0.5, fails=-2.0)
    both = [
        {"name": "lower end", "value": -1.0, "sense": ">", "line": -2.0, "reason": "r", "role": "holds"},
        {"name": "upper end", "value": 3.0, "sense": "<", "line": 2.0, "reason": "r", "role": "holds"},
    ]
    assert "4 times as large" in reckoning({"cpu_seconds": 60.0}, both)  # the nearer threshold decides
    assert "Networks differ" in reckoning({"cpu_seconds": 1.0}, [{**both[0], "name": "share"}])
    needs = {"name": "n", "value": 0.0, "sense": ">", "line": 1.0, "reason": "r", "role": "needs"}
    assert "cannot decide" in reckoning({"cpu_seconds": 1.0}, [needs])


def test_a_sample_is_reckoned_from_both_seeds() -> None:
    def record(low: float, high: float) -> dict[str, Any]:
        ends = (("lower end", low, ">", "holds"), ("upper end", high, "<", "fails"))
        checks = [
            {"name": name, "value": value, "sense": sense, "line": 0.0, "reason": "r", "role": role}
            for name, value, sense, role in ends
        ]
        return {"claims": [{"verdict": "inconclusive", "checks": checks}], "cpu_seconds": 60.0}

    first, line = record(-1.0, 3.0), Line((1,), "", "", "paper")
    assert "4 times as large" in reckoning(first, joined(first, line)["undecided"])
    assert "no feasible sample" in reckoning(first, joined(first, line, record(-2.9, 1.1))["undecided"])  # they cancel


def test_runs_are_alike_but_for_rounding() -> None:
    assert alike(["error 1.2e-15, 100 nets"], ["error 3e-16, 101 nets"])
    assert not alike(["error 0.12"], ["error 0.2"])
    assert not alike(["error 0.12"], ["gap 0.12"])
    assert not alike([], [])


def test_the_records_are_of_full_size() -> None:
    assert {r["size"] for r in json.loads((DOCS / "evidence.json").read_text(encoding="utf-8"))} == {"full"}


def test_another_seed_counts_if_the_same_source_made_it_at_the_same_size() -> None:
    first = [{"id": name, "source": "s", "size": "full", "seed": 0} for name in "abcd"]
    others = [
        {**first[0], "seed": 1},
        {**first[1], "seed": 1, "source": "older"},
        first[2],
        {**first[3], "size": "quick"},
    ]
    assert repeated(first, others) == {"a": others[0]}
