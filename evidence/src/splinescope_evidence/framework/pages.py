"""What `reproduce` reads and shows of results: one page with figures."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from splinescope import FileFormatError
from splinescope.support.checks import reading

from .experiment import DOCUMENTS, ROLES, Check, Claim, Outcome, Verdict
from .registry import find, ids
from .source import source_of

Record = dict[str, Any]

_SIZES = {"quick": "quick size: it works, which judges nothing", "full": "full size"}


def read_record(path: Path) -> Record:
    """One result; what is not JSON, and a damaged one, is refused by its name."""
    with reading(path):
        record: Record = json.loads(path.read_text(encoding="utf-8"))
        if is_record(record):
            _ = outcome_of(record), page([record])  # all that is ever asked of it
    return record


def outcome_of(record: Record) -> Outcome:
    """What an experiment returned, as it was recorded."""
    claims = (
        Claim(**{**c, "verdict": Verdict(c["verdict"]), "checks": tuple(Check(**k) for k in c.get("checks", ()))})
        for c in record["claims"]
    )
    return Outcome(record.get("numbers", {}), tuple(claims))


def read_records(folder: Path) -> list[Record]:
    """The results in a folder, by document and id."""
    found = [read_record(path) for path in sorted(folder.glob("*.json"))]
    return in_order(record for record in found if is_record(record))


def read_known(path: Path) -> list[Record]:
    """The results in one file, as `records.json` has them: without their numbers."""
    with reading(path):
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, list) or not all(map(is_record, found)):
            raise FileFormatError(f"{path} does not hold a list of records of experiments, as records.json does.")
        _ = [outcome_of(record) for record in found], page(found)
    return in_order(found)


def is_record(found: Any) -> bool:
    """Whether this is the result of an experiment, and not another JSON file."""
    return isinstance(found, dict) and {"id", "claims"} <= found.keys() and found.get("document") in list(DOCUMENTS)


def in_order(records: Iterable[Record]) -> list[Record]:
    """By document and id."""
    order = list(DOCUMENTS)
    return sorted(records, key=lambda r: (order.index(r["document"]), r["id"]))


def without_numbers(record: Record) -> Record:
    """What the findings need of a result."""
    return {key: value for key, value in record.items() if key != "numbers"}


def is_current(record: Record) -> bool:
    """Whether the experiment's source is still the one that made this result."""
    return record["id"] in ids() and record.get("source") == source_of(record["id"])


def page(records: list[Record]) -> str:
    """One HTML page: per experiment its claims, what was measured, what decides, by how much, and its figure."""
    parts = [_HEAD]
    for r in records:
        rows = "".join(
            f"<tr><td>{html.escape(c['text'])}{_if_any(' <em>({})</em>', html.escape(_note(r, i)))}</td>"
            f"<td class='{html.escape(c['verdict'].replace(' ', '-'))}'>"
            f"{html.escape(c['verdict'])}</td><td>{html.escape(c['measured'])}</td>"
            f"<td>{html.escape(c['criterion'])}{_margins(c)}</td></tr>"
            for i, c in enumerate(r["claims"], 1)
        )
        parts.append(
            f"<section id='{r['id']}'><h2>{html.escape(r['title'])}</h2>"
            f"<p class='meta'>{html.escape(r['id'])} · {html.escape(DOCUMENTS[r['document']])}"
            f"{_if_any(': {}', html.escape(_place(r)))} · {_SIZES[r['size']]} · "
            f"seed {r['seed']} · {r['cpu_seconds']} s of CPU time · source {html.escape(_source(r))} · "
            f"<a href='{r['id']}.json'>numbers</a></p>"
            f"<table><tr><th>claim</th><th>verdict</th><th>measured</th><th>decided by</th></tr>{rows}</table>"
            f"<img src='{r['id']}.png' alt='{html.escape(r['title'])}'></section>"
        )
    return "\n".join([*parts, "</main></body></html>"])


def _margins(claim: dict[str, Any]) -> str:
    checks = [Check(**check) for check in claim.get("checks", ())]
    lines = "".join(
        f"<br>{_if_any('{}: ', ROLES.get(c.role or '', ''))}"
        f"{html.escape(c.name)} {told_apart(c)[0]}, {html.escape(c.margin)}"
        for c in checks
    )
    return f"<div class='meta'>{lines}</div>" if lines else ""


def _source(record: Record) -> str:
    return f"{record.get('source') or 'unknown'}{'' if is_current(record) else ' (older version)'}"


def repeated(records: Iterable[Record], beside: Iterable[Record]) -> dict[str, Record]:
    """By id, those of `beside` that repeat one of the records: the same source and size, another seed."""
    first = {r["id"]: r for r in records}
    return {
        r["id"]: r
        for r in beside
        if (one := first.get(r["id"])) is not None
        and (r.get("source"), r["size"]) == (one.get("source"), one["size"])
        and r["seed"] != one["seed"]
    }


def _place(record: Record) -> str:
    """Of the experiment as it is now: a place that is named better belongs to results that are there already."""
    return find(record["id"]).place if record["id"] in ids() else ""


def _note(record: Record, number: int) -> str:
    revised = record["id"] in ids() and number in find(record["id"]).revised
    return "Criterion revised after a full run." if revised else ""


def _if_any(form: str, text: str) -> str:
    return form.format(text) if text else ""


def told_apart(check: Check) -> tuple[str, str]:
    """A number and its threshold with four digits, or as many more as it takes for them not to print alike.

    17 digits tell any two numbers apart, so that only what is equal prints equal.
    """
    told = ((f"{check.value:.{digits}g}", f"{check.line:.{digits}g}") for digits in range(4, 18))
    alike = (f"{check.value:.4g}", f"{check.line:.4g}")
    return next(((value, line) for value, line in told if value != line), alike)


_HEAD = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>splinescope: evidence</title><style>
body{font:16px/1.5 system-ui,sans-serif;margin:0;color:#222;background:#fafafa}main{max-width:70rem;margin:auto;
padding:1rem}section{background:#fff;border:1px solid #ddd;border-radius:8px;padding:1rem 1.5rem;margin:1.5rem 0}
img{max-width:100%}table{border-collapse:collapse;width:100%;font-size:.9rem}td,th{text-align:left;
padding:.35rem .6rem;border-bottom:1px solid #eee;vertical-align:top}.meta{color:#666;font-size:.85rem}
td:nth-child(2){white-space:nowrap;font-weight:600}.holds{color:#00684a}.holds-with-correction{color:#8a5a00}
.does-not-hold{color:#a4262c}.inconclusive,.not-judged{color:#555}</style></head><body><main><h1>Evidence</h1>"""
