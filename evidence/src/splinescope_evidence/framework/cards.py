"""What a reader sees of an experiment: its claims in plain words, with numbers that are read off its record.

The words stand in `cards.toml` of each document's folder, in the document's order. They are not code: a sentence that
is put better makes no result stale. An experiment without a card is shown by the words of its record.
"""

from __future__ import annotations

import math
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args

from splinescope import InputError

from .experiment import DOCUMENTS, Check, Verdict
from .registry import ROOT, document_of, find, ids

Kind = Literal["paper", "question", "ours"]

KINDS: dict[str, str] = {
    "paper": "What the papers claim",
    "question": "Answers to their open questions",
    "ours": "Claims of our own",
}
"""Who says a claim: three kinds that are counted apart."""

_ENDS = {
    "lower": r"(?i)\blower|\bat least, in|\bnearer end|that is sure",
    "upper": r"(?i)\bupper|\bat most, in|\bfurther end|that is possible",
}
OTHER = {"lower": "upper", "upper": "lower"}

NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?%?")


@dataclass(frozen=True)
class Line:
    """One claim of a card, which may join several of its experiment.

    Attributes:
        numbers: Of the joined claims in the experiment, from 1.
        says: The claim in plain words.
        found: What was measured, with places for numbers of the record (see `filled`).
        kind: Who says it.
    """

    numbers: tuple[int, ...]
    says: str
    found: str
    kind: Kind


@dataclass(frozen=True)
class Card:
    """An experiment on a page.

    Attributes:
        id: Of the experiment.
        lines: Its claims.
        call: What measures the same on a network of one's own.
        part: Heading of the part of the document that begins here, if one does.
        figure: A picture in the documentation that stands in for the experiment's own.
        shows: Its caption: what is plotted, and what to notice.
    """

    id: str
    lines: tuple[Line, ...]
    call: str = ""
    part: str = ""
    figure: str = ""
    shows: str = ""


@cache
def cards() -> dict[str, Card]:
    """The cards of all documents by id, in the order of the documents."""
    found: dict[str, Card] = {}
    for document in DOCUMENTS:
        file = ROOT / document / "cards.toml"
        if file.is_file():
            rows = tomllib.loads(file.read_text(encoding="utf-8"))
            found |= {name: _card(name, row) for name, row in rows.items()}
    return found


def card_of(record: dict[str, Any]) -> Card:
    """The card of a record's experiment; without one, the claims of the record in its own words."""
    name = record["id"]
    if name in cards():
        return cards()[name]
    kind: Kind = "ours" if document_of(name) == "own" else "paper"
    lines = (Line((i,), claim["text"], "", kind) for i, claim in enumerate(record["claims"], 1))
    return Card(name, tuple(lines))


def joined(record: dict[str, Any], line: Line, again: dict[str, Any] | None = None) -> dict[str, Any]:
    """What a line claims, with its verdict, as one claim of the record: it holds if all that it joins hold.

    Where another seed opposes the verdict, one saying that it holds and the other that it does not, it is inconclusive.
    """
    claims = [record["claims"][number - 1] for number in line.numbers]
    verdict = _all_of(claims)
    other = None if again is None else _all_of([again["claims"][number - 1] for number in line.numbers])
    opposed = other is not None and verdict != other and Verdict.FAILS in (verdict, other)
    opposed = opposed and Verdict.INCONCLUSIVE not in (verdict, other)
    return {
        "verdict": Verdict.INCONCLUSIVE if opposed else verdict,
        "again": other,
        "opposed": opposed,
        "measured": "; ".join(claim.get("measured", "") for claim in claims),
        "checks": [check for claim in claims for check in claim.get("checks", ())],
        "undecided": _pooled(record, again, line.numbers),
    }


def _pooled(record: dict[str, Any], again: dict[str, Any] | None, numbers: tuple[int, ...]) -> list[dict[str, Any]]:
    """The checks of the undecided claims of these, with the means of both seeds' values: their effect, known best."""
    checks = []
    for number in numbers:
        claim, other = (of_seed["claims"][number - 1] for of_seed in (record, again or record))
        if claim["verdict"] == Verdict.INCONCLUSIVE:
            for a, b in zip(claim.get("checks", ()), other.get("checks", ()), strict=True):
                checks.append(a if a["role"] == "needs" else {**a, "value": (a["value"] + b["value"]) / 2})
    return checks


def _all_of(claims: list[dict[str, Any]]) -> str:
    """The verdict on "all of these": refuted by one that is, decided if all are, corrected if one needs it."""
    found = {claim["verdict"] for claim in claims}
    worst = (Verdict.FAILS, Verdict.INCONCLUSIVE, Verdict.CORRECTED, Verdict.HOLDS)
    return next(verdict for verdict in worst if verdict in found)


