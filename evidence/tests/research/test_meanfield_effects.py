"""Section 4: what the metric does to training; and the separation condition of Theorem 5."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.meanfield.problems import ACTIVATIONS, problem

from splinescope import InputError
from splinescope.meanfield import GaussianInputs, TwoLayer, TwoLayerBN
from splinescope_research.meanfield.meanfield_effects import (
    LearningRateStudy,
    first_step,
    learning_rate_study,
    speed_by_direction,
    speed_by_length,
)
from splinescope_research.meanfield.separation import separates

SIGMA = torch.diag(torch.tensor([5.0, 1.0], dtype=torch.float64))


def test_batch_norm_turns_faster_where_the_data_varies_least() -> None:
    generator = torch.Generator().manual_seed(0)
    data = GaussianInputs(SIGMA).sample(4000, lambda x: torch.relu(x[:, 0]), generator=generator)
    batch_norm, plain = speed_by_direction(data).anisotropy()
    assert 20 < batch_norm < 60  # population value near 34
    assert 3 < plain < 6


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


def test_bad_studies_are_refused() -> None:
    net, data = problem(0)
    for rates in (0.1, [0.1], [1.0, 0.1]):
        with pytest.raises(InputError, match="rates must be at least two increasing"):
            learning_rate_study(net, data, rates=rates, iterations=1)
    with pytest.raises(InputError, match="two-dimensional"):
        speed_by_direction(data)
    with pytest.raises(InputError, match="positive"):
        first_step(net, data, lengths=[0.0], rate=0.1)


def ring(m: int, amplitude: float = 0.0, arc: float = 2 * np.pi) -> TwoLayerBN:
    angle = torch.arange(m, dtype=torch.float64) * (arc / m)
    return TwoLayerBN(torch.full((m,), amplitude), torch.stack([angle.cos(), angle.sin()], 1), "tanh")


def test_separation_needs_a_closed_curve() -> None:
    assert separates(ring(64), radius=0.1)
    assert not separates(ring(64), radius=0.02)  # the balls leave gaps
    assert not separates(ring(64, arc=np.pi), radius=0.1)  # half of the circle is open
    wavy = ring(200)
    wave = TwoLayerBN(torch.sin(3 * torch.atan2(wavy.b[:, 1], wavy.b[:, 0])), wavy.b, "tanh")
    assert separates(wave, radius=0.15)  # a graph over the circle separates, level or not


def test_separation_in_three_dimensions() -> None:
    generator = torch.Generator().manual_seed(0)
    b = torch.randn(2000, 3, generator=generator, dtype=torch.float64)
    assert separates(TwoLayer(torch.zeros(2000), b), radius=0.3, generator=generator)
    cap = b[b[:, 2] < 0.5]
    assert not separates(TwoLayer(torch.zeros(len(cap)), cap), radius=0.15, generator=generator)


def test_the_effects_are_drawn_with_labels() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    net, data = problem(0, d=2)
    study = LearningRateStudy(np.logspace(-1, 1, 3), np.array([0.5, 0.1, np.inf]), np.array([0.4, np.inf, np.inf]), 1.0)
    for found in (speed_by_direction(data, angles=36), first_step(net, data, lengths=[0.01, 1.0], rate=0.1), study):
        ax = found.plot()
        assert ax.get_xlabel()
        assert ax.get_ylabel()
    pyplot.close("all")
