"""What `reproduce` shows of all results in a folder: a page with figures, and tables in markdown."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

from splinescope import FileFormatError

from .experiment import DOCUMENTS, ROLES, Check
from .registry import find, ids
from .source import source_of

Record = dict[str, Any]

_SIZES = {"quick": "quick size: it works, which judges nothing", "full": "full size"}


def read_record(path: Path) -> Record:
    """One result; what is not JSON is refused by its name."""
    try:
        record: Record = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise FileFormatError(f"{path} is not a result of an experiment: {error}") from error
    return record


def read_records(folder: Path) -> list[Record]:
    """The results in a folder, by document and id."""
    found = [read_record(path) for path in sorted(folder.glob("*.json"))]
    return in_order(record for record in found if is_record(record))


def read_known(path: Path) -> list[Record]:
    """The results in one file, as `records.json` has them: without their numbers."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FileFormatError(f"{path} cannot be read as records of experiments: {error}") from error
    if not isinstance(found, list) or not all(map(is_record, found)):
        raise FileFormatError(f"{path} does not hold a list of records of experiments, as records.json does.")
    return in_order(found)


def is_record(found: Any) -> bool:
    """Whether this is the result of an experiment, and not another JSON file."""
    return isinstance(found, dict) and {"id", "document", "claims"} <= found.keys() and found["document"] in DOCUMENTS


def in_order(records: Iterable[Record]) -> list[Record]:
    """By document and id."""
    order = list(DOCUMENTS)
    return sorted(records, key=lambda r: (order.index(r["document"]), r["id"]))


def without_numbers(record: Record) -> Record:
    """What the tables need of a result."""
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


def summary(records: list[Record], beside: Iterable[Record] = ()) -> str:
    """A markdown table per document: claim, verdict, what was measured; then every line with its reason and margin.

    Of `beside`, the same experiments with other seeds, verdicts that came out otherwise stand behind the first.
    """
    old = [r["id"] for r in records if not is_current(r)]
    missing = sorted(set(ids()) - {r["id"] for r in records})
    again = repeated(records, beside)
    lines = [
        "# What was measured",
        "",
        "How claims of the four documents, and some of our own, came out. A verdict is that of the full size alone.",
        "The second part has, for each claim, the numbers that were compared, their thresholds and the reasons.",
        "",
    ]
    if old:
        lines += [
            f"**{len(old)} experiments marked † were measured by an older version of their source** and stand as they",
            f"were found then: {', '.join(f'`{name}`' for name in old)}.",
            "",
        ]
    if missing:
        lines += [f"Not measured yet at full size: {', '.join(f'`{name}`' for name in missing)}.", ""]
    lines += _on_repeated(records, again)
    for document, group in groupby(records, key=lambda r: r["document"]):
        lines += [f"## {DOCUMENTS[document]}", "", "| experiment | claim | verdict | measured |", "|---|---|---|---|"]
        for r in group:
            for i, c in enumerate(r["claims"]):
                name = _name(r) if i == 0 else ""
                other = again[r["id"]]["claims"][i]["verdict"] if r["id"] in again else c["verdict"]
                verdict = f"**{c['verdict']}**" + ("" if other == c["verdict"] else f"; again: {other}")
                note = _if_any(" *({})*", _cell(_note(r, i + 1)))
                cells = (name, f"{i + 1}. {_cell(c['text'])}{note}", verdict, _cell(c["measured"]))
                lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return "\n".join([*lines, *_lines_table(records)])


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


