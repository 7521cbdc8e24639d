"""Convolutional, residual and pooling networks against dense sampling, and the freedom of chunks and threads."""

import copy
from functools import cache

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import splinescope as ss
from tests.tiling.same import assert_same

SQUARE = ss.Slice.axes([0.0, 0.0], (0, 1), -3.0, 3.0)


class Residual(nn.Module):
    """Conv, batch norm, an in-place skip, max-pooling, a linear head."""

    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(1, channels, 3, padding=1), nn.BatchNorm2d(channels)
        self.block, self.relu = nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU()
        self.relu_2, self.pool = nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1)
        self.head = nn.Linear(channels * 9, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.norm(self.stem(x)))
        y = self.block(x)
        y += x
        return self.head(self.pool(self.relu_2(y)).flatten(1))


NETWORKS = {
    "conv": lambda: nn.Sequential(
        nn.Conv2d(1, 3, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3)
    ),
    "pool first": lambda: nn.Sequential(
        nn.Conv2d(1, 2, 2), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 2)
    ),
    "pool overlapping": lambda: nn.Sequential(
        nn.Conv2d(1, 2, 2), nn.ReLU(), nn.MaxPool2d(3, stride=1, padding=1), nn.Flatten(), nn.Linear(32, 2)
    ),
    "residual": Residual,
    "transposed": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(25, 8), nn.LeakyReLU(0.2), nn.Unflatten(1, (2, 2, 2)),
        nn.ConvTranspose2d(2, 2, 3, stride=2), nn.Hardtanh(-0.3, 0.3), nn.Flatten(), nn.Linear(50, 2)
    ),
}  # fmt: skip


def network(name: str) -> nn.Module:
    torch.manual_seed(3)
    model = NETWORKS[name]()
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2.0)
    return model.double().eval()


def view() -> ss.Slice:
    generator = torch.Generator().manual_seed(7)
    return ss.Slice.through(*torch.randn(3, 1, 5, 5, generator=generator, dtype=torch.float64), pad=0.2)


@cache
def tiled(name: str) -> ss.Tiling:
    """The tiling of a network, made once: treat as read-only."""
    return ss.tessellate(network(name), view())


def patterns(model: nn.Module, x: Tensor) -> np.ndarray:
    """Activation patterns read off the real modules: signs before activations, winners of max-pools. `[N, bits]`"""
    found: list[Tensor] = []

    def record(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        (z,) = inputs
        if isinstance(module, nn.MaxPool2d):
            _, winner = F.max_pool2d(z, module.kernel_size, module.stride, module.padding, return_indices=True)
            found.append(torch.where(output != 0, winner, -1))  # after a ReLU nobody wins among zeros
        elif isinstance(module, nn.Hardtanh):
            found.append((z > module.min_val).long() + (z > module.max_val).long())
        else:
            found.append((z > 0).long())

    model = copy.deepcopy(model)
    for module in model.modules():
        if isinstance(module, (nn.ReLU, nn.LeakyReLU, nn.Hardtanh, nn.MaxPool2d)):
            module.register_forward_hook(record)
    with torch.no_grad():
        model(x)
    return torch.cat([f.flatten(1) for f in found], 1).numpy()


def sample(tiling: ss.Tiling, count: int) -> np.ndarray:
    """Uniform points, so many of each tile in turn: random convex combinations of its corners."""
    generator = np.random.default_rng(0)
    points = []
    for tile in range(tiling.count):
        corners = tiling.tile(tile)
        weights = generator.dirichlet(np.ones(len(corners)), count)
        weights = 0.02 / len(corners) + 0.98 * weights  # off the walls, where a sign is a matter of rounding
        points.append(weights @ corners)
    return np.concatenate(points)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_tile_has_one_pattern_and_every_pattern_one_tile(name: str) -> None:
    model, window = network(name), view()
    tiling = tiled(name)
    report = tiling.check()
    assert report.ok, str(report)
    assert tiling.count > 20
    large = tiling.areas > 1e-9 * window.size  # in slivers, points off the walls are not to be had
    points = sample(tiling, 12)
    codes = patterns(model, torch.from_numpy(window.inputs(points))).reshape(tiling.count, 12, -1)
    tile_of: dict[bytes, int] = {}
    for tile in np.flatnonzero(large).tolist():
        assert (codes[tile] == codes[tile, :1]).all(), f"tile {tile} has several patterns"
        other = tile_of.setdefault(codes[tile, 0].tobytes(), tile)
        assert other == tile, f"tiles {tile} and {other} have one pattern"


@pytest.mark.parametrize("name", NETWORKS)
def test_no_pattern_is_missing(name: str) -> None:
    """Points drawn without looking at the tiling have only patterns that some tile has."""
    model, window = network(name), view()
    tiling = tiled(name)
    low, high = window.domain.min(0), window.domain.max(0)
    points = np.random.default_rng(1).uniform(low, high, (4000, 2))
    seen = {row.tobytes() for row in patterns(model, torch.from_numpy(window.inputs(points)))}
    centers = np.stack([tiling.tile(i).mean(0) for i in range(tiling.count)])
    known = {row.tobytes() for row in patterns(model, torch.from_numpy(window.inputs(centers)))}
    assert seen <= known


@pytest.mark.parametrize("name", ["residual", "pool overlapping", "conv", "large"])
def test_plain_rows_give_the_same_bit_for_bit_whatever_the_chunks_and_threads(name: str) -> None:
    model, window = (large(), SQUARE) if name == "large" else (network(name), view())
    one = ss.tessellate(model, window, threads=1, rows="plain")
    for options in ({"threads": 2}, {"chunk_bytes": 1 << 14}, {"threads": 3, "chunk_bytes": 1 << 17}):
        assert_same(one, ss.tessellate(model, window, rows="plain", **options))


def large() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 2))


@pytest.mark.parametrize("name", NETWORKS)
def test_a_line_through_the_slice_meets_the_tiles_in_the_same_order(name: str) -> None:
    """1-D against 2-D: the intervals on a chord end exactly where the chord crosses walls of the 2-D tiling."""
    model, window = network(name), view()
    a, b = window.inputs(np.array([window.domain[0] * 0.9, window.domain[2] * 0.9]))
    line = ss.tessellate(model, ss.Slice.segment(a, b))
    assert line.check().ok
    ends = window.coordinates(np.stack([a, b]))
    plane = tiled(name)
    walls = plane.walls
    p, q = plane.vertices[walls.ends[walls.cuts >= 0]].transpose(1, 0, 2)
    direction = ends[1] - ends[0]
    normal = np.array([-direction[1], direction[0]])
    side_p, side_q = (p - ends[0]) @ normal, (q - ends[0]) @ normal
    crossing = side_p * side_q < 0
    s = (side_p / (side_p - side_q))[crossing, None]
    at = ((1 - s) * p[crossing] + s * q[crossing] - ends[0]) @ direction / (direction @ direction)
    at = np.sort(at[(at > 0) & (at < 1)]) * line.view.size
    np.testing.assert_allclose(np.sort(line.vertices[:, 0])[1:-1], at, atol=1e-9 * line.view.size)
