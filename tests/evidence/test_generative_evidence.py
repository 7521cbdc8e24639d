"""The experiments on generators, at quick size: their verdicts."""

from __future__ import annotations

import os
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib import pyplot

from splinescope.evidence import Verdict, find

mpl.use("Agg")

EXPECTED = {
    "survey-eq10": [Verdict.HOLDS],
    "survey-magnet": [Verdict.CORRECTED, Verdict.HOLDS],
    "survey-fig10": [Verdict.HOLDS, Verdict.HOLDS],
    "survey-fig12": [Verdict.HOLDS, Verdict.HOLDS],
}


@pytest.mark.parametrize("name", list(EXPECTED))
def test_verdicts(name: str) -> None:
    experiment = find(name)
    outcome = experiment.run(size="quick", seed=0)
    assert [claim.verdict for claim in outcome.claims] == EXPECTED[name], [c.measured for c in outcome.claims]
    pyplot.close(experiment.draw(outcome.numbers))


def test_magnet_evens_out_the_skewed_generators(monkeypatch: pytest.MonkeyPatch) -> None:
    """A VAE of skewed digits always; the published MNIST generators where their files are."""
    default = Path(__file__).parents[3] / "shared" / "data"
    monkeypatch.setenv("SPLINESCOPE_TEST_DATA", os.environ.get("SPLINESCOPE_TEST_DATA", str(default)))
    experiment = find("survey-fig11-mini")
    outcome = experiment.run(size="quick", seed=0)
    verdicts = dict(zip(outcome.numbers, (claim.verdict for claim in outcome.claims), strict=True))
    assert verdicts["VAE of skewed digits"] == Verdict.HOLDS
    if "MLP GAN" in verdicts:
        assert verdicts["MLP GAN"] == Verdict.HOLDS
        assert verdicts["MLP VAE"] != Verdict.HOLDS  # its classes are even from the start
    pyplot.close(experiment.draw(outcome.numbers))
