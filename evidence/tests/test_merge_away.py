"""Batch norm merged away at a plateau, as an arm of its experiment: what it is and when it judges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from splinescope_evidence import Verdict
from splinescope_evidence.shared.grokking import quick
from splinescope_evidence.survey.questions import merge_away
from splinescope_evidence.survey.questions.merge_away import ARMS, PLATEAU, _claims

pytest.importorskip("sklearn", reason="the data extra is not installed")


def test_where_a_plateau_is_found_the_run_is_the_one_merged_at_that_step() -> None:
    setting = quick(1, steps=200, batch_norm=True, train=300, width=100, points=100)
    found, model, at = merge_away.train(setting, "plateau")
    assert at is not None
    assert 20 <= at < 200  # a stretch of a factor of two, not before step 10
    same, _, told = merge_away.train(setting, at)
    assert told == at
    assert same.curves() == found.curves()
    assert not any("BatchNorm" in type(m).__name__ for m in model.modules())


def test_where_none_is_found_the_run_keeps_batch_norm_and_nothing_watches_the_model_any_more() -> None:
    setting = quick(0, steps=8, batch_norm=True)
    found, model, at = merge_away.train(setting, "plateau")
    assert at is None
    kept, _, _ = merge_away.train(setting, None)
    assert kept.curves() == found.curves()
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def arms(**merged: list[Any]) -> dict[str, list[dict[str, Any]]]:
    """Five seeds of each arm, alike but for a little noise, and that merged at a step as told."""
    noise = 1 + 0.01 * np.random.default_rng(0).standard_normal((3, 5))
    made = {
        arm: [
            {"steps": [0, 10, 100, 1000], "train_accuracy": [0.1, 0.5, 1.0, 1.0], "lc_train": [9.0, 9.0, 10.0, 5 * r],
             "robust": 0.4 * r, "clean": 0.98, "boundary": 10.0, "data": 5 * r, "masked": False, "unseen": 797}
            for r in row
        ]
        for arm, row in zip(ARMS, noise, strict=True)
    }  # fmt: skip
    for i, curve in enumerate(made["merged away"]):
        curve |= {name: values[i] for name, values in merged.items()}
    return made


def test_it_is_judged_against_none_and_against_batch_norm_kept_on_both_sides_of_every_threshold() -> None:
    better = {"train_accuracy": [[0.1, 1.0, 1.0, 1.0]] * 5, "lc_train": [[9.0, 9.0, 10.0, 4.0]] * 5}
    claims = _claims(arms(**better, robust=[0.5] * 5))
    assert [claim.verdict for claim in claims] == [Verdict.HOLDS] * 5
    worse = {"train_accuracy": [[0.1, 0.5, 0.9, 1.0]] * 5, "lc_train": [[9.0, 9.0, 10.0, 8.0]] * 5}
    claims = _claims(arms(**worse, robust=[0.3] * 5, clean=[0.9] * 5))
    assert [claim.verdict for claim in claims] == [Verdict.FAILS] * 5


def test_one_masked_run_of_any_arm_leaves_robustness_open() -> None:
    made = arms(robust=[0.5] * 5)
    made["plain"][0]["masked"] = True
    assert _claims(made)[3].verdict is Verdict.INCONCLUSIVE


def test_points_come_from_two_other_arms_for_every_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first three have one another, as when there was no fourth."""
    sources: dict[str, list[str]] = {}
    models = {arm: merge_away.network(quick(0)) for arm in (*ARMS, PLATEAU)}

    class Found:
        clean, accuracy, masked = 1.0, [0.5], False

    def robustness(model: Any, *args: Any, transfer_from: list[Any], **options: Any) -> Found:
        name = {id(m): arm for arm, m in models.items()}
        sources[name[id(model)]] = [name[id(m)] for m in transfer_from]
        return Found()

    monkeypatch.setattr(merge_away, "robustness", robustness)
    for arm in models:
        merge_away._at_the_end(models, arm, quick(0), strong=False)
    plain, kept, step = ARMS
    assert sources == {plain: [kept, step], kept: [plain, step], step: [plain, kept], PLATEAU: [plain, kept]}
