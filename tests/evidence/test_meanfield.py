"""The verdicts of the mean-field experiments at quick size, as docs/meanfield.md states them."""

from __future__ import annotations

import json

import pytest

matplotlib = pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
matplotlib.use("Agg")

from matplotlib import pyplot  # noqa: E402

from splinescope.evidence import Verdict, find  # noqa: E402

H, C, F = Verdict.HOLDS, Verdict.CORRECTED, Verdict.FAILS
VERDICTS = {
    "meanfield-norm": (H, H),
    "meanfield-prop1": (H, H),
    "meanfield-thm2": (C, H, F),  # unit lengths are not without loss of generality
    "meanfield-thm3": (H, H),
    "meanfield-thm4": (H, C),
    "meanfield-thm5": (H, H, H, F),  # separation is sufficient, not necessary
    "meanfield-fig1": (C, C),
    "meanfield-fig2": (H, C, H),
    "meanfield-fig3": (C, H, H),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_verdicts(name: str) -> None:
    experiment = find(name)
    outcome = experiment.run(size="quick", seed=0)
    measured = [f"{claim.verdict}: {claim.measured}" for claim in outcome.claims]
    assert tuple(claim.verdict for claim in outcome.claims) == VERDICTS[name], measured
    figure = experiment.draw(json.loads(json.dumps(outcome.numbers)))
    assert all(ax.get_xlabel() or ax.get_ylabel() for ax in figure.axes)
    pyplot.close(figure)
