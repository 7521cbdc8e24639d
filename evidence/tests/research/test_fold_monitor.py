"""Folds of single units in training: distances, speeds and pulls that are known by construction."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope_research import FoldMonitor


def classifier() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)).double()


def points(count: int = 40) -> torch.Tensor:
    return torch.randn(count, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_folds_of_the_first_layer_are_lines_at_their_exact_distance() -> None:
    net, x = classifier(), points()
    monitor = FoldMonitor(net, x)
    monitor.measure(0)
    weight, bias = net[0].weight.detach(), net[0].bias.detach()
    expected = ((x @ weight.T + bias).abs() / weight.norm(dim=1)).amin(0)
    np.testing.assert_allclose(monitor.tracks[0].to_data[:6], expected, rtol=1e-12)
    assert np.isnan(monitor.tracks[0].speed).all()


def test_a_fold_that_is_shifted_moves_by_that_much() -> None:
    net, x = classifier(), points()
    monitor = FoldMonitor(net, x)
    monitor.measure(10)
    shift = torch.linspace(0.1, 0.6, 6, dtype=torch.float64)
    with torch.no_grad():
        net[0].bias += shift
    monitor.measure(14)
    moved = shift / net[0].weight.detach().norm(dim=1)
    np.testing.assert_allclose(monitor.track("speed")[1, :6], moved / 4, rtol=1e-9)  # in four steps
    assert monitor.track("to_data").shape == (2, 11)


def test_folds_through_the_boundary_touch_it_and_others_do_not() -> None:
    """Two units, |x| in disguise: the class changes at x = 1, where the second unit folds, and nowhere else."""
    net = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 2)).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0], [1.0]]))
        net[0].bias.copy_(torch.tensor([5.0, -1.0]))
        net[2].weight.copy_(torch.tensor([[0.0, 0.0], [0.0, 1.0]]))
        net[2].bias.copy_(torch.tensor([1e-9, 0.0]))
    monitor = FoldMonitor(net, torch.tensor([[-2.0], [3.0], [-1.0], [4.0]]).double())
    monitor.measure(0)
    np.testing.assert_allclose(monitor.tracks[0].to_boundary, [6.0, 0.0], atol=1e-6)
    np.testing.assert_allclose(monitor.tracks[0].to_data, [3.0, 2.0])


def test_the_pull_is_the_gradient_by_the_pre_activation() -> None:
    net, x = classifier(), points()
    y = torch.arange(40) % 3
    monitor = FoldMonitor(net, x, y, loss=nn.functional.cross_entropy)
    record = monitor.measure(0)
    first = net[0](x).detach().requires_grad_()
    second = net[2](torch.relu(first))
    slopes = torch.autograd.grad(nn.functional.cross_entropy(net[4](torch.relu(second)), y), (first, second))
    expected = np.concatenate([s.abs().sum(0).numpy() for s in slopes])  # 40 times the mean: of one row's loss
    np.testing.assert_allclose(monitor.tracks[0].pull, expected, rtol=1e-12)
    assert record["1 3 relu/pull"] == pytest.approx(np.median(expected[6:]))
    assert all(p.grad is None for p in net.parameters())


LOSSES = {
    "mean": nn.CrossEntropyLoss(),
    "sum": nn.CrossEntropyLoss(reduction="sum"),
    "weighted": nn.CrossEntropyLoss(torch.tensor([1.0, 2.0, 3.0]).double()),
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_the_pull_does_not_depend_on_how_many_rows_there_are(loss) -> None:
    net, x, y = classifier(), points(), torch.arange(40) % 3
    pulls = []
    for times in (1, 5):
        monitor = FoldMonitor(net, x.repeat(times, 1), y.repeat(times), loss=loss, pairs=0)
        monitor.measure(0)
        pulls.append(monitor.tracks[0].pull)
    np.testing.assert_allclose(pulls[1], pulls[0], rtol=1e-9)


def test_the_pull_is_the_same_of_a_summed_and_of_an_averaged_loss() -> None:
    net, x, y = classifier(), points(), torch.arange(40) % 3
    pulls = []
    for name in ("sum", "mean"):
        monitor = FoldMonitor(net, x, y, loss=LOSSES[name], pairs=0)
        monitor.measure(0)
        pulls.append(monitor.tracks[0].pull)
    np.testing.assert_allclose(pulls[1], pulls[0], rtol=1e-9)
    odd = FoldMonitor(net, x, y, loss=lambda outputs, y: outputs.square().sum() ** 0.5, pairs=0)
    with pytest.raises(ss.InputError, match="a sum or a mean over the rows"):
        odd.measure(0)


def test_nothing_depends_on_the_order_of_the_rows() -> None:
    net, x, y = classifier(), points(), torch.arange(40) % 3
    with torch.no_grad():
        net[4].bias -= net(x).mean(0)  # so that all classes are predicted
        by_class = net(x).argmax(1).argsort()
    found = []
    for order in (torch.arange(40), torch.arange(39, -1, -1), by_class):
        monitor = FoldMonitor(net, x[order], y[order], loss=nn.functional.cross_entropy, pairs=25)
        record = monitor.measure(0)
        found.append(monitor.tracks[0])
        assert record["pairs"] == monitor.tracks[0].pairs == 25
    for other in found[1:]:
        for what in ("to_data", "to_boundary", "pull"):
            np.testing.assert_allclose(getattr(other, what), getattr(found[0], what), rtol=1e-9, err_msg=what)


def test_it_says_how_few_points_of_the_boundary_it_has() -> None:
    net, x = classifier(), points(6)
    with torch.no_grad():
        net[4].bias += torch.tensor([1e3, 0.0, 0.0])
    alone = FoldMonitor(net, x)
    assert alone.measure(0)["pairs"] == 0  # one class
    assert np.isnan(alone.tracks[0].to_boundary).all()


def test_activations_in_place_are_pulled_alike() -> None:
    net, x = classifier(), points()
    written = nn.Sequential(net[0], nn.ReLU(inplace=True), net[2], nn.ReLU(inplace=True), net[4])
    y = torch.arange(40) % 3
    pulls = []
    for model in (net, written):
        monitor = FoldMonitor(model, x, y, loss=nn.functional.cross_entropy)
        monitor.measure(0)
        pulls.append(monitor.tracks[0].pull)
    np.testing.assert_allclose(pulls[1], pulls[0], rtol=1e-12)


def test_what_it_cannot_follow_is_told() -> None:
    with pytest.raises(ss.InputError, match="both y and loss"):
        FoldMonitor(classifier(), points(), torch.zeros(40))
    with pytest.raises(ss.InputError, match="one row per point of x, 40, got 3"):
        FoldMonitor(classifier(), points(), torch.zeros(3).long(), loss=nn.functional.cross_entropy)
    each = FoldMonitor(classifier(), points(), torch.arange(40) % 3, loss=nn.CrossEntropyLoss(reduction="none"))
    with pytest.raises(ss.InputError, match=r"loss must return one number.*got shape \(40,\)"):
        each.measure(0)
    with pytest.raises(ss.InputError, match="what must be one of 'to_data'"):
        FoldMonitor(classifier(), points()).track("weight")
    with pytest.raises(ss.InputError, match="at least 3"):
        FoldMonitor(classifier(), points(2))
    single = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)).double()
    with pytest.raises(ss.InputError, match="pairs=0"):
        FoldMonitor(single, points()).measure(0)
    regression = FoldMonitor(single, points(), pairs=0)
    regression.measure(0)
    assert np.isnan(regression.tracks[0].to_boundary).all()


class Built(nn.Module):
    """Weights along the second axis, as many in as out; a layer norm before and one behind."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.turned = nn.Linear(2, 6), nn.Parameter(torch.randn(6, 6))
        self.before, self.behind = nn.LayerNorm(6), nn.LayerNorm(6)
        self.out = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.before(torch.relu(self.first(x))) @ self.turned
        return self.out(torch.relu(self.behind(torch.relu(x) @ self.turned)))


