"""Folding keeps function and tiling, in both orders and where no neighbor can take it."""

import copy

import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.normalization import merge_batchnorm
from splinescope.normalization.merge_copy import ScaleShift

from .. import cases
from ..real import cifar_images, needs_real_networks, resnet20

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)


def ready(model: nn.Module, *shape: int) -> tuple[nn.Module, torch.Tensor]:
    """The model in float64 with statistics, gains and shifts of its own, in eval mode; and a batch."""
    generator = torch.Generator().manual_seed(0)
    model = model.double()
    x = torch.randn(16, *shape, generator=generator, dtype=torch.float64) + 0.5
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, NORMS) and module.affine:
                module.weight.uniform_(-1, 2, generator=generator)
                module.bias.normal_(generator=generator)
        model.train()(x)
    return model.eval(), x


class Shared(nn.Module):
    """A norm after a sum, one on a branch that is used twice, one called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
        self.n1, self.n2, self.n3 = (nn.BatchNorm1d(4) for _ in range(3))

    def forward(self, x):
        h = self.a(x)
        y = torch.relu(self.n1(h)) + h
        y = torch.relu(self.n2(y + self.c(y)))
        return self.n3(self.b(torch.relu(self.n3(self.b(y)))))


MODELS = {
    "after linear": (lambda: nn.Sequential(nn.Linear(3, 5, bias=False), nn.BatchNorm1d(5), nn.ReLU()), (3,), 0),
    "before linear": (lambda: nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 5), nn.ReLU()), (3,), 0),
    "between two": (
        lambda: nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Linear(5, 2), nn.BatchNorm1d(2, affine=False)),
        (3,),
        0,
    ),
    "after convolution": (lambda: nn.Sequential(nn.Conv2d(2, 4, 3, groups=2), nn.BatchNorm2d(4)), (2, 5, 5), 0),
    "after transposed": (
        lambda: nn.Sequential(nn.ConvTranspose2d(4, 6, 3, groups=2), nn.BatchNorm2d(6), nn.ReLU()),
        (4, 4, 4),
        0,
    ),
    "before convolution": (lambda: nn.Sequential(nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3, groups=2)), (4, 5, 5), 0),
    "before circular": (
        lambda: nn.Sequential(nn.BatchNorm2d(2), nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular")),
        (2, 5, 5),
        1,
    ),
    "before padded": (lambda: nn.Sequential(nn.BatchNorm2d(2), nn.Conv2d(2, 3, 3, padding=1)), (2, 5, 5), 1),
    "before transposed": (lambda: nn.Sequential(nn.BatchNorm2d(2), nn.ConvTranspose2d(2, 3, 3)), (2, 4, 4), 1),
    "linear on sequences": (lambda: nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(4), nn.Linear(5, 4)), (4, 3), 1),
    "shared": (Shared, (3,), 3),
    "alone": (lambda: nn.BatchNorm1d(3), (3,), 1),
}


@pytest.mark.parametrize("with_example", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_folding_keeps_the_function(name, with_example):
    make, shape, left = MODELS[name]
    torch.manual_seed(0)
    model, x = ready(make(), *shape)
    before = copy.deepcopy(model.state_dict())
    folded = merge_batchnorm(model, x) if with_example else merge_batchnorm(model)
    torch.testing.assert_close(folded(x), model(x), rtol=1e-9, atol=1e-9)
    assert not any(isinstance(m, NORMS) for m in folded.modules())
    assert sum(isinstance(m, ScaleShift) for m in folded.modules()) == left
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())


def test_folding_keeps_the_tiling():
    model = cases.model("batch norm")
    folded = ss.tessellate(merge_batchnorm(model, torch.zeros(1, 2)), cases.view("batch norm"))
    tiling = cases.tiling("batch norm")
    assert folded.count == tiling.count
    torch.testing.assert_close(*(torch.from_numpy(t.areas).sort().values for t in (folded, tiling)), atol=1e-9, rtol=0)


def test_bad_models_are_told():
    class Branches(nn.Sequential):
        def forward(self, x):
            return super().forward(x) if x.sum() > 0 else x

    with pytest.raises(ss.UnsupportedModelError, match="give one"):
        merge_batchnorm(Branches(nn.Linear(2, 2), nn.BatchNorm1d(2)).eval())
    with pytest.raises(ss.UnsupportedModelError, match="eval"):
        merge_batchnorm(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), torch.zeros(1, 2))
    with pytest.raises(ss.InputError, match="running statistics"):
        merge_batchnorm(nn.Sequential(nn.BatchNorm1d(2, track_running_stats=False)).eval(), torch.zeros(1, 2))


@needs_real_networks
def test_resnet_is_folded_whole():
    model, x = resnet20().double(), cifar_images()[0][:4].double()
    folded = merge_batchnorm(model)
    assert not any(isinstance(m, (ScaleShift, *NORMS)) for m in folded.modules())
    torch.testing.assert_close(folded(x), model(x), rtol=1e-9, atol=1e-9)
