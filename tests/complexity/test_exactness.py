"""What is called exact is: only where the network is affine up to the first fold met."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from splinescope.complexity import local_complexity

from .. import cases
from .models import mlp


@pytest.mark.parametrize("name", [n for n in cases.CASES if n != "no hidden layer"])
def test_second_derivatives_vanish_on_the_table(name: str) -> None:
    view = cases.view(name)
    x = view.inputs(view.domain[:2] / 3)
    assert all(local_complexity(cases.model(name), x, radius=0.1).affine)


class Product(nn.Module):
    """Quadratic before its only site."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(4, 6), nn.Linear(4, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.left(x) * self.right(x))


class WithoutGradients(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(4, 6)

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.map(x))


@pytest.mark.parametrize(
    ("model", "shape", "affine"),
    [
        (mlp(4, 6, 6, 2), (4,), (True, True)),
        (mlp(4, 6, 6, 2, activation=nn.GELU), (4,), (True, False)),
        (
            nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.LayerNorm(6), nn.ReLU(True), nn.Linear(6, 1)),
            (4,),
            (True, False),
        ),
        (nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval(), (3, 4), (False,)),
        (Product(), (4,), (False,)),
    ],
    ids=["relu", "gelu", "layer norm", "attention", "product"],
)
@pytest.mark.parametrize("method", ["frame", "distance"])
def test_counts_are_called_exact_only_where_the_network_is_affine(
    model: nn.Module, shape: tuple[int, ...], affine: tuple[bool, ...], method: str
) -> None:
    x = torch.zeros(3, *shape)
    found = local_complexity(model, x, radius=1e-9, method=method)
    assert found.affine == affine
    assert torch.equal(found.exact, torch.tensor([affine] * 3) & (found.counts.cumsum(1) == found.counts))
    assert all(p.grad is None for p in model.parameters())


def test_what_has_no_derivative_is_not_certain() -> None:
    assert local_complexity(WithoutGradients(), torch.zeros(1, 4), radius=0.1).affine == (False,)


@pytest.fixture(scope="module")
def pooled() -> nn.Sequential:
    """A convolution, a max-pool over overlapping windows, a clamp and pairs that are sorted."""
    torch.manual_seed(0)

    class Sorted(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.reshape(len(x), 2, 2).sort(-1).values.flatten(1)

    return nn.Sequential(
        nn.Conv2d(1, 2, 2), nn.Threshold(0.0, 0.0), nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(8, 4), nn.Hardtanh(),
        Sorted(), nn.Linear(4, 1),
    ).double()  # fmt: skip


@pytest.mark.parametrize("method", ["frame", "distance"])
def test_every_method_sees_the_same_sites_and_units(pooled: nn.Sequential, method: str) -> None:
    """One site per max-pool, one unit per window; two per clamped element; one per sorted pair."""
    x = torch.randn(2, 1, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found = local_complexity(pooled, x, radius=0.3, method=method)
    assert [(s.path, s.op, s.shape, s.units) for s in found.sites] == [
        ("1", "threshold", (2, 3, 3), 18),
        ("2", "max_pool2d", (2, 2, 2), 8),
        ("5", "hardtanh", (4,), 8),
        ("6", "sort", (2,), 2),
    ]
    assert found.counts.shape == (2, 4)


class Rounding(nn.Module):
    """Two ReLU layers with a step between or before them."""

    def __init__(self, step: Callable[[Tensor], Tensor], first: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.c = nn.Linear(3, 6), nn.Linear(6, 6), nn.Linear(6, 1)
        self.step, self.first = step, first

    def forward(self, x: Tensor) -> Tensor:
        x = self.step(x) if self.first else x
        x = self.a(x).relu()
        return self.c(self.b(x if self.first else self.step(x)).relu())


@pytest.mark.parametrize("method", ["frame", "distance"])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    "step",
    [
        lambda x: x.half().float(),
        lambda x: x.to(torch.bfloat16).to(x),
        lambda x: x + (x.round() - x).detach(),
        lambda x: torch.where(x > 0.3, x, 0.3),
    ],
)
def test_nothing_is_exact_behind_a_call_that_makes_steps(step, first: bool, method: str) -> None:
    net, x = Rounding(step, first).eval(), torch.randn(4, 3)
    found = local_complexity(net, x, radius=1e-3, method=method)
    assert found.affine == (not first, False)
    assert found.certainty != "exact"
    assert local_complexity(Rounding(lambda x: 2 * x, first).eval(), x, radius=1e-3, method=method).affine == (
        True,
        True,
    )
    assert all(parameter.requires_grad for parameter in net.parameters())


def test_rounded_weights_are_constants() -> None:
    class Quantized(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.linear(x, self.weight.mul(8).round().div(8), self.bias)

    net = nn.Sequential(Quantized(3, 6), nn.ReLU(), nn.Linear(6, 1)).eval()
    assert local_complexity(net, torch.randn(4, 3), radius=0.1).affine == (True,)


@pytest.mark.parametrize("method", ["frame", "distance"])
def test_a_neuron_that_bends_twice_is_one(method: str) -> None:
    """ReLU6 of x and of 3 x, at 0 and at 6: the folds are those of x = 0, of x = 6 and of x = 2."""
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU6(), nn.Linear(2, 1)).double().eval()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 0.0], [3.0, 0.0]]))
    x = torch.tensor([[1.0, 0.0], [50.0, 0.0]], dtype=torch.float64)
    directions = torch.eye(2, dtype=torch.float64) if method != "distance" else None
    found = local_complexity(net, x, radius=1.5, method=method, directions=directions)
    assert [(site.op, site.units, site.neurons) for site in found.sites] == [("relu6", 4, 2)]
    assert found.counts[:, 0].tolist() == [3, 0]
    assert found.neurons[:, 0].tolist() == [2, 0]
    assert found.share.tolist() == [1.0, 0.0]
    assert "of 2 neurons" in repr(found)
