"""The page that leads from a question to a call: every call runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn

import splinescope as ss

PAGE = Path(__file__).resolve().parents[2] / "docs" / "questions.md"
CALLS = re.findall(r"^\| [^|]+ \| `(ss\.[^`]+)` \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)


@pytest.fixture
def names(tmp_path, monkeypatch) -> dict[str, object]:
    monkeypatch.chdir(tmp_path)  # reports are written where one stands
    torch.manual_seed(0)
    with_norm = nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)).eval()
    y = torch.arange(30) % 3
    return {
        "ss": ss,
        "model": nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 3)).eval(),
        "other": nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3)).eval(),
        "batch_norm_model": with_norm,
        "optimizer": torch.optim.SGD(with_norm.parameters(), 0.1),
        "generator": nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 3)).eval(),
        "x": torch.randn(30, 2),
        "y": y,
        "one_hot": nn.functional.one_hot(y).float(),
        "held_out": torch.rand(20, 3) - 0.5,
        "z": torch.randn(5, 2),
        "view": ss.Slice.axes([0.0, 0.0], (0, 1), -1, 1),
    }


def test_the_page_asks_twenty_questions_and_most_have_a_picture() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = text.count("\n| ") - 1  # without the head
    assert rows == len(CALLS) >= 20
    pictures = re.findall(r"\]\((images/gallery/[^)]+)\)", text)
    assert len(pictures) >= 20
    assert all((PAGE.parent / picture).is_file() for picture in pictures)


def test_the_first_page_shows_the_table() -> None:
    first = (PAGE.parent / "index.md").read_text(encoding="utf-8")
    start, end = re.findall(r':(?:start-after|end-before): "(.+)"', first)
    shown = PAGE.read_text(encoding="utf-8").split(start)[1].split(end)[0]
    assert shown.count("\n| ") == len(CALLS) + 1


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.split("(")[0])
def test_the_call_runs_as_it_stands(call: str, names: dict[str, object]) -> None:
    assert eval(call, names) is not None
