"""Exact tilings of networks that other people trained."""

import numpy as np
import pytest
import torch

import splinescope as ss
from tests import real
from tests.tiling.engine.test_rows_factored import assert_on_their_folds

pytestmark = real.needs_real_networks


def assert_sound(tiling: ss.Tiling) -> None:
    report = tiling.check()
    assert report.ok, str(report)


@pytest.mark.parametrize(("agent", "outputs"), [("sac", 1), ("dqn", 3)])
def test_whole_state_space_of_a_mountain_car_agent(agent: str, outputs: int) -> None:
    model = real.mountain_car(agent)
    low, high = real.MOUNTAIN_CAR_STATES
    tiling = ss.tessellate(model, ss.Slice.axes([0.0, 0.0], (0, 1), low, high))
    assert_sound(tiling)
    assert tiling.count > 50
    assert tiling.values.shape == (len(tiling.vertices), outputs)
    grid = np.stack(np.meshgrid(np.linspace(-1.2, 0.6, 50), np.linspace(-0.07, 0.07, 50)), -1).reshape(-1, 2)
    program = tiling.network.program()
    x = torch.from_numpy(grid)
    seen = np.unique(np.concatenate(list(program.patterns(x)), 1), axis=0)
    assert len(seen) <= tiling.count
    if agent == "sac":  # the clip at -2 and 2 is part of the network: outputs stay within it
        assert np.abs(tiling.values).max() <= 2.0 + 1e-12


def test_acas_xu_on_a_plane_of_its_normalized_inputs() -> None:
    network = ss.load(real.FOLDER / "acasxu" / "ACASXU_run2a_1_1_batch_2000.onnx")
    center = np.zeros(network.input_shape)
    tiling = ss.tessellate(network, ss.Slice.axes(center, (0, 1), -0.3, 0.3))
    assert_sound(tiling)
    assert tiling.count > 100


def test_horizontal_cas_on_a_plane() -> None:
    network = ss.load(real.FOLDER / "horizontalcas" / "HCAS_rect_v6_pra0_tau00_25HU_3000.nnet")
    tiling = ss.tessellate(network, ss.Slice.axes(np.zeros(network.input_shape), (0, 1), -20000.0, 20000.0))  # feet
    assert_sound(tiling)
    assert tiling.count > 50


@pytest.mark.parametrize("name", ["mnist2x10", "mnist5x20_leaky_relu", "cnn_max_mninst2"])
def test_onnx_networks_on_a_plane_through_three_digits(name: str) -> None:
    network = ss.load(real.FOLDER / "onnx_mnist" / f"{name}.onnx")
    images, labels = real.mnist_images()
    x = images.reshape(len(images), *network.input_shape)
    correct = (network(x).argmax(1) == labels).double().mean()
    assert correct > 0.85
    view = ss.Slice.through(*x[:3])
    if name == "cnn_max_mninst2":  # a small window: this one folds thousands of times
        view = ss.Slice(view.origin, view.basis, view.domain * 0.03)
    tiling = ss.tessellate(network, view)
    assert_sound(tiling)
    assert tiling.count > 10


def test_signed_distance_of_a_chair_on_a_plane() -> None:
    network = ss.load(real.FOLDER / "sdf_chair" / "chair.onnx")
    tiling = ss.tessellate(network, ss.Slice.axes(np.zeros(network.input_shape), (0, 1), -1.0, 1.0))
    assert_sound(tiling)
    assert tiling.values.min() < 0 < tiling.values.max()


def test_resnet_20_near_the_plane_through_three_images() -> None:
    model = real.resnet20()
    images, labels = real.cifar_images()
    with torch.no_grad():
        assert (model(images).argmax(1) == labels).double().mean() >= 0.94
    plane = ss.Slice.through(*images[:3])
    view = ss.Slice(plane.origin, plane.basis, plane.anchors[0] + 0.0003 * plane.domain)
    tiling = ss.tessellate(model, view)
    assert_sound(tiling)
    assert tiling.count > 50
    assert {site.op for site in tiling.sites} == {"relu"}
    assert len(tiling.sites) == 19
    assert_on_their_folds(tiling, every=1 + len(tiling.vertices) // 30)
