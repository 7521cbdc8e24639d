"""`volume`: files, JSON, and one line for bad input."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from splinescope.cli import main

NETS = """
import torch
from torch import nn

def generator():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 20), nn.ReLU(), nn.Linear(20, 64), nn.Sigmoid())

def flat():
    return nn.Sequential(nn.Linear(3, 1), nn.Linear(1, 4))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "generators_for_tests.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("generators_for_tests", None)
    return tmp_path


def run(*arguments: Any, code: int = 0) -> Result:
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    return result


def test_volume_prints_a_summary_and_writes_arrays(folder: Path) -> None:
    result = run("volume", "generators_for_tests:generator", "--latent-shape", 3, "-n", 20, "--out", "v.npz", "--json")
    summary = json.loads(result.stdout)
    assert summary["latents"] == 20
    assert summary["rank (least, most)"] == [3, 3]
    with np.load(folder / "v.npz") as file:
        assert file["singular_values"].shape == (20, 3)
        assert np.allclose(file["log"], np.log(file["singular_values"]).sum(1))
        np.save("z.npy", file["latents"])
    again = run("volume", "generators_for_tests:generator", "--latents", "z.npy", "--json")
    assert json.loads(again.stdout) == summary
    flat = run("volume", "generators_for_tests:flat", "--latent-shape", 3).stdout
    assert "zero volumes" in flat
    assert re.search(r"^certainty +exact$", flat, re.MULTILINE)


def test_bad_input_is_one_line(folder: Path) -> None:
    base = ["volume", "generators_for_tests:generator"]
    for arguments, match in [
        (base, "--latent-shape is needed"),
        ([*base, "--latent-shape", "x"], "whole numbers"),
        ([*base, "--latent-shape", 5], "latents of shape (5,)"),
        ([*base, "--latent-shape", 3, "--out", "s.txt"], "must end in .npz"),
        ([*base, "--latent-shape", 3, "-n", 0], "0 is not in the range"),
    ]:
        result = run(*arguments, code=2)
        assert match in result.stderr.strip().splitlines()[-1]
