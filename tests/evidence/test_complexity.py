"""Quick sizes of the experiments on local complexity, with the verdicts they reach."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("sklearn", reason="the data extra is not installed")

from splinescope.evidence import Verdict, find


@pytest.fixture(autouse=True)
def agg() -> None:
    matplotlib = pytest.importorskip("matplotlib", reason="the plot extra is not installed")
    matplotlib.use("Agg")


def test_a_single_seed_has_no_range() -> None:
    from splinescope.evidence._grokking import spread

    assert spread([0.5]) == "0.50 (1 seed)"
    assert spread([0.25, 0.75]) == "0.50 (0.25 to 0.75, 2 seeds)"


def run_quick(experiment_id: str) -> dict:
    from matplotlib import pyplot

    experiment = find(experiment_id)
    outcome = experiment.run(size="quick", seed=0)
    figure = experiment.draw(json.loads(json.dumps(outcome.numbers)))
    assert figure.axes
    pyplot.close(figure)
    return {"verdicts": [claim.verdict for claim in outcome.claims], "numbers": outcome.numbers}


def test_local_complexity_falls_rises_and_falls_again_with_squared_loss() -> None:
    found = run_quick("survey-lc-phases")
    assert found["verdicts"][:3] == [Verdict.HOLDS] * 3
    (phases,) = found["numbers"]["phases"]
    assert phases["low"] < 0.85 * phases["start"]
    assert phases["end"] < 0.7 * phases["high"]
    assert not any(any(curves["masked"]) for curves in found["numbers"]["curves"])


def test_figure_9_is_drawn_and_says_that_the_quick_run_is_too_short() -> None:
    found = run_quick("survey-fig9")
    assert found["verdicts"] == [Verdict.INCONCLUSIVE] * 2
    before, fitted, late = found["numbers"]["rows"][0]
    assert before["step"] == 0 < fitted["step"] < late["step"]
    assert late["near_boundary"] / late["near_data"] > fitted["near_boundary"] / fitted["near_data"]


def test_batch_norm_raises_local_complexity_around_the_data() -> None:
    found = run_quick("survey-bn-grokking")
    assert found["verdicts"][0] == Verdict.HOLDS
    assert found["numbers"]["level_ratio"][0] > 1.25
