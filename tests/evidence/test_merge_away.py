"""Batch norm merged away at a plateau, as an arm of its experiment: what it is, when it judges, and that it is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from splinescope.evidence import Verdict, survey_merge_away
from splinescope.evidence._grokking import Setting, quick
from splinescope.evidence._pieces import _read, keeping
from splinescope.evidence.survey_merge_away import ARMS, PLATEAU, _plateau_claims

pytest.importorskip("sklearn", reason="the data extra is not installed")


def test_where_a_plateau_is_found_the_run_is_the_one_merged_at_that_step() -> None:
    setting = quick(1, steps=200, batch_norm=True, train=300, width=100, points=100)
    found, model, at = survey_merge_away.train(setting, "plateau")
    assert at is not None
    assert 20 <= at < 200  # a stretch of a factor of two, not before step 10
    same, _, told = survey_merge_away.train(setting, at)
    assert told == at
    assert same.curves() == found.curves()
    assert not any("BatchNorm" in type(m).__name__ for m in model.modules())


def test_where_none_is_found_the_run_keeps_batch_norm_and_nothing_watches_the_model_any_more() -> None:
    setting = quick(0, steps=8, batch_norm=True)
    found, model, at = survey_merge_away.train(setting, "plateau")
    assert at is None
    kept, _, _ = survey_merge_away.train(setting, None)
    assert kept.curves() == found.curves()
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def arms(**plateau: list[float]) -> dict[str, list[dict[str, Any]]]:
    """Five seeds of each arm, alike but for a little noise, and the fourth as told."""
    noise = 1 + 0.01 * np.random.default_rng(0).standard_normal((4, 5))
    made = {
        arm: [
            {"steps": [0, 10, 100, 1000], "train_accuracy": [0.1, 0.5, 1.0, 1.0], "lc_train": [9.0, 9.0, 10.0, 5 * r],
             "robust": 0.4 * r, "clean": 0.98, "boundary": 10.0, "data": 5 * r, "masked": False, "merged_at": None}
            for r in row
        ]
        for arm, row in zip((*ARMS, PLATEAU), noise, strict=True)
    }  # fmt: skip
    for i, curve in enumerate(made[PLATEAU]):
        curve |= {"merged_at": 100} | {name: values[i] for name, values in plateau.items()}
    return made


def test_it_is_judged_against_none_kept_and_a_step_on_both_sides_of_every_line() -> None:
    better = {"train_accuracy": [[0.1, 1.0, 1.0, 1.0]] * 5, "lc_train": [[9.0, 9.0, 10.0, 4.0]] * 5}
    claims = _plateau_claims(arms(**better, robust=[0.5] * 5))
    assert [claim.verdict for claim in claims] == [Verdict.HOLDS] * 7
    worse = {"train_accuracy": [[0.1, 0.5, 0.9, 1.0]] * 5, "lc_train": [[9.0, 9.0, 10.0, 8.0]] * 5}
    claims = _plateau_claims(arms(**worse, robust=[0.3] * 5, clean=[0.9] * 5))
    assert [claim.verdict for claim in claims] == [Verdict.FAILS] * 7
    assert "merged at steps 100, 100, 100, 100, 100, interpolating by then in 0 of 5 seeds" in claims[0].measured


def test_a_seed_without_a_plateau_leaves_every_claim_open_and_is_named() -> None:
    never = arms(merged_at=[100, 126, None, 100, 100], robust=[0.5] * 5, lc_train=[[9.0, 9.0, 10.0, 4.0]] * 5)
    claims = _plateau_claims(never)
    assert {claim.verdict for claim in claims} == {Verdict.INCONCLUSIVE}
    assert "merged at steps 100, 126, never, 100, 100" in claims[0].measured


def test_one_masked_run_of_any_arm_leaves_robustness_open() -> None:
    made = arms(robust=[0.5] * 5)
    made["plain"][0]["masked"] = True
    verdicts = [claim.verdict for claim in _plateau_claims(made)]
    assert (verdicts[3], verdicts[6]) == (Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE)


def test_points_come_from_two_other_arms_for_every_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first three have one another, as when there was no fourth."""
    sources: dict[str, list[str]] = {}
    models = {arm: survey_merge_away.network(quick(0)) for arm in (*ARMS, PLATEAU)}

    class Found:
        clean, accuracy, masked = 1.0, [0.5], False

    def robustness(model: Any, *args: Any, transfer_from: list[Any], **options: Any) -> Found:
        name = {id(m): arm for arm, m in models.items()}
        sources[name[id(model)]] = [name[id(m)] for m in transfer_from]
        return Found()

    monkeypatch.setattr(survey_merge_away, "robustness", robustness)
    for arm in models:
        survey_merge_away._at_the_end(models, arm, quick(0), strong=False)
    plain, kept, step = ARMS
    assert sources == {plain: [kept, step], kept: [plain, step], step: [plain, kept], PLATEAU: [plain, kept]}


class Stopped(Exception):
    pass


def test_an_interrupted_run_goes_on_with_the_fourth_arm_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def smaller(seed: int, **changes: Any) -> Setting:
        return quick(seed, **changes | {"steps": 30})

    def progress(share: float, what: str) -> None:
        if what == "plain, seed 1":
            raise Stopped

    monkeypatch.setattr(survey_merge_away, "quick", smaller)
    with keeping(tmp_path, "survey-merge-away", "source", "quick", 0) as pieces, pytest.raises(Stopped):
        survey_merge_away.run("quick", progress=progress)
    last = _read(sorted(pieces.place.iterdir())[3])  # of the four trainings of the first seed
    assert last is not None
    with keeping(tmp_path, "survey-merge-away", "source", "quick", 0) as pieces:
        outcome = survey_merge_away.run("quick")
    assert pieces.found == 4
    assert len(list(pieces.place.iterdir())) == 8
    assert last["result"][0].lc_train == outcome.numbers["arms"][PLATEAU][0]["lc_train"]
