"""Networks from files: ONNX against onnxruntime, .nnet against a plain reading, and bad files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

import splinescope as ss

onnx = pytest.importorskip("onnx", reason="onnx is an optional dependency")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is the oracle of these tests")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

DATA = Path(os.environ.get("SPLINESCOPE_TEST_DATA", Path(__file__).parents[2] / ".." / "shared" / "data"))
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"real networks are not at {DATA}")
rng = np.random.default_rng(0)


def weights(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def written(path: Path, nodes, constants, shape, *, opset: int = 13, batch: int | str = "N") -> Path:
    """An ONNX file from (op, inputs, attributes) in a row; "x" is the input, each node's output is "v<i>"."""
    made = [
        helper.make_node(op, list(inputs), [f"v{i}"] if op != "Split" else [f"v{i}", f"v{i}b"], **attributes)
        for i, (op, inputs, attributes) in enumerate(nodes)
    ]
    graph = helper.make_graph(
        made,
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, *shape])],
        [helper.make_tensor_value_info(f"v{len(nodes) - 1}", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=7)
    onnx.save(model, str(path))
    return path


def assert_agrees(path: Path, *, low: float = -1.0) -> ss.SplineNetwork:
    """Our network and onnxruntime, row by row; float32 against float64."""
    network = ss.load(path)
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    x = np.random.default_rng(1).uniform(low, 1, (3, *network.input_shape)).astype(np.float32)
    expected = np.stack([session.run(None, {name: row[None]})[0].reshape(-1) for row in x])
    received = network(x).numpy().reshape(3, -1)
    if network.ending is None:
        np.testing.assert_allclose(received, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    return network


I64 = np.int64
IMAGE = (2, 7, 6)
FILES = {
    "gemm": (
        [("Gemm", "xwb", {"alpha": 0.5, "beta": 2.0}), ("Relu", ["v0"], {})],
        {"w": weights(4, 3), "b": weights(3)},
        (4,),
    ),
    "matmul and arithmetic": (
        [
            ("Sub", "xb", {}),
            ("MatMul", ["v0", "w"], {}),
            ("Mul", ["v1", "c"], {}),
            ("Div", ["v2", "c"], {}),
            ("Neg", ["v3"], {}),
        ],
        {"w": weights(4, 3), "b": weights(4), "c": weights(3)},
        (4,),
    ),
    "conv": (
        [
            ("Conv", "xwb", {"pads": [0, 1, 2, 0], "strides": [2, 1], "group": 2}),
            ("LeakyRelu", ["v0"], {"alpha": 0.3}),
        ],
        {"w": weights(4, 1, 3, 2), "b": weights(4)},
        IMAGE,
    ),
    "conv same": (
        [("Conv", "xw", {"auto_pad": "SAME_UPPER", "strides": [2, 2]})],
        {"w": weights(3, 2, 3, 2)},
        IMAGE,
    ),
    "conv same lower": ([("Conv", "xw", {"auto_pad": "SAME_LOWER"})], {"w": weights(3, 2, 2, 2)}, IMAGE),
    "conv transpose": (
        [("ConvTranspose", "xw", {"strides": [2, 2], "pads": [1, 0, 0, 1], "output_padding": [1, 0]})],
        {"w": weights(2, 3, 3, 3)},
        IMAGE,
    ),
    "batch norm": (
        [("BatchNormalization", "xsbmv", {"epsilon": 1e-3})],
        {"s": weights(2), "b": weights(2), "m": weights(2), "v": weights(2) ** 2 + 0.1},
        IMAGE,
    ),
    "max pool": (
        [("MaxPool", "x", {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 1, 1, 1]})],
        {},
        IMAGE,
    ),
    "max pool uneven": (
        [("MaxPool", "x", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 0, 1, 2]})],
        {},
        IMAGE,
    ),
    "max pool same": (
        [("MaxPool", "x", {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"})],
        {},
        IMAGE,
    ),
    "max pool ceil": (
        [("MaxPool", "x", {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1})],
        {},
        IMAGE,
    ),
    "average pool": ([("AveragePool", "x", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]})], {}, IMAGE),
    "average pool uneven": (
        [("AveragePool", "x", {"kernel_shape": [3, 3], "pads": [0, 0, 1, 1]})],
        {},
        IMAGE,
    ),
    "global pools": (
        [("GlobalAveragePool", "x", {}), ("GlobalMaxPool", "x", {}), ("Concat", ["v0", "v1"], {"axis": 1})],
        {},
        IMAGE,
    ),
    "clip": ([("Clip", "xlh", {})], {"l": np.float32(-0.5), "h": np.float32(0.25)}, (4,)),
    "clip from below": ([("Clip", "xl", {})], {"l": np.float32(0.1)}, (4,)),
    "prelu": ([("PRelu", "xs", {})], {"s": weights(2, 1, 1)}, IMAGE),
    "prelu per element": ([("PRelu", "xs", {})], {"s": weights(7, 6)}, IMAGE),
    "extremes": (
        [("Max", "xa", {}), ("Min", ["v0", "b"], {}), ("Abs", ["v1"], {})],
        {"a": weights(4), "b": weights(4)},
        (4,),
    ),
    "sum": ([("Sum", "xax", {})], {"a": weights(4)}, (4,)),
    "hard sigmoid": ([("HardSigmoid", "x", {"alpha": 0.8})], {}, (4,)),
    "pad": (
        [("Pad", "xpc", {})],
        {"p": np.array([0, 0, 1, 0, 0, 0, 2, 1], I64), "c": np.float32(0.5)},
        IMAGE,
    ),
    "pad edge": ([("Pad", "xp", {"mode": "edge"})], {"p": np.array([0, 0, 1, 0, 0, 0, 2, 1], I64)}, IMAGE),
    "pad reflect": (
        [("Pad", "xp", {"mode": "reflect"})],
        {"p": np.array([0, 0, 1, 2, 0, 0, 2, 1], I64)},
        IMAGE,
    ),
    "shape arithmetic": (
        [
            ("Shape", "x", {}),
            ("Gather", ["v0", "i"], {"axis": 0}),
            ("Unsqueeze", ["v1", "z"], {}),
            ("Concat", ["v2", "m"], {"axis": 0}),
            ("Reshape", ["x", "v3"], {}),
        ],
        {"i": np.array(0, I64), "z": np.array([0], I64), "m": np.array([-1], I64)},
        IMAGE,
    ),
    "selection": (
        [
            ("Transpose", "x", {"perm": [0, 2, 3, 1]}),
            ("Slice", ["v0", "s", "e", "a"], {}),
            ("Gather", ["v1", "i"], {"axis": 2}),
            ("Squeeze", ["v2", "q"], {}),
            ("Unsqueeze", ["v3", "q"], {}),
        ],
        {
            "s": np.array([1], I64),
            "e": np.array([2], I64),
            "a": np.array([1], I64),
            "i": np.array([3, 0], I64),
            "q": np.array([1], I64),
        },
        IMAGE,
    ),
    "split": ([("Split", "x", {"axis": 1}), ("Sub", ["v0", "v0b"], {})], {}, IMAGE),
    "reduce": (
        [("ReduceMean", "x", {"axes": [2, 3], "keepdims": 0}), ("ReduceSum", ["v0", "a"], {})],
        {"a": np.array([1], I64)},
        IMAGE,
    ),
    "resize nearest": (
        [
            (
                "Resize",
                ["x", "", "s"],
                {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
            )
        ],
        {"s": np.array([1, 1, 2, 3], np.float32)},
        IMAGE,
    ),
    "resize linear": (
        [("Resize", ["x", "", "s"], {"mode": "linear"})],
        {"s": np.array([1, 1, 2, 2], np.float32)},
        IMAGE,
    ),
    "depth to space": ([("DepthToSpace", "x", {"blocksize": 2})], {}, (8, 3, 2)),
    "depth to space, columns first": (
        [("DepthToSpace", "x", {"blocksize": 2, "mode": "CRD"})],
        {},
        (8, 3, 2),
    ),
    "dropout and casts": (
        [("Dropout", "x", {}), ("Cast", ["v0"], {"to": 1}), ("Identity", ["v1"], {})],
        {},
        (4,),
    ),
}


@pytest.mark.parametrize("label", FILES)
def test_onnx_operators_agree_with_onnxruntime(label, tmp_path):
    nodes, constants, shape = FILES[label]
    assert_agrees(written(tmp_path / "net.onnx", nodes, constants, shape))


def test_files_written_for_one_row_take_many(tmp_path):
    nodes = [("Reshape", "xs", {}), ("MatMul", ["v0", "w"], {}), ("Softmax", ["v1"], {})]
    constants = {"s": np.array([1, 12], I64), "w": weights(12, 3)}
    network = assert_agrees(written(tmp_path / "net.onnx", nodes, constants, (3, 4), batch=1, opset=9))
    assert (network.input_shape, network.output_shape, network.ending) == ((3, 4), (3,), "softmax")


def test_old_files_keep_options_in_attributes(tmp_path):
    nodes = [
        ("Clip", "x", {"min": -0.5, "max": 0.5}),
        ("Pad", ["v0"], {"pads": [0, 0, 1, 0, 0, 0, 0, 1], "value": 0.25}),
        ("Upsample", ["v1", "s"], {}),
        ("Squeeze", ["v2"], {"axes": [1]}),
        ("Slice", ["v3"], {"starts": [1], "ends": [100], "axes": [2]}),
    ]
    constants = {"s": np.array([1, 1, 2, 2], np.float32)}
    assert_agrees(written(tmp_path / "net.onnx", nodes, constants, (1, 3, 3), opset=9))


@needs_data
@pytest.mark.parametrize("path", sorted(DATA.glob("*/*.onnx")), ids=lambda p: p.name)
def test_real_onnx_networks_agree_with_onnxruntime(path):
    assert_agrees(path, low=0.0)


def plain_nnet(path: Path, x: np.ndarray) -> np.ndarray:
    """A .nnet file on normalised inputs, in numpy."""
    lines = [line.strip().strip(",") for line in path.read_text().splitlines() if not line.startswith("//")]
    sizes = [int(value) for value in lines[1].split(",")]
    rows = [np.array(line.split(","), float) for line in lines[7:]]
    for layer, width in enumerate(sizes[1:]):
        w, b, rows = np.stack(rows[:width]), np.concatenate(rows[width : 2 * width]), rows[2 * width :]
        x = x @ w.T + b
        x = x if layer == len(sizes) - 2 else np.maximum(x, 0)
    return x


@needs_data
@pytest.mark.parametrize("path", sorted(DATA.glob("*/*.nnet")), ids=lambda p: p.name)
def test_nnet_files_equal_a_plain_reading_in_both_units(path):
    bare, physical = ss.load(path, normalized=True), ss.load(path)
    lines = [line.strip().strip(",") for line in path.read_text().splitlines() if not line.startswith("//")]
    means, ranges = (np.array(line.split(","), float) for line in lines[5:7])
    x = np.random.default_rng(0).uniform(-0.5, 0.5, (6, *bare.input_shape))
    expected = plain_nnet(path, x)
    np.testing.assert_allclose(bare(x), expected, rtol=1e-11, atol=1e-11)
    received = physical(x * ranges[:-1] + means[:-1])
    # the round trip through physical units costs a few bits of inputs of size 1e4
    np.testing.assert_allclose(received, expected * ranges[-1] + means[-1], rtol=1e-9, atol=1e-9)


def test_one_of_several_outputs_of_a_file_is_chosen(tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["bent"]), helper.make_node("Neg", ["x"], ["flat"])]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("bent", "flat")]
    model = helper.make_model(helper.make_graph(nodes, "two", inputs, outputs), ir_version=7)
    model.opset_import[0].version = 13
    onnx.save(model, str(tmp_path / "two.onnx"))
    with pytest.raises(ss.UnsupportedModelError, match=r"returns 2 tensors: bent \(N, 3\), flat \(N, 3\)"):
        ss.load(tmp_path / "two.onnx")
    assert len(ss.load(tmp_path / "two.onnx", output="bent").sites) == 1
    assert ss.load(tmp_path / "two.onnx", output=1).sites == ()


