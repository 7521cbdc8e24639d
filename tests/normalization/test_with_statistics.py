"""A network with the statistics of one batch computes what training on that batch does."""

import copy

import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.normalization import with_statistics

from .. import cases


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2)).double()


def test_statistics_of_a_batch_are_those_of_training_on_it():
    net, x = network(), torch.randn(100, 2, dtype=torch.float64)
    before = copy.deepcopy(net.state_dict())
    made = with_statistics(net, x[:10])
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
    assert net.training
    torch.testing.assert_close(made(x[:10]), net.train()(x[:10]), rtol=1e-12, atol=1e-12)


def test_bad_input_is_told():
    with pytest.raises(ss.InputError, match="at least 2 values"):
        with_statistics(network(), torch.randn(1, 2))
    with pytest.raises(ss.InputError, match="found none"):
        with_statistics(cases.model("one layer"), torch.randn(9, 2))
