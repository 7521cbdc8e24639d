from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from splinescope import InputError
from splinescope.cli import main
from splinescope.meanfield.config import Setup, read_config

CONFIG = """
[data]
covariance = [[5.0, 0.0], [0.0, 1.0]]
points = 50
[[data.teacher]]
function = "relu"
direction = [1.0, 0.0]
[[data.teacher]]
function = "tanh"
direction = [0.0, 1.0]
amplitude = 0.5
[network]
width = 8
activation = "relu"
[flow]
dynamics = "euclidean"
time = 0.4
rate = 0.02
frames = 4
"""


def write(folder: Path, text: str) -> str:
    path = folder / "run.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_config_runs_and_writes_its_trajectory(tmp_path: Path) -> None:
    arguments = ["meanfield", "--config", write(tmp_path, CONFIG), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(main, [*arguments, "--film", "gif", "--json"])
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["loss_end"] < summary["loss_start"]
    assert summary["steps"] == 20
    with np.load(tmp_path / "out" / "trajectory.npz") as saved:
        assert saved["b"].shape == (5, 8, 2)
        assert saved["risks"][-1] == summary["loss_end"]
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"trajectory.npz", "neurons.png", "neurons.gif"}


def test_the_flow_of_points_from_a_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savetxt(tmp_path / "points.csv", 3 + rng.standard_normal((30, 4)), delimiter=",")
    config = '[data]\nfile = "points.csv"\ncentre = "centre"\n[network]\nwidth = 4\n[flow]\ntime = 1\nframes = 2\n'
    arguments = ["meanfield", "--config", write(tmp_path, config), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert "dynamics: manifold" in result.stdout


def test_a_film_of_three_dimensions_is_refused_before_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ran(self: Setup) -> None:
        raise AssertionError("the flow was run")

    monkeypatch.setattr(Setup, "run", ran)
    np.savetxt(tmp_path / "points.csv", np.random.default_rng(0).standard_normal((30, 4)), delimiter=",")
    config = write(tmp_path, '[data]\nfile = "points.csv"\ncentre = "centre"\n')
    result = CliRunner().invoke(main, ["meanfield", "--config", config, "--film", "gif", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "two-dimensional data, got d = 3" in result.stderr


def test_a_figure_is_reproduced(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["meanfield", "--figure", "2", "--quick", "--out", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    claims = json.loads(result.stdout)
    assert {claim["verdict"] for claim in claims} == {"not judged"}  # a quick run is too small to judge
    assert all(claim["checks"][0]["reason"] for claim in claims)
    assert (tmp_path / "meanfield-fig2.png").exists()


def test_asking_for_both_or_neither_is_an_error() -> None:
    assert CliRunner().invoke(main, ["meanfield"]).exit_code == 2


def test_options_that_would_do_nothing_are_errors(tmp_path: Path) -> None:
    film = CliRunner().invoke(main, ["meanfield", "--figure", "2", "--film", "gif", "--out", str(tmp_path)])
    quick = CliRunner().invoke(main, ["meanfield", "--config", write(tmp_path, CONFIG), "--quick"])
    assert (film.exit_code, quick.exit_code) == (2, 2)
    assert "--film goes with --config" in film.output
    assert "--quick goes with --figure" in quick.output


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("width", "widht", "'widht' is no key of \\[network\\]; there are: width"),
        ("[network]", "[net]", "'net' is no section"),
        ("width = 8", 'width = "8"', "must be like 50"),
        ("width = 8", "width = -8", "width of \\[network\\] must be a whole number"),
        ("direction = [1.0, 0.0]", "direction = [1.0]", "must have 2 numbers"),
        ('"relu"\ndirection', '"rleu"\ndirection', "'leaky_relu'"),
        ("rate = 0.02", "batch_size = 5", "needs rate"),
        ("rate = 0.02", 'rate = "fast"', "rate of \\[flow\\] must be a positive number"),
        ("rate = 0.02", "rate = 0", "rate of \\[flow\\] must be a positive number"),
        ("time = 0.4", "time = -1.0", "time of \\[flow\\] must be a positive number"),
        ("frames = 4", "frames = 0", "frames of \\[flow\\] must be a whole number"),
        ("direction = [1.0, 0.0]", 'direction = ["a", 0.0]', "direction of .* must be numbers"),
        ("direction = [1.0, 0.0]", "direction = 3", "must have 2 numbers"),
        ("amplitude = 0.5", "amplitude = [0.5, 1.0]", "amplitude of .* must be one number"),
        ("amplitude = 0.5", 'amplitude = "half"', "amplitude of .* must be numbers"),
        ("[data]", "[data", "TOML"),
        ("covariance", "#", "needs either file"),
    ],
)
def test_bad_configs_are_refused(tmp_path: Path, old: str, new: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_config(write(tmp_path, CONFIG.replace(old, new, 1))).run()
