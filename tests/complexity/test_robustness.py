"""Attacks against exact distances in the plane, and masked gradients that must be seen through."""

import pytest
import torch
from torch import Tensor, nn

import splinescope as ss
from splinescope.complexity import robustness

from .models import mlp


@pytest.fixture(scope="module")
def rings() -> tuple[nn.Module, Tensor, Tensor, Tensor]:
    """A trained 2-D classifier, points, labels, and the exact L2 distance of each point to the boundary."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(300, 2, generator=generator) * 4 - 2
    y = (x.norm(dim=1) > 1.2).long()
    model = mlp(2, 16, 16, 2)
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(200):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    x = x[:100]
    tiling = ss.tessellate(model, ss.Slice.axes([0.0, 0.0], (0, 1), -6, 6))
    with torch.no_grad():
        labels = model(x).argmax(1)
    return model, x, labels, torch.from_numpy(tiling.margin(x.double()))


def test_attacks_never_beat_the_exact_distance_and_nearly_reach_it(rings: tuple) -> None:
    model, x, labels, distance = rings
    epsilons = [0.4, 0.05, 0.1, 0.2]
    found = robustness(model, x, labels, epsilons=epsilons, norm="l2", steps=40, restarts=4)
    for e, survived in zip(epsilons, found.survived, strict=True):
        assert survived[distance > e * 1.0001].all()  # float32 rounding of the perturbation
        assert (~survived[distance < 0.9 * e]).double().mean() > 0.95  # local search may miss a few
    assert found.clean == 1.0
    assert found.accuracy[1] >= found.accuracy[2] >= found.accuracy[3] >= found.accuracy[0]
    assert not found.masked


def test_attacks_on_a_linear_map_of_four_classes_reach_the_exact_distance() -> None:
    """Cells of a linear classifier are convex: an attack on the margin has no excuse."""
    generator = torch.Generator().manual_seed(0)
    model = nn.Linear(3, 4).double()
    with torch.no_grad():
        model.weight.copy_(torch.randn(4, 3, generator=generator))
        x = torch.randn(60, 3, generator=generator, dtype=torch.float64)
        scores = model(x)
        labels = scores.argmax(1)
        gaps = scores.gather(1, labels[:, None]) - scores
        lengths = (model.weight[labels][:, None] - model.weight).norm(dim=2)
        distance = (gaps / lengths).scatter(1, labels[:, None], torch.inf).amin(1)
    found = robustness(model, x, labels, epsilons=[0.3], norm="l2", steps=60, restarts=2, queries=1)
    broken = ~found.survived[0]
    assert not broken[distance > 0.3].any()
    assert broken[distance < 0.29].all()


class Stairs(nn.Module):
    """Rounds its input: the function is the same up to a step, its gradient is zero everywhere."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net((x * 50).round() / 50)


def test_masked_gradients_are_reported_not_taken_for_robustness(rings: tuple) -> None:
    model, x, labels, _ = rings
    found = robustness(Stairs(model), x, labels, epsilons=[0.3], norm="linf")
    assert found.masked
    assert found.zero_gradients > 0.5
    assert any("random search breaks" in sign for sign in found.signs)
    assert float(found.gradient[0]) > float(found.accuracy[0]) + 0.1


def test_points_that_break_a_twin_see_through_masked_gradients(rings: tuple) -> None:
    """Rounding hides the gradient and leaves the function: what breaks the plain network breaks the rounding one."""
    model, x, labels, distance = rings
    hidden = Stairs(model)
    with torch.no_grad():
        same = hidden(x).argmax(1) == labels
    alone = robustness(hidden, x, labels, epsilons=[0.3], norm="l2", queries=1)
    told = robustness(hidden, x, labels, epsilons=[0.3], norm="l2", queries=1, transfer_from=[model])
    assert alone.transfer is None
    assert float(told.gradient[0]) == float(alone.gradient[0]) > 0.9 * float(same.double().mean())
    assert float(told.accuracy[0]) <= float((distance > 0.25).double().mean())
    assert any("break other models" in sign for sign in told.signs)
    assert "transferred" in told.summary()
    assert not told.survived[0][distance < 0.2].any()
    with pytest.raises(ss.InputError, match="transfer_from must be"):
        robustness(model, x, labels, epsilons=[0.3], transfer_from=["net"])


