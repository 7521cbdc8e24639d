"""What an experiment is: a claim in our words, a run that measures, verdicts by stated thresholds, a figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from splinescope import InputError
from splinescope.support.display import Result
from splinescope.support.progress import Progress as Progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Size = Literal["quick", "full"]

_APART = 10_007
"""Between the numbers that two seeds give a run: it draws by consecutive ones, 60 or more, which must not be shared."""

Role = Literal["holds", "corrected", "fails", "needs"]

ROLES: dict[str, str] = {
    "holds": "to hold",
    "corrected": "to hold as corrected",
    "fails": "to be refuted",
    "needs": "to decide at all",
}
"""What a check must pass for, in words."""

DOCUMENTS: dict[str, str] = {
    "essay": "Batch Normalization, Explained (essay)",
    "survey": "On the Geometry of Deep Learning",
    "meanfield": "A Riemannian Mean Field Formulation for Two-layer Neural Networks with Batch Normalization",
    "decomposed": "Batch Normalization Decomposed",
    "own": "Claims of our own",
}
"""What experiments are about, by the name of the folder that they stand in."""


class Verdict(StrEnum):
    """What the measurement says of the claim as the document states it."""

    HOLDS = "holds"
    CORRECTED = "holds with correction"
    FAILS = "does not hold"
    INCONCLUSIVE = "inconclusive"
    UNJUDGED = "not judged"
    """Of a quick run: it shows that the experiment works, and is too small to judge the claim."""


@dataclass(frozen=True)
class Check:
    """One measured number against the threshold that decides.

    Attributes:
        name: What is measured.
        value: The number; the worst case where there are several (seeds, widths, ...).
        sense: On which side of the threshold it must lie.
        line: The threshold.
        reason: Why it is where it is.
        role: For what it must pass; set by `judged`.
    """

    name: str
    value: float
    sense: Literal["<", ">"]
    line: float
    reason: str
    role: Role | None = None

    @property
    def passed(self) -> bool:
        """NaN never passes."""
        return self.value < self.line if self.sense == "<" else self.value > self.line

    @property
    def margin(self) -> str:
        """How far the number lies from the threshold: what would have changed the outcome."""
        side = "inside" if self.passed else "outside"
        if math.isnan(self.value):
            return "outside: there is no number"
        if math.isinf(self.value):
            return f"{side} wherever the threshold is: no bound on that side"
        if self.value > 0 < self.line and not 0.5 < self.value / self.line < 2:
            factor = max(self.value / self.line, self.line / self.value)
            return f"{side} by a factor of {factor:.3g}" if math.isfinite(factor) else f"{side}, at {self.value:g}"
        return f"{side} by {abs(self.value - self.line):.2g}"

    def __str__(self) -> str:
        return f"{self.name} {self.sense} {self.line:.4g} ({self.reason})"


@dataclass(frozen=True)
class Claim:
    """One claim with its verdict.

    Attributes:
        text: The claim in our own words (with the correction, if one is needed) and the place in the document.
        verdict: Decided by `criterion` from the measured numbers, never by hand.
        measured: The effect and its spread over seeds, as a sentence with numbers.
        criterion: The thresholds that decide, with their reasons.
        checks: The numbers that were compared, each with its threshold.
    """

    text: str
    verdict: Verdict
    measured: str
    criterion: str
    checks: tuple[Check, ...] = ()


def judged(
    text: str,
    measured: str,
    *,
    holds: Sequence[Check],
    corrected: Sequence[Check] = (),
    fails: Sequence[Check] | None = None,
    needs: Sequence[Check] = (),
) -> Claim:
    """A claim decided by its checks, by the same rule everywhere.

    Inconclusive unless all of `needs` pass (the experiment must be able to decide). Then it holds if all of `holds`
    pass. Otherwise it is refuted if all of `fails` pass, or, where there are none, by `holds` that are numbers: not a
    number refutes nothing. A refuted claim holds with correction if there are checks of a `corrected` form and all of
    them pass, and else does not hold. What is neither is inconclusive, also where a corrected form is not a number.
    Thresholds by which a claim would hold and be refuted at once are an error.
    """
    groups: tuple[tuple[Role, Sequence[Check]], ...] = (
        ("holds", holds),
        ("corrected", corrected),
        ("fails", fails or ()),
        ("needs", needs),
    )
    checks = tuple(replace(check, role=role) for role, group in groups for check in group)
    heads = {"holds": "", "corrected": "corrected: ", "fails": "does not hold if ", "needs": "to decide at all: "}
    criterion = "; ".join(f"{heads[role]}{' and '.join(map(str, group))}" for role, group in groups if group)
    return Claim(text, decided(text, checks), measured, criterion, checks)


def decided(text: str, checks: Sequence[Check]) -> Verdict:
    """The verdict on a claim by its checks, each with its role: the rule of `judged`."""
    holds, corrected, fails, needs = ([check for check in checks if check.role == role] for role in ROLES)
    if not holds:
        raise InputError(f"Nothing is asked of {text!r}: a claim needs checks by which it holds.")
    refuted = all(check.passed for check in fails) if fails else not any(math.isnan(check.value) for check in holds)
    if not all(check.passed for check in needs):
        return Verdict.INCONCLUSIVE
    if all(check.passed for check in holds):
        if fails and refuted:
            raise InputError(f"The same numbers confirm and refute {text!r}: its fails= must leave out its holds=.")
        return Verdict.HOLDS
    if not refuted or any(math.isnan(check.value) for check in corrected):
        return Verdict.INCONCLUSIVE
    if corrected and all(check.passed for check in corrected):
        return Verdict.CORRECTED
    return Verdict.FAILS


@dataclass(frozen=True, repr=False)
class Outcome(Result):
    """What a run returns: JSON-ready numbers (enough to draw the figure) and one verdict per claim.

    An estimate, also where its numbers are exact: verdicts are those of the networks, data and seeds that were taken.
    """

    numbers: dict[str, Any]
    claims: tuple[Claim, ...]
    certainty = "estimate"

    @property
    def assurance(self) -> str:
        return "An estimate: what one size and seed measured, decided by stated thresholds."

    def __repr__(self) -> str:
        return (
            f"Outcome({len(self.numbers)} numbers, {', '.join(claim.verdict for claim in self.claims) or 'no claims'}, "
            f"{self.certainty})"
        )

    def summary(self) -> str:
        """Each claim with its verdict, what was measured and the thresholds that decide; how certain that is."""
        lines = [
            f"{claim.verdict}: {claim.text}\n  measured: {claim.measured}\n  decided by: {claim.criterion}"
            for claim in self.claims
        ]
        return "\n".join([*lines, self.assurance])


@dataclass(frozen=True)
class Experiment:
    """A figure, theorem or claim as a runnable check.

    Attributes:
        title: One line.
        run: `run(size="quick"|"full", seed=0, progress=None) -> Outcome`. It may draw by `seed`, `seed + 1`, and so on:
            `measure` keeps seeds apart. `progress` is called with (fraction done in [0, 1], what is being done) when
            given. Quick takes seconds.
        draw: Draws the figure from `Outcome.numbers` alone and returns it.
        place: Where in the document: its equation, figure, theorem or section, or the part in our words, if its
            sections have no numbers. Empty for a claim of our own.
        revised: Numbers, from 1, of the claims whose thresholds or measures were revised after a full run.
    """

    title: str
    run: Callable[..., Outcome]
    draw: Callable[[dict[str, Any]], Figure]
    place: str = ""
    revised: tuple[int, ...] = ()

    def measure(self, size: Size = "full", seed: int = 0, progress: Progress | None = None) -> Outcome:
        """`run`, with verdicts at full size only: a quick run is too small to judge.

        Another seed has nothing in common with this one: no start, network or draw of the one is in the other.
        """
        outcome = self.run(size=size, seed=_APART * seed, progress=progress)
        if size == "full":
            return outcome
        return Outcome(outcome.numbers, tuple(replace(claim, verdict=Verdict.UNJUDGED) for claim in outcome.claims))
