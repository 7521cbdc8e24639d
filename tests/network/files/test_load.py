"""Networks from files: ONNX against onnxruntime, .nnet against a plain reading, and bad files."""

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

import splinescope as ss
from splinescope.network.files.onnx import read_onnx
from splinescope.support.checks import reading

onnx = pytest.importorskip("onnx", reason="onnx is an optional dependency")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is the oracle of these tests")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

DATA = Path(os.environ.get("SPLINESCOPE_TEST_DATA", Path(__file__).parents[3] / ".." / "shared" / "data"))
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"real networks are not at {DATA}")
rng = np.random.default_rng(0)


def weights(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def written(path: Path, nodes, constants, shape, *, opset: int = 13, batch: int | str | None = "N") -> Path:
    """An ONNX file from (op, inputs, attributes) in a row; "x" is the input, each node's output is "v<i>"."""
    made = []
    for i, (op, inputs, given) in enumerate(nodes):
        attributes = dict(given)
        names = [f"v{i}", *(f"v{i}_{k}" for k in range(1, attributes.pop("outputs", 1)))]
        made.append(helper.make_node(op, list(inputs), names, **attributes))
    graph = helper.make_graph(
        made,
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape if batch is None else [batch, *shape])],
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
    given = network.module.file_shape
    expected = np.stack([session.run(None, {name: row.reshape(given)})[0].reshape(-1) for row in x])
    received = network.module(torch.from_numpy(x).double()).numpy().reshape(3, -1)
    np.testing.assert_allclose(received, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    if network.ending is None:
        received = network(x).numpy().reshape(3, -1)
        np.testing.assert_allclose(received, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    return network


I64 = np.int64
IMAGE = (2, 7, 6)
FILES = {
    "gemm": ([("Gemm", "xwb", {"alpha": 0.5, "beta": 2.0}), ("Relu", ["v0"], {})],
             {"w": weights(4, 3), "b": weights(3)}, (4,)),
    "matmul and arithmetic": (
        [("Sub", "xb", {}), ("MatMul", ["v0", "w"], {}), ("Mul", ["v1", "c"], {}), ("Div", ["v2", "c"], {}),
         ("Neg", ["v3"], {})],
        {"w": weights(4, 3), "b": weights(4), "c": weights(3)}, (4,)),
    "conv": ([("Conv", "xwb", {"pads": [0, 1, 2, 0], "strides": [2, 1], "group": 2}),
              ("LeakyRelu", ["v0"], {"alpha": 0.3})], {"w": weights(4, 1, 3, 2), "b": weights(4)}, IMAGE),
    "conv same": ([("Conv", "xw", {"auto_pad": "SAME_UPPER", "strides": [2, 2]})], {"w": weights(3, 2, 3, 2)}, IMAGE),
    "conv same lower": ([("Conv", "xw", {"auto_pad": "SAME_LOWER"})], {"w": weights(3, 2, 2, 2)}, IMAGE),
    "conv transpose": ([("ConvTranspose", "xw", {"strides": [2, 2], "pads": [1, 0, 0, 1], "output_padding": [1, 0]})],
                       {"w": weights(2, 3, 3, 3)}, IMAGE),
    "batch norm": ([("BatchNormalization", "xsbmv", {"epsilon": 1e-3})],
                   {"s": weights(2), "b": weights(2), "m": weights(2), "v": weights(2) ** 2 + 0.1}, IMAGE),
    "max pool": ([("MaxPool", "x", {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 1, 1, 1]})], {}, IMAGE),
    "max pool uneven": ([("MaxPool", "x", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 0, 1, 2]})], {},
                        IMAGE),
    "max pool ceil": ([("MaxPool", "x", {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1})], {}, IMAGE),
    "max pool dilated": ([("MaxPool", "x", {"kernel_shape": [2, 2], "dilations": [2, 3], "pads": [1, 1, 1, 1]})], {},
                         IMAGE),
    "average pool": ([("AveragePool", "x", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]})], {}, IMAGE),
    "average pool uneven": ([("AveragePool", "x", {"kernel_shape": [3, 3], "pads": [0, 0, 1, 1]})], {}, IMAGE),
    "global pools": ([("GlobalAveragePool", "x", {}), ("GlobalMaxPool", "x", {}),
                      ("Concat", ["v0", "v1"], {"axis": 1})], {}, IMAGE),
    "clip": ([("Clip", "xlh", {})], {"l": np.float32(-0.5), "h": np.float32(0.25)}, (4,)),
    "clip from above": ([("Clip", ["x", "", "h"], {})], {"h": np.float32(0.1)}, (4,)),
    "prelu": ([("PRelu", "xs", {})], {"s": weights(2, 1, 1)}, IMAGE),
    "prelu per element": ([("PRelu", "xs", {})], {"s": weights(7, 6)}, IMAGE),
    "extremes": ([("Max", "xa", {}), ("Min", ["v0", "b"], {}), ("Abs", ["v1"], {})],
                 {"a": weights(4), "b": weights(4)}, (4,)),
    "hard sigmoid": ([("HardSigmoid", "x", {"alpha": 0.8})], {}, (4,)),
    "pad": ([("Pad", "xpc", {})], {"p": np.array([0, 0, 1, 0, 0, 0, 2, 1], I64), "c": np.float32(0.5)}, IMAGE),
    "pad reflect": ([("Pad", "xp", {"mode": "reflect"})], {"p": np.array([0, 0, 1, 2, 0, 0, 2, 1], I64)}, IMAGE),
    "shape arithmetic": (
        [("Shape", "x", {}), ("Gather", ["v0", "i"], {"axis": 0}), ("Unsqueeze", ["v1", "z"], {}),
         ("Concat", ["v2", "m"], {"axis": 0}), ("Reshape", ["x", "v3"], {})],
        {"i": np.array(0, I64), "z": np.array([0], I64), "m": np.array([-1], I64)}, IMAGE),
    "selection": (
        [("Transpose", "x", {"perm": [0, 2, 3, 1]}), ("Slice", ["v0", "s", "e", "a"], {}),
         ("Gather", ["v1", "i"], {"axis": 2}), ("Squeeze", ["v2", "q"], {}), ("Unsqueeze", ["v3", "q"], {})],
        {"s": np.array([1], I64), "e": np.array([2], I64), "a": np.array([1], I64), "i": np.array([3, 0], I64),
         "q": np.array([1], I64)}, IMAGE),
    "split": ([("Split", "x", {"axis": 1, "outputs": 2}), ("Sub", ["v0", "v0_1"], {})], {}, IMAGE),
    "reduce": ([("ReduceMean", "x", {"axes": [2, 3], "keepdims": 0}), ("ReduceSum", ["v0", "a"], {})],
               {"a": np.array([1], I64)}, IMAGE),
    "resize nearest": (
        [("Resize", ["x", "", "s"], {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"})],
        {"s": np.array([1, 1, 2, 3], np.float32)}, IMAGE),
    "resize linear": ([("Resize", ["x", "", "s"], {"mode": "linear"})], {"s": np.array([1, 1, 2, 2], np.float32)},
                      IMAGE),
    "depth to space": ([("DepthToSpace", "x", {"blocksize": 2})], {}, (8, 3, 2)),
    "whole numbers divide towards zero": (
        [("Shape", "x", {}), ("Div", ["v0", "n"], {}), ("Cast", ["v1"], {"to": 1}), ("ReduceSum", ["v2"], {}),
         ("Mul", ["x", "v3"], {})],
        {"n": np.array([-100, -2, -2], I64)}, (3, 5)),  # no row may know how many there are
    "softmax of old over all axes from the first": ([("Softmax", "x", {})], {}, (2, 3)),
    "slice backwards": (
        [("Slice", "xseat", {})],
        {"s": np.array([-1], I64), "e": np.array([-(2**63)], I64), "a": np.array([2], I64), "t": np.array([-2], I64)},
        IMAGE),
    "flatten from the back": ([("Flatten", "x", {"axis": -1}), ("MatMul", ["v0", "w"], {})], {"w": weights(6, 2)},
                              IMAGE),
    "reshape by zeros": ([("Reshape", "xs", {})], {"s": np.array([0, -1, 0], I64)}, IMAGE),
    "greater and where": ([("Greater", "xc", {}), ("Mul", "xs", {}), ("Where", ["v0", "x", "v1"], {})],
                          {"c": np.float32(0), "s": np.float32(0.1)}, (4,)),
    "largest": ([("TopK", "xk", {"outputs": 2})], {"k": np.array([2], I64)}, (4,)),
    "norm of one": ([("ReduceL1", "x", {"axes": [1]})], {}, (4,)),
    "dropout and casts": ([("Dropout", "x", {}), ("Cast", ["v0"], {"to": 1}), ("Identity", ["v1"], {})], {}, (4,)),
}  # fmt: skip


@pytest.mark.parametrize("label", FILES)
def test_onnx_operators_agree_with_onnxruntime(label, tmp_path):
    nodes, constants, shape = FILES[label]
    assert_agrees(written(tmp_path / "net.onnx", nodes, constants, shape))


def test_nodes_may_name_the_domain_of_onnx(tmp_path):
    nodes = [("Gemm", ["x", "w"], {"domain": "ai.onnx"}), ("Relu", ["v0"], {"domain": "ai.onnx"})]
    network = assert_agrees(written(tmp_path / "net.onnx", nodes, {"w": weights(4, 3)}, (4,)))
    assert [site.units for site in network.sites] == [3]


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
    """A .nnet file on normalized inputs, in numpy."""
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


def test_a_convolution_without_a_batch_axis_is_refused_by_name(tmp_path):
    made = written(tmp_path / "net.onnx", [("Conv", "xw", {})], {"w": weights(2, 1, 3, 3)}, (8, 8), batch=1)
    with pytest.raises(ss.FileFormatError, match=r"Conv_0 .*a batch axis, channels and 2 axes are needed, got 3 axes"):
        ss.load(made)


WITHOUT_BATCH = {
    "a vector from the left": ([("MatMul", "xw", {}), ("Relu", ["v0"], {})], {"w": weights(4, 3)}, (4,)),
    "a vector from the right": ([("MatMul", "wx", {}), ("Add", ["v0", "b"], {}), ("Relu", ["v1"], {})],
                                {"w": weights(3, 4), "b": weights(3)}, (4,)),
    "a column": ([("MatMul", "wx", {}), ("Add", ["v0", "b"], {}), ("Relu", ["v1"], {})],
                 {"w": weights(3, 4), "b": weights(3, 1)}, (4, 1)),
    "a fixed batch is an axis like others": ([("Relu", "x", {}), ("Softmax", ["v0"], {"axis": 0})], {}, (4, 3)),
    "reshape that drops the batch": ([("Reshape", "xs", {}), ("MatMul", ["v0", "w"], {}), ("Relu", ["v1"], {})],
                                     {"s": np.array([-1], np.int64), "w": weights(12, 3)}, (1, 3, 4)),
    "batch and features exchanged": (
        [("Transpose", "x", {"perm": [1, 0]}), ("MatMul", ["w", "v0"], {}), ("Relu", ["v1"], {}),
         ("Transpose", ["v2"], {"perm": [1, 0]})], {"w": weights(3, 4)}, (1, 4)),
    "an image reshaped from a vector": (
        [("Reshape", "xs", {}), ("Conv", ["v0", "k"], {}), ("MaxPool", ["v1"], {"kernel_shape": [2, 2]}),
         ("Flatten", ["v2"], {"axis": 0})],
        {"s": np.array([1, 1, 4, 4], np.int64), "k": weights(2, 1, 2, 2)}, (16,)),
}  # fmt: skip


@pytest.mark.parametrize("label", WITHOUT_BATCH)
def test_files_without_a_batch_axis_take_many_rows(label, tmp_path):
    nodes, constants, shape = WITHOUT_BATCH[label]
    network = assert_agrees(written(tmp_path / "net.onnx", nodes, constants, shape, batch=None))
    assert sum(network.input_shape) == sum(shape) - (shape[0] == 1 and len(shape) > 1)
    x = torch.randn(5, *network.input_shape, dtype=torch.float64)
    found = ss.local_complexity(network, x, radius=0.1, method="distance")
    assert [site.units for site in network.sites] == [site.units for site in found.sites]


def test_a_file_whose_input_is_one_number_without_an_axis_is_read(tmp_path):
    network = ss.load(written(tmp_path / "net.onnx", [("Relu", "x", {})], {}, (), batch=None))
    assert network(np.array([-1.0, 0.5])).tolist() == [0.0, 0.5]
    assert ss.tile_at(network, 0.5).radius == 0.5
    with pytest.raises(ss.InputError, match="of at least one number"):
        ss.Slice.segment(0.0, 1.0)


def test_all_inputs_of_a_file_but_one_can_be_fixed(tmp_path):
    nodes = [helper.make_node("Sub", ["x", "y"], ["d"]), helper.make_node("Relu", ["d"], ["z"])]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 3]) for name in "xy"]
    outputs = [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)]
    model = helper.make_model(helper.make_graph(nodes, "two", inputs, outputs), ir_version=7)
    model.opset_import[0].version = 13
    path = tmp_path / "two.onnx"
    onnx.save(model, str(path))
    with pytest.raises(ss.UnsupportedModelError, match=r"got 2: x \(N, 3\), y \(N, 3\)\. Give values .*fixed={'x'"):
        ss.load(path)
    x, y = torch.randn(4, 3, dtype=torch.float64), np.array([0.5, -1.0, 2.0])
    torch.testing.assert_close(ss.load(path, fixed={"y": y})(x), (x - torch.from_numpy(y)).relu())
    torch.testing.assert_close(ss.load(path, fixed={"x": [y]})(x), (torch.from_numpy(y) - x).relu())
    for wrong, words in (
        ({"w": y}, "must name inputs"),
        (y, "must give inputs by name, .* got ndarray"),
        ({"y": y[:2]}, r"must have shape \(N, 3\), got \(2,\)"),
        ({"y": "hello"}, r"fixed\['y'\] must be numbers, got 'hello'"),
    ):
        with pytest.raises(ss.InputError, match=words):
            ss.load(path, fixed=wrong)


