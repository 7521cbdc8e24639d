"""Flows: three descriptions of one motion, conservation, order, and gradient descent."""

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from splinescope import InputError, LimitReached
from splinescope.meanfield import Data, TwoLayer, TwoLayerBN, descend, flow
from splinescope.meanfield.flow import vector_field
from splinescope.meanfield.functions import as_loss

from .problems import problem


def test_flow_agrees_with_an_eighth_order_reference() -> None:
    net, data = problem(1)
    ours = flow(net, data, times=[0, 5], dynamics="euclidean", rtol=1e-9, atol=1e-11)
    field = vector_field(net, data, as_loss("squared"), "euclidean")
    start = torch.column_stack([net.a, net.b])

    def right_side(_: float, flat: np.ndarray) -> np.ndarray:
        return field(torch.from_numpy(flat).reshape(start.shape)).flatten().numpy()

    reference = solve_ivp(right_side, (0, 5), start.flatten().numpy(), "DOP853", rtol=1e-11, atol=1e-12)
    end = torch.from_numpy(reference.y[:, -1].copy()).reshape(start.shape)
    assert (torch.column_stack([ours.a[-1], ours.b[-1]]) - end).abs().max() < 1e-7


def test_lengths_are_conserved_by_the_flow_itself() -> None:
    """Over a long run, without the projection: 1e-9; with it: to rounding."""
    net, data = problem(2)
    free = flow(net, data, times=[0, 50], dynamics="euclidean", project=False, rtol=1e-9, atol=1e-11)
    assert ((free.b[-1].norm(dim=1) - net.lengths) / net.lengths).abs().max() < 1e-9
    held = flow(net, data, times=[0, 10], dynamics="euclidean", rtol=1e-6)
    assert ((held.b[-1].norm(dim=1) - net.lengths) / net.lengths).abs().max() < 1e-15


def test_runge_kutta_has_order_four() -> None:
    net, data = problem(3)
    exact = flow(net, data, times=[0, 1], rtol=1e-12, atol=1e-13).b[-1]
    errors = [(flow(net, data, times=[0, 1], step=h).b[-1] - exact).abs().max().item() for h in (0.1, 0.05)]
    assert 3.5 < np.log2(errors[0] / errors[1]) < 4.5


def test_unit_length_moves_differently() -> None:
    net, data = problem(0)
    true = flow(net, data, times=[0, 5])
    paper = flow(net, data, times=[0, 5], unit_length=True)
    assert (true.b[-1] - paper.b[-1]).abs().max() > 0.05
    euclidean = flow(net, data, times=[0, 5], unit_length=True, dynamics="euclidean")
    assert (euclidean.directions[-1] - paper.b[-1]).abs().max() < 1e-5


def test_gradient_descent_lengthens_by_pythagoras() -> None:
    net, data = problem(4)
    run = descend(net, data, rate=0.1, iterations=1)
    step = run.b[1] - run.b[0]
    assert torch.allclose(run.b[1].square().sum(1), net.lengths**2 + step.square().sum(1), rtol=1e-13)


def test_gradient_descent_tends_to_the_flow() -> None:
    net, data = problem(4)
    exact = flow(net, data, times=[0, 1], dynamics="euclidean").b[-1]
    errors = [
        (descend(net, data, rate=1 / k, iterations=k, record_every=k).b[-1] - exact).abs().max().item()
        for k in (100, 200)
    ]
    assert errors[0] / errors[1] == pytest.approx(2, abs=0.2)  # first order


@pytest.mark.parametrize("dynamics", ["euclidean", "plain"])
def test_minibatches_of_all_points_are_full_descent(dynamics: str) -> None:
    net, data = problem(5)
    full = descend(net, data, rate=0.1, iterations=5, dynamics=dynamics)
    batches = descend(net, data, rate=0.1, iterations=5, dynamics=dynamics, batch_size=len(data))
    assert (full.b - batches.b).abs().max() < 1e-12


def test_minibatches_are_seeded_and_leave_the_global_generator_alone() -> None:
    net, data = problem(5)
    before = torch.get_rng_state()
    runs = [
        descend(net, data, rate=0.1, iterations=9, batch_size=8, generator=torch.Generator().manual_seed(1)).b
        for _ in range(2)
    ]
    assert torch.equal(runs[0], runs[1])
    assert torch.equal(before, torch.get_rng_state())