def _on_repeated(records: list[Record], again: dict[str, Record]) -> list[str]:
    """How many verdicts came out the same when experiments were run again."""
    if not again:
        return []
    pairs = [
        (a["verdict"], b["verdict"])
        for r in records
        if r["id"] in again
        for a, b in zip(r["claims"], again[r["id"]]["claims"], strict=True)
    ]
    same = sum(a == b for a, b in pairs)
    decided = {"holds", "holds with correction", "does not hold"}
    opposed = sum(a != b and {a, b} <= decided and "does not hold" in (a, b) for a, b in pairs)
    seeds = ", ".join(str(seed) for seed in sorted({r["seed"] for r in again.values()}))
    left = [r["id"] for r in records if r["id"] not in again]
    return [
        f"**Run again** with seed {seeds}, which shares no draw with the first, {len(again)} of {len(records)}",
        f"experiments gave the same verdict in {same} of {len(pairs)} claims; in {opposed} one run says that a claim",
        "holds and the other that it does not. A verdict that came out otherwise stands behind the first, after",
        "*again*: the first counts, but a claim with two verdicts is not settled by an experiment of this size.",
        *([f"Not run again by the present source: {', '.join(f'`{name}`' for name in left)}."] if left else []),
        "",
    ]


def _name(record: Record) -> str:
    mark = "" if is_current(record) else " †"
    source = f", source `{record['source']}`" if record.get("source") else ""
    size = "" if record["size"] == "full" else f", {record['size']}"
    title = _if_any(". {}", _cell(record.get("title") or ""))
    place = _if_any(" *({})*", _cell(_place(record)))
    return f"`{record['id']}`{mark}{size}, seed {record['seed']}, {record['cpu_seconds']:.0f} s{source}{title}{place}"


def _place(record: Record) -> str:
    """Of the experiment as it is now: a place that is named better belongs to results that are there already."""
    return find(record["id"]).place if record["id"] in ids() else ""


def _note(record: Record, number: int) -> str:
    revised = record["id"] in ids() and number in find(record["id"]).revised
    return "Criterion revised after a full run." if revised else ""


def _if_any(form: str, text: str) -> str:
    return form.format(text) if text else ""


def _lines_table(records: list[Record]) -> list[str]:
    columns = ("experiment", "claim", "role", "number", "measured", "line", "margin", "why this line")
    head = ["## What would have changed the verdicts", "", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    rows = []
    for r in records:
        checks = [(n, Check(**check)) for n, claim in enumerate(r["claims"], 1) for check in claim.get("checks", ())]
        for i, (n, c) in enumerate(checks):
            name, role = f"`{r['id']}`" if i == 0 else "", ROLES.get(c.role or "", "")
            value, line = told_apart(c)
            cells = (name, str(n), role, _cell(c.name), value, f"{_cell(c.sense)} {line}", c.margin, _cell(c.reason))
            rows.append(f"| {' | '.join(cells)} |")
    return [*head, *rows, ""] if rows else []


def told_apart(check: Check) -> tuple[str, str]:
    """A number and its line with four digits, or as many more as it takes for them not to print alike.

    17 digits tell any two numbers apart, so that only what is equal prints equal.
    """
    told = ((f"{check.value:.{digits}g}", f"{check.line:.{digits}g}") for digits in range(4, 18))
    alike = (f"{check.value:.4g}", f"{check.line:.4g}")
    return next(((value, line) for value, line in told if value != line), alike)


def _cell(text: str) -> str:
    """Text that a markdown table cell shows as it is."""
    for sign in "\\|*_`<[$":
        text = text.replace(sign, "\\" + sign)
    return text


_HEAD = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>splinescope: evidence</title><style>
body{font:16px/1.5 system-ui,sans-serif;margin:0;color:#222;background:#fafafa}main{max-width:70rem;margin:auto;
padding:1rem}section{background:#fff;border:1px solid #ddd;border-radius:8px;padding:1rem 1.5rem;margin:1.5rem 0}
img{max-width:100%}table{border-collapse:collapse;width:100%;font-size:.9rem}td,th{text-align:left;
padding:.35rem .6rem;border-bottom:1px solid #eee;vertical-align:top}.meta{color:#666;font-size:.85rem}
td:nth-child(2){white-space:nowrap;font-weight:600}.holds{color:#00684a}.holds-with-correction{color:#8a5a00}
.does-not-hold{color:#a4262c}.inconclusive,.not-judged{color:#555}</style></head><body><main><h1>Evidence</h1>"""
