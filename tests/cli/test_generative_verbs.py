"""`volume` and `sample`: files, JSON, and one line for bad input."""

from __future__ import annotations

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

def convolutional():
    torch.manual_seed(0)
    return nn.Sequential(nn.ConvTranspose2d(3, 2, 4), nn.ReLU(), nn.Conv2d(2, 5, 1))

def flat3():
    return nn.Sequential(nn.Linear(3, 1), nn.Linear(1, 5))

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


def test_sample_writes_latents_outputs_and_a_grid(folder: Path) -> None:
    arguments = ["sample", "generators_for_tests:generator", "--latent-shape", 3, "--pool", 128, "-n", 12, "--quiet"]
    result = run(*arguments, "--out", "s.npz", "--images", "s.png", "--cache", "pool", "--json")
    assert json.loads(result.stdout)["samples"] == 12
    assert (folder / "s.png").read_bytes().startswith(b"\x89PNG")
    with np.load(folder / "s.npz") as file:
        assert file["outputs"].shape == (12, 64)
        assert (np.linalg.norm(file["latents"], axis=1) <= 3**0.5).all()
    assert list((folder / "pool").iterdir())
    for extra in (
        ["--domain", "box"],
        ["--domain", "sphere"],
        ["--domain", "truncated", "--method", "rejection", "-n", 2],
    ):
        assert "effective size" in run(*arguments, *extra, "--out", "t.npz").stdout


def test_bad_input_is_one_line(folder: Path) -> None:
    base = ["sample", "generators_for_tests:generator", "--quiet"]
    for arguments, match in [
        ([*base, "--out", "s.npz"], "--latent-shape is needed"),
        ([*base, "--latent-shape", "x", "--out", "s.npz"], "whole numbers"),
        ([*base, "--latent-shape", 5, "--out", "s.npz"], "latents of shape (5,)"),
        ([*base, "--latent-shape", 3, "--out", "s.txt"], "must end in .npz"),
        ([*base, "--latent-shape", 3, "--out", "s.npz", "--images", "s.gif"], "must end in .png"),
        ([*base, "--latent-shape", 3, "--out", "s.npz", "--domain", "gaussian"], "unbounded"),
        (["volume", "generators_for_tests:generator", "--latent-shape", 3, "-n", 0], "0 is not in the range"),
    ]:
        result = run(*arguments, code=2)
        assert match in result.stderr.strip().splitlines()[-1]


def test_outputs_that_are_no_images_are_refused_before_anything_is_written(folder: Path) -> None:
    result = run("sample", "generators_for_tests:flat3", "--latent-shape", 3, "--top-k", 1, "--pool", 64, "-n", 4,
                 "--quiet", "--out", "s.npz", "--images", "s.png", "--cache", "pool", code=2)  # fmt: skip
    assert "--images needs a generator of images" in result.stderr
    assert not (folder / "s.npz").exists()
    assert not (folder / "pool").exists()


def test_a_collapsed_pool_is_told_on_stderr(folder: Path) -> None:
    result = run("sample", "generators_for_tests:generator", "--latent-shape", 3, "--pool", 128, "-n", 100, "--rho", 40,
                 "--quiet", "--out", "s.npz")  # fmt: skip
    assert "effective size" in result.stderr
