"""How results show themselves: a line in a prompt, sentences or a small table on request, a box in a notebook."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

Certainty = Literal["exact", "bound", "estimate"]
"""What a result's numbers are: "exact" (up to rounding in float64), a proven "bound", or an "estimate"."""

CERTAINTIES: tuple[Certainty, ...] = ("exact", "bound", "estimate")

_SAYS: dict[str, str] = {
    "exact": "Exact, up to rounding.",
    "bound": "A bound: proven, not necessarily attained.",
    "estimate": "An estimate.",
}


class Shown:
    """Base of what a user meets and that is no answer by itself (walls, measures, tools): one line in a prompt.

    Dataclasses set `repr=False`; other classes override `_shown`.
    """

    def _shown(self) -> list[tuple[str, Any]]:
        """What it shows: values by name."""
        if not is_dataclass(self):
            return []
        names = [f.name for f in fields(self) if f.name != "certainty" and not f.name.startswith("_")]
        return [(name, getattr(self, name)) for name in names]

    def _how_sure(self) -> list[str]:
        """What a line in a prompt ends with, and a head in a notebook."""
        return []

    def __repr__(self) -> str:
        shown = [f"{name}={brief(value)}" for name, value in self._shown()]
        return f"{type(self).__name__}({', '.join([*shown, *self._how_sure()])})"

    def summary(self) -> str:
        """What it holds, as a small table."""
        return table([(name, in_words(value)) for name, value in self._shown()])

    def _repr_html_(self) -> str:
        """For notebooks."""
        sure = "".join(f" <i>({html.escape(each)})</i>" for each in self._how_sure())
        return box(f"<b>{html.escape(type(self).__name__)}</b>{sure}", self.summary())


class Result(Shown):
    """Base of every public result: it says how sure it is and prints itself in one line.

    A result class is a dataclass with `repr=False` that sets `certainty` (a class attribute, a field, or a property
    where it depends on how the result was made) and, where the table of its fields is not what a reader wants,
    overrides `summary`; its words for how sure it is then come from `assurance`.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True, eq=False, repr=False)
        ... class Mean(Result):
        ...     value: float
        ...     rows: int
        ...     certainty = "estimate"
        >>> Mean(0.5, 40)
        Mean(value=0.5, rows=40, estimate)
    """

    if TYPE_CHECKING:  # at run time there is none: a dataclass would take it for the default of a field of that name

        @property
        def certainty(self) -> Certainty: ...

    @property
    def assurance(self) -> str:
        """How sure the result is, as a sentence."""
        return _SAYS[self.certainty]

    def _how_sure(self) -> list[str]:
        return [self.certainty]

    def summary(self) -> str:
        """The result in words: a small table, and how sure it is."""
        return f"{super().summary()}\n{self.assurance}"


def box(head: str, text: str) -> str:
    """A result in a notebook: a head in HTML, and text in columns.

    The columns are aligned by spaces, and pages made of notebooks give `pre` inside a result the font of prose: the
    font is said here.
    """
    pre = f"<pre style='font-family:monospace;white-space:pre-wrap'>{html.escape(text)}</pre>"
    return f"<div>{head}{pre}</div>"


def brief(value: Any, size: int = 60) -> str:
    """A value in a few characters: numbers to four figures, arrays by type and shape, collections by length."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        if not value.shape:
            return brief(value.item())
        return f"{str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}]"
    if isinstance(value, Mapping):
        return f"{{{len(value)} entries}}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        text = f"({', '.join(brief(v) for v in value[:4])})" if len(value) <= 4 else ""
        return text if text and len(text) <= size else f"({len(value)} items)"
    text = repr(value) if not is_dataclass(value) or isinstance(value, Result) else f"{type(value).__name__}(...)"
    return text if len(text) <= size and "\n" not in text else f"{type(value).__name__}(...)"


def in_words(value: Any) -> str:
    """A value in a few words: as `brief`, but arrays by what is in them."""
    if not (hasattr(value, "shape") and hasattr(value, "dtype") and value.shape):
        return brief(value)
    numbers = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
    head = brief(value)
    if not numbers.size or numbers.dtype.kind not in "biuf":
        return head
    if numbers.dtype.kind == "b":
        return f"{head}, {numbers.mean():.3g} of them true"
    if numbers.ndim == 1 and numbers.size <= 4:
        return f"({', '.join(brief(number) for number in numbers.tolist())})"
    if numbers.dtype.kind != "f":
        return f"{head}, from {numbers.min()} to {numbers.max()}"
    finite = numbers[np.isfinite(numbers)]
    if not finite.size:
        return f"{head}, none of them finite"
    missing = f", {numbers.size - finite.size} not finite" if finite.size < numbers.size else ""
    return f"{head}, from {finite.min():.4g} to {finite.max():.4g}, median {np.median(finite):.4g}{missing}"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells in aligned columns; the first row may be the head."""
    if not rows:
        return ""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)


def counted(number: int, what: str, several: str | None = None) -> str:
    """A number with what it counts: "1 site", "2 sites"; `several` where the plural is not formed by an s."""
    return f"{number:,} {what if number == 1 else several or what + 's'}"


def numbered(names: Sequence[str]) -> list[str]:
    """The names, numbered where one stands for several: `["a", "b", "a"]` as `["a #1", "b", "a #2"]`."""
    total, seen = Counter(names), Counter[str]()
    result = []
    for name in names:
        seen[name] += 1
        result.append(f"{name} #{seen[name]}".strip() if total[name] > 1 else name)
    return result
