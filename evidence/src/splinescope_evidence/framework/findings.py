"""The pages of findings, written from records: an overview, corrections, and a walk through each paper by cards.

`python -m splinescope_evidence.framework.findings docs` writes them into a folder of documentation. All numbers come
from `evidence.json` there, verdicts of another seed from `evidence-again.json`, words from `cards.toml`.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from splinescope.support.files import replacing

from .cards import KINDS, Card, Line, card_of, cards, filled, joined, place_of, reckoning
from .drawn import interval_strip, overview_squares
from .experiment import DOCUMENTS, ROLES, Check, Verdict
from .pages import Record, read_known, repeated, told_apart
from .registry import ROOT, document_of, find, ids

VERDICTS = (Verdict.HOLDS, Verdict.CORRECTED, Verdict.FAILS, Verdict.INCONCLUSIVE)

INTRODUCED = {
    "essay": 'An essay on Balestriero and Baraniuk\'s "Batch Normalization, Explained" says that batch norm fits a '
    "network's tiles to its data before any training, and that minibatches help to generalize.",
    "survey": "Balestriero, Humayun and Baraniuk survey what follows from one fact: a ReLU network is an affine map on "
    "each of many convex tiles.",
    "meanfield": "Ma and Ying read batch norm in two-layer networks as a change of metric, and let the width grow.",
    "decomposed": "Nachum, Bondaschi, Gastpar and Khina take batch norm apart into recentering, rescaling and "
    "non-linearity, and follow a batch through depth.",
    "ours": "Claims that no paper makes.",
}
"""What a reader should know before the first card of a page."""

STRIP = (
    "A row per claim: the number or interval that decides it, and its threshold (dashed). On the shaded side, it holds."
)
"""The caption of a strip of intervals."""

AGAIN = " Shown: the run with another seed."
"""What the caption of such a figure adds."""

OVERVIEW = """# Findings

Do the figures and theorems of three papers and an essay hold when measured? Each mark is one claim, in the order of its
paper. Click a mark for its card.

<div class="wide">

```{{raw}} html
:file: findings/overview.svg
```

</div>

Start with the [corrections to the literature](findings/corrections.md), or with a paper:

{papers}
- [Open questions](open_questions/index.md): what the papers leave open, answered where possible.

## How many hold

| kind | holds | holds with correction | does not hold | inconclusive |
|---|---|---|---|---|
{table}

A paper's claim that fails is a finding; a failed answer to an open question only rules out one idea.

A ring means that the experiment ran again with an independent seed, as {again} did. {same} came out the same.
In {opposed}, one seed says that the claim holds and the other that it does not. Such a claim counts as inconclusive.
A card names the verdicts that the other seed changed.

## How to read a card

The claim is in bold; what we measured follows, with 95% intervals over independent seeds in parentheses. *(question)*
marks an answer to an open question, *(ours)* a claim of our own. *Call* measures it on your network. A *fold* is where
one unit switches between on and off; the [glossary](glossary.md) has the other words.

Thresholds in the code decide every verdict; click *Criteria* to see them. A dagger (†) marks a claim whose
criteria were revised after a full run. *Holds with correction* means that the claim fails as printed and holds as the
card gives it. *Inconclusive* means that the interval leaves both outcomes open. The card then says how large a sample
would decide, if the true effect is the mean of both seeds' effects. For some undecided claims we enlarged the sample
once, with the criteria unchanged.

