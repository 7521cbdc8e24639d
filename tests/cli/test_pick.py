"""`--pick`: one of several outputs on the command line."""

from __future__ import annotations

import json

from click.testing import CliRunner

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
