"""`tessellate`, `show` and `stats`: results on stdout, notes on stderr, exit code 2 and one line for bad input."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

import splinescope as ss
from splinescope.cli import main

NETS = """
import torch
from torch import nn

def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 20), nn.ReLU(), nn.Linear(20, 20), nn.ReLU(), nn.Linear(20, 20), nn.ReLU(),
                         nn.Linear(20, 1))

def images():
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))

def number():
    return 3

class Branching(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x
"""
SQUARE = ["--slice", "axes", "--low", "-3", "--high", "3", "--shape", "2"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "nets_for_tests.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("nets_for_tests", None)
    return tmp_path


def run(*arguments, code=0):
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    if code != 1:
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    return result


def refuse(*arguments, match):
    result = run(*arguments, code=2)
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1
    assert match in lines[-1]
    assert result.stdout == ""
    return lines


def test_tessellate_writes_file_picture_page_and_summary(folder):
    result = run("tessellate", "nets_for_tests:small", *SQUARE, "--out", "a.tiling", "--plot", "a.png", "--html",
                 "a.html", "--json")  # fmt: skip
    assert json.loads(result.stdout)["tiles"] == 1109
    assert ss.load_tiling("a.tiling").count == 1109
    assert (folder / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "<!doctype html>" in (folder / "a.html").read_text()
    assert "wrote a.tiling" in result.stderr


def test_show_and_stats_read_what_tessellate_wrote(folder):
    run("tessellate", "nets_for_tests:small", *SQUARE, "--out", "a.tiling", "--quiet")
    run("tessellate", "nets_for_tests:small", *SQUARE[:-4], "--high", "1", *SQUARE[-2:], "--out", "b.tiling", "--quiet")
    shown = run("show", "a.tiling", "--check", "--plot", "a.svg", "--color", "class")
    assert "1109" in shown.stdout
    assert "areas sum to the domain" in shown.stdout
    assert (folder / "a.svg").stat().st_size > 1000
    assert json.loads(run("show", "a.tiling", "--json").stdout)["sites"][0]["op"] == "relu"
    assert json.loads(run("stats", "a.tiling", "--json").stdout)["vertices"] == 1171
    assert "1,109" in run("stats", "a.tiling").stdout
    compared = json.loads(run("stats", "a.tiling", "b.tiling", "--json").stdout)
    assert compared["tiles"]["a"] == 1109
    assert compared["tiles"]["ratio"] < 1


def test_show_check_fails_on_a_tiling_with_wrong_outputs(folder):
    run("tessellate", "nets_for_tests:small", *SQUARE, "--out", "a.tiling", "--quiet")
    tiling = ss.load_tiling("a.tiling")
    values = tiling.values.copy()
    values[:50] += 1.0
    replace(tiling, values=values).save("a.tiling")
    assert "FAILED" in run("show", "a.tiling", "--check", code=1).stdout


def test_flat_points_take_the_input_shape(folder):
    np.savetxt("p.csv", np.random.default_rng(0).normal(size=(2, 16)), delimiter=",")
    arguments = ["tessellate", "nets_for_tests:images", "--slice", "segment", "--points", "p.csv", "--json"]
    assert json.loads(run(*arguments, "--shape", "1,4,4").stdout)["dimension"] == 1
    refuse(
        *arguments, "--shape", "3,4,4", match="rows of p.csv have shape (16,), which does not fill the shape (3, 4, 4)"
    )


@pytest.mark.parametrize("suffix", ["safetensors", "pt"])
def test_weights_change_the_network(folder, suffix):
    import nets_for_tests

    net = nets_for_tests.small()
    with torch.no_grad():
        net[0].bias.fill_(-100.0)  # dead on the whole slice
    (save_file if suffix == "safetensors" else torch.save)(net.state_dict(), f"w.{suffix}")
    result = run("tessellate", "nets_for_tests:small", *SQUARE, "--weights", f"w.{suffix}", "--json", "--quiet")
    assert json.loads(result.stdout)["tiles"] == 1
    assert "one tile: no fold meets this slice" in result.stderr


def test_onnx_files_tell_their_input_shape(folder):
    onnx = pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")
    from onnx import TensorProto, helper, numpy_helper

    weight = np.random.default_rng(0).normal(size=(6, 2)).astype(np.float32)
    nodes = [helper.make_node("Gemm", ["x", "w"], ["h"], transB=1), helper.make_node("Relu", ["h"], ["y"])]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", k]) for n, k in (("x", 2), ("y", 6))]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], [numpy_helper.from_array(weight, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), "net.onnx")
    result = run("tessellate", "net.onnx", *SQUARE[:-2], "--json", "--quiet")
    assert json.loads(result.stdout)["tiles"] == 12  # six lines through one point
    refuse("tessellate", "net.onnx", *SQUARE, "--weights", "net.onnx", match="carries its own")


def test_bad_input_is_one_clear_line(folder):
    small = ["tessellate", "nets_for_tests:small"]
    np.save("p.npy", np.zeros((2, 2)))
    refuse("tessellate", "absent", *SQUARE, match="MODEL must be an .onnx or .nnet file, or package.module:factory")
    refuse("tessellate", "nets_for_tests:absent", *SQUARE, match="nets_for_tests has no 'absent'")
    refuse("tessellate", "nets_for_tests:nn", *SQUARE, match="class or function")
    refuse("tessellate", "nets_for_tests:nn.Linear", *SQUARE, match="has no ")
    refuse("tessellate", "nets_for_tests:number", *SQUARE, match="must be a torch.nn.Module, got int")
    refuse(*small, *SQUARE[:-2], match="needs --shape")
    refuse(*small, *SQUARE[:-1], "3", match="")
    refuse(*small, "--slice", "through", match="needs --points")
    refuse(*small, "--slice", "through", "--points", "p.npy", match="--rows must be in [0, 2)")
    refuse(*small, "--slice", "segment", "--points", "p.npy", match="zero length")
    refuse(*small, "--slice", "segment", "--points", "p.npy", "--rows", "0,0.5", match="--rows must be whole numbers")
    refuse(*small, "--slice", "axes", "--shape", "2", "--axes", "0.5", match="--axes must be whole numbers")
    (folder / "empty.csv").touch()
    refuse(*small, "--slice", "segment", "--points", "empty.csv", match="empty.csv holds no numbers")
    refuse(*small, *SQUARE, "--max-tiles", "10", "--quiet", "--out", "a.tiling", match="max_tiles=10 reached")
    assert not (folder / "a.tiling").exists()
    refuse(*small, "--slice", "axes", "--axes", "0", "--shape", "2", "--html", "a.html", "--plot", "a.png",
           match="--html shows planes and spaces, and this slice is a line")  # fmt: skip
    assert not (folder / "a.png").exists()
    refuse("show", "p.npy", match="is not a tiling")
    refuse("stats", "absent.tiling", match="does not exist")


def test_the_module_is_the_command_and_a_closed_pipe_is_quiet(folder):
    run("tessellate", "nets_for_tests:small", *SQUARE, "--out", "a.tiling", "--quiet")
    source = os.path.dirname(os.path.dirname(ss.__file__))
    environment = {**os.environ, "PYTHONPATH": source}
    call = f"{sys.executable} -m splinescope show a.tiling"
    whole = subprocess.run(call, shell=True, capture_output=True, text=True, env=environment)
    assert (whole.returncode, whole.stderr) == (0, "")
    assert "1109" in whole.stdout
    help_only = [sys.executable, "-c", "import sys, splinescope.cli as c\ntry: c.main(['--help'])\nfinally: "
                 "sys.exit('torch' in sys.modules)"]  # fmt: skip
    assert subprocess.run(help_only, capture_output=True, env=environment).returncode == 0  # torch takes seconds
    piped = subprocess.run(f"{call} --json | head -c 1", shell=True, capture_output=True, text=True, env=environment)
    assert (piped.stdout, piped.stderr) == ("{", "")


def test_a_factory_may_import_from_the_current_folder_when_it_is_called(tmp_path, monkeypatch):
    (tmp_path / "late_factory.py").write_text("def build():\n    from late_layers import net\n    return net\n")
    (tmp_path / "late_layers.py").write_text("from torch import nn\nnet = nn.Linear(2, 1)\n")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    try:
        run("tessellate", "late_factory:build", *SQUARE)
        assert sys.path == before
    finally:
        for name in ("late_factory", "late_layers"):
            sys.modules.pop(name, None)


def test_tiling_by_workers_prints_what_one_process_prints_and_keeps_parts(folder):
    pytest.importorskip("joblib")
    alone = run("tessellate", "nets_for_tests:small", *SQUARE, "--json").stdout
    shared = run("tessellate", "nets_for_tests:small", *SQUARE, "--json", "--workers", 2, "--folder", "parts").stdout
    alone, shared = json.loads(alone), json.loads(shared)
    assert alone.keys() == shared.keys()
    for name, value in alone.items():
        assert shared[name] == (pytest.approx(value) if isinstance(value, float) else value), name
    assert list((folder / "parts").glob("*.safetensors"))
    refuse("tessellate", "nets_for_tests:small", *SQUARE, "--workers", 0, match="workers must be")
    refuse("tessellate", "nets_for_tests:small", *SQUARE, "--folder", "parts", match="folder")