def gradients_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
    """By autograd alone, as a user would."""
    names, parameters = zip(*model.named_parameters(), strict=True)
    loss = nn.functional.cross_entropy(model(x), y)
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


def tracked_gradient(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> np.ndarray:
    monitor = FoldMonitor(model, x, y, loss=nn.functional.cross_entropy, pairs=0)
    record = monitor.measure(0)
    assert sum(name.endswith("/gradient") for name in record) == len(set(monitor.sites))
    assert all(p.grad is None for p in model.parameters())
    return monitor.track("gradient")[0]


def test_the_gradient_is_that_of_a_units_own_weights_and_bias() -> None:
    net, x, y = classifier(), points(), torch.arange(40) % 3
    found, g = tracked_gradient(net, x, y), gradients_of(net, x, y)
    rows = [torch.cat([g[f"{i}.weight"], g[f"{i}.bias"][:, None]], 1).norm(dim=1) for i in (0, 2)]
    np.testing.assert_allclose(found, torch.cat(rows), rtol=1e-9)


def test_rows_that_pull_against_each_other_cancel_in_the_gradient_alone() -> None:
    net = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1)).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.fill_(1.0)
    x, y = torch.ones(4, 1).double(), torch.tensor([[2.0], [4.0], [2.0], [4.0]]).double()  # it says 3 of all of them
    monitor = FoldMonitor(net, x, y, loss=nn.functional.mse_loss, pairs=0)
    monitor.measure(0)
    assert monitor.tracks[0].gradient == pytest.approx([0.0], abs=1e-12)
    assert monitor.tracks[0].pull == pytest.approx([2.0])


