"""The optimizer of the pieces: laws of its steps, and the ball in which one quadratic is the loss."""

from __future__ import annotations

import copy
from itertools import pairwise

import numpy as np
import pytest
import torch
from tests.landscape.networks import CASES, case, parameters
from torch import nn

import splinescope as ss
from splinescope_research import LayerwiseDescent, loss_section
from splinescope_research.loss.break_distance import break_distance


def mean_squared(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    with torch.no_grad():
        return float((model(x) - y).square().sum() / len(x))


def best_affine(x: torch.Tensor, y: torch.Tensor) -> float:
    rows = np.concatenate([x.numpy(), np.ones((len(x), 1))], 1)
    fitted = rows @ np.linalg.lstsq(rows, y.numpy(), rcond=None)[0]
    return float(np.square(fitted - y.numpy()).sum() / len(x))


@pytest.mark.parametrize("widths", [(3, 2), (3, 5, 4, 2)], ids=["one layer", "three layers"])
@pytest.mark.parametrize("region", ["line", "ball"])
def test_a_linear_network_is_solved_in_one_step(widths, region):
    torch.manual_seed(0)
    layers = [nn.Linear(a, b) for a, b in pairwise(widths)]
    model = nn.Sequential(*layers).double().eval()
    x, y = torch.randn(30, 3).double(), torch.randn(30, 2).double()
    loss = LayerwiseDescent(model, region=region).step(x, y)
    assert loss == pytest.approx(best_affine(x, y), rel=1e-9)
    assert mean_squared(model, x, y) == pytest.approx(loss, rel=1e-12)


@pytest.mark.parametrize("region", ["line", "ball"])
@pytest.mark.parametrize("data", ["breast cancer", "columns of 1e-7 to 1e7", "columns of 1e-12 to 1e12"])
def test_one_linear_layer_is_solved_in_one_step_however_badly_conditioned_the_data(data, region):
    if data == "breast cancer":
        bunch = pytest.importorskip("sklearn.datasets", reason="no scikit-learn, which has the data")
        x, y = (torch.as_tensor(a).double() for a in bunch.load_breast_cancer(return_X_y=True))
        y, least = y[:, None], best_affine(x, y[:, None])
    else:
        far = 7 if data.endswith("1e7") else 12
        even = torch.randn(60, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        y = even @ torch.arange(12.0, dtype=torch.float64).reshape(6, 2) + even[:, :2].square()
        x = even * torch.logspace(-far, far, 6, dtype=torch.float64)
        least = best_affine(even, y)  # a column's scale changes nothing that can be fitted
    torch.manual_seed(0)
    model = nn.Linear(x.shape[1], y.shape[1]).double().eval()
    assert LayerwiseDescent(model, region=region).step(x, y) == pytest.approx(least, rel=1e-8)


@pytest.mark.parametrize("widths", [(5, 2, 2), (3, 5, 2), (4, 4, 3, 3)])
def test_linear_layers_are_solved_in_one_step_if_one_sees_all_inputs_and_reaches_all_outputs(widths):
    torch.manual_seed(1)
    model = nn.Sequential(*(nn.Linear(a, b) for a, b in pairwise(widths))).double().eval()
    x, y = torch.randn(40, widths[0]).double(), torch.randn(40, widths[-1]).double()
    assert LayerwiseDescent(model).step(x, y) == pytest.approx(best_affine(x, y), rel=1e-9)


def test_a_bottleneck_narrower_than_inputs_and_outputs_takes_more_than_one_step():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 1), nn.Linear(1, 3)).double().eval()
    x = torch.randn(40, 4).double()
    y = x[:, :3] * torch.tensor([2.0, 1.0, 0.5]).double()
    optimizer = LayerwiseDescent(model)
    losses = [optimizer.step(x, y) for _ in range(40)]
    centered = y - y.mean(0)
    least = float(torch.linalg.svdvals(centered)[1:].square().sum() / len(x))  # y is linear in x: its best rank 1
    assert losses[0] > 1.01 * least
    assert losses[-1] == pytest.approx(least, rel=1e-6)


