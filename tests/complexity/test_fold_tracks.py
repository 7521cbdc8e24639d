"""Folds of single units in training: distances, speeds and pulls that are known by construction."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.complexity import FoldMonitor


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
    with pytest.raises(ss.InputError, match="what must be one of 'to_data'"):
        FoldMonitor(classifier(), points()).track("weight")
    with pytest.raises(ss.InputError, match="at least 2"):
        FoldMonitor(classifier(), points(1))
    single = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)).double()
    with pytest.raises(ss.InputError, match="pairs=0"):
        FoldMonitor(single, points()).measure(0)
    regression = FoldMonitor(single, points(), pairs=0)
    regression.measure(0)
    assert np.isnan(regression.tracks[0].to_boundary).all()