def test_a_convolutions_unit_has_its_channels_gradient_with_that_of_its_batch_norm() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(),
                        nn.Linear(16, 3)).double().eval()  # fmt: skip
    x, y = torch.randn(8, 1, 6, 6).double(), torch.arange(8) % 3
    monitor = FoldMonitor(net, x, y, loss=nn.functional.cross_entropy, pairs=0, statistics="running")
    monitor.measure(0)
    g = gradients_of(net, x, y)
    parts = [g["0.weight"].flatten(1), g["0.bias"][:, None], g["1.weight"][:, None], g["1.bias"][:, None]]
    np.testing.assert_allclose(
        monitor.tracks[0].gradient, torch.cat(parts, 1).norm(dim=1).repeat_interleave(4), rtol=1e-9
    )


def test_which_parameters_are_a_units_own_is_seen_and_not_guessed() -> None:
    torch.manual_seed(0)
    net = Built().double()
    x, y = points(), torch.arange(40) % 3
    found, g = tracked_gradient(net, x, y), gradients_of(net, x, y)
    np.testing.assert_allclose(found[6:12], g["turned"].norm(dim=0), rtol=1e-9)  # columns, and no layer norm before
    behind = torch.stack([g["behind.weight"], g["behind.bias"]]).norm(dim=0)  # it mixes what the weights say
    np.testing.assert_allclose(found[12:], behind, rtol=1e-9)


def test_what_is_not_trained_has_no_gradient_and_what_is_off_has_none() -> None:
    net, x, y = classifier(), points(), torch.arange(40) % 3
    net[0].requires_grad_(False)
    with torch.no_grad():
        net[2].bias -= 1e3
    found = tracked_gradient(net, x, y)
    assert np.isnan(found[:6]).all()
    assert (found[6:] == 0).all()


def test_a_neuron_that_bends_twice_has_two_folds_that_are_pulled_alike() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 6), nn.ReLU6(), nn.Linear(6, 3)).double()
    x, y = 5 * points(), torch.arange(40) % 3
    monitor = FoldMonitor(net, x, y, loss=nn.functional.cross_entropy)
    monitor.measure(0)
    for what in ("pull", "gradient"):
        values = monitor.track(what)[0]
        assert values.shape == monitor.track("to_data")[0].shape == (12,)
        np.testing.assert_array_equal(values[::2], values[1::2])
        assert len(set(values)) == 6


def test_parameters_before_another_fold_are_not_a_units_own() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)).double().eval()
    x, y = points(), torch.arange(40) % 3
    monitor = FoldMonitor(net, x, y, loss=nn.functional.cross_entropy, pairs=0, statistics="running")
    monitor.measure(0)
    g = gradients_of(net, x, y)
    np.testing.assert_allclose(monitor.tracks[0].gradient[6:], torch.hypot(g["2.weight"], g["2.bias"]), rtol=1e-9)