def test_a_file_without_a_batch_axis_is_refused_by_name(tmp_path):
    made = written(tmp_path / "net.onnx", [("Conv", "xw", {})], {"w": weights(2, 1, 3, 3)}, (8, 8), batch=1)
    with pytest.raises(ss.UnsupportedModelError, match="batch axis is missing"):
        ss.load(made)


def test_nnet_units_by_hand(tmp_path):
    """y = relu(2 u - v + 1) * 3 + 7 with u = (a - 10) / 4 and v = (b + 2) / 5: the means of inputs go off, that of the
    output is added."""
    path = tmp_path / "hand.nnet"
    path.write_text("2,2,1,2,\n2,1,1,\n0,\n0,0,\n1,1,\n10,-2,7,\n4,5,3,\n2,-1,\n1,\n1,\n0,\n")
    x = np.array([[10.0, -2.0], [14.0, 8.0], [0.0, 0.0]])
    expected = np.maximum(2 * (x[:, :1] - 10) / 4 - (x[:, 1:] + 2) / 5 + 1, 0) * 3 + 7
    np.testing.assert_allclose(ss.load(path)(x), expected, rtol=1e-14)
    assert expected.ravel().tolist() == [10.0, 10.0, 7.0]


@needs_data
def test_the_two_forms_of_one_network_agree():
    x = torch.rand(4, 5, dtype=torch.float64) - 0.5
    bare = ss.load(next((DATA / "acasxu").glob("*.nnet")), normalized=True)
    two = ss.load(next((DATA / "acasxu").glob("*.onnx")))
    # the text holds six digits, the ONNX file float32
    torch.testing.assert_close(two(x.reshape(4, 1, 1, 5)), bare(x), rtol=0, atol=1e-6)


