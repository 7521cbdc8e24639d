"""The command `splinescope landscape`, on modules and on files."""

import json

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import splinescope as ss
from splinescope.cli._main import main

pyplot = pytest.importorskip("matplotlib.pyplot")


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
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def command(*arguments):
    return CliRunner().invoke(main, ["landscape", "landscape_model:net", *map(str, arguments)])


def test_the_command_samples_surfaces_and_writes_pictures(files):
    result = command(
        *("--data", "data.npz", "--loss", "cross_entropy", "--points", "5", "--plot", "a.png", "--html", "a.html"),
        "--json",
    )
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["least"] <= summary["center"] <= summary["largest"]
    assert summary["certainty"] == "estimate"
    assert (files / "a.png").stat().st_size > 1000
    assert "Loss surface" in (files / "a.html").read_text()


def test_the_command_covers_the_span_asked_for(files):
    """The largest loss of a bowl is at its corners."""
    import landscape_model

    data = np.load("data.npz")
    x, y = torch.from_numpy(data["x"]).float(), torch.from_numpy(data["y"])
    model = landscape_model.net()
    for span in (0.1, 3.0):
        moves = ss.landscape.random_directions(model, 2, generator=torch.Generator().manual_seed(5))
        want = ss.loss_surface(model, x, y, moves, span=span, resolution=5)
        found = command("--data", "data.npz", "--loss", "cross_entropy", "--points", 5, "--span", span, "--seed", 5,
                        "--json")  # fmt: skip
        assert json.loads(found.stdout)["largest"] == pytest.approx(float(want.losses.max()), rel=1e-5)


def onnx_file(model, path, mean=None):
    """The network of the other tests as an ONNX file: Gemm, Relu, Gemm; behind a subtraction of a mean, if there is."""
    onnx = pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")
    from onnx import TensorProto, helper, numpy_helper

    given = [
        numpy_helper.from_array(model.get_parameter(name).detach().numpy(), name.replace(".", "_"))
        for name in ("0.weight", "0.bias", "2.weight", "2.bias")
    ]
    nodes = [
        helper.make_node("Gemm", ["x", "0_weight", "0_bias"], ["h"], name="first", transB=1),
        helper.make_node("Relu", ["h"], ["r"], name="fold"),
        helper.make_node("Gemm", ["r", "2_weight", "2_bias"], ["y"], name="last", transB=1),
    ]
    if mean is not None:
        given.insert(0, numpy_helper.from_array(mean, "mean"))
        nodes.insert(0, helper.make_node("Sub", ["x", "mean"], ["centered"], name="center"))
        nodes[1].input[0] = "centered"
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", size]) for n, size in (("x", 2), ("y", 3))]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], given)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


def test_a_network_from_a_file_has_the_landscape_of_its_module(files):
    """Files carry constants, not parameters: they move all the same, along the same directions."""
    import landscape_model

    model = landscape_model.net().double()
    onnx_file(landscape_model.net(), "net.onnx")
    network = ss.load("net.onnx")
    rng = np.random.default_rng(1)
    x, y = torch.from_numpy(rng.normal(size=(6, 2))), torch.from_numpy(rng.normal(size=(6, 3)))
    matrix = ss.curvature(network, x, y)
    names = matrix.names
    same = {name: torch.randn(p.shape).double() for name, p in model.named_parameters()}
    move = dict(zip(names, same.values(), strict=True))
    assert set(ss.landscape.random_directions(network, 1)[0]) == {names[0], names[2]}
    sampled = ss.loss_surface(network, x, y, move, resolution=5, loss="squared")
    np.testing.assert_allclose(sampled.losses, ss.loss_surface(model, x, y, same, resolution=5, loss="squared").losses)
    np.testing.assert_allclose(matrix.dense(), ss.curvature(model, x, y).dense(), atol=1e-9)


def test_what_prepares_the_input_of_a_file_does_not_move(files):
    """A mean that is subtracted from inputs is a constant of the data, though it has the axes of a weight."""
    import landscape_model

    onnx_file(landscape_model.net(), "centered.onnx", np.array([[0.5, -1.0]], np.float32))
    network = ss.load("centered.onnx")
    assert any(name.startswith("mean") for name, _ in network.module.named_buffers())
    moved = ss.curvature(network, torch.zeros(2, 2), torch.zeros(2, 3)).names
    assert len(moved) == 4
    assert not any(name.startswith("mean") for name in moved)
    assert len(ss.landscape.random_directions(network, 1)[0]) == 2


@pytest.mark.parametrize("arguments", [[], ["--dimensions", "1"]])
def test_the_command_takes_onnx_files(files, arguments):
    import landscape_model

    onnx_file(landscape_model.net(), "net.onnx")
    result = CliRunner().invoke(main, ["landscape", "net.onnx", "--data", "data.npz", "--points", "3", "--json",
                                       *arguments])  # fmt: skip
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["points"] == 8


def image_file(path):
    """A convolution of images of shape (1, 1, 5), which takes no rows of 5; the ACAS networks have such inputs."""
    onnx = pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")
    from onnx import TensorProto, helper, numpy_helper

    kernel = np.array([1.0, -1.0], np.float32).reshape(2, 1, 1, 1)
    nodes = [
        helper.make_node("Conv", ["x", "kernel"], ["h"], name="first", kernel_shape=[1, 1]),
        helper.make_node("Relu", ["h"], ["r"], name="fold"),
        helper.make_node("Flatten", ["r"], ["y"], name="last"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 1, 1, 5])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 10])
    graph = helper.make_graph(nodes, "net", [x], [y], [numpy_helper.from_array(kernel, "kernel")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


@pytest.mark.parametrize("verb", ["landscape", "normalization", "representation", "complexity"])
def test_a_table_of_rows_takes_the_shape_of_the_networks_inputs(files, verb):
    image_file("image.onnx")
    rows = np.random.default_rng(0).normal(size=(6, 5))
    for x, code in ((rows, 0), (rows[:, :4], 2)):
        np.savez("rows.npz", x=x, **({"y": np.zeros((6, 10))} if verb == "landscape" else {}))
        options = ["--points", "3"] if verb == "landscape" else []
        result = CliRunner().invoke(main, [verb, "image.onnx", "--data", "rows.npz", *options])
        assert result.exit_code == code, result.output
    assert "1, 1, 5)" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "only_x.npz"], "holds x, not 'y'"),
        (["--data", "landscape_model.py"], ".npz"),
        (["--data", "wide.npz"], "points of shape (3,)"),
        (["--data", "wide.npz", "--loss", "cross_entropy"], "points of shape (3,)"),
        (["--data", "data.npz", "--layer", "nope"], "module path"),
        (["--data", "data.npz", "--dimensions", "1", "--html", "x.html"], "2-D surfaces"),
    ],
)
def test_the_command_refuses_bad_input_with_code_2(files, arguments, message):
    result = command(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
