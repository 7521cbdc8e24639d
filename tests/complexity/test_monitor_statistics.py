"""Which statistics monitors measure batch norm with: those of the data by default, and records say so."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.complexity import ComplexityMonitor, local_complexity

from .models import mlp, normed


def test_batch_norm_is_measured_with_the_statistics_of_the_data() -> None:
    from splinescope.normalization import with_statistics

    model, x = normed().train(), 3 + torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    before = [(buffer, buffer.clone()) for buffer in model.buffers()]
    sets = {"test": x[:10], "train": x[10:]}

    def first(**options: object) -> dict:
        return ComplexityMonitor(model, sets, radius=0.3, **options).measure(0)

    def count(network: nn.Module) -> float:
        return float(local_complexity(copy.deepcopy(network).eval(), x[:10], radius=0.3).total.double().mean())

    data, running, all_rows = first(), first(statistics="running"), first(statistics_from=x)
    assert (data["statistics"], running["statistics"]) == ("data", "running")
    assert data["test"] == pytest.approx(count(with_statistics(model, x[10:])))
    assert all_rows["test"] == pytest.approx(count(with_statistics(model, x)))
    assert running["test"] == pytest.approx(count(model))
    assert data["test"] > 2 * running["test"]  # folds pass through the data, not where averages lag
    assert all(
        now is kept and torch.equal(now, value) for now, (kept, value) in zip(model.buffers(), before, strict=True)
    )
    assert all(module.training for module in model.modules())
    assert ComplexityMonitor(mlp(3, 4, 2), x, radius=0.3).measure(0)["statistics"] == "none"
    assert ComplexityMonitor(normed(), x[:1], radius=0.3).measure(0)["statistics"] == "running"  # one row has none
    with pytest.raises(ss.InputError, match="statistics must be one of"):
        first(statistics="batch")


def test_points_that_a_batch_normed_network_does_not_take_are_named() -> None:
    monitor = ComplexityMonitor(normed(), torch.randn(5, 7), radius=0.3)
    with pytest.raises(ss.InputError, match=r"does not take points of shape \(7,\)"):
        monitor.measure(0)
