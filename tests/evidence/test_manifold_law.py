"""What the record says of published networks that are not at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from splinescope.evidence import Verdict
from splinescope.evidence.survey_manifold_law import PUBLISHED, _of_published, _published


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
