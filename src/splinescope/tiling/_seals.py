"""Ends of tournaments: which of the walls that a max drew are walls of the network."""

from __future__ import annotations

import numpy as np
import torch

from ..network.program import Seal
from ._crossing import linear_parts
from ._factored import FactoredRows, touching_units
from ._plan import Plan
from ._rows import PlainRows
from ._tiles import Tiles


def apply_seal(
    plan: Plan, stage: int, seal: Seal, tol: np.ndarray, tiles: Tiles, rows: PlainRows | FactoredRows
) -> None:
    """Mark the walls of a finished tournament that are none: their labels become -2 - label, in place.

    `rows` hold the values that the segment (number `stage`) keeps for its seals.
    """
    numbers = {fold.output: i for i, fold in enumerate(plan.folds)}
    stages = [numbers[name] for name, _ in seal.stages]
    low = plan.layout.first_labels[stages[0]]
    high = low + sum(plan.folds[i].site.units for i in stages)
    if not ((tiles.labels >= low) & (tiles.labels < high)).any():
        return
    if isinstance(rows, FactoredRows):
        _seal_factored(plan, stage, seal, tol, tiles, rows, stages, low, high)
        return
    segment = plan.segments[stage]

    def value(name: str) -> np.ndarray:
        return rows.value(segment, name)

    final = value(seal.final)
    before = seal.competitors
    rounds = []
    for i, (name, windows) in zip(stages, seal.stages, strict=True):
        rounds.append((i, before, (value(name), final, plan.folds[i].elements, windows, tol)))
        before = name
    for i, _, outcome in rounds:
        tiles.mark_lost(plan.layout.first_labels[i], outcome)
    shapes = segment.shapes
    for i, before, outcome in rounds:
        competitors = torch.from_numpy(value(before)).reshape(-1, *shapes[before])
        cuts = plan.folds[i].cuts(competitors).numpy()
        tiles.keep_shared(low, high, cuts, plan.tolerances[i], outcome)


def _seal_factored(
    plan: Plan, stage: int, seal: Seal, tol: np.ndarray, tiles: Tiles, rows: FactoredRows,
    stages: list[int], low: int, high: int,
) -> None:  # fmt: skip
    """The same with rows in factored form: only units that may be zero somewhere on the chunk are worked out."""
    segment = plan.segments[stage]
    stored = dict(segment.stored)
    before = seal.competitors
    rounds = []
    for i, (name, windows) in zip(stages, seal.stages, strict=True):
        fold = plan.folds[i]
        basis = linear_parts(fold.cuts, rows.basis.rows(stored[before]), segment.shapes[before])
        units, _, limits = touching_units(rows.coefficients, basis, plan.tolerances[i])
        place = np.zeros(fold.site.units, np.int64)
        place[units] = np.arange(len(units))
        here = np.arange(len(units))
        values = (
            rows.coefficients @ rows.basis.columns(stored[name], fold.elements[units]),
            rows.coefficients @ rows.basis.columns(stored[seal.final], windows[units]),
        )
        cuts = rows.coefficients @ basis[:, units]
        rounds.append((plan.layout.first_labels[i], place, here, values, tol[windows[units]], cuts, limits))
        before = name
    for first, place, _, values, ties, _, _ in rounds:
        tiles.mark_lost(first, (*values, place, place, ties))
    for _, _, here, values, ties, cuts, limits in rounds:
        tiles.keep_shared(low, high, cuts, limits, (*values, here, here, ties))
