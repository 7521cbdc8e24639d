"""Every claim of "Batch Normalization Decomposed" at quick size: the verdicts are these."""

import json

import pytest

from splinescope import evidence
from splinescope.evidence import Verdict
from splinescope.evidence._reproduce import _plain

pytest.importorskip("matplotlib").use("Agg")
pytest.importorskip("sklearn")

HOLDS, FIX, NO = Verdict.HOLDS, Verdict.CORRECTED, Verdict.FAILS
VERDICTS = {
    "decomposed-sec2": [HOLDS],
    "decomposed-lemma2": [HOLDS, FIX],
    "decomposed-thm3": [FIX, HOLDS, HOLDS, HOLDS],
    "decomposed-cor4": [FIX],
    "decomposed-thm10": [HOLDS, HOLDS],
    "decomposed-thm11": [FIX, HOLDS, HOLDS, HOLDS],
    "decomposed-thm13": [FIX],
    "decomposed-thm14": [FIX, FIX, HOLDS, FIX],
    "decomposed-fig2": [HOLDS, HOLDS],
    "decomposed-fig3": [HOLDS, FIX],
    "decomposed-fig5": [FIX, FIX],
    "decomposed-fig6": [HOLDS, FIX],
    "decomposed-init": [HOLDS, NO, HOLDS],
}


def test_every_experiment_on_this_document_is_in_the_table() -> None:
    assert {i for i in evidence.ids() if i.startswith("decomposed-")} == VERDICTS.keys()


@pytest.mark.parametrize("experiment_id", VERDICTS)
def test_verdicts(experiment_id: str) -> None:
    experiment = evidence.find(experiment_id)
    outcome = experiment.run(size="quick", seed=0)
    assert [claim.verdict for claim in outcome.claims] == VERDICTS[experiment_id], outcome.claims
    numbers = json.loads(json.dumps(outcome.numbers, default=_plain))  # the figure is drawn from the file alone
    figure = experiment.draw(numbers)
    assert all(ax.get_xlabel() or ax.get_ylabel() for ax in figure.axes)
    pytest.importorskip("matplotlib.pyplot").close(figure)
