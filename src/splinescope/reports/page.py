"""Blocks as one self-contained page: texts, pictures and numbers in one file without links out."""

import base64
import html
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources

from ..support.errors import MissingExtraError
from .block import ReportBlock
from .pictures import pictures
from .typical import MAIN, known_numbers, main_number, places, top_findings


def page(title: str, blocks: Iterable[ReportBlock], subtitle: str) -> str:
    """The whole page."""
    blocks = list(blocks)
    return _shell(title, _head(title, subtitle, blocks) + _answer(blocks) + body(blocks))


def side_by_side(
    title: str, columns: Mapping[str, Iterable[ReportBlock]], subtitle: str, table: Sequence[Sequence[str]]
) -> str:
    """One page with a column for each network and a row for each block; the table of main numbers stands before."""
    first = list(next(iter(columns.values())))
    parts = [_head(title, subtitle, first), _table(table)]
    found = {name: {b.key: b for b in blocks} for name, blocks in columns.items()}
    for key, shown in found[next(iter(found))].items():
        row = [blocks[key] for blocks in found.values()]
        cells = "".join(
            f"<div class='cell'><h3>{html.escape(name)}</h3>{_inside(block, reading=False, picture=picture)}</div>"
            for name, block, picture in zip(found, row, _pictures(row), strict=True)
        )
        measured = [block for block in row if block.state == "measured"]
        reading = f"<p>{html.escape(measured[0].reading)}</p>" if measured else ""
        parts.append(
            f"<section id='{key}'><h2>{html.escape(shown.title)}</h2>{reading}"
            f"<div class='cells'>{cells}</div></section>"
        )
    return _shell(title, "".join(parts))


def _answer(blocks: Sequence[ReportBlock]) -> str:
    """What to know first: the most telling findings, each with what to do about it and the call."""
    rows = "".join(
        f"<li><a href='#{b.key}'><b>{html.escape(b.finding)}</b></a><br>{html.escape(b.advice)}<br>"
        f"<code>{html.escape(b.call)}</code></li>"
        for b in top_findings(blocks)
    )
    return f"<section class='answer'><h2>What to know first</h2><ol>{rows}</ol></section>" if rows else ""


def _scale(block: ReportBlock) -> str:
    """A line with a mark where this network lies among those of other people; the least and the largest are named."""
    found, value = places(block), main_number(block)
    if found is None or value is None:
        return ""
    here, others = found
    by_size = sorted([*known_numbers(block).items(), ("this network", value)], key=lambda item: item[1])
    marks = "".join(
        f"<path d='M{4 + 192 * at:.1f} 6v8'><title>{html.escape(name)}</title></path>" for name, at in others.items()
    )
    line = f"<line x1='4' x2='196' y1='10' y2='10'/>{marks}<circle cx='{4 + 192 * here:.1f}' cy='10' r='3.5'/>"
    ends = [f"<span>{number:.3g}<br>{html.escape(name)}</span>" for name, number in (by_size[0], by_size[-1])]
    return (
        f"<div class='scale'><p>{html.escape(MAIN[block.key])}: <strong>{value:.3g}</strong>, among "
        f"{len(others)} networks that others trained</p><svg viewBox='0 0 200 20' role='img' "
        f"aria-label='{html.escape(block.typical)}'>{line}</svg><div>{''.join(ends)}</div></div>"
    )


