"""The claims on normalisation at quick size: the verdicts are these."""

import numpy as np
import pytest

from splinescope.evidence import Verdict
from splinescope.evidence._normalization import paired_verdict
from tests.checks import check_verdicts

pytest.importorskip("matplotlib").use("Agg")
pytest.importorskip("sklearn")

HOLDS, FIX, NO, OPEN = Verdict.HOLDS, Verdict.CORRECTED, Verdict.FAILS, Verdict.INCONCLUSIVE
VERDICTS = {
    "survey-fig7": [HOLDS],
    "survey-fig8": [HOLDS, HOLDS, HOLDS],
    "survey-bn-tls": [FIX, NO],
    "essay-jitter": [HOLDS, HOLDS],
    "essay-margin": [NO, OPEN, OPEN],
    "essay-batch-size": [OPEN, OPEN, NO],
    "essay-normalizations": [NO, NO],
    "essay-initialization": [HOLDS, NO, OPEN],
}


@pytest.mark.parametrize("experiment_id", VERDICTS)
def test_verdicts(experiment_id: str) -> None:
    check_verdicts(experiment_id, VERDICTS[experiment_id])


def test_paired_verdicts_count_seeds_and_looks() -> None:
    """t = 3 is p = .10 with 3 seeds and p = .015 with 10, which is .06 after four looks."""
    few = np.array([[1.0], [2.0], [3.0]]) - 2 + np.sqrt(3)
    assert paired_verdict(few)[1] == pytest.approx([0.0955], abs=1e-4)
    assert paired_verdict(few)[0] == OPEN
    many = np.linspace(-1, 1, 10)[:, None]
    many = many + 3 * many.std(ddof=1) / np.sqrt(10)
    assert paired_verdict(many)[0] == HOLDS
    assert paired_verdict(-many)[0] == NO
    assert paired_verdict(np.hstack([many, *[np.linspace(-1, 1, 10)[:, None]] * 3]))[0] == OPEN
