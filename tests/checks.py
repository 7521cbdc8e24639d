"""A check that several parts share: experiments come out as expected."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from splinescope import evidence
from splinescope.evidence._reproduce import _plain


def check_verdicts(experiment_id: str, verdicts: Sequence[evidence.Verdict]) -> None:
    """An experiment at quick size comes to these verdicts, and its figure is drawn from the written numbers alone."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    experiment = evidence.find(experiment_id)
    outcome = experiment.run(size="quick", seed=0)
    assert [claim.verdict for claim in outcome.claims] == list(verdicts), outcome.claims
    figure = experiment.draw(json.loads(json.dumps(outcome.numbers, default=_plain)))
    assert all(ax.get_xlabel() or ax.get_ylabel() for ax in figure.axes)
    pyplot.close(figure)