[Figure 9](findings/survey.md#survey-fig9), [its phases](findings/survey.md#survey-lc-phases), [batch norm and
grokking](findings/survey.md#survey-bn-grokking) and [merging away](findings/survey.md#survey-merge-away) share
training runs, so their agreement is no independent evidence.

{missing}## Run it yourself

```sh
pip install -e . -e evidence
splinescope reproduce survey-fig8 --out reproduced  # one experiment, with its figure
make evidence   # all that changed; {hours} CPU hours for everything
```

```{{toctree}}
:hidden:

findings/corrections
{pages}
```
"""


CORRECTIONS = """# Corrections to the literature

These statements fail our criteria as printed and pass them as corrected; most lack a condition. The
cards have the other numbers.

| where | as printed | as corrected |
|---|---|---|
{rows}
"""


def findings(records: list[Record], again: Iterable[Record] = (), drawn: Iterable[str] = ()) -> dict[str, str]:
    """The text of each file by its path below the folder of documentation.

    Args:
        records: One per experiment, at full size.
        again: The same with another seed.
        drawn: Ids of the experiments whose figure is in `findings/figures`, those of another seed with `-again`; others
            without a picture get a strip of intervals, drawn from the record.
    """
    shown = {r["id"]: r for r in in_reading_order(records)}
    twice, figures = repeated(records, again), set(drawn)
    pages = {document: [r for r in shown.values() if page_of(r) == document] for document in INTRODUCED}
    texts = {
        "evidence.md": _overview(list(shown.values()), twice),
        "findings/overview.svg": overview_squares(_squares(pages, twice)),
        "findings/corrections.md": _corrections(shown.values(), twice),
    }
    for file in sorted((ROOT / "answers").glob("*.md")):
        texts[f"open_questions/{file.name}"] = _answer(file.read_text(encoding="utf-8"), shown)
    for page, rows in pages.items():
        texts[f"findings/{page}.md"] = _walk(page, rows, twice, figures)
    for name, record in shown.items():
        texts[f"findings/criteria/{name}.csv"] = _criteria(record)
        if not card_of(record).figure and not {name, f"{name}-again"} & figures:
            texts[f"findings/figures/{name}.svg"] = interval_strip(record, card_of(record).lines)
    return texts


def _answer(text: str, records: dict[str, Record]) -> str:
    """A page of an open question: `{survey-fig9 3|words+2}` is a number of that claim, as in `filled`."""

    def number(place: re.Match[str]) -> str:
        return filled("{" + place[3] + "}", records[place[1]]["claims"][int(place[2]) - 1])

    return re.sub(r"\{([a-z]+-[a-z0-9-]+)\s(\d+)\|([^{}]+)\}", number, text)


def in_reading_order(records: Iterable[Record]) -> list[Record]:
    """As the cards stand; what has none comes last of its document."""
    order = list(cards())
    documents = list(DOCUMENTS)

    def place(record: Record) -> tuple[int, int, str]:
        name = record["id"]
        return documents.index(record["document"]), order.index(name) if name in order else len(order), name

    return sorted(records, key=place)


def page_of(record: Record) -> str:
    """The page that shows an experiment: its document's, or that of our own claims if all of its claims are ours."""
    return "ours" if all(line.kind == "ours" for line in card_of(record).lines) else str(record["document"])


def counted(records: Iterable[Record], twice: dict[str, Record]) -> dict[str, Counter[str]]:
    """How many claims of each kind came out how; `twice` has the records of another seed by id."""
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    for record in records:
        for line, claim in _claims(record, twice):
            counts[line.kind][claim["verdict"]] += 1
    return counts


def _claims(record: Record, twice: dict[str, Record]) -> list[tuple[Line, dict[str, Any]]]:
    return [(line, joined(record, line, twice.get(record["id"]))) for line in card_of(record).lines]


def _overview(records: list[Record], twice: dict[str, Record]) -> str:
    pairs = [claim for r in records if r["id"] in twice for _, claim in _claims(r, twice)]
    opposed = sum(claim["opposed"] for claim in pairs)
    missing = sorted(set(ids()) - {r["id"] for r in records})
    return OVERVIEW.format(
        papers="\n".join(f"- [{_title(page)}](findings/{page}.md). {text}" for page, text in INTRODUCED.items()),
        table="\n".join(
            f"| {KINDS[kind]} | {' | '.join(str(found[verdict]) for verdict in VERDICTS)} |"
            for kind, found in counted(records, twice).items()
        ),
        again=f"{len(twice)} of {len(records)} experiments",
        same=f"{sum(c['verdict'] == c['again'] and not c['opposed'] for c in pairs)} of {len(pairs)} verdicts",
        opposed={0: "no case", 1: "one case"}.get(opposed, f"{opposed} cases"),
        missing=f"Not measured yet: {', '.join(f'`{name}`' for name in missing)}.\n\n" if missing else "",
        hours=f"{sum(r['cpu_seconds'] for r in records) / 3600:.1f}",
        pages="\n".join(f"findings/{page}" for page in INTRODUCED),
    )


def _title(page: str) -> str:
    return DOCUMENTS.get(page, "Claims of our own").removesuffix(" (essay)")


def _corrections(records: Iterable[Record], twice: dict[str, Record]) -> str:
    rows = [
        (f"[{_place(record)}]({page_of(record)}.md#{record['id']})", line.says, _first(filled(line.found, claim)))
        for record in records
        for line, claim in _claims(record, twice)
        if claim["verdict"] == Verdict.CORRECTED
    ]
    cells = ([cell.replace("|", "\\|") for cell in row] for row in rows)  # |x| is no end of a cell
    return CORRECTIONS.format(rows="\n".join(f"| {' | '.join(row)} |" for row in cells))


def _first(text: str) -> str:
    """Its first sentence: a correction, whose card has the other numbers."""
    return re.split(r"(?<=\.) (?=[A-Z])", text)[0]


def _place(record: Record) -> str:
    short = {"essay": "Essay", "survey": "Survey", "meanfield": "Mean field", "decomposed": "Decomposed"}
    title = find(record["id"]).title.partition(":")[0] if record["id"] in ids() else record["id"]
    return f"{short.get(record['document'], record['document'])}: {title}"


def _walk(page: str, records: list[Record], twice: dict[str, Record], figures: set[str]) -> str:
    """A page: headings by part of the paper, and cards; one without parts has cards alone."""
    lines = [f"# {_title(page)}", "", INTRODUCED[page], ""]
    parts = _parts() if page != "ours" else {}
    before = ""
    for record in records:
        part = parts.get(record["id"], "")
        if part != before:
            lines += [f"## {part}", ""]
        before = part
        lines += _card(card_of(record), record, twice, figures, "###" if part else "##")
    return "\n".join(lines)


def _parts() -> dict[str, str]:
    """The part of its paper that each card stands in: that of the last card before it which begins one."""
    found, part, document = {}, "", ""
    for name, card in cards().items():
        part = card.part or (part if document_of(name) == document else "")
        document = document_of(name)
        found[name] = part
    return found


def _card(card: Card, record: Record, twice: dict[str, Record], figures: set[str], head: str) -> list[str]:
    title = find(card.id).title if card.id in ids() else record["title"]
    revised = find(card.id).revised if card.id in ids() else ()
    drawn = next((f"{name}.png" for name in (card.id, f"{card.id}-again") if name in figures), f"{card.id}.svg")
    picture = card.figure or f"figures/{drawn}"
    text = [f"({card.id})=", f"{head} {title}", "", f"![{title.partition(':')[0]}]({picture})", ""]
    shown = STRIP if picture.endswith(".svg") else card.shows + (AGAIN if picture.endswith("-again.png") else "")
    place = place_of(card.id)
    said = not place or place.lower() in title.lower()
    source = "Source" if page_of(record) == record["document"] else f"Source in the {record['document']}"
    text += [f"*{shown}*{'' if said else f' {source}: {place}.'}".removeprefix("**").strip(), ""]
    for line, claim in _claims(record, twice):
        mark = "†" if set(line.numbers) & set(revised) else ""
        whose = {"ours": "(ours) ", "question": "(question) ", "paper": ""}[line.kind]
        note = " The run with another seed says the opposite." if claim["opposed"] else ""
        if claim["verdict"] == Verdict.INCONCLUSIVE and not claim["opposed"]:
            note = f" {reckoning(record, claim['undecided'])}"
        found = filled(line.found, claim)
        text.append(f"- {badge(claim['verdict'])}{mark} {whose}**{line.says}** {found}{note}".rstrip())
    used = f" Call: `{card.call}`." if card.call else ""
    text += ["", f"`splinescope reproduce {card.id}`, {_time(record)}.{used}{_repeat(record, twice)}", ""]
    file = f":file: criteria/{card.id}.csv"
    table = ["```{csv-table}", file, ":header-rows: 1", "```"]
    return [*text, "<details><summary>Criteria</summary>", "", *table, "", "</details>", ""]


def badge(verdict: str) -> str:
    """A verdict in its color."""
    return f'<span class="verdict {verdict.replace(" ", "-")}">{verdict}</span>'


def _time(record: Record) -> str:
    seconds = record["cpu_seconds"]
    return f"{max(1, round(seconds))} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _repeat(record: Record, twice: dict[str, Record]) -> str:
    if record["id"] not in twice:
        return " Run with one seed."
    other = [
        f"claim {i} {claim['again']}"
        for i, (_, claim) in enumerate(_claims(record, twice), 1)
        if claim["opposed"] or claim["again"] != claim["verdict"]
    ]
    return f" Another seed: {', '.join(other)}." if other else ""


def _criteria(record: Record) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["claim", "passes", "number", "value", "threshold", "why"])
    for i, (_, claim) in enumerate(_claims(record, {}), 1):
        for row in claim.get("checks", ()):
            check = Check(**row)
            value, line = told_apart(check)
            name, reason = (re.sub(r"([*_`|\\$<])", r"\\\1", words) for words in (check.name, check.reason))
            table.writerow([i, ROLES.get(check.role or "", ""), name, value, f"{check.sense} {line}", reason])
    return text.getvalue()


