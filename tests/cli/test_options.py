"""Options of the command line reach the functions behind it, and verbs do what they say."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from click.shell_completion import BashComplete
from click.testing import CliRunner
from safetensors.torch import save_model
from torch import nn

import splinescope as ss
from splinescope.cli import main
from splinescope.cli._main import VERBS
from splinescope.support.display import CERTAINTIES


def build() -> nn.Module:
    """The network that the command line asks for."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 1))


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("data") / "data.npz"
    x = np.random.default_rng(0).normal(size=(12, 2)).astype(np.float32)
    np.savez(path, x=x, y=x[:, :1] ** 2)
    return str(path)


def test_the_landscape_takes_inputs_and_labels_from_two_files_as_the_report_does(data, tmp_path):
    with np.load(data) as file:
        np.save(tmp_path / "x.npy", file["x"])
        np.save(tmp_path / "y.npy", file["y"])
    ask = ["landscape", "tests.cli.test_options:build", "--json", "--points", "3", "--data"]
    one = CliRunner().invoke(main, [*ask, data])
    two = CliRunner().invoke(main, [*ask, str(tmp_path / "x.npy"), "--labels", str(tmp_path / "y.npy")])
    assert one.exit_code == two.exit_code == 0, one.output + two.output
    assert json.loads(one.stdout) == json.loads(two.stdout)
    np.savetxt(tmp_path / "flat.csv", np.load(tmp_path / "y.npy")[:, 0])  # one number a row is one output a row
    flat = CliRunner().invoke(main, [*ask, str(tmp_path / "x.npy"), "--labels", str(tmp_path / "flat.csv")])
    assert json.loads(flat.stdout) == json.loads(one.stdout), flat.output
    without = CliRunner().invoke(main, [*ask, str(tmp_path / "x.npy")])
    assert without.exit_code == 2
    assert "--labels FILE" in without.output


def test_blocks_named_in_two_options_are_those_named_in_one(data, tmp_path):
    """An option that is given again adds to what it named: nothing that was asked for is dropped without a word."""
    np.save(tmp_path / "x.npy", np.load(data)["x"])
    files = ["--data", str(tmp_path / "x.npy"), "--out", str(tmp_path / "r.html")]
    for options, kept in (
        (["--include", "network", "--include", "complexity,depth", "--exclude", "depth"], {"network", "complexity"}),
        (["--include", "network,depth,folds", "--exclude", "network", "--exclude", "folds"], {"depth"}),
    ):
        run = CliRunner().invoke(main, ["report", f"{__name__}:build", *files, *options, "--json"])
        assert run.exit_code == 0, run.output
        assert set(json.loads(run.stdout)["blocks"]) == kept


def test_tables_of_verbs_are_aligned(data):
    """Two columns, however long a name is; floats to six figures."""
    run = CliRunner().invoke(
        main, ["landscape", f"{__name__}:build", "--data", data, "--points", "3", "--dimensions", "1"]
    )
    assert run.exit_code == 0, run.output
    rows = [re.split(r"  +", line) for line in run.stdout.splitlines()]
    assert all(len(row) == 2 for row in rows), rows
    assert len({line.index(row[1], len(row[0])) for line, row in zip(run.stdout.splitlines(), rows, strict=True)}) == 1
    facts = dict(rows)
    assert facts["certainty"] in CERTAINTIES
    assert len(facts["largest"].replace(".", "").lstrip("0")) <= 6


def wider() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(2, 9), nn.ReLU(), nn.Linear(9, 1))