def test_a_curve_that_never_falls_is_suspect() -> None:
    class Constant(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.stack([torch.ones(len(x)), 1e-6 * x.sum(1)], 1)

    found = robustness(Constant(), torch.randn(20, 3), torch.zeros(20), epsilons=[5.0])
    assert any("as large as the data's spread" in sign for sign in found.signs)


def test_one_score_means_two_classes_and_modes_are_kept() -> None:
    model = nn.Sequential(nn.Linear(2, 1), nn.Flatten(0)).train()
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0, 0.0]]))
        model[0].bias.zero_()
    x = torch.tensor([[0.5, 0.0], [-0.2, 1.0]])
    found = robustness(model, x, torch.tensor([1, 0]), epsilons=[0.1, 0.3, 0.6], norm="l2")
    assert found.accuracy.tolist() == [1.0, 0.5, 0.0]
    assert model.training
    assert model[0].weight.grad is None
    assert not x.requires_grad


def test_gradients_are_switched_on_wherever_the_attack_is_called(rings: tuple) -> None:
    model, x, labels, _ = rings
    found = robustness(model, x, labels, epsilons=[0.2]).gradient
    with torch.inference_mode():
        assert torch.equal(robustness(model, x + 0, labels + 0, epsilons=[0.2]).gradient, found)


def test_traced_networks_are_attacked_like_their_modules(rings: tuple) -> None:
    model, x, labels, _ = rings
    found = robustness(ss.trace(model, x[:1]), x, labels, epsilons=[0.2])
    assert torch.equal(found.survived, robustness(model, x, labels, epsilons=[0.2]).survived)


def test_bounds_hold() -> None:
    model = nn.Linear(2, 1)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, 0.0]]))
        model.bias.zero_()
    x = torch.tensor([[0.2, 0.5]])
    kept = robustness(model, x, torch.tensor([1]), epsilons=[1.0], bounds=(0.1, 1.0))
    assert kept.accuracy.tolist() == [1.0]


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ss.InputError, match="epsilons must be a positive number, got 0"):
        robustness(mlp(2, 4, 2), torch.zeros(1, 2), torch.zeros(1), epsilons=[0.0])
    with pytest.raises(ss.InputError, match=r"model must be a torch\.nn\.Module or"):
        robustness("net", torch.zeros(1, 2), torch.zeros(1), epsilons=[0.1])
    model, x = nn.Linear(2, 2), torch.zeros(3, 2)
    with pytest.raises(ss.InputError, match="as many y"):
        robustness(model, x, torch.zeros(2), epsilons=[0.1])
    with pytest.raises(ss.InputError, match="norm must be"):
        robustness(model, x, torch.zeros(3), epsilons=[0.1], norm="l1")  # type: ignore[arg-type]
    with pytest.raises(ss.InputError, match=r"shape \(N, C\)"):
        robustness(nn.Unflatten(1, (1, 2)), x, torch.zeros(3), epsilons=[0.1])
    for wrong, message in (
        ({"y": torch.tensor([0, 7])}, "y must be classes 0 to 1, got 0 to 7"),
        ({"steps": 0}, "steps must be a whole number >= 1"),
        ({"restarts": 0}, "restarts must be"),
        ({"queries": 2.5}, "queries must be"),
        ({"bounds": (1.0, 0.0)}, "low < high"),
        ({"bounds": (0.0, 0.5)}, "must lie within bounds"),
    ):
        with pytest.raises(ss.InputError, match=message):
            robustness(nn.Linear(3, 2), torch.ones(2, 3), **{"y": torch.zeros(2), "epsilons": 0.1, **wrong})
