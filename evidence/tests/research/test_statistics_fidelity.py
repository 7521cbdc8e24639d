"""What minibatch statistics change: a closed form for Gaussian units, the limit of the full batch, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope_research import statistics_fidelity


@pytest.fixture(scope="module")
def found():
    torch.manual_seed(0)
    net = nn.Sequential(
        *(nn.Linear(20, 60), nn.BatchNorm1d(60), nn.ReLU(), nn.Linear(60, 60), nn.BatchNorm1d(60), nn.ReLU()),
        nn.Linear(60, 3),
    )
    x = torch.randn(4000, 20, generator=torch.Generator().manual_seed(1))
    return net, x, statistics_fidelity(net, x, (8, 32, 128), draws=8)


def test_gaussian_units_change_the_share_of_signs_that_the_angle_says(found):
    _, _, fidelity = found
    law = np.arctan(1 / np.sqrt([8, 32, 128])) / np.pi
    np.testing.assert_allclose(fidelity.flips[:, 0], law, rtol=0.08)  # 8 draws of 60 units: 5%
    assert fidelity.exponents[0] == pytest.approx(-0.5, abs=0.05)


def test_changes_only_add_up_over_layers_and_fall_with_the_batch(found):
    _, _, fidelity = found
    assert (np.diff(fidelity.tiles, axis=1) >= 0).all()
    for shares in (fidelity.flips, fidelity.tiles, fidelity.classes):
        assert (np.diff(shares, axis=0) <= 0).all()
    assert (fidelity.flips.max(1) <= fidelity.tiles[:, -1]).all()


def test_with_all_data_in_the_batch_nothing_changes(found):
    net, x, _ = found
    some = x[:50]
    fidelity = statistics_fidelity(net, some, (50,), draws=2)
    assert fidelity.flips.max() == 0
    assert fidelity.classes.max() == 0
    assert np.isnan(fidelity.exponents).all()


def test_a_large_share_of_few_points_is_worth_more_and_all_of_them_are_left_out_of_the_law(found):
    net, x, _ = found
    some, sizes = x[:200], np.array([20, 60, 120, 180, 200])
    fidelity = statistics_fidelity(net, some, sizes, draws=20)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(fidelity.effective_sizes, sizes * 199 / (200 - sizes))
    law = np.arctan(1 / np.sqrt(fidelity.effective_sizes[:-1])) / np.pi
    np.testing.assert_allclose(fidelity.flips[:-1, 0], law, rtol=0.12)
    assert fidelity.exponents[0] == pytest.approx(-0.5, abs=0.05)  # on B itself it is below -0.7
    without = statistics_fidelity(net, some, sizes[:-1], draws=20)
    np.testing.assert_allclose(fidelity.exponents, without.exponents)
    assert "inf" in fidelity.summary()


def test_what_makes_no_sense_is_refused(found):
    net, x, fidelity = found
    with pytest.raises(ss.InputError, match="from 2 to 50"):
        statistics_fidelity(net, x[:50], (64,))
    with pytest.raises(ss.InputError, match="found none"):
        statistics_fidelity(nn.Sequential(nn.Linear(20, 2)), x, (8,))
    assert "exponent" in fidelity.summary()
    assert net.training
