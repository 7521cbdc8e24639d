"""`ReportBlock`: one measurement of a report, with how sure it is, how to read it and how to go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from ..support.display import Certainty, Result
from .pictures import pictures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

State = Literal["measured", "not applicable", "failed"]


class NotApplicable(Exception):
    """A block has nothing to measure on this network or data; the text says why."""


@dataclass(frozen=True, eq=False, repr=False)
class ReportBlock(Result):
    """One part of a report.

    Attributes:
        key, title: Its name in `include=` and `exclude=`, and its heading.
        state, reason: "measured", "not applicable" or "failed" (an error of its own), and why there is nothing.
        headline, finding, advice: What was found in one line, the same in plain words, and what to do about it.
        certainty, scope, reading: How sure it is, of what and within which limits, and how to read it.
        call: The call that gives more; it runs as it stands after `import splinescope as ss`, with `model`, and `x` and
            `y` as tensors.
        numbers: Everything measured, ready for JSON.
        typical: How the main number compares with other networks, if there is a comparison.
        draw: Fills a figure with the picture, or None; with `colors`, the ends of its scale, on a common one.
        live: Makes a page to explore, which stands in place of the picture on a page; or None.
        seconds: Wall time.
    """

    key: str = ""
    title: str = ""
    state: State = "measured"
    headline: str = ""
    finding: str = ""
    advice: str = ""
    certainty: Certainty = "exact"
    scope: str = ""
    reading: str = ""
    call: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)
    typical: str = ""
    draw: Callable[..., None] | None = None
    live: Callable[[], str] | None = None
    colors: tuple[float, float] | None = None
    reason: str = ""
    seconds: float = 0.0

    def __repr__(self) -> str:
        return (
            f"ReportBlock({self.key}: {self.headline if self.state == 'measured' else f'{self.state}, {self.reason}'})"
        )

    @cached_property
    def picture(self) -> bytes | None:
        """The drawing as a PNG file, made once; None where there is nothing to draw (extra "plot")."""
        return None if self.draw is None else pictures([self])[0]

    @cached_property
    def live_page(self) -> str:
        """The page to explore, made once; empty where there is none."""
        return "" if self.live is None else self.live()

    def draw_on(self, figure: Figure, colors: tuple[float, float] | None = None) -> None:
        """Fill a figure with the picture, on a color scale that it shares with others if one is given."""
        assert self.draw is not None
        self.draw(figure) if self.colors is None else self.draw(figure, colors)

    def record(self) -> dict[str, Any]:
        """The block without its picture, ready for JSON."""
        if self.state != "measured":
            return {"title": self.title, "state": self.state, "reason": self.reason, "seconds": round(self.seconds, 2)}
        texts = ("title", "state", "headline", "finding", "advice", "certainty", "scope", "reading", "call", "typical")
        found = {name: getattr(self, name) for name in texts if getattr(self, name)}
        return {**found, "seconds": round(self.seconds, 2), "numbers": self.numbers}

    def summary(self) -> str:
        """A few lines of text."""
        if self.state != "measured":
            return f"{self.title}: {self.state}. {self.reason}"
        lines = [f"{self.title}: {self.headline}", f"  ({self.certainty}: {self.scope})"]
        if self.typical:
            lines.append(f"  {self.typical}")
        return "\n".join([*lines, f"  more: {self.call}"])
