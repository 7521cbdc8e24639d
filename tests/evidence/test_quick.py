"""Every experiment at quick size: it runs, judges nothing, draws, and its numbers keep what is true at any size.

Verdicts are the full size's (docs/evidence.md); what holds at any size stands in `laws`, by document.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from splinescope.evidence import Verdict, find, ids
from splinescope.evidence._pieces import LONG, _read, keeping
from splinescope.evidence._reproduce import _plain
from tests.answers import FIGURES
from tests.evidence.laws import LAWS

pytest.importorskip("matplotlib").use("Agg")
pytest.importorskip("sklearn", reason="the data extra is not installed")


def test_a_rate_is_chosen_between_worse_ones_a_factor_of_two_apart() -> None:
    from splinescope.evidence.essay_initialization_deep import RATES, chosen_rate

    for best in range(1, 15):
        tried = chosen_rate(RATES, lambda rate, best=best: abs(math.log2(rate) + best))
        rates = sorted(tried)
        found = min(tried, key=lambda rate: tried[rate])
        assert found == 2.0**-best
        assert {found / 2, found * 2} <= set(rates)


def test_every_experiment_has_a_law_of_its_numbers() -> None:
    assert set(LAWS) == set(ids())


@pytest.mark.parametrize("experiment_id", ids())
def test_it_works_and_keeps_its_laws(experiment_id: str, tmp_path: Path) -> None:
    from matplotlib import pyplot

    experiment = find(experiment_id)
    shares_done: list[float] = []
    with keeping(tmp_path, experiment_id, "source", "quick", 0) as pieces:
        outcome = experiment.measure("quick", 0, lambda share, what: shares_done.append(share))
    written = list(pieces.place.glob("*"))
    assert (len(written) > 1) == (experiment_id in LONG)  # a long one can be interrupted inside
    assert all(_read(path) is not None for path in written)
    assert all(0 <= share <= 1 for share in shares_done)
    assert outcome.claims
    for claim in outcome.claims:
        assert claim.verdict == Verdict.UNJUDGED
        assert claim.text.strip()
        assert claim.measured.strip()
        assert claim.criterion.strip()
        assert all(check.reason.strip() for check in claim.checks)
    numbers = json.loads(json.dumps(outcome.numbers, default=_plain))
    LAWS[experiment_id](numbers)
    for draw in (experiment.draw, *(draw for name, draw in FIGURES.values() if name == experiment_id)):
        figure = draw(numbers)
        assert all(ax.get_xlabel() or ax.get_ylabel() or ax.get_title() for ax in figure.axes)
        pyplot.close(figure)
