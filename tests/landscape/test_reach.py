"""Pictures, the page in a browser, the command, the monitor and the experiments."""

import json

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn

import splinescope as ss
from splinescope import evidence, plot
from splinescope.cli._main import main
from splinescope.complexity import Every
from tests.browser import open_page

from .networks import case, direction

pyplot = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    pyplot.close("all")


def bowl():
    axis = np.linspace(-1, 1, 21)
    u, v = np.meshgrid(axis, axis, indexing="ij")
    return ss.Surface((axis, axis), u**2 + 3 * v**2 + 0.1, np.array([[1.0, 1.0], [0.5, 0.2], [0.0, 0.0]]))


def test_sections_are_drawn_with_their_pieces_and_minimum():
    model, x, y, layer = case("mlp, first layer", points=2)
    line = ss.loss_section(model, x, y, direction(model, layer))
    ax = plot.plot_loss_section(line)
    assert ax.get_title() == f"{line.count} pieces of degree 2"
    assert len(ax.lines[1].get_xdata()) == line.count - 1
    assert ax.get_legend().get_texts()[-1].get_text().startswith("minimum")
    plane = ss.loss_section(model, x, y, [direction(model, layer, seed) for seed in (1, 2)])
    ax = plot.plot_loss_section(plane, color="curvature")
    assert len(ax.collections[0].get_paths()) == plane.count


@pytest.mark.parametrize("corner", [(-1.0, 1.0), (1.0, 1.0)])
def test_a_minimum_in_a_corner_is_seen(corner):
    model = nn.Linear(1, 2).double()  # outputs 0 move to (t1, t2); the target lies beyond the corner
    with torch.no_grad():
        model.weight.zero_(), model.bias.zero_()
    moves = [{"bias": torch.tensor([1.0, 0.0])}, {"bias": torch.tensor([0.0, 1.0])}]
    section = ss.loss_section(model, torch.zeros(1, 1), torch.tensor([corner]) * 2, moves)
    assert section.minimum[1] == pytest.approx(corner)
    ax = plot.plot_loss_section(section)
    ax.figure.canvas.draw()
    assert not ax.get_legend().get_window_extent().contains(*ax.transData.transform(corner))
    assert not ax.lines[-1].get_clip_on()


def test_surfaces_spectra_and_conditioning_are_drawn():
    assert plot.plot_loss_surface(bowl()).get_xlabel() == "$t_1$"
    assert plot.plot_loss_surface(bowl(), kind="surface").get_zlabel() == "$\\log_{10}$ loss"
    line = ss.Surface((bowl().axes[0],), bowl().losses[10])
    assert plot.plot_loss_surface(line).get_yscale() == "log"
    assert plot.plot_spectral_density(ss.SpectralDensity(np.array([0.0, 1.0]), np.array([0.9, 0.1]))).get_ylabel()
    kinds = {
        name: ss.random_conditioning(6, 0.4, skip=skip, draws=9) for name, skip in (("DW", False), ("I + DW", True))
    }
    assert [t.get_text() for t in plot.plot_conditioning(kinds).get_xticklabels()] == ["DW", "I + DW"]
    with pytest.raises(ss.InputError, match="log=False"):
        plot.plot_loss_surface(ss.Surface(bowl().axes, bowl().losses - 1))


def test_the_page_shows_every_cell_turns_and_reads_values(tmp_path):
    target = tmp_path / "surface.html"
    plot.write_surface_page(bowl(), target, title="a <bowl>")
    assert "http" not in target.read_text().replace("http-equiv", "")
    with open_page(target) as page:
        assert page.title() == "a <bowl>"
        assert page.locator("#label").inner_text() == "sampled at 441 points"
        assert page.locator("body").get_attribute("data-quads") == "400"
        before = page.locator("#view").screenshot()
        page.mouse.move(500, 400)
        assert "loss" in page.locator("#readout").inner_text()
        page.mouse.down()
        page.mouse.move(600, 430)
        page.mouse.up()
        assert page.locator("#view").screenshot() != before
        low = page.locator("#low").inner_text()
        assert float(low) == pytest.approx(0.1)
        page.locator("#log").uncheck()
        assert float(page.locator("#high").inner_text()) == pytest.approx(4.1)
    with pytest.raises(ss.InputError, match="2-D surfaces"):
        plot.write_surface_page(ss.Surface((bowl().axes[0],), bowl().losses[0]), target)


def test_the_page_of_a_large_surface_opens(tmp_path):
    axis = np.linspace(-1, 1, 550)  # half of it are more numbers than JavaScript takes as arguments of one call
    losses = 1 + axis[:, None] ** 2 + axis**2
    losses[np.indices(losses.shape).sum(0) % 2 == 1] = np.nan  # no cell has all its corners: nothing to wait for
    plot.write_surface_page(ss.Surface((axis, axis), losses), tmp_path / "large.html")
    with open_page(tmp_path / "large.html") as page:
        assert float(page.locator("#high").inner_text()) == pytest.approx(3.0)