REFUSED_NODES = {
    "cast to whole numbers": ([("Cast", "x", {"to": 7}), ("Cast", ["v0"], {"to": 1})], {}, {}, "Cast_0 .*to int64"),
    "another domain": ([("Relu", "x", {"domain": "my"})], {}, {}, "not read: my.Relu"),
    "dropout in training": ([("Dropout", ["x", "", "t"], {})], {"t": np.array(True)}, {}, "training mode is random"),
    "index out of range": ([("Gather", "xi", {"axis": 1})], {"i": np.array([3], I64)}, {}, "an index of 3 into 3"),
    "an axis from the back in a permutation": ([("Transpose", "x", {"perm": [0, -1]})], {}, {}, "perm .*0, -1"),
    "a bare k": ([("TopK", "xk", {"outputs": 2})], {"k": np.array(2, I64)}, {}, "a list of one number, got 2"),
    "batch norm in training": (
        [("BatchNormalization", "xsbmv", {"training_mode": 1, "outputs": 3})],
        dict.fromkeys("sbmv", np.ones(3, np.float32)), {"opset": 15}, "training mode"),
    "an attribute that is not read": ([("ArgMax", "x", {"select_last_index": 1}), ("Cast", ["v0"], {"to": 1})], {}, {},
                                      "ArgMax_0 .*select_last_index is not read"),
    "an attribute of no operator": ([("Relu", "x", {"slope": 0.1})], {}, {}, "Unrecognized attribute: slope"),
    "places of maxima": ([("TopK", "xk", {"outputs": 2}), ("Cast", ["v0_1"], {"to": 1})], {"k": np.array([2], I64)}, {},
                         "indices it returns are not continuous"),
    "a mask of dropout": ([("Dropout", "x", {"outputs": 2}), ("Cast", ["v0_1"], {"to": 1})], {}, {},
                          "uses 'v0_1', an output of an operator that is not read"),
    "uneven padding and ceil": ([("MaxPool", "x", {"kernel_shape": [2], "pads": [0, 1], "ceil_mode": 1})], {},
                                {"shape": (2, 5)}, "uneven padding together with ceil_mode"),
    "resizing by a broken factor": ([("Resize", ["x", "", "s"], {"nearest_mode": "ceil"})],
                                    {"s": np.array([1, 1, 1.5], np.float32)}, {"shape": (2, 4)}, "by whole numbers"),
    "control flow": ([("Loop", ["", "", "x"], {})], {}, {}, "not read: Loop"),
    "quantized": ([("QuantizeLinear", "xs", {}), ("DequantizeLinear", ["v0", "s"], {})], {"s": np.float32(0.1)}, {},
                  "not read: DequantizeLinear, QuantizeLinear"),
    "two types in one sum": ([("Add", "xi", {})], {"i": np.array([1, 2, 3], I64)}, {}, "int64"),
    "16 GB from a small file": ([("Expand", "xs", {})], {"s": np.array([1, 2**31, 3], I64)}, {}, "6,442,450,944"),
    "a window of padding alone": ([("MaxPool", "x", {"kernel_shape": [2], "dilations": [5], "pads": [1, 1]})], {},
                                  {"shape": (1, 4)}, "MaxPool_0 .*lies in the padding altogether"),
    "an input without end": ([("Relu", "x", {})], {}, {"shape": (2**20, 2**20)}, "at most 16,777,216 numbers"),
}  # fmt: skip


