"""Spurious walls: which of the walls that a max drew are walls of the network.

Walls between two losers of a tournament are marked when it ends; `assemble` removes them from the mesh. A later fold on
such a wall has nothing to cut there, since tiles end at it: the wall stands for the fold, and is marked no more.
"""

from __future__ import annotations

import numpy as np
import torch

from ...network.program import Tournament
from .. import kernels
from ..cells.tiles import OUTSIDE, Tiles
from .crossing import linear_parts
from .plan import Plan
from .rows_factored import FactoredRows, touching_units
from .rows_plain import PlainRows


def mark_spurious(
    plan: Plan, stage: int, tournament: Tournament, tol: np.ndarray, tiles: Tiles, rows: PlainRows | FactoredRows
) -> None:
    """Mark the spurious walls of a finished tournament: their labels become -2 - label, in place.

    Walls of earlier ones that its winners draw as well are marked no more. `rows` hold the values that the segment
    (number `stage`) keeps for its tournaments.
    """
    numbers = {fold.output: i for i, fold in enumerate(plan.folds)}
    stages = [numbers[name] for name, _ in tournament.stages]
    low = plan.layout.first_labels[stages[0]]
    high = low + sum(plan.folds[i].site.units for i in stages)
    if not ((tiles.labels >= low) | (tiles.labels < OUTSIDE)).any():  # no label is beyond `high` yet
        return
    sides = tiles.sides()
    if isinstance(rows, FactoredRows):
        _mark_factored(plan, stage, tournament, tol, tiles, sides, rows, stages, low, high)
        return
    segment = plan.segments[stage]

    def value(name: str) -> np.ndarray:
        return rows.value(segment, name)

    final = value(tournament.final)
    before = tournament.competitors
    rounds = []
    for i, (name, windows) in zip(stages, tournament.stages, strict=True):
        rounds.append((i, before, (value(name), final, plan.folds[i].elements, windows, tol)))
        before = name
    for i, _, outcome in rounds:
        kernels.mark_lost(*sides[1:], tiles.labels, plan.layout.first_labels[i], *outcome)
    shapes = segment.shapes
    for i, before, outcome in rounds:
        competitors = torch.from_numpy(value(before)).reshape(-1, *shapes[before])
        cuts = plan.folds[i].cuts(competitors).numpy()
        drawn = plan.layout.labels[i], cuts, plan.tolerances[i]
        kernels.keep_shared(tiles.offsets, tiles.corners, *sides, tiles.labels, low, high, *drawn, *outcome)


def _mark_factored(
    plan: Plan, stage: int, tournament: Tournament, tol: np.ndarray, tiles: Tiles,
    sides: tuple[np.ndarray, np.ndarray, np.ndarray], rows: FactoredRows, stages: list[int], low: int, high: int,
) -> None:  # fmt: skip
    """The same with rows in factored form: only units that may be zero somewhere on the chunk are worked out."""
    segment = plan.segments[stage]
    stored = dict(segment.stored)
    before = tournament.competitors
    rounds = []
    for i, (name, windows) in zip(stages, tournament.stages, strict=True):
        fold = plan.folds[i]
        basis = linear_parts(fold.cuts, rows.basis.rows(stored[before]), segment.shapes[before])
        units, _, limits = touching_units(rows.coefficients, basis, plan.tolerances[i])
        place = np.zeros(fold.site.units, np.int64)
        place[units] = np.arange(len(units))
        here = np.arange(len(units))
        values = (
            rows.coefficients @ rows.basis.columns(stored[name], fold.elements[units]),
            rows.coefficients @ rows.basis.columns(stored[tournament.final], windows[units]),
        )
        cuts = rows.coefficients @ basis[:, units]
        rounds.append((plan.layout.labels[i], units, place, here, values, tol[windows[units]], cuts, limits))
        before = name
    for labels, _, place, _, values, ties, _, _ in rounds:
        kernels.mark_lost(*sides[1:], tiles.labels, int(labels[0]), *values, place, place, ties)
    for labels, units, _, here, values, ties, cuts, limits in rounds:
        drawn = labels[units], cuts, limits
        kernels.keep_shared(
            tiles.offsets, tiles.corners, *sides, tiles.labels, low, high, *drawn, *values, here, here, ties
        )


def keep_used(
    plan: Plan, stage: int, tiles: Tiles, rows: PlainRows | FactoredRows, pos: np.ndarray, neg: np.ndarray
) -> None:
    """Mark spurious walls no more, in place, that a unit of fold `stage` is zero along; the bits are those of `rows`.

    Stages of a tournament do not count before it ends: where both values lose, their unit draws no wall.
    """
    if plan.layout.is_stage[stage] or not (tiles.labels < OUTSIDE).any():
        return
    high = plan.layout.first_labels[stage]
    lists = tiles.offsets, tiles.corners, *tiles.sides(), tiles.labels
    kernels.keep_used(*lists, high, rows.labels, pos, neg)
    if isinstance(rows, FactoredRows) and rows.grazing is not None:
        units, cuts, tolerances = rows.grazing
        pos, neg = np.empty((2, len(cuts), (len(units) + 63) // 64), np.uint64)
        kernels.sign_bits(cuts, tolerances, 0, len(cuts), pos, neg)
        kernels.keep_used(*lists, high, units, pos, neg)
