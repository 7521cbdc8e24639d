"""What is given by mistake to the tools of the open questions is refused in words that name the argument."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
import splinescope_research as research
from splinescope import generative
from splinescope_research.folds.subdivision import cuts_within
from splinescope_research.normalization.placed_norms import PlacedNorm1d, boundary_weights

NET = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3)).eval()
NORMED = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3)).eval()
X, Y, WANTED = torch.randn(12, 2, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 3, torch.zeros(12, 3)
TILED = ss.tessellate(NET, ss.Slice.axes([0.0, 0.0], (0, 1), -1, 1))
SQUARE = generative.Box(2)
LATENTS = SQUARE.draw(60, torch.Generator().manual_seed(0))


def normed() -> nn.Module:
    return copy.deepcopy(NORMED)


def sgd(model: nn.Module = NORMED) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), 0.1)


def merging(**options: Any) -> Any:
    model = normed()
    return research.MergeAway(model, sgd(model), **options)


def law(x: Any = WANTED, **options: Any) -> Any:
    return research.manifold_law(NET, x, SQUARE, pool=100, reference=50, draws=100, **options)


def in_place_of(criterion: Any, **given: Any) -> Any:
    model = research.with_placed_norms(NORMED, criterion).train()
    with research.placing(model, **given):
        return model(X)


WRONG: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "subdivision within": (lambda g: cuts_within(TILED, g, ["1"]), [None, 3, "1", X, [1]]),
    "subdivision by": (lambda g: cuts_within(TILED, [], g), [None, 3, "1", X, [1]]),
    "MergeAway model": (lambda g: research.MergeAway(g, sgd(), at=1), [None, "model", X]),
    "MergeAway optimizer": (lambda g: research.MergeAway(normed(), g, at=1), [None, NET, "adam"]),
    "MergeAway plateau": (lambda g: merging(plateau=g), ["train", (None, "train"), (NET, "train"), ("a", "b", "c")]),
    "MergeAway statistics": (
        lambda g: merging(at=0, statistics=g).step(0),
        [X * torch.nan, torch.zeros(0, 2), X[0], torch.ones(12, 5), 3, X.to(torch.complex64)],
    ),
    "MergeAway x": (lambda g: merging(at=1, x=g), [X * torch.nan, torch.zeros(0, 2), torch.ones(12, 5), 3, X * 1j]),
    "merge_batchnorm_ optimizer": (lambda g: research.merge_batchnorm_(normed(), optimizer=g), ["sgd", 0.1, NET]),
    "MergeAway step": (lambda g: merging(at=1).step(g), [None, "1", 0.5, X, -1]),
    "PlacedNorm1d num_features": (lambda g: PlacedNorm1d(g), [None, "4", 0, [4, 4], X]),
    "PlacedNorm1d criterion": (lambda g: PlacedNorm1d(4, criterion=g), [None, 1, np.ones(2), "mode"]),
    "with_placed_norms model": (lambda g: research.with_placed_norms(g, "median"), [None, "model", X]),
    "placing model": (lambda g: research.placing(g).__enter__(), [None, "model", NET]),
    "placing y": (lambda g: in_place_of("gap", y=g), ["abc", object(), {"a": 1}, 3, torch.zeros(5)]),
    "placing weights": (lambda g: in_place_of("weighted", weights=g), ["abc", object(), -torch.ones(12)]),
    "boundary_weights": (boundary_weights, [None, [1, 2], X[:, :1], X[:0], X * torch.nan]),
    "statistics_fidelity sizes": (
        lambda g: research.statistics_fidelity(NORMED, X, g, draws=1),
        [None, 8, "8", (), (1,), (40,)],
    ),
    "statistics_fidelity x": (lambda g: research.statistics_fidelity(NORMED, g, (4,), draws=1), [3, None, X * 1j]),
    "statistics_fidelity generator": (
        lambda g: research.statistics_fidelity(NORMED, X, (4,), draws=1, generator=g),
        [0, "seed", np.random.default_rng(0)],
    ),
    "LayerwiseDescent layers": (lambda g: research.LayerwiseDescent(NET, layers=g), ["0", 0, [0], NET, ["9"]]),
    "depth_profile loss": (lambda g: research.depth_profile(NET, X, WANTED, loss=g), [None, np.ones(2), "hinge"]),
    "manifold_law x": (law, [3, X[0], WANTED * torch.nan, torch.zeros(5, 4), WANTED * 1j]),
    "manifold_law top_k": (lambda g: law(top_k=g), ["1", 0, 3, X]),
    "manifold_law generator": (lambda g: law(generator=g), [0, np.random.default_rng(0)]),
    "project x": (lambda g: research.project(NET, g, SQUARE, LATENTS), [3, X[0]]),
    "FoldMonitor x": (lambda g: research.FoldMonitor(NET, g), [3, X[0], X * torch.nan, X[:1]]),
    "FoldMonitor loss": (lambda g: research.FoldMonitor(NET, X, Y, loss=g), ["huber", 3]),
    "FoldMonitor y": (
        lambda g: research.FoldMonitor(NET, X, g, loss=nn.functional.cross_entropy).measure(0),
        [X, Y[:5], 3, X * torch.nan],
    ),
    "FoldMonitor loss of other arguments": (lambda g: research.FoldMonitor(NET, X, Y, loss=g).measure(0), [NET]),
    "FoldMonitor step": (lambda g: research.FoldMonitor(NET, X).step(g), [None, "0", 0.5, X]),
    "FoldMonitor track": (lambda g: research.FoldMonitor(NET, X).track(g), [None, np.ones(2), "place"]),
}
"""Tool and argument: a call with what is given, and what it must refuse."""


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_is_refused_in_words(name: str) -> None:
    call, wrong = WRONG[name]
    for given in wrong:
        with pytest.raises(ss.InputError, match=r"\w+ .*got|\bmust\b|give either"):
            call(given)


def test_statistics_that_are_refused_leave_the_network_as_it_was() -> None:
    model = normed()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ss.InputError, match="must be finite"):
        research.merge_batchnorm_(model, statistics=X * torch.nan)
    assert isinstance(model[1], nn.BatchNorm1d)
    assert all(torch.equal(model.state_dict()[key], value) for key, value in before.items())
