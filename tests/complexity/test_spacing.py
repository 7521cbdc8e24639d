"""Neighborhoods that follow the data: the spacing, and what a radius of "auto" means."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import splinescope as ss


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 30), st.floats(1e-3, 1e3))
def test_spacing_is_the_median_distance_to_the_nearest_other_point_and_scales(seed, count, scale):
    x = np.random.default_rng(seed).normal(size=(count, 3))
    slow = np.median([min(np.linalg.norm(a - b) for j, b in enumerate(x) if j != i) for i, a in enumerate(x)])
    assert ss.complexity.data_spacing(x) == pytest.approx(slow, rel=1e-9)
    assert ss.complexity.data_spacing(scale * x + 7.0) == pytest.approx(scale * slow, rel=1e-6)


def test_repeated_points_and_images_count_once_and_flat():
    x = torch.tensor([[0.0], [1.0], [3.0], [6.0]]).reshape(4, 1, 1, 1)
    assert ss.complexity.data_spacing(torch.cat([x, x, x])) == 1.5


def test_auto_is_half_the_spacing_for_every_method_and_told():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 30), nn.ReLU(), nn.Linear(30, 1))
    x = torch.randn(40, 2)
    half = ss.complexity.data_spacing(x) / 2
    for method in ("frame", "distance", "exact"):
        found = ss.local_complexity(net, x[:9], method=method, radius=half)
        assert torch.equal(ss.local_complexity(net, x, method=method).counts[:9], found.counts)
        assert ss.local_complexity(net, x, method=method).radius == half


def test_a_monitor_settles_its_radius_once(tmp_path):
    net = nn.Sequential(nn.Linear(2, 5), nn.ReLU())
    x = torch.randn(20, 2)
    monitor = ss.ComplexityMonitor(net, {"test": 9 * x, "train": x}, out=tmp_path)
    monitor.step(0)
    assert f'"radius": {ss.complexity.data_spacing(x) / 2!r}' in (tmp_path / "complexity.jsonl").read_text()


@pytest.mark.parametrize(("x", "told"), [(torch.zeros(1, 2), "2 different"), (torch.zeros(5, 2), "2 different")])
def test_one_point_has_no_spacing(x, told):
    with pytest.raises(ss.InputError, match=told):
        ss.local_complexity(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), x)


def test_other_words_than_auto_are_refused():
    with pytest.raises(ss.InputError, match="'auto'"):
        ss.local_complexity(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), torch.randn(5, 2), radius="big")
