"""The sets have the shapes, classes and places they promise, and follow their generator."""

import gzip
import struct

import pytest
import torch

import splinescope as ss
from splinescope import data


def test_moons_without_noise_lie_on_two_unit_half_circles():
    x, y = data.two_moons(101, noise=0.0, generator=torch.Generator().manual_seed(0))
    center = torch.tensor([-0.5, -0.25])
    distances = torch.where(y == 0, (x - center).norm(dim=1), (x + center).norm(dim=1))
    torch.testing.assert_close(distances, torch.ones(101))
    assert y.bincount().tolist() == [50, 51]


def test_randomness_follows_the_generator_only():
    before = torch.get_rng_state()
    a, b = (data.two_moons(20, generator=torch.Generator().manual_seed(3))[0] for _ in range(2))
    assert torch.equal(a, b)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_star_has_its_tips_and_notches():
    points = data.star(50, arms=5, radius=2.0, inner=0.5)
    lengths = points.norm(dim=1)
    torch.testing.assert_close(lengths[::10], torch.full((5,), 2.0))
    torch.testing.assert_close(lengths[5::10], torch.full((5,), 1.0))
    assert points.shape == (50, 2)


def test_digits_are_images_between_zero_and_one():
    pytest.importorskip("sklearn", reason="the extra 'data' is not installed")
    x, y = data.digits()
    assert x.shape == (1797, 1, 8, 8)
    assert (x.min(), x.max()) == (0, 1)
    assert y.unique().tolist() == list(range(10))


def test_impossible_sizes_are_refused():
    with pytest.raises(ss.InputError, match="count must be at least 2"):
        data.two_moons(1)
    with pytest.raises(ss.InputError, match="arms >= 2"):
        data.star(arms=1)


def test_fashion_mnist_is_read_from_its_idx_files(tmp_path):
    images = torch.randint(256, (5, 28, 28), dtype=torch.uint8)
    head = struct.pack(">4I", 0x803, 5, 28, 28)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(head + images.numpy().tobytes()))
    labels = tmp_path / "train-labels-idx1-ubyte.gz"
    labels.write_bytes(gzip.compress(struct.pack(">2I", 0x801, 5) + bytes([3, 1, 4, 1, 5])))
    x, y = data.fashion_mnist(folder=tmp_path)
    assert torch.equal((x[:, 0] * 255).round().to(torch.uint8), images)
    assert y.tolist() == [3, 1, 4, 1, 5]
    with pytest.raises(ss.InputError, match="dataset-fashion-mnist"):
        data.fashion_mnist("test", tmp_path)
    flipped = bytearray(labels.read_bytes())
    flipped[12] ^= 64  # zlib itself refuses it
    for bad in (b"no gzip", bytes(flipped), gzip.compress(struct.pack(">2I", 0x801, 9) + b"short")):
        labels.write_bytes(bad)
        with pytest.raises(ss.FileFormatError, match="not an idx file"):
            data.fashion_mnist(folder=tmp_path)
