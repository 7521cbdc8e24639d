"""What a new user meets in a report: the loss taken, calls that run, a window with a boundary, no lost files."""

import re

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn

import splinescope as ss
from splinescope.cli import main
from splinescope.reports import near_data


def small(*endings: nn.Module, outputs: int = 3, inputs: int = 2) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(inputs, 6), nn.ReLU(), nn.Linear(6, outputs), *endings).eval()


class Skipping(nn.Module):
    """One skip connection."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.first, self.inner, self.last = nn.Linear(2, 4), nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        h = self.first(x).relu()
        return self.last(h + self.inner(h).relu())


X = torch.randn(30, 2, generator=torch.Generator().manual_seed(3))
Y = torch.arange(30) % 3


def quiet(model, x, y=None, **options):
    return ss.report(model, x, y, **{"progress": False, **options})


CLASSES, ONE = "cross-entropy (y holds class numbers)", "and there is one output)"
GELU = nn.Sequential(nn.Linear(2, 4), nn.GELU(), nn.Linear(4, 3)).eval()
CASES = {
    "classes": (small(), Y, None, CLASSES),
    "classes as floats": (small(), Y.float(), None, "cross-entropy (y holds whole numbers)"),
    "one-hot rows": (small(), nn.functional.one_hot(Y).float(), None, "cross-entropy (y holds one-hot rows)"),
    "softmax": (small(nn.Softmax(1)), Y, None, CLASSES),
    "two labels": (small(outputs=1), Y % 2, None, f"binary cross-entropy (y holds class numbers {ONE}"),
    "sigmoid": (
        small(nn.Sigmoid(), outputs=1), Y % 2, None, f"binary cross-entropy (y holds class numbers {ONE}"
    ),
    "numbers": (small(outputs=1), X[:, 0], None, "squared error (y holds numbers of the outputs' shape)"),
    "mse asked": (small(), nn.functional.one_hot(Y).float(), "mse", "mean squared error (as asked)"),
    "mse of classes as floats": (small(), Y.float(), "mse", "mean squared error (as asked)"),
    "signs": (small(outputs=1), 2 * (Y % 2) - 1, "logistic", "logistic loss (as asked)"),
    "bce asked": (small(), nn.functional.one_hot(Y).float(), "bce", "binary cross-entropy (as asked)"),
    "a function": (small(), Y, lambda f, y: nn.functional.cross_entropy(2 * f, y), "<lambda> (as asked)"),
    "a skip": (Skipping().eval(), Y, None, CLASSES),
    "smooth": (GELU, Y, None, CLASSES),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_loss_taken_is_said_and_every_call_of_the_report_runs_as_it_stands(case, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    model, y, loss, told = CASES[case]
    found = quiet(model, X, y, loss=loss, exclude=["volume"])
    assert found.loss == told
    assert f"Loss: {told}." in found.summary()
    assert not any(tmp_path.iterdir())  # nothing is written that was not asked for
    names = {"ss": ss, "model": model, "x": X, "y": y, "loss": loss}
    measured = [block for block in found if block.state == "measured"]
    assert {block.key for block in measured} >= {"network", "complexity", "tiles", "depth", "curvature", "surface"}
    for block in measured:
        exec(block.call, dict(names))
    losses = eval(found["surface"].call, dict(names)).losses
    assert losses[20, 20] == pytest.approx(found["surface"].numbers["middle"], rel=1e-5)
    assert (tmp_path / "tiles.html").is_file()
    assert capsys.readouterr().out.count("\n") > 10


def test_calls_about_a_generator_run_as_they_stand():
    model = small(outputs=9)
    block = quiet(model, X, include=["volume"])["volume"]
    assert block.state == "measured"
    exec(block.call, {"ss": ss, "model": model, "x": X})


def test_labels_as_floats_or_one_hot_rows_change_no_number():
    wanted, *others = (
        quiet(small(), X, y, include=["curvature", "surface", "margins"])
        for y in (Y, Y.float(), Y.double(), nn.functional.one_hot(Y), nn.functional.one_hot(Y).float(), Y[:, None])
    )
    for found in others:
        for key, number in (("curvature", "largest eigenvalue"), ("surface", "middle")):
            assert found[key].numbers[number] == wanted[key].numbers[number]
        assert found["margins"].numbers == wanted["margins"].numbers


def test_a_window_lies_on_the_boundary_and_within_the_budget(monkeypatch):
    """The points are far from where classes change, and the plane has more tiles than are allowed."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 2)).eval()
    x = 3 * torch.randn(40, 2, generator=torch.Generator().manual_seed(5))
    y = model(x).argmax(1)
    assert len(y.unique()) == 2
    x = torch.cat([x[y == 0][:1], x[y == 1][:1], x])
    whole = quiet(model, x, include=["tiles"])["tiles"].numbers
    assert whole["window"] == 1
    monkeypatch.setattr(near_data, "_MOST_TILES", whole["tiles"] // 10)
    monkeypatch.setattr(near_data, "_FEWEST_TILES", 1)
    said = []
    block = quiet(model, x, include=["tiles"], progress=lambda share, text: said.append(text))["tiles"]
    assert 0 < block.numbers["window"] < 1
    assert block.numbers["area"] == pytest.approx(whole["area"] * block.numbers["window"] ** 2)
    assert "a window of" in block.scope
    assert block.numbers["tiles"] <= 4 * (whole["tiles"] // 10)
    assert block.numbers["boundary length"] > 0
    assert "where the predicted class changes" in block.scope
    assert any(re.fullmatch(r"Tiles on a plane: about [\d,]+ tiles, \d+ s", text) for text in said)
    making = block.call.replace("ss.tess", "made = ss.tess").removesuffix(".to_html('tiles.html')")
    exec(making, names := {"ss": ss, "model": model, "x": x})
    assert names["made"].count == block.numbers["tiles"]


def test_sites_are_named_by_their_modules_and_operations():
    from matplotlib.figure import Figure

    for key in ("network", "complexity"):
        figure = Figure()
        quiet(Skipping().eval(), X, include=[key])[key].draw_on(figure)
        assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["relu #1", "relu #2"]
        quiet(small(), X, include=[key])[key].draw_on(figure := Figure())
        assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["1 relu"]


def test_the_command_line_never_replaces_a_page_by_its_default_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reportednet.py").write_text("import torch\nnet = torch.nn.Sequential(torch.nn.Linear(2, 3)).eval()\n")
    np.save("x.npy", X.numpy())
    call = ["report", "reportednet:net", "--data", "x.npy", "--include", "network"]
    told = CliRunner().invoke(main, call)
    assert told.exit_code == 0
    lines = told.stdout.partition("Run before a call of these, in Python:\n")[2]
    (more,) = re.findall(r"  more: (.+)", told.stdout)
    exec(lines + more, {})
    made = (tmp_path / "report.html").stat().st_mtime_ns
    refused = CliRunner().invoke(main, call)
    assert refused.exit_code == 2
    assert "report.html is there already: give --out report.html to replace it" in refused.stderr
    assert CliRunner().invoke(main, [*call, "--out", "report.html"]).exit_code == 0
    assert (tmp_path / "report.html").stat().st_mtime_ns > made, "a report is replaced where that is asked for"
    (tmp_path / "report.html").write_text("mine")
    assert CliRunner().invoke(main, [*call, "--out", "report.html"]).exit_code == 2
    assert (tmp_path / "report.html").read_text() == "mine", "what is no report is not"
    assert CliRunner().invoke(main, ["report", "--help"]).exit_code == 0
