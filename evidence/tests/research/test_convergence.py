"""Theorem 4: measures converge as the width grows, and the rate is fitted with an interval."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.meanfield.problems import problem

from splinescope import InputError
from splinescope.meanfield import GaussianInputs, TwoLayerBN
from splinescope_research import convergence_study
from splinescope_research.meanfield.convergence import ConvergenceStudy, Rate

SIGMA = torch.diag(torch.tensor([5.0, 1.0], dtype=torch.float64))


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


def test_bad_studies_are_refused() -> None:
    _, data = problem(0)
    with pytest.raises(InputError, match="widths must be a whole number"):
        convergence_study([8.5, 16, 32], data, circle_start, time=1.0)
    with pytest.raises(InputError, match="seeds"):
        convergence_study([8, 16, 32], data, circle_start, time=1.0, seeds=())
    with pytest.raises(InputError, match="three increasing"):
        convergence_study([8, 16], data, circle_start, time=1.0)


def test_the_study_is_drawn_with_labels() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    powers = 1.0 / np.array([[8, 16, 32], [9, 17, 30]])
    ax = ConvergenceStudy(np.array([8, 16, 32]), *[powers] * 4).plot()
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    pyplot.close("all")
