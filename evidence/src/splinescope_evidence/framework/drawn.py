"""Pictures of records as SVG: a square per claim, and a strip of intervals beside their thresholds."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from html import escape
from typing import Any

from .cards import OTHER, Line, apart, joined
from .experiment import Check, Verdict

COLORS: dict[str, str] = {
    Verdict.HOLDS: "#0a7f5a",
    Verdict.CORRECTED: "#e0a100",
    Verdict.FAILS: "#c8421b",
    Verdict.INCONCLUSIVE: "#a9adb3",
}
"""Told apart with color-blind eyes and on dark pages."""

_SIDE, _STEP, _APART, _LEFT, _WIDTH = 15, 21, 7, 10, 760


def overview_squares(rows: Iterable[tuple[str, list[list[dict[str, str]]]]]) -> str:
    """One block of squares for each (title, experiments), an experiment's squares side by side; links and tooltips.

    A square is a claim of a paper, a disc an answer to an open question, a diamond a claim of our own. A ring stands
    for a second seed.
    """
    parts, y = [], 16
    for title, experiments in rows:
        parts.append(f'<text x="{_LEFT}" y="{y}" font-weight="600">{escape(title)}</text>')
        x, y = _LEFT, y + 14
        for squares in experiments:
            if x > _LEFT and x + len(squares) * _STEP > _WIDTH - _LEFT:
                x, y = _LEFT, y + _STEP + 4
            for square in squares:
                mark = _mark(x, y, square["kind"], COLORS[square["verdict"]], bool(square["ring"]))
                parts.append(f'<a href="{escape(square["link"])}"><title>{escape(square["title"])}</title>{mark}</a>')
                x += _STEP
            x += _APART
        y += _STEP + 24
    parts.append(_legend(y))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="overview" viewBox="0 0 {_WIDTH} {y + 46}" role="img" '
        'aria-label="A square for each claim, colored by its verdict" font-family="system-ui,sans-serif" '
        f'font-size="13" fill="currentColor">\n{chr(10).join(parts)}\n</svg>\n'
    )


def _mark(x: float, y: float, kind: str, color: str, ring: bool) -> str:
    side, middle = _SIDE, _SIDE / 2
    around = f' stroke="currentColor" stroke-width="{2 if ring else 0}"'
    if kind == "question":
        return f'<circle cx="{x + middle}" cy="{y + middle}" r="{middle}" fill="{color}"{around}/>'
    if kind == "ours":
        corners = ((middle, -1), (side + 1, middle), (middle, side + 1), (-1, middle))
        points = " ".join(f"{x + a:g},{y + b:g}" for a, b in corners)
        return f'<polygon points="{points}" fill="{color}"{around}/>'
    return f'<rect x="{x}" y="{y}" width="{side}" height="{side}" rx="2" fill="{color}"{around}/>'


def _legend(y: float) -> str:
    parts, x = [], _LEFT
    for verdict, color in COLORS.items():
        parts.append(f'{_mark(x, y, "paper", color, False)}<text x="{x + 21}" y="{y + 12}">{verdict}</text>')
        x += 44 + 7 * len(verdict)
    x, y = _LEFT, y + 24
    kinds = (("paper", "a paper's claim", False), ("question", "open question", False), ("ours", "ours", False))
    for kind, words, ring in (*kinds, ("paper", "another seed ran too", True)):
        parts.append(
            f'{_mark(x, y, kind, COLORS[Verdict.INCONCLUSIVE], ring)}<text x="{x + 21}" y="{y + 12}">{words}</text>'
        )
        x += 48 + 7 * len(words)
    return "".join(parts)


def interval_strip(record: dict[str, Any], lines: Iterable[Line]) -> str:
    """What was compared with which threshold, claim by claim, each on a scale of its own.

    A bar is an interval whose two ends were compared, a dot a single number; the dashed line is the threshold by which
    the claim holds, and its side is shaded.
    """
    parts, y, width, left = [], 34, 640, 20
    for number, line in enumerate(lines, 1):
        claim = joined(record, line)
        check, low, high = _compared([Check(**row) for row in claim["checks"]])
        reach = 1.25 * max((abs(v - check.line) for v in (low, high) if math.isfinite(v)), default=1.0) or 1.0
        middle, half = left + width / 2, width / 2
        start = middle if check.sense == ">" else left
        color = COLORS[claim["verdict"]]
        ends = [min(max(middle + half * (v - check.line) / reach, left), left + width) for v in (low, high)]
        words = escape(
            f"{number}. {_shortened(check.name)}: {_number(low)}" + (f" to {_number(high)}" if high > low else "")
        )
        parts += [
            f'<text x="{left}" y="{y - 16}">{words}</text>',
            f'<rect x="{start}" y="{y - 9}" width="{half}" height="18" fill="{color}" opacity=".12"/>',
            f'<path d="M{middle} {y - 11}v22" stroke="currentColor" stroke-dasharray="3 2"/>',
            f'<text x="{middle + 4}" y="{y + 22}" font-size="10" opacity=".7">{_number(check.line)}</text>',
            f'<path d="M{ends[0]:.1f} {y}H{ends[1]:.1f}" stroke="{color}" stroke-width="4"/>',
            f'<circle cx="{sum(ends) / 2:.1f}" cy="{y}" r="5" fill="{color}"/>',
        ]
        y += 60
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + 2 * left} {y - 20}" width="{width + 2 * left}" '
        f'font-family="system-ui,sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fff"/>\n'
        f"{chr(10).join(parts)}\n</svg>\n"
    )


def _compared(checks: list[Check]) -> tuple[Check, float, float]:
    """The first check that decides, and the interval that it is an end of, or its value twice.

    Of the checks by which a claim holds that is the first which fails, or the first if all pass.
    """
    holds = [check for check in checks if check.role == "holds"]
    first = next((check for check in holds if not check.passed), holds[0])
    end = re.search(r"(?i)\b(lower|upper)", first.name)
    others = [c for c in checks if end and re.search(rf"(?i)\b{OTHER[end[0].lower()]}", c.name)]
    same = [c for c in others if apart(c.name) == apart(first.name)] or (others if len(holds) == 1 else [first])
    values = [first.value, *(c.value for c in same[:1])]
    return first, min(values), max(values)


def _shortened(name: str) -> str:
    """What an interval is of, by the name of one of its ends."""
    end = r"(?i)\b(the )?(lower|upper) end( of (the|its|an|that) (\d+% )?interval)?( of the| of)?[:,]?\s*"
    words = re.sub(end, "", name).replace(" (5% shared)", "").strip(" ,:")
    return (words or name) if len(words) < 84 else words[:80].rsplit(" ", 1)[0] + " ..."


def _number(value: float) -> str:
    return f"{value:.3g}"