def place_of(experiment_id: str) -> str:
    """Where in its document an experiment stands; empty for one that is not there."""
    return find(experiment_id).place if experiment_id in ids() else ""


def filled(template: str, claim: dict[str, Any]) -> str:
    """A sentence with the numbers of a claim in their places.

    `{words+2}` is the second number behind the first occurrence of these words in `claim["measured"]`, `{+2}` its
    second number, `{.3}` the value of the third check, `{<3}` its threshold. Whole numbers from 10,000 on get commas,
    also from 5.3e+04.

    Example:
        >>> filled("{batch+2} and {.1}", {"measured": "batch 7.2/13.7", "checks": [{"value": 0.12345}]})
        '13.7 and 0.123'
    """

    def number(place: re.Match[str]) -> str:
        if compared := re.fullmatch(r"([.<])(\d+)", place[1]):
            return f"{claim['checks'][int(compared[2]) - 1]['value' if compared[1] == '.' else 'line']:.3g}"
        words, _, count = place[1].rpartition("+")
        start = claim["measured"].find(words)
        found = NUMBER.findall(claim["measured"][start + len(words) :]) if start >= 0 else []
        if len(found) < int(count):
            raise InputError(f"No number {place[0]} in what was measured: {claim['measured']!r}")
        text = str(found[int(count) - 1])
        whole = re.fullmatch(r"\d{5,}|[\d.]+e\+0[2-5]", text)
        return f"{float(text):,.0f}" if whole else text

    return re.sub(r"\{([^{}]+)\}", number, template)


def reckoning(record: dict[str, Any], undecided: list[dict[str, Any]]) -> str:
    """How large a sample would decide an inconclusive claim by these checks, if the effect is as measured.

    From the intervals whose ends were compared: a half width h shrinks with the root of the sample n, so that an end
    leaves a threshold at distance d from the middle at n (h / d)^2. To hold, or to be refuted, takes all of its checks.
    """
    checks = [Check(**check) for check in undecided]
    if any(check.role == "needs" and not check.passed for check in checks):
        return "The experiment cannot decide it, however large the sample."
    ends = {end: [c for c in checks if re.search(words, c.name)] for end, words in _ENDS.items()}
    if not all(ends.values()) or not all(math.isfinite(c.value) for c in (*ends["lower"], *ends["upper"])):
        return "Networks differ, so a larger sample would not decide it."
    sizes = []
    for role in ("holds", "fails"):
        needed = [1.0]
        for end, found in ends.items():
            for check in (c for c in found if c.role == role):
                other = next((c for c in ends[OTHER[end]] if apart(c.name) == apart(check.name)), ends[OTHER[end]][0])
                middle, half = (check.value + other.value) / 2, abs(check.value - other.value) / 2
                away = middle - check.line if check.sense == ">" else check.line - middle
                outer = (end, check.sense) in (("lower", ">"), ("upper", "<"))  # the other ends pass more easily, wide
                needed.append(((half / away) ** 2 if outer else 1.0) if away > 0 else math.inf)
        if len(needed) > 1:
            sizes.append(max(needed))
    times = min(sizes, default=math.inf)
    if math.isinf(times):
        return "If these values are the true ones, no sample size would decide it."
    if times > 1000:
        return "The effect is so near its threshold that no feasible sample would decide it."
    minutes = times * record["cpu_seconds"] / 60
    spent = f"{max(minutes, 1):.0f} CPU min" if minutes < 90 else f"{minutes / 60:.0f} CPU hours"
    if times < 1.15:
        return f"A slightly larger sample would decide it ({spent})."
    return f"A sample {times:{'.0f' if times > 9.5 else '.2g'}} times as large would decide it ({spent})."


def apart(name: str) -> str:
    """What an interval is of, by the name of one of its ends."""
    return re.sub(r"(?i)lower|upper|at least|at most", "", name)


def _card(name: str, row: dict[str, Any]) -> Card:
    known = {"claims", "call", "part", "figure", "shows", "kind"}
    if unknown := row.keys() - known:
        raise InputError(f"The card of {name} has {', '.join(sorted(unknown))}; known are {', '.join(sorted(known))}.")
    lines = tuple(
        Line(tuple(n) if isinstance(n, list) else (n,), says, found, (kind or [row.get("kind", "paper")])[0])
        for n, says, found, *kind in row["claims"]
    )
    if strange := {line.kind for line in lines} - set(get_args(Kind)):
        raise InputError(f"The card of {name} has the kinds {strange}; known are {get_args(Kind)}.")
    return Card(name, lines, row.get("call", ""), *(row.get(field, "") for field in ("part", "figure", "shows")))
