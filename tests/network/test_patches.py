"""What an op makes of a window is what it makes of the whole image, wherever the window lies."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import splinescope as ss
from splinescope.network.kernels.windows import add_windows
from splinescope.network.patches import Patches, added, convolved, padded, units
from splinescope.network.program import Affine

CORNERS = np.array([[0, 0], [3, 5], [9, 11], [9, 0], [4, 2]])  # of 10 x 12 images: at each border and inside


def patches(channels: int = 4, size: int = 1) -> tuple[Patches, Tensor]:
    """Windows of random numbers (zero beyond the image), and the images they stand for."""
    generator = torch.Generator().manual_seed(size)
    values = torch.randn(len(CORNERS), channels, size, size, generator=generator, dtype=torch.float64)
    images = torch.zeros(len(CORNERS), channels, 10, 12, dtype=torch.float64)
    for row, (top, left) in enumerate(CORNERS):
        for y in range(size):
            for x in range(size):
                if top + y < 10 and left + x < 12:
                    images[row, :, top + y, left + x] = values[row, :, y, x]
                else:
                    values[row, :, y, x] = 0.0
    return Patches(values, (channels, 10, 12), CORNERS), images


@pytest.mark.parametrize(("groups", "outputs"), [(1, 4), (1, 29), (2, 4), (4, 4)])  # of 29: by compiled loops
@pytest.mark.parametrize(("kernel", "stride", "padding", "dilation"), [
    (1, 1, 0, 1), (3, 1, 1, 1), (3, 2, 1, 1), (5, 2, 0, 1), (1, 2, 0, 1), (3, 1, 2, 2), (2, 3, 1, 1),
])  # fmt: skip
@pytest.mark.parametrize("size", [1, 2])
def test_a_convolution_of_windows_is_that_of_the_images(
    size: int, kernel: int, stride: int, padding: int, dilation: int, groups: int, outputs: int
) -> None:
    x, images = patches(size=size)
    weight = torch.randn(outputs, 4 // groups, kernel, kernel, dtype=torch.float64)
    wanted = F.conv2d(images, weight, None, stride, padding, dilation, groups)
    both = [stride] * 2, [padding] * 2, [dilation] * 2
    for rows in (x, x.whole()):
        made = convolved(rows, weight, *both, groups, tuple(wanted.shape[1:]))
        torch.testing.assert_close(made.whole().values, wanted, rtol=1e-13, atol=1e-13)


def test_windows_of_different_places_add_up_and_are_read_by_element() -> None:
    x, images = patches(size=2)
    other = Patches(x.values[:, :, :1, :1], x.shape, CORNERS + 1)
    other = other.part(0, 2)  # windows that stay inside
    total = added([x.part(0, 2), other])
    assert total.start is not None
    whole = images[:2] + other.whole().values
    torch.testing.assert_close(total.whole().values, whole, rtol=0, atol=0)
    elements = np.arange(0, 480, 7)
    np.testing.assert_array_equal(total.columns(elements), whole.reshape(2, -1).numpy()[:, elements])


def test_margins_move_a_window_and_factors_meet_their_places() -> None:
    x, images = patches(size=2)
    wanted = F.pad(images, [1, 2, 3, 0])
    moved = padded(x, [1, 2, 3, 0], tuple(wanted.shape[1:]))
    torch.testing.assert_close(moved.whole().values, wanted, rtol=0, atol=0)
    factors = torch.randn(4, 10, 12, dtype=torch.float64)
    torch.testing.assert_close(x.times(factors).whole().values, images * factors, rtol=0, atol=0)


def test_multiples_of_windows_are_added_where_they_overlap_windows_or_whole_images() -> None:
    x, images = patches(size=2)
    factors = np.array([[0.5, -2.0, 0.0, 1.0, 3.0], [0.0, 1.0, 1.0, 0.0, -1.0]])
    wanted = torch.einsum("nm,mchw->nchw", torch.from_numpy(factors), images)
    starts = np.array([[2, 1], [8, 10]])  # the second reaches beyond the image
    large = torch.zeros(2, 4, 5, 6, dtype=torch.float64)
    add_windows(large.numpy(), starts, x.values.numpy(), CORNERS, factors)
    for row, (top, left) in enumerate(starts):
        inside = wanted[row, :, top : top + 5, left : left + 6]
        height, width = inside.shape[1:]
        torch.testing.assert_close(large[row, :, :height, :width], inside, rtol=0, atol=1e-15)
        large[row, :, :height, :width] = 0.0
    assert not large.any()
    whole = torch.ones(2, 4, 10, 12, dtype=torch.float64)
    add_windows(whole.numpy(), np.zeros((2, 2), np.int64), x.values.numpy(), CORNERS, factors)
    torch.testing.assert_close(whole - 1.0, wanted, rtol=0, atol=1e-15)


def test_a_unit_is_a_row_with_one_number() -> None:
    elements, amounts = np.array([0, 77, 479]), np.array([1.0, -2.0, 0.5])
    rows = units(elements, amounts, (4, 10, 12))
    wanted = np.zeros((3, 480))
    wanted[np.arange(3), elements] = amounts
    np.testing.assert_array_equal(rows.flat(), wanted)
    np.testing.assert_array_equal(units(elements, amounts, (480,)).flat(), wanted)


class Mobile(nn.Module):
    """Channels by themselves, margins of one side, batch norm, a skip: each op that knows windows."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.stem, self.norm = nn.Conv2d(2, 4, 3, 2, 1), nn.BatchNorm2d(4)
        self.by_channel, self.mix = nn.Conv2d(4, 4, 3, groups=4), nn.Conv2d(4, 4, 1)
        self.down, self.head = nn.Conv2d(4, 6, 3, 2, 1), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu6(self.norm(self.stem(x)))
        y = F.relu6(self.by_channel(F.pad(x, [2, 0, 0, 2])))
        x = F.leaky_relu(x + self.mix(y), 0.1)
        return self.head(torch.relu(self.down(x)).mean((2, 3)))


