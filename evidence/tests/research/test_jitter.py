"""Minibatch noise: its law, its networks, its boundaries."""

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.normalization import with_statistics
from splinescope_research import boundary_jitter, fold_jitter
from splinescope_research.normalization.jitter import minibatch_networks


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(2, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)
    ).double()


def points(n: int = 100) -> torch.Tensor:
    return torch.randn(n, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_folds_jitter_by_the_rms_distance_over_root_b():
    """First layer: 16 units x 600 draws; the mean of the ratios has an error of about 1 %."""
    for batch_size in (8, 50):
        first, second = fold_jitter(
            network(), points(), batch_size, draws=600, generator=torch.Generator().manual_seed(0)
        )
        assert (first.measured / first.predicted).mean() == pytest.approx(1, abs=0.05)
        assert second.measured.shape == (8,)
        np.testing.assert_allclose(first.predicted, first.deviation * np.sqrt((100 - batch_size) / 99 / batch_size))


def test_predicted_spread_over_the_norm_of_the_weights_is_the_rms_distance_over_root_b():
    net, x = network(), points()
    with torch.no_grad():
        net[0].weight *= torch.linspace(0.5, 4, 16)[:, None]
    distances = ss.normalization.fold_distances(with_statistics(net, x), x)[0].best_rms
    law = distances / np.sqrt(10) * np.sqrt(90 / 99)
    predicted = fold_jitter(net, x, 10, draws=1)[0].predicted
    np.testing.assert_allclose(predicted / net[0].weight.detach().norm(dim=1).numpy(), law, rtol=1e-9)


def test_batches_without_a_generator_leave_the_global_one():
    net, state = network(), torch.get_rng_state()
    first, second = (fold_jitter(net, points(), 10, draws=2)[0].measured for _ in range(2))
    assert (first == second).all()
    assert torch.equal(state, torch.get_rng_state())


def test_the_whole_population_does_not_jitter():
    found = fold_jitter(network(), points(), 100, draws=3)
    assert max(j.measured.max() for j in found) < 1e-12
    assert max(j.predicted.max() for j in found) == 0


def test_boundaries_move_less_with_larger_batches():
    view = ss.Slice.axes([0.0, 0.0], (0, 1), -2.0, 2.0)
    small, large = (
        boundary_jitter(
            network(), points(), b, view, points()[:50], draws=6, generator=torch.Generator().manual_seed(0)
        )
        for b in (6, 60)
    )
    assert small.margins.shape == (6, 50)
    assert np.abs(small.margins - small.full_margins).mean() > 1.5 * np.abs(large.margins - large.full_margins).mean()
    assert small.flips.mean() > large.flips.mean()
    assert small.full.length == large.full.length > 0


def test_bad_input_is_told():
    with pytest.raises(ss.InputError, match="batch_size"):
        list(minibatch_networks(network(), points(), 1, 3))


def test_behind_a_normalized_relu_layer_the_jitter_is_that_of_the_third_hermite_component_on():
    """Gaussian, independent pre-activations: sqrt((1/4 - 3/(4 pi)) / (1/2 - 1/(2 pi))) of the first layer's law."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Identity(), nn.BatchNorm1d(60), nn.ReLU(), nn.Linear(60, 12), nn.BatchNorm1d(12)).double()
    x = torch.randn(4000, 60, dtype=torch.float64)
    first, second = fold_jitter(net, x, 64, draws=150)
    closed = np.sqrt((1 / 4 - 3 / (4 * np.pi)) / (1 / 2 - 1 / (2 * np.pi)))
    law = second.deviation * np.sqrt((4000 - 64) / (3999 * 64))
    assert closed == pytest.approx(0.1818, abs=1e-4)
    assert (second.predicted / law).mean() == pytest.approx(closed, rel=0.03)  # 4000 rows estimate the components
    assert (second.measured / second.predicted).mean() == pytest.approx(1, rel=0.1)  # 150 draws, 1 + O(1/B)
    np.testing.assert_allclose(first.predicted, first.deviation * np.sqrt((4000 - 64) / (3999 * 64)), rtol=1e-9)


@pytest.mark.parametrize(("batch_size", "deviation", "about_full"), [(8, 0.156, 0.171), (16, 0.171, 0.177)])
def test_what_is_measured_behind_a_norm_is_about_the_mean_of_all_data_with_its_bias(
    batch_size: int, deviation: float, about_full: float
) -> None:
    """Numbers of a simulation of one batch-normalized Gaussian unit alone; 40 of them, 400 draws: errors of 1 %."""
    net = nn.Sequential(nn.BatchNorm1d(40), nn.ReLU(), nn.Linear(40, 40, bias=False), nn.BatchNorm1d(40)).double()
    with torch.no_grad():
        net[2].weight.copy_(torch.eye(40))  # each unit by itself, as in the simulation
    x = torch.randn(4000, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    second = fold_jitter(net, x, batch_size, draws=400, generator=torch.Generator().manual_seed(3))[1]
    law = second.deviation * np.sqrt((4000 - batch_size) / (3999 * batch_size))
    drawn = minibatch_networks(net, x, batch_size, 400, generator=torch.Generator().manual_seed(3))
    offsets = np.array([one.get_submodule("3").running_mean.numpy() for one in drawn])
    full = with_statistics(net, x).get_submodule("3").running_mean.numpy()
    np.testing.assert_allclose(second.measured**2, offsets.var(0) + (offsets.mean(0) - full) ** 2, rtol=1e-9)
    assert np.sqrt(np.mean((offsets.std(0) / law) ** 2)) == pytest.approx(deviation, rel=0.025)
    assert np.sqrt(np.mean((second.measured / law) ** 2)) == pytest.approx(about_full, rel=0.025)


def test_predictions_hold_behind_convolutions_and_trained_scales_too():
    torch.manual_seed(1)
    net = nn.Sequential(
        *(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.GELU(), nn.Conv2d(4, 5, 3), nn.BatchNorm2d(5), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(45, 6), nn.BatchNorm1d(6)),
    ).double()
    with torch.no_grad():
        for norm in (net[1], net[4]):
            norm.weight.uniform_(0.5, 2)
            norm.bias.uniform_(-1, 1)
    x = torch.randn(300, 1, 7, 7, dtype=torch.float64)
    for found in fold_jitter(net, x, 60, draws=300):
        assert (found.measured / found.predicted).mean() == pytest.approx(1, rel=0.12), found.path
