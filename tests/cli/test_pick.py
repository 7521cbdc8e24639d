"""`--pick`: one of several outputs on the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

from splinescope.cli._main import main

TWO = """
from torch import nn

class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        nn.init.eye_(self.layer.weight)
        nn.init.zeros_(self.layer.bias)

    def forward(self, x):
        return {"flat": x, "bent": self.layer(x).relu().sum(1, keepdim=True)}
"""
SLICE = ["--slice", "axes", "--shape", "2", "--low", "-1", "--high", "1"]


def test_a_verb_takes_the_output_that_is_picked(tmp_path, monkeypatch):
    (tmp_path / "two_outputs.py").write_text(TWO)
    monkeypatch.chdir(tmp_path)
    without = CliRunner().invoke(main, ["tessellate", "two_outputs:Two", *SLICE, "--json"])
    assert without.exit_code == 2
    assert (
        "returns 2 tensors: flat (N, 2), bent (N, 1). Choose one, by index or by name: --pick flat." in without.output
    )
    picked = CliRunner().invoke(main, ["tessellate", "two_outputs:Two", "--pick", "bent", *SLICE, "--json"])
    assert picked.exit_code == 0, picked.output
    assert json.loads(picked.stdout)["tiles"] == 4


@pytest.mark.parametrize("verb", ["normalization", "representation", "complexity"])
def test_every_verb_of_a_model_has_the_choice(verb, tmp_path, monkeypatch):
    (tmp_path / "two_outputs.py").write_text(TWO)
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((6, 2)))
    monkeypatch.chdir(tmp_path)
    for output in ("bent", "1", "-1"):
        found = CliRunner().invoke(main, [verb, "two_outputs:Two", "--pick", output, "--data", "x.npy"])
        assert found.exit_code == 0, found.output


def test_a_timeline_is_of_the_picked_output(tmp_path, monkeypatch):
    (tmp_path / "two_outputs.py").write_text(TWO)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "steps").mkdir()
    save_file({"layer.weight": torch.eye(2), "layer.bias": torch.zeros(2)}, tmp_path / "steps" / "step-1.safetensors")
    found = CliRunner().invoke(main, ["timeline", "steps", "--model", "two_outputs:Two", "--pick", "bent", *SLICE])
    assert found.exit_code == 0, found.output