def test_bad_files_are_refused(tmp_path):
    good = written(tmp_path / "good.onnx", [("Relu", "x", {})], {}, (3,))
    bad = {
        "noise.onnx": b"\x00\x01 not a network",
        "empty.onnx": b"",
        "cut.onnx": good.read_bytes()[:-20],
        "noise.nnet": b"\xff\xfe\x00 nothing",
        "empty.nnet": b"",
        "short.nnet": b"1,2,1,2,\n2,1,\n0,\n0,0,\n1,1,\n0,0,0,\n1,1,1,\n1.0,2.0,\n",
        "words.nnet": b"1,2,1,2,\n2,one,\n",
        "sizes.nnet": b"1,2,1,2,\n3,1,\n0,\n0,0,\n1,1,\n0,0,0,\n1,1,1,\n1.0,2.0,\n0.5,\n",
        "net.pkl": b"cos\nsystem\n",
    }
    for name, content in bad.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ss.FileFormatError):
            ss.load(tmp_path / name)
    (tmp_path / "two.nnet").write_text("1,2,1,2,\n2,1,\n")
    with pytest.raises(ss.FileFormatError, match="expected 7 rows of sizes, ranges and means, got 2"):
        ss.load(tmp_path / "two.nnet")
    with pytest.raises(ss.InputError, match="existing file"):
        ss.load(tmp_path / "absent.onnx")


@pytest.mark.parametrize(
    ("nodes", "shape", "options", "error", "words"),
    [
        ([("Relu", "x", {})], (3,), {"opset": 7}, ss.FileFormatError, "opset 7"),
        ([("Relu", "x", {})], (3,), {"batch": 4}, ss.FileFormatError, "batch axis"),
        ([("Relu", "x", {})], ("W",), {}, ss.FileFormatError, "known sizes"),
        ([("Det", "x", {}), ("Acosh", ["v0"], {})], (3, 3), {}, ss.UnsupportedModelError, "Acosh, Det"),
        ([("Erf", "x", {})], (3,), {}, ss.UnsupportedModelError, "erf is smooth"),
    ],
)
def test_files_that_cannot_be_tiled_say_why(nodes, shape, options, error, words, tmp_path):
    with pytest.raises(error, match=words):
        ss.load(written(tmp_path / "net.onnx", nodes, {}, shape, **options))
