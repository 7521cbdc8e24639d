"""Verdicts: one rule decides them all, from checks that the tables show with their lines."""

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import splinescope as ss
from splinescope_evidence import Check, Verdict, judged
from splinescope_evidence.framework.experiment import ROLES
from splinescope_evidence.framework.pages import page, told_apart

ROOT = Path(__file__).parents[2]


def test_the_rule_that_decides_is_the_same_everywhere() -> None:
    def check(value: float, line: float = 1.0) -> Check:
        return Check("x", value, "<", line, "a reason")

    good, bad = check(0.5), check(2.0)

    def verdict(**checks: list[Check]) -> Verdict:
        return judged("text", "measured", **checks).verdict  # type: ignore[arg-type]

    unknown = check(float("nan"))
    assert verdict(holds=[good]) == Verdict.HOLDS
    assert verdict(holds=[good, bad]) == Verdict.FAILS
    with pytest.raises(ss.InputError, match="Nothing is asked"):
        verdict(holds=[])
    assert verdict(holds=[bad], corrected=[good]) == Verdict.CORRECTED
    assert verdict(holds=[bad], corrected=[bad]) == Verdict.FAILS
    assert verdict(holds=[bad], fails=[good]) == Verdict.FAILS
    assert verdict(holds=[bad], fails=[bad]) == Verdict.INCONCLUSIVE
    assert verdict(holds=[good], needs=[bad]) == Verdict.INCONCLUSIVE
    # a correction is for what is refuted, not for what could not be shown
    assert verdict(holds=[bad], corrected=[good], fails=[bad]) == Verdict.INCONCLUSIVE
    assert verdict(holds=[bad], corrected=[good], fails=[good]) == Verdict.CORRECTED
    assert verdict(holds=[bad], corrected=[bad], fails=[bad]) == Verdict.INCONCLUSIVE
    # what is not a number refutes nothing, unless other numbers do
    assert verdict(holds=[unknown]) == Verdict.INCONCLUSIVE
    assert verdict(holds=[bad, unknown]) == Verdict.INCONCLUSIVE
    assert verdict(holds=[unknown], corrected=[good]) == Verdict.INCONCLUSIVE
    assert verdict(holds=[bad], corrected=[unknown]) == Verdict.INCONCLUSIVE
    assert verdict(holds=[bad], fails=[unknown]) == Verdict.INCONCLUSIVE
    assert verdict(holds=[good], needs=[unknown]) == Verdict.INCONCLUSIVE
    assert verdict(holds=[unknown], fails=[good]) == Verdict.FAILS
    assert check(0.001).margin == "inside by a factor of 1e+03"
    assert check(1.1).margin == "outside by 0.1"
    assert check(-math.inf).margin == "inside wherever the threshold is: no bound on that side"
    assert check(math.inf).margin == "outside wherever the threshold is: no bound on that side"
    assert "a reason" in judged("t", "m", holds=[good]).criterion


@pytest.mark.parametrize("name", ["evidence.json", "evidence-again.json"])
def test_every_recorded_verdict_follows_from_its_checks_by_the_rule(name: str) -> None:
    records = json.loads((ROOT / "docs" / name).read_text(encoding="utf-8"))
    for claim in (claim for record in records for claim in record["claims"]):
        checks = [Check(**check) for check in claim["checks"]]
        assert checks, claim["text"]
        by_role: dict[str, Any] = {role: [c for c in checks if c.role == role] for role in ROLES}
        assert [c for role in ROLES for c in by_role[role]] == checks  # every one has a role
        again = judged(claim["text"], claim["measured"], **by_role)
        assert (again.verdict, again.criterion) == (claim["verdict"], claim["criterion"])
        assert again.checks == tuple(checks) or any(c.value != c.value for c in checks)  # NaN is unlike itself


def test_the_page_says_for_what_each_check_must_pass() -> None:
    roles = {
        "holds": "to hold",
        "corrected": "to hold as corrected",
        "fails": "to be refuted",
        "needs": "to decide at all",
    }
    checks = {role: [Check(role, 2.0 if role == "holds" else 0.5, "<", 1.0, "why")] for role in roles}
    record = {"id": "x", "document": "survey", "size": "full", "seed": 0, "cpu_seconds": 1.0, "title": "x"}
    shown = page([{**record, "claims": [asdict(judged("text", "measured", **checks))]}])  # type: ignore[arg-type]
    assert all(f"<br>{words}: {role} " in shown for role, words in roles.items())


@pytest.mark.parametrize(
    ("value", "line", "shown"),
    [
        (1.0, 1 - 1e-9, ("1", "0.999999999")),
        (0.12341, 0.1, ("0.1234", "0.1")),
        (0.12341, 0.12342, ("0.12341", "0.12342")),
        (1.0, 1.0, ("1", "1")),
    ],
)
def test_a_number_inside_a_line_does_not_print_equal_to_it(value: float, line: float, shown: tuple[str, str]) -> None:
    assert told_apart(Check("a", value, ">", line, "why")) == shown


def test_lines_that_confirm_and_refute_at_once_are_an_error_that_names_the_claim() -> None:
    """Not while the experiment cannot tell at all: then neither counts."""
    good, bad = Check("x", 0.5, "<", 1.0, "a reason"), Check("x", 0.5, ">", 1.0, "a reason")
    with pytest.raises(ss.InputError, match="confirm and refute 'Folds move'"):
        judged("Folds move", "measured", holds=[good], fails=[good])
    assert judged("Folds move", "measured", holds=[good], fails=[bad]).verdict == Verdict.HOLDS
    assert judged("Folds move", "m", holds=[good], fails=[good], needs=[bad]).verdict == Verdict.INCONCLUSIVE
    assert judged("Folds move", "measured", holds=[good], fails=[]).verdict == Verdict.HOLDS
