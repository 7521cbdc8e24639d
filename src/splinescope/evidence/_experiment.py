"""What an experiment is: a claim in our words, a run that measures, verdicts by stated thresholds, a figure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Size = Literal["quick", "full"]
Document = Literal["essay", "survey", "meanfield", "decomposed"]

DOCUMENTS: dict[str, str] = {
    "essay": "Batch Normalization, Explained (essay)",
    "survey": "On the Geometry of Deep Learning",
    "meanfield": "A Riemannian Mean Field Formulation for Two-layer Neural Networks with Batch Normalization",
    "decomposed": "Batch Normalization Decomposed",
}


class Verdict(StrEnum):
    """What the measurement says of the claim as the document states it."""

    HOLDS = "holds"
    CORRECTED = "holds with correction"
    FAILS = "does not hold"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Claim:
    """One claim with its verdict.

    Attributes:
        text: The claim in our own words (with the correction, if one is needed).
        verdict: Decided by `criterion` from the measured numbers, never by hand.
        measured: The effect and its spread over seeds, as a sentence with numbers.
        criterion: The threshold that decides.
    """

    text: str
    verdict: Verdict
    measured: str
    criterion: str


@dataclass(frozen=True)
class Outcome:
    """What a run returns: JSON-ready numbers (enough to draw the figure) and one verdict per claim."""

    numbers: dict[str, Any]
    claims: tuple[Claim, ...]


@dataclass(frozen=True)
class Experiment:
    """A figure or theorem as a runnable check.

    Attributes:
        id: Such as "survey-fig9"; the module is named after it.
        document: Which of the four documents.
        title: One line.
        run: `run(size="quick"|"full", seed=0, progress=None) -> Outcome`. `progress` is called with
            (fraction done in [0, 1], what is being done) when given. Quick takes under a minute on two cores.
        draw: Draws the figure from `Outcome.numbers` alone and returns it.
    """

    id: str
    document: Document
    title: str
    run: Callable[..., Outcome]
    draw: Callable[[dict[str, Any]], Figure]


Progress = Callable[[float, str], None]