def test_recording_keeps_first_and_last() -> None:
    net, data = problem(5)
    run = descend(net, data, rate=0.1, iterations=7, record_every=3)
    assert np.allclose(run.times, [0, 0.3, 0.6, 0.7])
    assert run.network().width == net.width
    assert torch.equal(run.network(0).b, net.b)


def test_bad_flows_are_refused() -> None:
    net, data = problem(0)
    with pytest.raises(InputError, match="increasing"):
        flow(net, data, times=[0, 0])
    with pytest.raises(InputError, match="'manifold'"):
        flow(net, data, times=[0, 1], dynamics="riemannian")
    with pytest.raises(InputError, match="TwoLayerBN"):
        flow(TwoLayer(net.a, net.b, "tanh"), data, times=[0, 1])
    with pytest.raises(InputError, match="inputs, like the data"):
        flow(problem(0, d=2)[0], data, times=[0, 1])
    with pytest.raises(InputError, match="share dtype"):
        flow(TwoLayerBN(net.a.float(), net.b.float(), "tanh"), data, times=[0, 1])
    with pytest.raises(InputError, match=r"Data\.of"):
        flow(net, (data.x, data.y), times=[0, 1])
    with pytest.raises(InputError, match="iterations must be a whole number"):
        descend(net, data, rate=0.1, iterations=2.5)
    with pytest.raises(InputError, match="one value for each"):
        flow(TwoLayerBN(net.a, net.b, lambda z: z.sum()), data, times=[0, 1])
    with pytest.raises(InputError, match="activation must be differentiable"):
        flow(TwoLayerBN(net.a, net.b, lambda z: (z > 0).double()), data, times=[0, 1])
    with pytest.raises(InputError, match="loss must be differentiable"):
        flow(net, data, lambda f, y: y, times=[0, 1])
    with pytest.raises(InputError, match=r"one value per point, .* got float"):
        flow(net, data, lambda f, y: 1.0, times=[0, 1])
    with pytest.raises(InputError, match=r"x must have shape \(N, 3\)"):
        net(torch.ones(4, 2, dtype=torch.float64))
    with pytest.raises(InputError, match="batch_size"):
        descend(net, data, rate=0.1, iterations=1, batch_size=41)
    with pytest.raises(InputError, match="batch_size must be a whole number"):
        descend(net, data, rate=0.1, iterations=1, batch_size=2.5)


def test_labels_of_the_logistic_loss_are_minus_and_plus_one() -> None:
    net, data = problem(0, d=2)
    zeros = Data.of(data.x, (data.y + 1) / 2)
    for run in (
        lambda: flow(net, zeros, "logistic", times=[0, 1]),
        lambda: descend(net, zeros, "logistic", rate=0.1, iterations=1),
    ):
        with pytest.raises(InputError, match="labels -1 and"):
            run()


def test_activations_may_work_in_place() -> None:
    runs = [
        descend(problem(0, activation=torch.nn.ELU(inplace=i))[0], problem(0)[1], rate=0.1, iterations=2)
        for i in (False, True)
    ]
    assert torch.allclose(runs[0].b, runs[1].b, rtol=1e-13)  # its slope is then computed from the value


def test_too_many_steps_raise_with_the_state_so_far() -> None:
    net, data = problem(0)
    with pytest.raises(LimitReached, match="max_steps = 5") as caught:
        flow(net, data, times=[0, 100], max_steps=5)
    time, state = caught.value.partial
    assert 0 < time < 100
    assert state.shape == (net.width, 1 + net.dimension)


@pytest.mark.parametrize("step", [None, 0.1])
def test_velocities_that_are_not_finite_stop_the_flow_at_once(step: float | None) -> None:
    net, data = problem(0)
    with pytest.raises(InputError, match="velocity must be finite, got NaN or infinity at time 0"):
        flow(net, data, lambda f, y: (f - y).sqrt(), times=[0, 1], step=step)


def test_a_flow_that_explodes_stops_where_it_explodes() -> None:
    net, data = problem(0)
    with pytest.raises(LimitReached, match="grows without bound") as caught:
        flow(net, data, lambda f, y: -torch.exp(20 * f), times=[0, 100], rtol=1e-3, atol=1e-3)
    assert 0 < caught.value.partial[0] < 1
