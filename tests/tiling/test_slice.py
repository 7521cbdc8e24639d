"""Slices: coordinates go there and back, and the named constructors hold what they promise."""

import numpy as np
import torch

import splinescope as ss


def test_coordinates_undo_inputs() -> None:
    generator = torch.Generator().manual_seed(0)
    view = ss.Slice.box(torch.zeros(3, 4, 4), half_width=2.0, generator=generator)
    t = np.random.default_rng(0).normal(size=(7, 2))
    assert view.inputs(t).shape == (7, 3, 4, 4)
    np.testing.assert_allclose(view.coordinates(view.inputs(t)), t, atol=1e-14)


def test_the_plane_through_three_points_contains_them_at_their_anchors() -> None:
    points = torch.randn(3, 2, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for shape in ("square", "triangle"):
        view = ss.Slice.through(*points, shape=shape)
        np.testing.assert_allclose(view.inputs(view.anchors), points.numpy(), atol=1e-14)
        basis = view.basis.reshape(2, -1)
        np.testing.assert_allclose(basis @ basis.T, np.eye(2), atol=1e-14)  # lengths are those of the input space
    edges = points.reshape(3, -1)[1:] - points.reshape(3, -1)[0]
    gram = (edges @ edges.T).numpy()
    np.testing.assert_allclose(ss.Slice.through(*points, shape="triangle").size, np.sqrt(np.linalg.det(gram)) / 2)


def test_padding_grows_the_domain_about_the_points() -> None:
    corners = ([0.0, 0.0], [1.0, 0.0], [0.0, 1.0])
    assert ss.Slice.through(*corners).size == 1.0
    np.testing.assert_allclose(ss.Slice.through(*corners, pad=0.5).size, 4.0)
    np.testing.assert_allclose(ss.Slice.through(*corners, pad=1.0, shape="triangle").size, 2.0)


def test_a_segment_is_measured_by_arc_length() -> None:
    view = ss.Slice.segment([0.0, 0.0, 0.0], [3.0, 4.0, 0.0])
    assert view.size == 5.0
    np.testing.assert_allclose(view.inputs([[5.0]]), [[3.0, 4.0, 0.0]])


def test_axes_are_the_input_coordinates_themselves() -> None:
    view = ss.Slice.axes([7.0, 8.0, 9.0], (2, 0), [-1.0, -2.0], [1.0, 2.0])
    np.testing.assert_allclose(view.inputs([[0.5, 1.5]]), [[1.5, 8.0, 0.5]])
    assert view.size == 8.0


def test_random_directions_come_from_the_generator_alone() -> None:
    state = torch.get_rng_state()
    a = ss.Slice.box(np.zeros(6), generator=torch.Generator().manual_seed(3))
    b = ss.Slice.box(np.zeros(6), generator=torch.Generator().manual_seed(3))
    np.testing.assert_array_equal(a.basis, b.basis)
    assert torch.equal(state, torch.get_rng_state())


def test_a_slice_cannot_be_changed_by_accident() -> None:
    origin = np.zeros(2)
    view = ss.Slice.axes(origin, (0, 1), -1, 1)
    origin += 1.0
    assert (view.origin == 0.0).all()
    assert not view.domain.flags.writeable