def _squares(pages: dict[str, list[Record]], twice: dict[str, Record]) -> list[tuple[str, list[list[dict[str, str]]]]]:
    """Per page its experiments, each a list of squares."""
    found = []
    for page, records in pages.items():
        rows = [
            [
                {
                    "verdict": claim["verdict"],
                    "kind": line.kind,
                    "ring": "yes" if r["id"] in twice else "",
                    "link": f"findings/{page}.html#{r['id']}",
                    "title": f"{line.says} {claim['verdict'].capitalize()}.",
                }
                for line, claim in _claims(r, twice)
            ]
            for r in records
        ]
        found.append((_title(page), rows))
    return found


def write(docs: Path) -> list[Path]:
    """Write the pages into a folder of documentation, remove those of experiments that are gone; returns the files."""
    figures = docs / "findings" / "figures"
    texts = findings(
        read_known(docs / "evidence.json"),
        read_known(docs / "evidence-again.json"),
        (file.stem for file in figures.glob("*.png")),
    )
    written = [docs / name for name in texts]
    for file in {*(docs / "findings").rglob("*.csv"), *figures.glob("*.svg")} - set(written):
        file.unlink()
    for file, text in zip(written, texts.values(), strict=True):
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as partial:
            partial.write_text(text, encoding="utf-8")
    return written


if __name__ == "__main__":
    print(f"{len(write(Path(sys.argv[1])))} files")