def test_of_a_module_with_a_child_its_own_parameters_are_moved_and_the_child_in_its_turn():
    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shift = nn.Parameter(torch.zeros(2))
            self.inner = nn.Linear(3, 2, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x) + self.shift

    torch.manual_seed(0)
    x, y = torch.randn(30, 3).double() + 1, torch.randn(30, 2).double() + 3
    for model, path in [(Shifted(), ""), (nn.Sequential(Shifted()), "0")]:
        model = model.double().eval()
        start = copy.deepcopy(parameters(model))
        optimizer = LayerwiseDescent(model)
        LayerwiseDescent(model, layers=[path]).step(x, y)
        moved = [name for name, value in parameters(model).items() if not torch.equal(value, start[name])]
        assert moved == [f"{path}.shift".strip(".")]
        losses = [optimizer.step(x, y) for _ in range(60)]
        assert losses[-1] == pytest.approx(best_affine(x, y), rel=1e-6)
    with pytest.raises(ss.InputError, match="must not share parameters"):
        LayerwiseDescent(model, layers=["0.inner", "0.inner"])


def test_with_a_limit_on_products_and_without_the_same_minimum_is_sought():
    model, x, y, layer = case("mlp, first layer", points=12)
    other = copy.deepcopy(model)
    direct = LayerwiseDescent(model, layers=[layer]).step(x, y)
    assert LayerwiseDescent(other, layers=[layer], products=500).step(x, y) == pytest.approx(direct, rel=1e-6)


@pytest.mark.parametrize("name", [name for name in CASES if "prelu" not in name and "batch norm" not in name])
def test_the_loss_never_rises_and_only_the_chosen_layer_moves(name):
    model, x, y, layer = case(name, points=12)
    optimizer = LayerwiseDescent(model, layers=[layer])
    before = mean_squared(model, x, y)
    start = copy.deepcopy(parameters(model))
    losses = [optimizer.step(x, y) for _ in range(3)]
    assert before >= losses[0] * (1 - 1e-12)
    assert (np.diff(losses) <= 1e-12 * before).all()
    assert losses[-1] == pytest.approx(mean_squared(model, x, y), rel=1e-10)
    moved = {path for path, value in parameters(model).items() if not torch.equal(value, start[path])}
    assert moved
    assert all(path.startswith(f"{layer}.") for path in moved)


def test_a_step_on_a_line_ends_at_the_exact_minimum_of_that_line():
    model, x, y, layer = case("mlp, first layer", points=20)
    start = copy.deepcopy(model)
    loss = LayerwiseDescent(model, layers=[layer], products=3).step(x, y)
    way = {
        k: v - dict(start.named_parameters())[k].detach() for k, v in parameters(model).items() if k.startswith("0.")
    }
    section = loss_section(start, x, y, way, span=(0.0, 2.0))
    assert section.minimum[0] == pytest.approx(loss, rel=1e-9)
    assert section.minimum[1] == pytest.approx([1.0], abs=1e-9)


