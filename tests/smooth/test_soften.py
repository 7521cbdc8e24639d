"""Hard and soft: identities at the ends, the stated formula between them."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import splinescope as ss
from splinescope import InputError

from .models import NewGELU
from .networks import Called


class Functional(nn.Module):
    """ReLUs as a function, a method, in place and as a module."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(4)])
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        x = F.relu(self.layers[0](x))
        x = x + self.layers[1](x).relu()
        y = self.layers[2](x)
        torch.relu_(y)
        return self.act(self.layers[3](y))


@pytest.fixture(scope="module")
def net() -> nn.Module:
    torch.manual_seed(0)
    return Functional().double()


@pytest.fixture(scope="module")
def x() -> torch.Tensor:
    return torch.randn(40, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_beta_one_is_the_network_itself(net, x):
    assert torch.equal(ss.soften(net, 1.0)(x), net(x))
    assert torch.equal(ss.smooth.harden(ss.soften(net, 0.3))(x), net(x))
    assert torch.equal(ss.smooth.harden(net)(x), net(x))


@pytest.mark.parametrize("beta", [0.0, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("mix", [0.0, 0.5, 1.0])
def test_a_softened_relu_is_the_stated_mixture(beta, mix):
    z = torch.linspace(-7, 7, 101, dtype=torch.float64)
    silu = z / (1 + torch.exp(-beta / (1 - beta) * z))
    softplus = (1 - beta) * torch.log1p(torch.exp(z / (1 - beta)))
    expected = mix * silu + (1 - mix) * softplus
    assert torch.allclose(ss.soften(nn.ReLU(), beta, mix=mix)(z), expected, atol=1e-12)


def test_the_mixture_keeps_the_mean_where_its_parts_do_not():
    z = torch.randn(200_000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    drift = {mix: abs(float((ss.soften(nn.ReLU(), 0.8, mix=mix)(z) - z.relu()).mean())) for mix in (0.0, 0.5, 1.0)}
    assert drift[0.5] < 0.3 * min(drift[0.0], drift[1.0])


def test_every_way_to_call_a_relu_is_softened(net, x):
    h = net.layers
    y = F.silu(h[0](x))
    y = y + F.silu(h[1](y))
    assert torch.allclose(ss.soften(net, 0.5, mix=1.0)(x), F.silu(h[3](F.silu(h[2](y)))))


def test_harden_makes_a_network_of_relus():
    torch.manual_seed(0)
    smooth = nn.Sequential(nn.Linear(4, 5), nn.GELU(), nn.Linear(5, 5), NewGELU(), nn.Linear(5, 5), nn.SiLU())
    hard = nn.Sequential(smooth[0], nn.ReLU(), smooth[2], nn.ReLU(), smooth[4], nn.ReLU())
    x = torch.randn(9, 4)
    assert torch.equal(ss.smooth.harden(smooth)(x), hard(x))
    called = Called(lambda x: F.silu(x) + F.gelu(-x, approximate="tanh"))
    assert torch.equal(ss.smooth.harden(called)(x), x.abs())
    tiling = ss.tessellate(ss.smooth.harden(smooth.double()), ss.Slice.axes([0.0] * 4, (0, 1), -3, 3))
    assert tiling.check().ok


@pytest.mark.parametrize("beta", [np.float32(0.75), np.float64(0.75), np.array(0.75), torch.tensor(0.75)])
def test_any_number_is_a_beta(beta, net, x):
    assert torch.equal(ss.soften(net, beta)(x), ss.soften(net, 0.75)(x))
    with pytest.raises(InputError, match=r"\[0, 1\], got"):
        ss.soften(net, np.array([0.5, 0.6]))


def test_bad_input_is_named(net, x):
    with pytest.raises(InputError, match=r"\[0, 1\], got 1.5"):
        ss.soften(net, 1.5)
    with pytest.raises(InputError, match="mix"):
        ss.soften(net, 0.5, mix=math.inf)


def test_a_loaded_beta_is_the_one_that_is_used():
    net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    x = torch.randn(6, 2)
    source, target = ss.soften(net, 0.3), ss.soften(net, 0.9)
    assert not torch.equal(source(x), target(x))
    target.load_state_dict(source.state_dict())
    torch.testing.assert_close(source(x), target(x))  # products may round by where their arrays lie in memory