MIXED_ROWS = {
    "gather": ([("Gather", "xi", {"axis": 0}), ("Relu", ["v0"], {})], {"i": np.array([0], I64)}),
    "tile": ([("Tile", "xr", {})], {"r": np.array([2, 1], I64)}),
    "transpose": ([("Relu", "x", {}), ("Transpose", ["v0"], {"perm": [1, 0]})], {}),
    "expand": ([("Expand", "xs", {}), ("Relu", ["v0"], {})], {"s": np.array([3, 4], I64)}),
    "size": ([("Size", "x", {}), ("Cast", ["v0"], {"to": 1}), ("Div", ["x", "v1"], {})], {}),
    "sum": ([("ReduceSum", "xa", {"keepdims": 1}), ("Add", ["x", "v0"], {})], {"a": np.array([0], I64)}),
    "softmax": ([("Softmax", "x", {"axis": 0})], {}),
}  # fmt: skip


@pytest.mark.parametrize("label", MIXED_ROWS)
def test_files_of_a_free_batch_that_mix_rows_are_refused(label, tmp_path):
    with pytest.raises(ss.UnsupportedModelError, match="mixes the rows of a batch"):
        ss.load(written(tmp_path / "net.onnx", *MIXED_ROWS[label], (4,)))


BACK_AND_FORTH = {
    "transposed and back": (
        [("Transpose", "x", {"perm": [1, 0]}), ("MatMul", ["w", "v0"], {}), ("Relu", ["v1"], {}),
         ("Transpose", ["v2"], {"perm": [1, 0]})], {"w": weights(3, 4)}),
    "reshaped by its own shape": (
        [("Shape", "x", {}), ("Reshape", "xs", {}), ("Relu", ["v1"], {}), ("Reshape", ["v2", "v0"], {})],
        {"s": np.array([0, 2, 2], I64)}),
    "rows by an unknown size": ([("Reshape", "xs", {}), ("Relu", ["v0"], {})], {"s": np.array([-1, 4], I64)}),
}  # fmt: skip