def test_the_comparison_of_the_command_line_is_that_of_the_function(tmp_path):
    x = np.random.default_rng(0).normal(size=(12, 2)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    ask = ["compare", f"small={__name__}:build", f"{__name__}:wider", "--data", str(tmp_path / "x.npy"), "--include"]
    run = CliRunner().invoke(main, [*ask, "network, depth", "--out", str(tmp_path / "c.html"), "--json"])
    assert run.exit_code == 0, run.output
    models = {"small": build().eval(), f"{__name__}:wider": wider().eval()}
    expected = ss.compare_models(models, x, out=None, include=["network", "depth"], progress=False)
    found = json.loads(run.stdout)
    assert list(found) == list(models)
    for name, report in expected.reports.items():
        for block in report:
            assert found[name]["blocks"][block.key]["numbers"] == json.loads(json.dumps(block.numbers)), name
    assert (tmp_path / "c.html").exists()
    twice = CliRunner().invoke(main, ["compare", *[f"{__name__}:build"] * 2, "--data", str(tmp_path / "x.npy")])
    assert twice.exit_code == 2
    assert "NAME=MODEL" in twice.output


def test_checkpoints_of_one_factory_stand_side_by_side(tmp_path):
    x = np.random.default_rng(0).normal(size=(12, 2)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    first, last = build().eval(), build().eval()
    with torch.no_grad():
        last[0].weight *= 3
    early, late = str(tmp_path / "first.safetensors"), str(tmp_path / "last.pt")
    save_model(first, early)
    torch.save({"model_state_dict": last.state_dict(), "epoch": 9}, late)
    expected = ss.compare_models({"early": first, late: last}, x, out=None, include=["depth"], progress=False)
    numbers = [json.loads(json.dumps(found["depth"].numbers)) for found in expected.reports.values()]
    assert numbers[0] != numbers[1]
    ask = ["compare", "--data", str(tmp_path / "x.npy"), "--include", "depth", "--out", str(tmp_path / "c.html")]
    for models, weights, names in (
        ([f"{__name__}:build"], [f"early={early}", late], ["early", late]),
        ([f"a={__name__}:build", f"b={__name__}:build"], [f"b={late}"], ["a", "b"]),  # a as the factory makes it
    ):
        options = [part for file in weights for part in ("--weights", file)]
        run = CliRunner().invoke(main, [*ask, *models, *options, "--json"])
        assert run.exit_code == 0, run.output
        found = json.loads(run.stdout)
        assert list(found) == names
        assert [one["blocks"]["depth"]["numbers"] for one in found.values()] == numbers


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["a=net:make", "b=net:make", "--weights", "c=w.pt"], "got c, the networks are a, b"),
        (["net:make", "--weights", "a=w.pt", "--weights", "a=v.pt"], "NAME=FILE"),
        (["a=net:make", "--weights", "w.pt", "--weights", "v.pt"], "write net:make alone"),
        ([f"{__name__}:build", "--weights", "a=w.pt", "--weights", "b=v.pt"], "existing file, got 'w.pt'"),
        ([f"{__name__}:build"], "at least two networks"),
    ],
)
def test_columns_that_cannot_be_told_apart_or_found_are_refused(tmp_path, arguments, told):
    np.save(tmp_path / "x.npy", np.zeros((3, 2)))
    run = CliRunner().invoke(main, ["compare", *arguments, "--data", str(tmp_path / "x.npy")])
    assert run.exit_code == 2
    assert told in run.output


def tiled(folder, *options):
    """The tiling that the verb writes for a small network with these options."""
    run = CliRunner().invoke(
        main, ["tessellate", f"{__name__}:planar", *options, "--quiet", "--out", str(folder / "t")]
    )
    assert run.exit_code == 0, run.output
    return ss.load_tiling(folder / "t")


def planar():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))


def test_each_option_of_a_slice_reaches_it(tmp_path):
    points = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0.5], [2, 2, 2]])
    np.save(tmp_path / "points.npy", points)
    given = ["--points", str(tmp_path / "points.npy"), "--slice"]
    for options, expected in {
        ("through", "--pad", "0.5"): ss.Slice.through(*points[:3], pad=0.5),
        ("through", "--outline", "triangle"): ss.Slice.through(*points[:3], shape="triangle"),
        ("through", "--rows", "3,1,0"): ss.Slice.through(*points[[3, 1, 0]]),
        ("through", "--rows", "0,1,2,3"): ss.Slice.through(*points),
        ("through", "--rows", "0,1,2,3", "--outline", "simplex"): ss.Slice.through(*points, shape="simplex"),
        ("box", "--directions", "3"): ss.Slice.box(points[0], 3, generator=torch.Generator().manual_seed(0)),
        ("segment", "--pad", "0.25"): ss.Slice.segment(*points[:2], pad=0.25),
        ("box", "--seed", "3", "--half-width", "0.5"): ss.Slice.box(
            points[0], half_width=0.5, generator=torch.Generator().manual_seed(3)
        ),
        ("axes", "--axes", "2,0", "--low", "-1,-2", "--high", "3"): ss.Slice.axes(points[0], (2, 0), [-1, -2], [3, 3]),
    }.items():
        view = tiled(tmp_path, *given, *options).view
        for name in ("origin", "basis", "domain"):
            np.testing.assert_allclose(getattr(view, name), getattr(expected, name), atol=1e-12, err_msg=str(options))


