"""A program that ends in a property's clauses: how far each is from being met, cut so that corners tell its extremes.

With rows g_i(x) = outputs_i y + inputs_i x - ends_i, a clause is met where m = max_i g_i <= 0. The g_i are one affine
step behind the network; the max of a clause is a tournament of folds, so that m is affine on every final tile too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ..network.program import Affine, Fold, Program, Site
from .property import Clause

FORMS = "property.forms"


@dataclass(frozen=True)
class Formed:
    """A program with a property at its end."""

    program: Program  # its output [clauses] are the m of the clauses
    folds: int  # of the network itself: those behind are of the property
    rounds: tuple[tuple[str, np.ndarray], ...]  # per segment behind them its value, and the clause of each column


def with_forms(program: Program, clauses: Sequence[Clause], decided: bool = False) -> Formed:
    """The program with the clauses' values as its output; if `decided`, cut along their zeros too."""
    outputs, inputs, ends = (
        np.concatenate([getattr(clause, name) for clause in clauses]) for name in ("outputs", "inputs", "ends")
    )
    owner = np.repeat(np.arange(len(clauses)), [len(clause) for clause in clauses])
    steps = [*program.steps, _forms(program, outputs, inputs, ends)]
    depth = 1 + max((fold.site.depth for fold in program.folds), default=0)
    name, rounds = FORMS, [(FORMS, owner)]
    while len(owner) > len(clauses):
        fold, owner = _round(name, owner, f"property.round{len(rounds)}", depth + len(rounds))
        steps.append(fold)
        name = fold.output
        rounds.append((name, owner))
    if decided:
        steps.append(_zeros(name, len(clauses), depth + len(rounds)))
        rounds.append((name, owner))
    formed = replace(program, steps=tuple(steps), output=name, output_shape=(len(clauses),), ending=None)
    return Formed(formed, len(program.folds), tuple(rounds))


def _forms(program: Program, outputs: np.ndarray, inputs: np.ndarray, ends: np.ndarray) -> Affine:
    p, q, r = (torch.from_numpy(np.ascontiguousarray(a)) for a in (outputs.T, inputs.T, ends))
    mixed = bool(inputs.any())

    def run(y: Tensor, x: Tensor | None = None) -> Tensor:
        value = y.reshape(len(y), -1) @ p - r
        return value if x is None else value + x.reshape(len(x), -1) @ q

    def magnitude(y: Tensor, x: Tensor | None = None) -> Tensor:
        value = y.reshape(len(y), -1) @ p.abs() + r.abs()
        return value if x is None else value + x.reshape(len(x), -1) @ q.abs()

    return Affine(FORMS, (program.output, program.input) if mixed else (program.output,), run, magnitude)


def _round(value: str, owner: np.ndarray, output: str, depth: int) -> tuple[Fold, np.ndarray]:
    """Pairs of neighbors of one clause meet; a column without a partner goes on as it is."""
    number = np.arange(len(owner)) - np.searchsorted(owner, owner)  # of a column within its clause
    a = np.flatnonzero(number % 2 == 0)
    b = a + (np.append(owner, -1)[a + 1] == owner[a])
    met = np.flatnonzero(a != b)
    left, right, pairs_left, pairs_right = (torch.from_numpy(x) for x in (a, b, a[met], b[met]))
    fold = Fold(
        output, (value,),
        run=lambda x: torch.maximum(x[:, left], x[:, right]),
        cuts=lambda x: x[:, pairs_left] - x[:, pairs_right],
        cut_magnitude=lambda x: x[:, pairs_left] + x[:, pairs_right],
        gains=np.ones(len(met)), elements=met, site=Site("property", "maximum", (len(a),), len(met), depth),
    )  # fmt: skip
    return fold, owner[a]


def _zeros(value: str, count: int, depth: int) -> Fold:
    """Cuts along the zeros of every clause's value, which is itself kept."""
    return Fold(
        "property.decided", (value,), run=torch.relu, cuts=lambda x: x, cut_magnitude=lambda x: x,
        gains=np.ones(count), elements=np.arange(count), site=Site("property", "relu", (count,), count, depth),
        at=np.zeros(count),
    )  # fmt: skip
