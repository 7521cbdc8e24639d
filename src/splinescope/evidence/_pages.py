"""What `reproduce` shows of all results in a folder: a page with figures, and a table of claims in markdown."""

from __future__ import annotations

import html
import json
from itertools import groupby
from pathlib import Path
from typing import Any

from ._experiment import DOCUMENTS

Record = dict[str, Any]

_SIZES = {"quick": "quick size: a first look, full size decides", "full": "full size"}


def read_records(folder: Path) -> list[Record]:
    """The results in a folder, by document and id."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    order = list(DOCUMENTS)
    records = [record for record in found if {"id", "document", "claims"} <= record.keys()]
    return sorted(records, key=lambda r: (order.index(r["document"]), r["id"]))


def page(records: list[Record]) -> str:
    """One HTML page: per experiment its claims, what was measured, what decides, and its figure."""
    parts = [_HEAD]
    for r in records:
        rows = "".join(
            f"<tr><td>{html.escape(c['text'])}</td><td class='{html.escape(c['verdict'].replace(' ', '-'))}'>"
            f"{html.escape(c['verdict'])}</td><td>{html.escape(c['measured'])}</td>"
            f"<td>{html.escape(c['criterion'])}</td></tr>"
            for c in r["claims"]
        )
        parts.append(
            f"<section id='{r['id']}'><h2>{html.escape(r['title'])}</h2>"
            f"<p class='meta'>{html.escape(r['id'])} · {html.escape(DOCUMENTS[r['document']])} · {_SIZES[r['size']]} · "
            f"seed {r['seed']} · {r['seconds']} s · <a href='{r['id']}.json'>numbers</a></p>"
            f"<table><tr><th>claim</th><th>verdict</th><th>measured</th><th>decided by</th></tr>{rows}</table>"
            f"<img src='{r['id']}.png' alt='{html.escape(r['title'])}'></section>"
        )
    return "\n".join([*parts, "</main></body></html>"])


def summary(records: list[Record]) -> str:
    """A markdown table per document: claim, verdict, what was measured, of which size."""
    lines = [
        "# What was measured",
        "",
        "Every claim of the four documents that splinescope can test, and how it came out. The criterion that decides",
        "each verdict stands in the code of its experiment and on the page that `splinescope reproduce` writes.",
        "",
    ]
    for document, group in groupby(records, key=lambda r: r["document"]):
        lines += [f"## {DOCUMENTS[document]}", "", "| experiment | claim | verdict | measured |", "|---|---|---|---|"]
        for r in group:
            for i, c in enumerate(r["claims"]):
                name = f"`{r['id']}`, {r['size']}, {r['seconds']:.0f} s" if i == 0 else ""
                cells = (name, _cell(c["text"]), f"**{c['verdict']}**", _cell(c["measured"]))
                lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


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
.does-not-hold{color:#a4262c}.inconclusive{color:#555}</style></head><body><main><h1>Evidence</h1>"""