@pytest.mark.parametrize("label", BACK_AND_FORTH)
def test_files_of_a_free_batch_agree_with_onnxruntime_on_three_rows_together(label, tmp_path):
    path = written(tmp_path / "net.onnx", *BACK_AND_FORTH[label], (4,))
    network = assert_agrees(path)
    x = weights(3, 4)
    together = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    np.testing.assert_allclose(network(x).numpy(), together, rtol=0, atol=1e-5)


@pytest.mark.parametrize("label", REFUSED_NODES)
def test_what_is_not_read_of_a_file_is_refused_by_name(label, tmp_path):
    nodes, constants, options, words = REFUSED_NODES[label]
    shape = options.get("shape", (3,))
    rest = {key: value for key, value in options.items() if key != "shape"}
    with pytest.raises((ss.UnsupportedModelError, ss.FileFormatError), match=words):
        ss.load(written(tmp_path / "net.onnx", nodes, constants, shape, **rest))


def test_functions_of_a_file_are_not_taken_for_operators_of_their_names(tmp_path):
    path = written(tmp_path / "net.onnx", [("Relu", "x", {"domain": "my"})], {}, (3,))
    model = onnx.load(str(path))
    body = [helper.make_node("Neg", ["a"], ["b"])]
    opsets = [helper.make_opsetid("", 13)]
    model.functions.append(helper.make_function("my", "Relu", ["a"], ["b"], body, opsets))
    model.opset_import.append(helper.make_opsetid("my", 1))
    model.ir_version = 8
    onnx.save(model, str(path))
    with pytest.raises(ss.UnsupportedModelError, match=r"Relu \(a function of the file; onnx\.inliner"):
        ss.load(path)


