"""The recipes of docs/models.md for networks of Keras and JAX: what is tiled is what the other framework computes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import splinescope as ss

PLANE = ss.Slice.axes([0.0, 0.0], (0, 1), -2, 2)


def off(network: ss.SplineNetwork, function: Any) -> float:
    """How far the maps of the tiles are from the function itself (which works in float32) at random points."""
    tiling = ss.tessellate(network, PLANE)
    assert tiling.count > 30
    assert tiling.check().ok
    points = np.random.default_rng(0).uniform(-2, 2, size=(200, 2))
    tiles = tiling.locate(points)
    values = np.einsum("noi,ni->no", tiling.slopes(tiles), points) + tiling.offsets(tiles)
    return float(np.abs(values - np.asarray(function(points.astype(np.float32)))).max())


@pytest.fixture(scope="module")
def keras_model() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERAS_BACKEND", "torch")
        keras = pytest.importorskip("keras", reason="keras is needed for its recipe only")
        with torch.random.fork_rng():
            keras.utils.set_random_seed(0)
            layers = keras.layers
            model = keras.Sequential([layers.Input((2,)), layers.Dense(16, activation="relu"),
                                      layers.BatchNormalization(), layers.Dense(16), layers.LeakyReLU(0.1),
                                      layers.Dense(2)])  # fmt: skip
        return model.eval()


def test_a_keras_model_with_the_torch_backend_is_a_module(keras_model: Any) -> None:
    assert off(ss.trace(keras_model, torch.zeros(2, 2)), lambda x: keras_model(x).detach()) < 1e-5


@pytest.mark.filterwarnings("ignore")  # keras counts sizes while torch watches
def test_a_keras_model_written_as_onnx(keras_model: Any, tmp_path: Path) -> None:
    keras_model(np.zeros((1, 2), np.float32))  # keras writes only what was called
    keras_model.export(str(tmp_path / "net.onnx"), format="onnx", verbose=False)
    assert off(ss.load(tmp_path / "net.onnx"), lambda x: keras_model(x).detach()) < 1e-5


@pytest.mark.filterwarnings("ignore")  # jax2onnx's own
def test_a_jax_function_written_as_onnx(tmp_path: Path) -> None:
    jax = pytest.importorskip("jax", reason="jax is needed for its recipe only")
    jax2onnx = pytest.importorskip("jax2onnx", reason="jax2onnx is needed for its recipe only")
    import onnx

    rng = np.random.default_rng(0)
    sizes = [(2, 16), (16, 16), (16, 2)]
    weights = [
        (rng.normal(size=s).astype(np.float32) / s[0] ** 0.5, rng.normal(size=s[1:]).astype(np.float32)) for s in sizes
    ]

    def apply(x: Any) -> Any:
        for w, b in weights[:-1]:
            x = jax.nn.relu(x @ w + b)
        return x @ weights[-1][0] + weights[-1][1]

    onnx.save(jax2onnx.to_onnx(apply, [("B", 2)]), tmp_path / "net.onnx")
    assert off(ss.load(tmp_path / "net.onnx"), apply) < 1e-5
