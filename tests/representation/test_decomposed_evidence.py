"""Every claim of "Batch Normalization Decomposed" at quick size: the verdicts are these."""

import pytest

from splinescope import evidence
from splinescope.evidence import Verdict
from tests.checks import check_verdicts

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
    check_verdicts(experiment_id, VERDICTS[experiment_id])