def test_a_constant_beside_the_file_must_be_as_long_as_it_is_said_to_be(tmp_path):
    path = written(tmp_path / "net.onnx", [("MatMul", "xw", {})], {"w": weights(40, 40)}, (40,))
    onnx.save(onnx.load(str(path)), str(path), save_as_external_data=True, location="w.bin", size_threshold=0)
    assert_agrees(path)
    model = onnx.load(str(path), load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        entry.value = str(2**34) if entry.key == "length" else entry.value
    onnx.save(model, str(path))
    with pytest.raises(ss.FileFormatError, match=r"longer than the .* bytes of w\.bin"):
        ss.load(path)


FUZZ_TRIALS = int(os.environ.get("FUZZ_TRIALS", "120"))
EXTREME = [0, 1, -1, 2, 7, 10**6, 2**31 - 1, 2**62, -(2**63)]


def mutated(content: bytes, random: np.random.Generator) -> bytes:
    """A file with a few bytes changed or cut off, or a number, a name or a type in its graph replaced."""
    start, stop = sorted(random.integers(0, len(content), 2).tolist())
    kind = int(random.integers(0, 8))
    if kind == 0:
        return content[:start] + content[stop:]
    if kind == 1:
        changed = bytearray(content)
        changed[start] ^= 1 << int(random.integers(0, 8))
        return bytes(changed)
    model = onnx.load_from_string(content)
    node = model.graph.node[int(random.integers(len(model.graph.node)))]
    extreme = EXTREME[int(random.integers(len(EXTREME)))]
    if kind == 2:
        model.graph.input[0].type.tensor_type.shape.dim[-1].dim_value = extreme
    elif kind == 3 and model.graph.initializer and model.graph.initializer[0].dims:
        model.graph.initializer[0].dims[0] = extreme
    elif kind == 4 and model.graph.initializer:
        model.graph.initializer[-1].data_type = int(random.integers(0, 18))
    elif kind == 5:
        node.op_type = str(random.choice(["Relu", "Cast", "Gemm", "Concat", "Shape", "MaxPool", "Squeeze"]))
    elif kind == 6:
        for attribute in node.attribute[:1]:
            attribute.i, attribute.s, attribute.ints[:1] = extreme, b"\xff\xfe", [extreme]
    else:
        model.opset_import[0].version = int(random.integers(6, 30))
    return model.SerializeToString()


def test_mutated_files_agree_with_onnxruntime_or_are_refused(tmp_path):
    """Without tracing, which takes long: what was read, in every layout, is what onnxruntime computes."""
    runtime.set_default_logger_severity(4)
    random, path, outcomes = np.random.default_rng(0), tmp_path / "net.onnx", Counter()
    whole = [written(path, nodes, constants, shape).read_bytes() for nodes, constants, shape in FILES.values()]
    for trial in range(FUZZ_TRIALS):
        path.write_bytes(mutated(whole[trial % len(whole)], random))
        try:
            with reading(path):
                networks = read_onnx(path)
        except (ss.FileFormatError, ss.UnsupportedModelError) as error:
            outcomes[type(error).__name__] += 1
            continue
        try:
            session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        except Exception:  # the oracle has refusals of its own (an opset under development), of unrelated types
            outcomes["no oracle"] += 1
            continue
        (given,) = session.get_inputs()
        for network in networks:
            x = np.random.default_rng(1).uniform(-1, 1, (2, *network.input_shape)).astype(np.float32)
            rows = [session.run(None, {given.name: row.reshape(network.file_shape)})[0] for row in x]
            received = network(torch.from_numpy(x).double()).numpy().reshape(2, -1)
            expected = np.stack(rows).reshape(2, -1)
            scale = np.abs(expected[np.isfinite(expected)]).max(initial=1e-6)
            np.testing.assert_allclose(received, expected, rtol=0, atol=1e-4 * scale, err_msg=f"trial {trial}")
        outcomes["agrees"] += 1
    assert min(outcomes["agrees"], outcomes["FileFormatError"], outcomes["UnsupportedModelError"]) > 0, outcomes
    assert outcomes["no oracle"] <= 0.05 * FUZZ_TRIALS, outcomes


@pytest.mark.parametrize("name", ["net.onnx", "net.nnet"])
def test_an_empty_file_is_called_empty(name, tmp_path):
    (tmp_path / name).touch()
    with pytest.raises(ss.FileFormatError, match=rf"{name} is empty\.$"):
        ss.load(tmp_path / name)


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
        "endless.nnet": b"inf,2,1,2,\n2,1,\n0,\n0,0,\n1,1,\n0,0,0,\n1,1,1,\n1.0,2.0,\n0.5,\n",
        "large.nnet": b"1,2,1,2,\n2,1e300,\n0,\n0,0,\n1,1,\n0,0,0,\n1,1,1,\n1.0,2.0,\n0.5,\n",
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
        ([("Relu", "x", {})], ("W",), {}, ss.FileFormatError, "known sizes"),
        ([("Det", "x", {}), ("Acosh", ["v0"], {})], (3, 3), {}, ss.UnsupportedModelError, "Acosh, Det"),
        ([("Erf", "x", {})], (3,), {}, ss.UnsupportedModelError, "erf is smooth"),
    ],
)
def test_files_that_cannot_be_tiled_say_why(nodes, shape, options, error, words, tmp_path):
    with pytest.raises(error, match=words):
        ss.load(written(tmp_path / "net.onnx", nodes, {}, shape, **options))