def test_a_misspelled_quantity_names_the_nearest():
    found = CliRunner().invoke(main, ["tessellate", "json:loads", "--color", "slop"])
    assert (found.exit_code, "did you mean 'slope'?" in found.stderr) == (2, True)


def test_the_shell_completes_verbs():
    shell = BashComplete(main, {}, "splinescope", "_SPLINESCOPE_COMPLETE")
    assert [item.value for item in shell.get_completions([], "repr")] == ["representation", "reproduce"]


def test_every_verb_says_what_it_does_in_one_line_and_shows_an_example_and_has_a_row_on_its_page():
    listed = CliRunner().invoke(main, ["--help"], terminal_width=80).output.split("Commands:")[1]
    assert [line for line in listed.strip().splitlines() if not line.endswith(".") or line.endswith("...")] == []
    page = Path(__file__).parents[2].joinpath("docs", "cli.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`(\w+)`", "".join(re.findall(r"^(\| `.*?\|)", page, re.M)))) == set(VERBS)
    for name in VERBS:
        assert re.search(r"Examples?:\n +splinescope " + name, CliRunner().invoke(main, [name, "--help"]).output), name


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


@pytest.mark.parametrize("arguments", [["--list"], ["survey-fig8", "--quick"], ["--all"]])
def test_where_the_experiments_are_not_installed_the_command_says_how(arguments, monkeypatch):
    monkeypatch.setitem(sys.modules, "splinescope_evidence", None)  # as python marks what cannot be imported
    result = CliRunner().invoke(main, ["reproduce", *arguments])
    assert result.exit_code == 2
    assert "pip install splinescope-evidence" in result.stderr
    assert "pip install -e evidence" in result.stderr


NOT_COMPILED = """
import importlib, json
from pathlib import Path
import splinescope
from click.testing import CliRunner
from numba.core.dispatcher import Dispatcher
from splinescope.cli import main
from splinescope.support.compile import notice
assert CliRunner().invoke(main, ["warmup", "--quiet"]).exit_code == 0
root = Path(splinescope.__file__).parent
kernels = []
for file in sorted(root.rglob("*.py")):
    if "support.compile import" in file.read_text(encoding="utf-8"):
        module = importlib.import_module(".".join(file.relative_to(root.parent).with_suffix("").parts))
        found = [each for each in vars(module).values() if isinstance(each, Dispatcher)]
        kernels += [each for each in found if each.py_func.__module__ == module.__name__]
within = {name for each in kernels for name in each.py_func.__code__.co_names}  # compiled with what calls them
others = "".join(file.read_text(encoding="utf-8") for file in root.rglob("*.py") if "kernels" not in file.parts)
within = {name for name in within if f"kernels.{name}(" not in others}
asked = [each for each in kernels if each.py_func.__name__ not in within]
begun = notice._begun
assert CliRunner().invoke(main, ["warmup", "--quiet"]).exit_code == 0
left = [each.py_func.__name__ for each in asked if not each.overloads]
print(json.dumps([len(asked), left, notice._begun - begun]))
"""


def test_after_a_warmup_no_kernel_of_the_package_is_left_to_compile():
    done = subprocess.run([sys.executable, "-c", NOT_COMPILED], capture_output=True, text=True, check=True)
    count, left, begun = json.loads(done.stdout)
    assert count > 60
    assert left == []
    assert begun == 0, "and the second time nothing is compiled"
