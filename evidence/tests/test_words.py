"""What docs/evidence.md says of a correction: what the document has and where, how it is mended, that it was tested."""

import json
import re
from pathlib import Path
from typing import Any

from splinescope_evidence import Verdict

RECORDS = json.loads((Path(__file__).parents[2] / "docs" / "evidence.json").read_text(encoding="utf-8"))
CORRECTED = {
    f"{record['id']} {number}": claim
    for record in RECORDS
    for number, claim in enumerate(record["claims"], 1)
    if claim["verdict"] == Verdict.CORRECTED
}
PLACE = re.compile(
    r"Figures? \d|[Ee]quations? \(\d|[Ss]ection [\dIV]|(Theorem|Lemma|Corollary|Proposition|Definition) \d"
    r"|Example|[Rr]emark|[Ss]urvey, |[Ee]ssay, "
)


def test_a_correction_is_told_apart_from_what_the_document_says_and_where() -> None:
    for name, claim in CORRECTED.items():
        said, mark, correction = claim["text"].partition("Corrected: ")
        assert mark, f"{name}: what is said and what is corrected are one sentence"
        assert correction.strip()
        assert PLACE.search(said), f"{name}: no place in the document"


def test_a_corrected_form_is_more_than_that_the_stated_one_is_false() -> None:
    """A claim that is corrected by the same number on the other side of the same line could not fail."""

    def at(check: dict[str, Any]) -> tuple[str, float]:
        return check["name"], check["line"]

    for name, claim in CORRECTED.items():
        checks = claim["checks"]
        senses = {at(c): {other["sense"] for other in checks if at(other) == at(c)} for c in checks}
        assert any(len(found) == 1 for found in senses.values()), name


BY_INTERVAL = {
    f"{record['id']} {number}": claim
    for record in RECORDS
    for number, claim in enumerate(record["claims"], 1)
    if any(check["role"] == "holds" and " end of " in check["name"] for check in claim["checks"])
}


def test_an_interval_that_misses_its_line_refutes_nothing_by_that() -> None:
    """What is not shown is inconclusive: a claim that an end of an interval decides says by which one it is refuted."""
    assert BY_INTERVAL
    for name, claim in BY_INTERVAL.items():
        assert any(check["role"] == "fails" for check in claim["checks"]), name