@pytest.mark.parametrize("layer", ["0", "2"])
def test_no_pattern_changes_within_the_distance_and_one_does_beyond_it(layer):
    model, x, _, _ = case("mlp, first layer", points=8)
    found = break_distance(model, x, layer)
    network = ss.trace(model, x[:1])
    patterns = [p.copy() for p in network.program().patterns(x)]

    def same(change: dict[str, torch.Tensor]) -> bool:
        moved = {name: parameters(model)[name] + v for name, v in change.items()}
        there = network.program(moved).patterns(x)
        return all((a == b).all() for a, b in zip(patterns, there, strict=True))

    generator = torch.Generator().manual_seed(0)
    for _ in range(200):
        change = {
            name: torch.randn(v.shape, generator=generator, dtype=torch.float64)
            for name, v in parameters(model).items()
            if name.startswith(f"{layer}.")
        }
        size = float(torch.cat([v.flatten() for v in change.values()]).norm())
        assert same({name: 0.999 * found.radius / size * v for name, v in change.items()})
    # the shortest way out: against the gradient of the unit that is said to change first, by autograd
    copied = copy.deepcopy(model)
    own = [p for name, p in copied.named_parameters() if name.startswith(f"{layer}.")]
    upto = {"0 relu": 1, "1 relu": 1, "2 leaky_relu": 3, "3 leaky_relu": 3}
    z = copied[: upto[found.site]](x)[found.point, found.unit]
    slopes = torch.autograd.grad(z, own)
    size = float(torch.cat([s.flatten() for s in slopes]).norm())
    assert found.radius == pytest.approx(abs(float(z.detach())) / size, rel=1e-9)
    out = {
        name: -float(z.detach().sign()) * 1.001 * found.radius / size * s
        for name, s in zip([n for n in parameters(model) if n.startswith(f"{layer}.")], slopes, strict=True)
    }
    assert not same(out)


def test_in_the_ball_the_loss_is_the_quadratic_that_was_minimized():
    model, x, y, layer = case("mlp, first layer", points=8)
    start = copy.deepcopy(model)
    radius = break_distance(model, x, layer).radius
    LayerwiseDescent(model, layers=[layer], region="ball").step(x, y)
    way = {
        k: v - dict(start.named_parameters())[k].detach() for k, v in parameters(model).items() if k.startswith("0.")
    }
    assert float(torch.cat([v.flatten() for v in way.values()]).norm()) <= radius * (1 + 1e-12)
    assert loss_section(start, x, y, way, span=(0.0, 1.0)).count == 1
    assert mean_squared(model, x, y) < mean_squared(start, x, y)


def test_float32_is_trained_and_left_as_it_was_otherwise():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 1)).eval()
    x, y = torch.randn(20, 2), torch.randn(20, 1)
    optimizer = LayerwiseDescent(model, products=5)
    losses = [optimizer.step(x, y) for _ in range(4)]
    assert losses[-1] < losses[0]
    assert all(p.dtype == torch.float32 and p.requires_grad and p.grad is None for p in model.parameters())


@pytest.mark.parametrize("region", ["line", "ball"])
def test_parameters_that_require_no_gradients_stay(region):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 1)).double().eval()
    x, y = torch.randn(20, 2).double(), torch.randn(20, 1).double()
    model[0].requires_grad_(False)
    model[2].bias.requires_grad_(False)
    optimizer = LayerwiseDescent(model, region=region)
    model[4].requires_grad_(False)  # what counts is how it is at the step
    start = copy.deepcopy(parameters(model))
    before = mean_squared(model, x, y)
    assert optimizer.step(x, y) < before
    moved = [name for name, value in parameters(model).items() if not torch.equal(value, start[name])]
    assert moved == ["2.weight"]
    model.requires_grad_(False)
    assert optimizer.step(x, y) == pytest.approx(mean_squared(model, x, y), rel=1e-12)
    with pytest.raises(ss.InputError, match="none that require gradients"):
        LayerwiseDescent(model)


def test_what_it_cannot_do_is_refused():
    model, x, y, _ = case("convnet, convolution", points=3)
    with pytest.raises(ss.InputError, match=r"nn\.Linear"):
        LayerwiseDescent(model, region="ball")
    with pytest.raises(ss.InputError, match="'line', 'ball'"):
        LayerwiseDescent(model, region="box")
    with pytest.raises(ss.InputError, match="layer with parameters"):
        LayerwiseDescent(nn.Sequential(nn.ReLU()))
    with pytest.raises(ss.InputError, match="shape of the outputs"):
        LayerwiseDescent(model).step(x, y[:, :1])