@pytest.fixture
def files(tmp_path, monkeypatch):
    (tmp_path / "landscape_model.py").write_text(
        "import torch\ndef net():\n    torch.manual_seed(0)\n    return torch.nn.Sequential(torch.nn.Linear(2, 6), "
        "torch.nn.ReLU(), torch.nn.Linear(6, 3))\n"
    )
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "data.npz", x=rng.normal(size=(8, 2)), y=rng.integers(0, 3, 8))
    np.savez(tmp_path / "only_x.npz", x=np.zeros((3, 2)))
    np.savez(tmp_path / "wide.npz", x=np.zeros((8, 3)), y=rng.integers(0, 3, 8))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(*arguments):
    return CliRunner().invoke(main, ["landscape", "landscape_model:net", *arguments])


def test_the_command_samples_surfaces_and_writes_pictures(files):
    result = command(
        *("--data", "data.npz", "--loss", "cross_entropy", "--points", "5", "--plot", "a.png", "--html", "a.html"),
        *("--curvature", "--json"),
    )
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["least"] <= summary["center"] <= summary["largest"]
    assert summary["curvature"]["size"] == 39
    assert (files / "a.png").stat().st_size > 1000
    assert "Loss surface" in (files / "a.html").read_text()


def test_the_command_gives_exact_pieces(files):
    line = command("--data", "data.npz", "--exact", "--layer", "0", "--dimensions", "1", "--plot", "b.png", "--json")
    assert line.exit_code == 0, line.output
    assert json.loads(line.stdout)["degree"] == 2
    joint = command("--data", "data.npz", "--exact", "--dimensions", "1")
    assert joint.exit_code == 0, joint.output
    assert "degree                   4" in joint.stdout


def test_the_command_says_inf_where_json_has_null(files):
    arguments = ["--data", "data.npz", "--points", "3", "--curvature"]
    assert "curvature condition      inf" in command(*arguments).stdout
    assert json.loads(command(*arguments, "--json").stdout)["curvature"]["condition"] is None


def test_the_command_certifies_planes_of_all_layers(files):
    result = command("--data", "data.npz", "--certified", "--span", "0.1", "--points", "4", "--plot", "c.png", "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert 0 < summary["largest_error"] < 0.1
    assert summary["proven_least"] <= summary["least"]
    assert (files / "c.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "only_x.npz"], '"x" and "y"'),
        (["--data", "landscape_model.py"], ".npz"),
        (["--data", "wide.npz"], "points of shape (3,)"),
        (["--data", "wide.npz", "--loss", "cross_entropy"], "points of shape (3,)"),
        (["--data", "data.npz", "--certified", "--batch-norm", "reestimate"], "goes with sampled surfaces"),
        (["--data", "data.npz", "--exact"], "needs --layer"),
        (["--data", "data.npz", "--exact", "--loss", "cross_entropy"], "only the squared error"),
        (["--data", "data.npz", "--certified", "--loss", "cross_entropy"], "only the squared error"),
        (["--data", "data.npz", "--certified", "--exact"], "exclude each other"),
        (["--data", "data.npz", "--layer", "nope"], "module path"),
        (["--data", "data.npz", "--dimensions", "1", "--html", "x.html"], "sampled 2-D"),
    ],
)
def test_the_command_refuses_bad_input_with_code_2(files, arguments, message):
    result = command(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_the_monitor_follows_the_dense_curvature_and_leaves_training_alone(tmp_path):
    model, x, y, _ = case("convnet, convolution")
    model.train()
    monitor = ss.CurvatureMonitor(model, x, y, layers=(None, "0"), schedule=Every(2), out=tmp_path)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(4):
        monitor.step(step)
        assert model.training
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert [record["step"] for record in monitor.records] == [0, 2]
    record = monitor.measure(4)
    model.eval()
    for name, layer in (("all", None), ("0", "0")):
        values = np.linalg.eigvalsh(ss.curvature(model, x, y, layer=layer).dense())
        assert record[f"{name}/largest"] == pytest.approx(values[-1], rel=1e-8)
        assert record[f"{name}/trace"] == pytest.approx(values.sum(), rel=1.0)  # 8 probes: the order of magnitude
    lines = (tmp_path / "curvature.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["format"] == "splinescope.curvature"
    assert len(lines) == 4


@pytest.mark.parametrize(
    ("experiment", "verdicts"),
    [
        ("survey-piecewise-quadratic", ["holds", "holds with correction"]),
        ("survey-resnet-conditioning", ["holds with correction", "does not hold", "holds"]),
        ("survey-fig6", ["holds", "holds"]),
    ],
)
def test_the_experiment_reaches_its_verdict(experiment, verdicts, tmp_path):
    outcome = evidence.reproduce([experiment], out=tmp_path, size="quick")[experiment]
    assert [str(claim.verdict) for claim in outcome.claims] == verdicts
    assert (tmp_path / f"{experiment}.png").stat().st_size > 10_000
