"""The test bed for counting regions: its answers are the reference's, and ours are its answers."""

import json

import pytest
from benchmarks.regions import reference
from benchmarks.regions.__main__ import FOLDER, agrees, judged, names


def test_there_are_thirty_networks_of_both_dimensions():
    cases = [json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")) for name in names()]
    assert len(cases) == 30
    assert {len(case["layers"][0]["weight"][0]) for case in cases} == {1, 2}
    assert sum("unsafe_betti" in case["answers"] for case in cases) == 24


@pytest.mark.parametrize("name", names())
def test_every_certified_answer_is_found(name):
    found, differing = judged("splinescope", name)
    assert {"tiles", "pieces", "lipschitz_2_squared", "lipschitz_inf"} <= set(found)
    assert not differing, found


@pytest.mark.parametrize("name", ["ring", "sawtooth-6", "twins-30", "line-8-8"])
def test_the_files_hold_what_the_reference_says(name):
    case = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert reference.answers(case) == case["answers"]


def test_the_reference_knows_what_can_be_reckoned_by_hand():
    square = {"slope": 0, "low": -1, "high": 1, "layers": [{"weight": [[1.0, 0.0]], "bias": [0.0]}]}
    folded = {**square, "layers": [{"weight": [[1.0, 0.0]], "bias": [0.0]}, {"weight": [[2.0]], "bias": [-1.0]}]}
    assert reference.answers(square)["unsafe_volume"] == "2"
    assert reference.answers(folded) == {
        "tiles": 2, "pieces": 2, "lipschitz_2_squared": "4", "lipschitz_inf": "2", "unsafe_volume": "1",
        "unsafe_betti": [1, 0],
    }  # fmt: skip


def test_a_wrong_answer_is_seen():
    assert not agrees(7, 8)
    assert not agrees(0.5001, "1/2")
    assert agrees(0.5, "1/2")
