"""The claims on normalisation at quick size: the verdicts are these."""

import json

import pytest

from splinescope import evidence
from splinescope.evidence import Verdict
from splinescope.evidence._reproduce import _plain

pytest.importorskip("matplotlib").use("Agg")
pytest.importorskip("sklearn")

HOLDS, FIX, NO, OPEN = Verdict.HOLDS, Verdict.CORRECTED, Verdict.FAILS, Verdict.INCONCLUSIVE
VERDICTS = {
    "survey-fig7": [HOLDS],
    "survey-fig8": [HOLDS, HOLDS, HOLDS],
    "survey-bn-tls": [FIX, NO],
    "essay-jitter": [HOLDS, HOLDS],
    "essay-margin": [NO, OPEN, OPEN],
    "essay-batch-size": [OPEN, NO],
    "essay-normalizations": [NO, NO],
    "essay-initialization": [HOLDS, HOLDS],
}


@pytest.mark.parametrize("experiment_id", VERDICTS)
def test_verdicts(experiment_id: str) -> None:
    experiment = evidence.find(experiment_id)
    outcome = experiment.run(size="quick", seed=0)
    assert [claim.verdict for claim in outcome.claims] == VERDICTS[experiment_id], outcome.claims
    numbers = json.loads(json.dumps(outcome.numbers, default=_plain))  # the figure is drawn from the file alone
    figure = experiment.draw(numbers)
    assert all(ax.get_xlabel() or ax.get_ylabel() for ax in figure.axes)
    pytest.importorskip("matplotlib.pyplot").close(figure)
