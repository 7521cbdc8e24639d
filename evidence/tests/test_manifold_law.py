"""What the record says of published networks, which may not be at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from splinescope_evidence import Verdict
from splinescope_evidence.survey.questions.manifold_law import PUBLISHED, _of_published, _published


def test_networks_whose_files_are_missing_are_not_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPLINESCOPE_TEST_DATA", str(tmp_path))
    claim = _of_published(_published(0, None))
    assert all(name in claim.text for name in PUBLISHED)
    assert claim.verdict is Verdict.INCONCLUSIVE
    assert claim.measured.startswith("not measured")


@pytest.mark.parametrize(
    ("p", "low", "verdict"),
    [
        (0.2, -0.1, Verdict.HOLDS),
        (0.04, 0.1, Verdict.INCONCLUSIVE),
        (0.01, 0.1, Verdict.FAILS),
        (0.01, -0.1, Verdict.INCONCLUSIVE),
    ],
)
def test_three_published_networks_share_the_chance_of_a_false_refusal(p: float, low: float, verdict: Verdict) -> None:
    """A p value between a third of 5% and 5% neither confirms nor refutes; one refused network refutes the claim."""
    found = {"rho": 0.2, "low": -0.1, "high": 0.3, "model": 0.5, "uniform": 0.5, "distance": 1.0, "scale": 2.0}
    rows = dict.fromkeys(PUBLISHED, found) | {"MLP VAE": found | {"model": p, "low": low}}
    assert _of_published(rows).verdict is verdict
