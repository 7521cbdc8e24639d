"""Whatever asks for data refuses a Dataset or a loader in one sentence, which says how to collect it, or reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import splinescope as ss
from splinescope import complexity, meanfield, normalization

from .test_outputs import NET, NORMED, VIEW, X, Y

REFUSING: dict[str, Callable[[Any], Any]] = {
    "trace": lambda d: ss.trace(NET, d),
    "Slice": lambda d: ss.Slice.through(d, X[1], X[2]),
    "Tiling": lambda d: ss.tessellate(NET, VIEW).locate(d),
    "local_complexity": lambda d: ss.local_complexity(NET, d),
    "robustness labels": lambda d: complexity.robustness(NET, X, d, epsilons=0.1, steps=1, restarts=1, queries=1),
    "ComplexityMonitor": lambda d: ss.ComplexityMonitor(NET, {"test": X, "train": d}),
    "boundary_jitter": lambda d: normalization.boundary_jitter(NORMED, d, 4, VIEW, VIEW.domain[:2], draws=1),
    "representation_geometry": lambda d: ss.representation_geometry(NET, d),
    "local_map": lambda d: ss.local_map(NET, d),
    "Data": lambda d: meanfield.Data.of(d, Y.double(), center="center"),
    "curvature targets": lambda d: ss.curvature(NET, X, d),
    "log_volume": lambda d: ss.log_volume(NET, d),
    "report targets": lambda d: ss.report(NET, X, d, out=None),
}
"""A call of each part with what it asks for: all of them read data by the same check."""
READING: dict[str, Callable[[Any], Any]] = {
    "token_geometry": lambda d: ss.token_geometry(NET, d),
    "fold_distances": lambda d: normalization.fold_distances(NET, d),
    "initialize_": lambda d: ss.initialize_(nn.Sequential(nn.Linear(3, 5), nn.ReLU()).double(), d),
    "normalization_report": lambda d: ss.normalization_report(NET, d),
}


@pytest.mark.parametrize("name", REFUSING)
def test_a_dataset_or_loader_is_refused_in_one_sentence_that_says_what_to_do(name):
    both = TensorDataset(X, Y)
    for given in (both, DataLoader(both, 4), TensorDataset(X[:, :1])):  # torch reads the last one as numbers
        with pytest.raises(ss.InputError, match=rf"got {type(given).__name__}.*map\(torch.cat, zip") as refused:
            REFUSING[name](given)
        assert "\n" not in str(refused.value)
    with pytest.raises(ss.InputError):
        REFUSING[name](iter(X))


@pytest.mark.parametrize("name", READING)
def test_what_goes_through_data_in_blocks_reads_a_loader(name):
    READING[name](DataLoader(TensorDataset(X, Y), 4))
    with pytest.raises(ss.InputError, match=r"map\(torch.cat"):
        READING[name](TensorDataset(X, Y))
