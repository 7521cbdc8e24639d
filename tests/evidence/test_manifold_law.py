"""What the record says of published networks that are not at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from splinescope.evidence import Verdict
from splinescope.evidence.survey_manifold_law import PUBLISHED, _of_one, _of_published, _published


def test_networks_whose_files_are_missing_are_named_and_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPLINESCOPE_TEST_DATA", str(tmp_path))
    claims = _of_published(_published(0, None))
    assert len(claims) == len(PUBLISHED)
    for name, claim in zip(PUBLISHED, claims, strict=True):
        assert name in claim.text
        assert claim.verdict is Verdict.INCONCLUSIVE
        assert claim.measured.startswith("not measured")


@pytest.mark.parametrize(
    ("p", "low", "verdict"),
    [(0.04, 0.1, Verdict.INCONCLUSIVE), (0.01, 0.1, Verdict.FAILS), (0.01, -0.1, Verdict.INCONCLUSIVE)],
)
def test_three_published_networks_share_the_chance_of_a_false_refusal(p: float, low: float, verdict: Verdict) -> None:
    """A p value between a third of 5% and 5% neither confirms nor refutes."""
    found = {"rho": 0.2, "low": low, "high": 0.3, "model": p, "uniform": 0.5, "distance": 1.0, "scale": 2.0}
    assert _of_one("MLP VAE", None, found).verdict is verdict
