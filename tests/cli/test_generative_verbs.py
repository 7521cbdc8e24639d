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


def test_rows_of_latents_take_the_shape_asked_for(folder: Path) -> None:
    model, shape = "generators_for_tests:convolutional", ["--latent-shape", "3,1,1"]
    drawn = run("volume", model, *shape, "-n", 7, "--out", "v.npz", "--json")
    assert json.loads(run("volume", model, *shape, "--latents", "v.npz:latents", "--json").stdout) == json.loads(
        drawn.stdout
    )
    with np.load("v.npz") as file:
        np.save("rows.npy", file["latents"].reshape(7, 3))
    assert run("volume", model, *shape, "--latents", "rows.npy", "--json").stdout == drawn.stdout
    wrong = run("volume", model, "--latent-shape", "4,1,1", "--latents", "rows.npy", code=2)
    assert "does not fill the shape (4, 1, 1)" in wrong.stderr


def test_volume_on_a_sphere_is_that_of_its_tangent_spaces(folder: Path) -> None:
    import torch

    run(
        "volume", "generators_for_tests:generator", "--latent-shape", 3, "--domain", "sphere", "-n", 9, "--out", "v.npz"
    )
    generator = __import__("generators_for_tests").generator().double()
    with np.load("v.npz") as file:
        assert file["singular_values"].shape == (9, 2)
        for z, log in zip(torch.from_numpy(file["latents"]), file["log"], strict=True):
            along = torch.eye(3, dtype=z.dtype) - torch.outer(z, z) / z.square().sum()
            across = torch.linalg.svdvals(torch.autograd.functional.jacobian(generator, z) @ along)[:2]
            assert abs(float(across.log().sum()) - log) < 1e-4  # the generator is float32


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
        (["volume", "generators_for_tests:generator", "--latent-shape", 3, "-n", 0], "at least 1"),
    ]:
        result = run(*arguments, code=2)
        assert match in result.stderr.strip().splitlines()[-1]


def test_outputs_that_are_no_images_are_refused_before_anything_is_written(folder: Path) -> None:
    result = run("sample", "generators_for_tests:flat3", "--latent-shape", 3, "--top-k", 1, "--pool", 64, "-n", 4,
                 "--quiet", "--out", "s.npz", "--images", "s.png", "--cache", "pool", code=2)  # fmt: skip
    assert "--images needs a generator of images" in result.stderr
    assert not (folder / "s.npz").exists()
    assert not (folder / "pool").exists()


def test_sample_takes_both_meanings_of_the_manifold(folder: Path) -> None:
    """Weights of one pool by volumes after and before the sigmoid; the answer says which."""
    base = ["sample", "generators_for_tests:generator", "--latent-shape", 3, "--pool", 256, "-n", 30, "--quiet"]
    laws, volumes = [], []
    for output in ("after", "before"):
        result = run(*base, "--output", output, "--out", f"{output}.npz", "--json")
        laws.append(json.loads(result.stdout)["law"])
        with np.load(f"{output}.npz") as file:
            volumes.append(file["log_volume"].mean())
    assert laws[0] == "uniform on the set of the generator's outputs"
    assert "before their final squashing" in laws[1]
    assert volumes[0] < volumes[1] - 2 * 3 * np.log(2) * 0.5  # a sigmoid has slopes of at most 1/4, in 3 directions


def test_a_collapsed_pool_is_told_on_stderr(folder: Path) -> None:
    result = run("sample", "generators_for_tests:generator", "--latent-shape", 3, "--pool", 128, "-n", 100, "--rho", 40,
                 "--quiet", "--out", "s.npz")  # fmt: skip
    assert "effective size" in result.stderr
