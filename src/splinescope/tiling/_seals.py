"""Ends of tournaments: which of the walls that a max drew are walls of the network."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from ..network._program import Seal
from ._plan import Plan
from ._tiles import Tiles


def apply_seal(
    plan: Plan, stage: int, seal: Seal, tol: np.ndarray, tiles: Tiles, value: Callable[[str], np.ndarray]
) -> None:
    """Mark the walls of a finished tournament that are none: their labels become -2 - label, in place.

    `value` gives the rows `[V, size]` of the values that the segment (number `stage`) keeps for its seals.
    """
    numbers = {fold.output: i for i, fold in enumerate(plan.folds)}
    stages = [numbers[name] for name, _ in seal.stages]
    low = plan.first_labels[stages[0]]
    high = low + sum(plan.folds[i].site.units for i in stages)
    if not ((tiles.labels >= low) & (tiles.labels < high)).any():
        return
    final = value(seal.final)
    before = seal.competitors
    rounds = []
    for i, (name, windows) in zip(stages, seal.stages, strict=True):
        rounds.append((i, before, (value(name), final, plan.folds[i].elements, windows, tol)))
        before = name
    for i, _, outcome in rounds:
        tiles.mark_lost(plan.first_labels[i], outcome)
    shapes = plan.segments[stage].shapes
    for i, before, outcome in rounds:
        competitors = torch.from_numpy(value(before)).reshape(-1, *shapes[before])
        cuts = plan.folds[i].cuts(competitors).numpy()
        tiles.keep_shared(low, high, cuts, plan.tolerances[i], outcome)