def test_the_linear_part_of_a_step_is_the_step_without_its_constants() -> None:
    model = Mobile().double().eval()
    program = ss.trace(model, torch.zeros(2, 2, 24, 24, dtype=torch.float64)).program()
    live = {program.input: torch.randn(3, 2, 24, 24, dtype=torch.float64)}
    known = set()
    for step in program.steps:
        given = [live[name] for name in step.inputs]
        live[step.output] = step.run(*given)
        if isinstance(step, Affine) and step.linear is not None:
            known.add(program.ops[step.output])
            linear = step.linear(*(Patches(value, tuple(value.shape[1:])) for value in given)).values
            constant = step.run(*(torch.zeros_like(value) for value in given))
            torch.testing.assert_close(linear, live[step.output] - constant, rtol=1e-12, atol=1e-12)
    assert known == {"conv2d", "batch_norm", "pad", "add"}


@pytest.mark.parametrize("kind", ["line", "plane"])
def test_tiles_of_images_are_the_same_whether_windows_are_known_or_not(kind: str) -> None:
    model = Mobile().double().eval()
    points = torch.randn(3, 2, 24, 24, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    network = ss.trace(model, points)
    if kind == "line":
        view = ss.Slice.segment(points[0], points[0] + 0.4 * points[1])
    else:
        whole = ss.Slice.through(*points)
        view = ss.Slice(whole.origin, whole.basis, 0.02 * whole.domain)
    plain = ss.tessellate(network, view, rows="plain")
    assert plain.count > 100
    for chunk_bytes in (1 << 26, 1 << 16):
        factored = ss.tessellate(network, view, rows="factored", chunk_bytes=chunk_bytes)
        np.testing.assert_array_equal(plain.tiles.corners, factored.tiles.corners)
        np.testing.assert_array_equal(plain.corner_labels, factored.corner_labels)
        np.testing.assert_allclose(plain.vertices, factored.vertices, rtol=0, atol=1e-12 * np.ptp(view.domain))
        np.testing.assert_allclose(plain.values, factored.values, rtol=0, atol=1e-11 * np.abs(plain.values).max())
