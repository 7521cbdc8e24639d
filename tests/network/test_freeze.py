"""Norms with frozen statistics."""

import pytest
import torch
from torch import nn

import splinescope as ss

NORMS = {
    "layer": (nn.LayerNorm(6), (4, 6)),
    "layer over two axes": (nn.LayerNorm((4, 6)), (4, 6)),
    "layer without bias": (nn.LayerNorm(6, bias=False), (6,)),
    "group": (nn.GroupNorm(2, 4), (4, 3, 3)),
    "instance": (nn.InstanceNorm2d(4, affine=True), (4, 3, 3)),
    "instance with running statistics": (nn.InstanceNorm1d(4, track_running_stats=True).eval(), (4, 6)),
    "rms": (nn.RMSNorm(6), (4, 6)),
}


@pytest.mark.parametrize("label", NORMS)
def test_frozen_norm_agrees_at_its_point_and_is_affine(label):
    norm, shape = NORMS[label]
    model = nn.Sequential(nn.Identity(), norm.double())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(1))
    x = torch.randn(1, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    frozen = ss.freeze_statistics(model, x)
    torch.testing.assert_close(frozen(x), model(x), rtol=1e-10, atol=1e-10)
    assert model[1] is norm
    y = torch.randn_like(x)
    torch.testing.assert_close(frozen((x + y) / 2), (frozen(x) + frozen(y)) / 2, rtol=1e-10, atol=1e-10)
    network = ss.trace(frozen, x)
    assert network.sites == ()
    torch.testing.assert_close(network(y), frozen(y), rtol=1e-10, atol=1e-10)


def test_statistics_are_averaged_over_rows():
    x = torch.randn(5, 6, dtype=torch.float64)
    frozen = ss.freeze_statistics(nn.LayerNorm(6).double(), x)
    torch.testing.assert_close(frozen.mean, x.mean(1, keepdim=True).mean(0))
    torch.testing.assert_close(frozen.variance, x.var(1, correction=0, keepdim=True).mean(0))


def test_a_norm_used_twice_is_refused():
    norm = nn.LayerNorm(6)
    with pytest.raises(ss.InputError, match="more than once"):
        ss.freeze_statistics(nn.Sequential(norm, nn.Linear(6, 6), norm), torch.randn(2, 6))
