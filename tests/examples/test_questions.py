"""The page that leads from a question to a call: every call runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn

import splinescope as ss
import splinescope_evidence

PAGE = Path(__file__).resolve().parents[2] / "docs" / "questions.md"
CALLS = re.findall(
    r"^\| [^|]+ \| `((?:ss|splinescope_evidence)\.[^`]+)` \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE
)


@pytest.fixture
def names(tmp_path, monkeypatch) -> dict[str, object]:
    monkeypatch.chdir(tmp_path)  # reports are written where one stands
    torch.manual_seed(0)
    with_norm = nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)).eval()
    y = torch.arange(30) % 3
    return {
        "ss": ss,
        "splinescope_evidence": splinescope_evidence,
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


def test_every_row_has_a_call_and_the_page_has_pictures() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?!question)[^|]+ \|", text, flags=re.MULTILINE)
    assert len(rows) == len(CALLS) >= 20
    pictures = re.findall(r"\]\((images/gallery/[^)]+)\)", text)
    assert len(pictures) >= 12
    assert all((PAGE.parent / picture).is_file() for picture in pictures)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.split("(")[0])
def test_the_call_runs_as_it_stands(call: str, names: dict[str, object]) -> None:
    assert eval(call, names) is not None
