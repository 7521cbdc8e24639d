"""Options of the command line reach the functions behind it."""

import json

import pytest
import torch
from click.testing import CliRunner
from torch import nn

from splinescope import evidence
from splinescope.cli import main


def build() -> nn.Module:
    """The network that the command line asks for."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 1))


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> str:
    import numpy as np

    path = tmp_path_factory.mktemp("data") / "data.npz"
    x = np.random.default_rng(0).normal(size=(12, 2)).astype(np.float32)
    np.savez(path, x=x, y=x[:, :1] ** 2)
    return str(path)


def test_the_seed_of_reproduce_reaches_the_experiments(monkeypatch, tmp_path):
    seeds = []
    monkeypatch.setattr(evidence, "reproduce", lambda ids, **options: seeds.append(options["seed"]) or {})
    arguments = ["reproduce", evidence.ids()[0], "--quick", "--out", str(tmp_path)]
    for seed in ("7", "0"):
        assert CliRunner().invoke(main, [*arguments, "--seed", seed]).exit_code == 0
    assert seeds == [7, 0]


def test_the_span_and_the_limit_of_a_section_of_the_loss_hold(data):
    arguments = ["landscape", "tests.cli.test_options:build", "--data", data, "--exact", "--layer", "0", "--json"]
    small, large = (CliRunner().invoke(main, [*arguments, "--span", span]) for span in ("0.5", "2"))
    assert small.exit_code == large.exit_code == 0, small.output + large.output
    assert json.loads(small.stdout) != json.loads(large.stdout)
    limited = CliRunner().invoke(main, [*arguments, "--max-tiles", "1"])
    assert limited.exit_code == 2
    assert "max_tiles=1" in limited.output
