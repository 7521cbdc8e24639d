"""Every experiment at quick size: it runs, judges nothing, draws, and its numbers keep what is true at any size.

Verdicts are the full size's (docs/evidence.md); what holds at any size may stand in `laws`, by document.
"""

from __future__ import annotations

import json
import math

import pytest
from laws import LAWS
from tests.answers import FIGURES

from splinescope_evidence import Verdict, find, ids
from splinescope_evidence.framework.parts import as_json

pytest.importorskip("matplotlib").use("Agg")
pytest.importorskip("sklearn", reason="the data extra is not installed")


def test_a_rate_is_chosen_between_worse_ones_a_factor_of_two_apart() -> None:
    from splinescope_evidence.essay.initialization_deep import RATES, chosen_rate

    for best in range(1, 15):
        tried = chosen_rate(RATES, lambda rate, best=best: abs(math.log2(rate) + best))
        rates = sorted(tried)
        found = min(tried, key=lambda rate: tried[rate])
        assert found == 2.0**-best
        assert {found / 2, found * 2} <= set(rates)


def test_laws_are_of_experiments_that_are_there() -> None:
    assert set(LAWS) <= set(ids())


@pytest.mark.parametrize("experiment_id", ids())
def test_it_works_and_keeps_its_laws(experiment_id: str) -> None:
    from matplotlib import pyplot

    experiment = find(experiment_id)
    shares_done: list[float] = []
    outcome = experiment.measure("quick", 0, lambda share, what: shares_done.append(share))
    assert all(0 <= share <= 1 for share in shares_done)
    assert outcome.claims
    for claim in outcome.claims:
        assert claim.verdict == Verdict.UNJUDGED
        assert claim.text.strip()
        assert claim.measured.strip()
        assert claim.criterion.strip()
        assert all(check.reason.strip() for check in claim.checks)
    numbers = json.loads(as_json(outcome.numbers))
    if experiment_id in LAWS:
        LAWS[experiment_id](numbers)
    for draw in (experiment.draw, *(draw for name, draw in FIGURES.values() if name == experiment_id)):
        figure = draw(numbers)
        assert all(ax.get_xlabel() or ax.get_ylabel() or ax.get_title() for ax in figure.axes)
        pyplot.close(figure)
