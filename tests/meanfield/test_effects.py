"""Section 4: what the metric does to training; and Theorem 4's rate."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from splinescope import InputError
from splinescope.meanfield import GaussianInputs, TwoLayerBN, convergence_study
from splinescope.meanfield.convergence import Rate
from splinescope.meanfield.effects import first_step, learning_rate_study, speed_by_direction, speed_by_length

from .problems import ACTIVATIONS, problem

SIGMA = torch.diag(torch.tensor([5.0, 1.0], dtype=torch.float64))


def test_batch_norm_turns_faster_where_the_data_varies_least() -> None:
    generator = torch.Generator().manual_seed(0)
    data = GaussianInputs(SIGMA).sample(4000, lambda x: torch.relu(x[:, 0]), generator=generator)
    batch_norm, plain = speed_by_direction(data).anisotropy()
    assert 20 < batch_norm < 60  # population value near 34
    assert 3 < plain < 6


def test_directions_are_those_of_the_covariance() -> None:
    """Turning the data turns the speeds."""
    generator = torch.Generator().manual_seed(0)
    turn = torch.tensor([[0.6, -0.8], [0.8, 0.6]], dtype=torch.float64)
    straight = GaussianInputs(SIGMA).sample(500, lambda x: torch.relu(x[:, 0]), generator=generator)
    turned = type(straight)(straight.x @ turn.T, straight.y, straight.weights, turn @ SIGMA @ turn.T)
    # a grid of 3600 angles moves by a fraction of a cell
    speeds = [speed_by_direction(d, angles=3600).anisotropy() for d in (straight, turned)]
    assert np.allclose(speeds[0], speeds[1], rtol=0.02)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_speed_falls_with_the_length_for_any_activation(activation: object) -> None:
    net, data = problem(0, activation=activation)
    factors = np.array([0.1, 0.5, 2.0, 10.0])
    speeds = speed_by_length(net, data, factors=factors)
    assert np.allclose(speeds.batch_norm, 1 / factors[:, None], rtol=1e-12)
    if activation in ("relu", "leaky_relu"):
        assert np.allclose(speeds.plain, 1, rtol=1e-12)
    else:
        assert not np.allclose(speeds.plain, 1, rtol=1e-3)


def test_short_neurons_leap_in_the_first_step() -> None:
    net, data = problem(1)
    step = first_step(net, data, lengths=[1e-3, 1e-2, 0.1, 1.0], rate=0.05)
    assert np.allclose(step.after, step.predicted, rtol=1e-12)
    assert (step.after >= np.sqrt(2 * step.push) * (1 - 1e-12)).all()
    longer = step.before[:, None] < np.sqrt(step.push)[None, :]
    assert (step.after[0] > step.after[1]).all()
    assert longer[:2].all()


def test_batch_norm_tolerates_more_learning_rates() -> None:
    generator = torch.Generator().manual_seed(0)
    data = GaussianInputs(SIGMA).sample(100, lambda x: torch.relu(x[:, 0]), generator=generator)
    normal = torch.randn(20, 3, generator=generator, dtype=torch.float64)
    net = TwoLayerBN(5 * normal[:, 0], normal[:, 1:], "relu")
    rates = np.logspace(-3, 3, 13)
    both = learning_rate_study(net, data, rates=rates, iterations=60)
    assert both.workable_decades()[0] > both.workable_decades()[1] + 0.9
    assert np.isinf(both.plain[-1])  # divergence is recorded, not raised
    inner = learning_rate_study(net, data, rates=rates, iterations=60, train_amplitudes=False)
    assert (inner.batch_norm < inner.start).all()  # no rate is too large for the inner weights
    assert np.isinf(inner.plain[-1])


def circle_start(m: int, generator: torch.Generator) -> TwoLayerBN:
    phi = 2 * torch.pi * torch.rand(m, generator=generator, dtype=torch.float64)
    return TwoLayerBN(torch.zeros(m), torch.stack([phi.cos(), phi.sin()], 1), "tanh")


def test_theorem_4_measures_converge_as_the_width_grows() -> None:
    data = GaussianInputs(SIGMA / 2).quadrature(lambda x: torch.sin(x[:, 0]), order=10)
    study = convergence_study([8, 16, 32, 64], data, circle_start, time=2.0, seeds=range(16), rtol=1e-5)
    for quantity in ("start", "end", "lipschitz", "outputs"):
        rate = study.rate(quantity)
        assert rate.low < -0.5 < rate.high or abs(rate.slope + 0.5) < 0.2, quantity
        if quantity != "outputs":  # differences of functions vary too much from start to start for sixteen of them
            assert rate.high < 0, quantity


def test_the_interval_of_a_rate_holds_where_distances_share_their_run() -> None:
    """Each start has an error of its own that all its distances share: an interval over distances covers too little."""
    widths = np.array([8, 16, 32, 64, 128])
    rng = np.random.default_rng(1)

    def study() -> Rate:
        own_slopes = -0.5 + 0.3 * rng.standard_normal((6, 1))  # what one draw of starts does to its whole curve
        return Rate.fit(widths, np.exp(own_slopes * np.log(widths) + 0.02 * rng.standard_normal((6, 5))))

    covered = np.mean([fit.low < -0.5 < fit.high for fit in (study() for _ in range(400))])
    assert covered == pytest.approx(0.95, abs=0.035)


def test_a_single_start_says_nothing_about_the_error_of_a_rate() -> None:
    rate = Rate.fit(np.array([8, 16]), np.array([[0.4, 0.2]]))
    assert rate.slope == pytest.approx(-1)
    assert (rate.low, rate.high) == (-np.inf, np.inf)


def test_one_number_serves_as_a_list_of_one() -> None:
    net, data = problem(0)
    assert speed_by_length(net, data, factors=2.0).batch_norm == pytest.approx(0.5, rel=1e-13)
    assert first_step(net, data, lengths=0.1, rate=0.1).after.shape == (1, net.width)


def test_bad_studies_are_refused() -> None:
    net, data = problem(0)
    for rates in (0.1, [0.1], [1.0, 0.1]):
        with pytest.raises(InputError, match="rates must be at least two increasing"):
            learning_rate_study(net, data, rates=rates, iterations=1)
    with pytest.raises(InputError, match="widths must be a whole number"):
        convergence_study([8.5, 16, 32], data, circle_start, time=1.0)
    with pytest.raises(InputError, match="seeds"):
        convergence_study([8, 16, 32], data, circle_start, time=1.0, seeds=())
    with pytest.raises(InputError, match="three increasing"):
        convergence_study([8, 16], data, circle_start, time=1.0)
    with pytest.raises(InputError, match="two-dimensional"):
        speed_by_direction(data)
    with pytest.raises(InputError, match="positive"):
        first_step(net, data, lengths=[0.0], rate=0.1)