def _head(title: str, subtitle: str, blocks: Iterable[ReportBlock]) -> str:
    links = "".join(f"<a href='#{b.key}' class='{_class(b)}'>{html.escape(b.title)}</a>" for b in blocks)
    return f"<h1>{html.escape(title)}</h1><p class='meta'>{html.escape(subtitle)}</p><nav>{links}</nav>"


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Names of the networks above, what is measured at the left; nothing where there is no row of numbers."""
    if len(rows) < 2:
        return ""
    names, *others = ([html.escape(cell) for cell in row] for row in rows)
    head = "".join(f"<th scope='col'>{name}</th>" for name in names[1:])
    body = "".join(
        f"<tr><th scope='row'>{row[0]}</th>{''.join(f'<td>{cell}</td>' for cell in row[1:])}</tr>" for row in others
    )
    return (
        f"<section class='table'><table><thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table></section>"
    )


def body(blocks: Iterable[ReportBlock]) -> str:
    """A section for each block."""
    return "".join(
        f"<section id='{b.key}' class='{_class(b)}'><h2>{html.escape(b.title)}</h2>{_inside(b)}</section>"
        for b in blocks
    )


def notebook(head: str, blocks: Iterable[ReportBlock]) -> str:
    """The blocks for a notebook, which has a style of its own: words, and one picture each."""
    parts = [f"<p><b>{html.escape(head)}</b></p>"]
    for block in blocks:
        parts.append(f"<h3>{html.escape(block.title)}</h3>{_words(block)}")
        try:
            picture = block.picture
        except MissingExtraError as error:
            picture = None
            parts.append(f"<p>{html.escape(f'No picture: {error}')}</p>")
        if picture is not None:
            parts.append(f"<img style='width:32rem;max-width:100%' alt='{_alt(block)}' src='{_data(picture)}'>")
    return "".join(parts)


def _inside(block: ReportBlock, *, reading: bool = True, picture: str | None = None) -> str:
    text = _words(block, reading=reading)
    if block.state != "measured":
        return text
    live = block.live_page if picture is None else ""  # not beside another one
    shown = _pictures([block])[0] if picture is None else picture
    numbers = html.escape(json.dumps(block.numbers, indent=1, default=float))
    text += f"<details><summary>all numbers (measured in {block.seconds:.1f} s)</summary><pre>{numbers}</pre></details>"
    frame = (
        f"<iframe title='{_alt(block)}' sandbox='allow-scripts' srcdoc='{html.escape(live)}'></iframe>" if live else ""
    )
    return f"<div class='{'two' if shown else 'one'}'><div>{text}</div><div>{shown}</div></div>{frame}"


def _words(block: ReportBlock, *, reading: bool = True) -> str:
    if block.state != "measured":
        lines = "<br>".join(html.escape(line) for line in block.reason.splitlines())
        return f"<p class='reason'><b>{block.state}</b>: {lines}</p>"
    sure = f"<span class='{block.certainty}'>{block.certainty}</span>"
    return "".join([
        f"<p class='headline'>{html.escape(block.headline[:1].upper() + block.headline[1:])}</p>",
        f"<p class='certainty'>{sure}: {html.escape(block.scope)}</p>",
        f"<p>{html.escape(block.reading)}</p>" if reading else "",
        _scale(block),
        f"<p class='call'>more: <code>{html.escape(block.call)}</code></p>",
    ])  # fmt: skip


def _class(block: ReportBlock) -> str:
    return block.state.replace(" ", "-")


def _pictures(blocks: list[ReportBlock]) -> list[str]:
    """The blocks' pictures on common scales, inside the page, or a line that says what is missing for them."""
    try:
        light, dark = pictures(blocks), pictures(blocks, dark=True)
    except MissingExtraError as error:
        return [f"<p class='meta'>No picture: {html.escape(str(error))}</p>" if block.draw else "" for block in blocks]
    return [
        f"<picture><source media='(prefers-color-scheme: dark)' srcset='{_data(by_night)}'>"
        f"<img alt='{_alt(block)}' src='{_data(by_day)}'></picture>"
        if by_day is not None and by_night is not None
        else ""
        for block, by_day, by_night in zip(blocks, light, dark, strict=True)
    ]


def _alt(block: ReportBlock) -> str:
    return html.escape(f"{block.title}: {block.headline}")


def _data(picture: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(picture).decode('ascii')}"


MARK = "<!doctype html><html lang='en' data-made-by='splinescope report'>"
"""How a page begins: one that does not was made by something else."""


def _shell(title: str, inside: str) -> str:
    style = (resources.files(__package__) / "page.css").read_text(encoding="utf-8")
    return (
        f"{MARK}<head><meta charset='utf-8'><meta name='viewport' "
        f"content='width=device-width, initial-scale=1'><title>{html.escape(title)}</title>"
        f"<style>\n{style}</style></head><body><main>{inside}</main></body></html>"
    )
