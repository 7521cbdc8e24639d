"""A slice followed through training: files, measures, pictures, the command."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image
from safetensors.numpy import save_file
from torch import nn

import splinescope as ss
from splinescope.cli import main
from splinescope.complexity import ComplexityMonitor, load_timeline, timeline
from splinescope.complexity.timeline import Timeline
from splinescope.plot import film
from splinescope.train import Every

from .models import mlp


def build() -> nn.Module:
    """The architecture, as the command line asks for it."""
    return mlp(2, 10, 10, 2)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, torch.Tensor, ss.Slice]:
    """A short training run with snapshots every 20 steps."""
    folder = tmp_path_factory.mktemp("run")
    x = torch.rand(60, 2, generator=torch.Generator().manual_seed(0)) * 4 - 2
    y = (x.norm(dim=1) > 1).long()
    model = build()
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    monitor = ComplexityMonitor(model, x, radius=0.1, schedule=Every(20), out=folder, snapshots=True, budget=None)
    for step in range(41):
        monitor.step(step)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    np.save(folder / "x.npy", x.numpy())
    return folder, x, ss.Slice.through(x[0], x[1], x[2], pad=0.5)


@pytest.fixture(scope="module")
def story(run: tuple[Path, torch.Tensor, ss.Slice]) -> Timeline:
    folder, x, view = run
    y = {"train": (x.norm(dim=1) > 1).long()}
    return timeline(build(), folder / "snapshots", view, x={"train": x}, y=y, radius=0.1)


def test_each_checkpoint_is_tiled_as_tessellate_would(run: tuple, story: Timeline) -> None:
    folder, x, view = run
    assert story.steps.tolist() == [0, 20, 40]
    from safetensors.torch import load_model

    for i, step in enumerate(story.steps):
        model = build()
        load_model(model, folder / "snapshots" / f"step-{step:09d}.safetensors")
        tiling = ss.tessellate(model, view)
        assert np.array_equal(tiling.vertices, story.tilings[i].vertices)
        right = (model(x).argmax(1) == (x.norm(dim=1) > 1)).double().mean()
        assert story.measures["accuracy/train"][i] == float(right)
        assert story.measures["tiles"][i] == tiling.count
        assert story.measures["boundary_length"][i] == tiling.decision_boundary().length
        near = tiling.counts_near(view.anchors, story.near)
        assert story.measures["tiles_near_data"][i] == near.mean()
        counts = ss.local_complexity(model, x, radius=0.1).total.double().mean()
        assert story.measures["complexity/train"][i] == pytest.approx(float(counts))
    recorded = [json.loads(line) for line in (folder / "complexity.jsonl").read_text().splitlines()[1:]]
    assert [r["points"] for r in recorded] == pytest.approx(story.measures["complexity/train"].tolist())


def test_state_dicts_and_torch_files_give_the_same_story(run: tuple, story: Timeline, tmp_path: Path) -> None:
    folder, x, view = run
    from safetensors.torch import load_file

    states = {int(p.stem[5:]): load_file(p) for p in (folder / "snapshots").iterdir()}
    for step, state in states.items():
        torch.save({"state_dict": state}, tmp_path / f"model_{step}.ckpt")
    for source in (states, tmp_path):
        again = timeline(build(), source, view, x={"train": x}, radius=0.1)
        assert all(np.array_equal(story.measures[k], v, equal_nan=True) for k, v in again.measures.items())
        assert set(story.measures) - set(again.measures) == {"accuracy/train"}


def test_checkpoints_with_batch_norm_have_the_statistics_of_the_data(run: tuple) -> None:
    from splinescope.normalization import with_statistics

    _, x, view = run
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)).eval()
    other = {name: value * 2 if value.is_floating_point() else value for name, value in model.state_dict().items()}
    states = {0: model.state_dict(), 5: other}
    data, running = (
        timeline(model, states, view, x={"test": x[:5], "train": x + 1}, radius=0.1, statistics=s)
        for s in (None, "running")
    )
    assert (data.statistics, running.statistics) == ("data", "running")
    for i, state in enumerate(states.values()):
        twin = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)).eval()
        twin.load_state_dict(state)
        assert running.tilings[i].count == ss.tessellate(twin, view).count
        assert data.tilings[i].count == ss.tessellate(with_statistics(twin, x + 1), view).count
    assert "Statistics of batch norm: data" in data.summary()


def test_a_timeline_survives_its_file(story: Timeline, tmp_path: Path) -> None:
    story.save(tmp_path / "a.timeline")
    again = load_timeline(tmp_path / "a.timeline")
    assert all(np.array_equal(again.measures[k], v, equal_nan=True) for k, v in story.measures.items())
    assert [t.count for t in again.tilings] == [t.count for t in story.tilings]
    assert again.tilings[1].check().ok
    assert (again.radius, again.near, again.statistics) == (story.radius, story.near, "none")
    (tmp_path / "b.timeline").write_bytes((tmp_path / "a.timeline").read_bytes()[:500])
    with pytest.raises(ss.FileFormatError):
        load_timeline(tmp_path / "b.timeline")
    story.tilings[0].save(tmp_path / "c.tiling")
    old = {"format": "splinescope.timeline", "version": "1", "timeline": "{}"}
    save_file({"steps": np.arange(3)}, tmp_path / "old.timeline", old)
    with pytest.raises(ss.FileFormatError, match=r"version '1' of its format; this reads version 2"):
        load_timeline(tmp_path / "old.timeline")
    with pytest.raises(ss.FileFormatError, match="not a timeline"):
        load_timeline(tmp_path / "c.tiling")


def test_pictures_and_films_are_written(story: Timeline, tmp_path: Path) -> None:
    story.plot().savefig(tmp_path / "story.png", dpi=60)
    film(story, tmp_path / "story.gif", dpi=40)
    with Image.open(tmp_path / "story.gif") as image:
        assert image.n_frames == 3
        image.seek(2)
        right = np.asarray(image.convert("L"))[:, -image.width // 9 :]
        assert (right < 128).any(), "no color bar"
    with pytest.raises(ss.InputError, match=r"\.gif, \.webp, \.mp4 or \.html"):
        film(story, tmp_path / "story.avi")


def test_the_commands(run: tuple, tmp_path: Path) -> None:
    folder, _, _ = run
    model, data = "tests.complexity.test_timeline:build", str(folder / "x.npy")
    arguments = ["timeline", str(folder / "snapshots"), "--model", model, "--slice", "through", "--points", data]
    films = ["--radius", "0.1", "--out", str(tmp_path / "no.timeline"), "--film", str(tmp_path / "r.avi")]
    result = CliRunner().invoke(main, [*arguments, *films])
    assert result.exit_code == 2
    assert not (tmp_path / "no.timeline").exists(), "the film's name is looked at last"
    sets = ["--data", f"train={data}", "--data", f"test={data}"]
    written = ["--radius", "0.1", "--out", str(tmp_path / "r.timeline"), "--json"]
    result = CliRunner().invoke(main, [*arguments, *sets, *written])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["step"] == [0, 20, 40]
    assert {"complexity/train", "complexity/test", "complexity/random"} <= found.keys()
    assert load_timeline(tmp_path / "r.timeline").steps.tolist() == [0, 20, 40]
    arguments = ["complexity", model, "--data", data, "--radius", "0.1"]
    for method in ("frame", "distance"):
        result = CliRunner().invoke(main, [*arguments, "--method", method, "--json"])
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["points"] == 60
    result = CliRunner().invoke(main, [*arguments, "--radius", "-1"])
    assert result.exit_code == 2
    assert "radius must be a positive" in result.stderr


def test_bad_checkpoints_are_named(run: tuple, tmp_path: Path) -> None:
    folder, x, view = run
    options = {"x": {"train": x}, "radius": 0.1}
    for model, checkpoints, points, message in (
        (build(), {}, {}, "got none"),
        (build(), folder / "snapshots", x, "sets of inputs by name"),
        (nn.Linear(2, 3), folder / "snapshots", {}, "does not fit the model"),
        (nn.Linear(2, 3), {0: build().state_dict()}, {}, "a state dict does not fit"),
    ):
        with pytest.raises(ss.InputError, match=message):
            timeline(model, checkpoints, view, x=points, radius=0.1)
    for y, message in (
        ({"test": torch.zeros(60, dtype=torch.long)}, "y has classes of 'test', but x only points of 'train'"),
        ({"train": torch.zeros(59, dtype=torch.long)}, "must be 60 whole numbers"),
        ({"train": torch.zeros(60)}, "must be 60 whole numbers"),
    ):
        with pytest.raises(ss.InputError, match=message):
            timeline(build(), folder / "snapshots", view, y=y, **options)
    with pytest.raises(ss.InputError, match="no checkpoints"):
        timeline(build(), tmp_path, view, **options)
    (tmp_path / "model.pt").write_bytes(b"nothing")
    with pytest.raises(ss.InputError, match="step in the name"):
        timeline(build(), tmp_path, view, **options)
    (tmp_path / "model.pt").rename(tmp_path / "model-1.pt")
    with pytest.raises(ss.FileFormatError, match="not a readable checkpoint"):
        timeline(build(), tmp_path, view, **options)
    torch.save({"weight": torch.zeros(2)}, tmp_path / "model-1.pt")
    with pytest.raises(ss.InputError, match="does not fit the model"):
        timeline(build(), tmp_path, view, **options)
    torch.save({}, tmp_path / "other-1.pt")
    with pytest.raises(ss.InputError, match="came twice"):
        timeline(build(), tmp_path, view, **options)
