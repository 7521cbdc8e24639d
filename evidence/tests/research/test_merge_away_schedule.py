"""When batch norm is merged away: at a step or a plateau, told by a loop of one's own or by the trainers of others."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope_research import MergeAway, merge_batchnorm_
from splinescope_research.normalization.merge_away import plateaued

from .merging import ROWS, network


def test_it_merges_once_at_its_step_or_at_the_first_one_after_it():
    net = network()
    schedule = MergeAway(net, torch.optim.SGD(net.parameters(), 0.01), at=5, x=ROWS)
    assert [schedule.step(step) for step in (0, 4, 7, 8)] == [False, False, True, False]
    assert schedule.merged_at == 7


def test_it_merges_when_local_complexity_has_fallen_and_no_longer_moves():
    torch.manual_seed(0)
    x, y = ss.data.digits()
    x, targets = x[:600].float().flatten(1), nn.functional.one_hot(y[:600]).float()
    layers: list[nn.Module] = []
    for size in (64, 200, 200):
        layers += [nn.Linear(size, 200), nn.BatchNorm1d(200), nn.ReLU()]
    net = nn.Sequential(*layers, nn.Linear(200, 10))
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    monitor = ss.ComplexityMonitor(net, x[:400], radius=0.05, budget=None)  # few points tremble
    schedule = MergeAway(net, optimizer, plateau=(monitor, "points"), x=x[:8])
    for step in range(400):
        monitor.step(step)
        if schedule.step(step):
            break
        rows = torch.randint(0, len(x), (100,))
        loss = (net(x[rows]) - targets[rows]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert schedule.merged_at is not None
    assert schedule.merged_at >= 50
    with torch.no_grad():
        assert (net(x).argmax(1) == y[:600]).float().mean() > 0.95  # it was trained when it merged
    values = {record["step"]: record["points"] for record in monitor.records}
    assert values[schedule.merged_at] < 0.85 * values[0]
    wrong = MergeAway(network(), lambda: optimizer, plateau=(monitor, "nothing"), x=ROWS)
    with pytest.raises(ss.InputError, match="'nothing'; there are"):
        wrong.step(0)


LOG_STEPS = [0, *sorted({round(10 ** (k / 10)) for k in range(41)})]


def first_plateau(steps: list[int], values: list[float]) -> int | None:
    return next((s for n, s in enumerate(steps, 1) if plateaued(steps[:n], values[:n])), None)


def test_neighboring_records_of_the_first_steps_make_no_plateau():
    falling = [10 * (1 + s / 300) ** -0.5 for s in LOG_STEPS]  # the first dozen records agree within 5%
    assert first_plateau(LOG_STEPS, falling) is None
    noise = np.random.default_rng(0).normal(0, 0.01, len(LOG_STEPS))
    assert first_plateau(LOG_STEPS, list(10 + noise)) is None  # never moved
    assert first_plateau(LOG_STEPS, [10.0] * len(LOG_STEPS)) is None


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("steps", [LOG_STEPS, list(range(0, 10_000, 10))])
def test_a_plateau_is_found_after_a_flat_start_and_a_descent_or_an_ascent(sign, steps):
    values = [20 + sign * 10 * min(1, max(0, np.log10(max(s, 1) / 100))) for s in steps]  # moves from 100 to 1,000
    found = first_plateau(steps, values)
    assert found is not None
    assert 1500 <= found <= 2600  # the half of training before it is flat, but for a tenth of the way


def test_a_plateau_spans_a_factor_in_steps_and_enough_records_after_the_earliest_step():
    values = [9.0, 7.0, 5.0, 5.0, 5.0, 5.0, 5.0]
    steps = [10, 20, 100, 110, 120, 130, 140]
    assert not plateaued(steps, values)  # 100 to 140 is no factor of 2
    assert plateaued([*steps, 200], [*values, 5.0])
    assert not plateaued([step / 20 for step in (*steps, 200)], [*values, 5.0])  # too early
    assert not plateaued([10, 50, 100, 200], [9.0, 5.0, 5.0, 5.0])  # three records
    assert not plateaued([*steps, 200], [*values, float("nan")])


def test_what_makes_no_sense_is_refused():
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with pytest.raises(ss.InputError, match="either at="):
        MergeAway(net, optimizer)
    with pytest.raises(ss.InputError, match=r"function that returns it .* got NoneType"):
        MergeAway(net, None, at=2)
    with pytest.raises(ss.InputError, match="pair"):
        MergeAway(net, optimizer, plateau="points")
    with pytest.raises(ss.InputError, match="found none"):
        merge_batchnorm_(nn.Sequential(nn.Linear(2, 2)))
    with pytest.raises(ss.InputError, match="itself"):
        merge_batchnorm_(nn.BatchNorm1d(3))
