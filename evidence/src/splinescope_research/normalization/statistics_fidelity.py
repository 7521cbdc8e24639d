"""How far the tiling under a minibatch's statistics is from that under the data's, as a law in the batch size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from splinescope.network import trace
from splinescope.normalization import with_statistics
from splinescope.support.checks import as_rows, check_generator, check_whole
from splinescope.support.display import Result, table
from splinescope.support.errors import InputError
from splinescope.support.progress import Progress, sharing
from splinescope.tiling.measures.differentiate import cuts

from .jitter import minibatch_networks


@dataclass(frozen=True, eq=False, repr=False)
class StatisticsFidelity(Result):
    """What minibatch statistics change, by batch size and layer, against the statistics of all data.

    Attributes:
        batch_sizes: `[S]` B.
        depths: `[L]` of the sites.
        flips: `[S, L]` share of pairs (point, unit) whose sign changes.
        tiles: `[S, L]` share of points whose tile of the first layers, up to this one, changes.
        classes: `[S]` share of points whose predicted class changes; nan for fewer than two outputs.
        draws: Minibatches per size.
        points: N, the number of points that the minibatches are drawn from.
    """

    batch_sizes: np.ndarray
    depths: np.ndarray
    flips: np.ndarray
    tiles: np.ndarray
    classes: np.ndarray
    draws: int
    points: int
    certainty = "estimate"

    def __repr__(self) -> str:
        slopes = ", ".join(f"{e:.2f}" for e in self.exponents)
        return f"StatisticsFidelity({len(self.batch_sizes)} sizes, exponents by layer {slopes}, {self.certainty})"

    @property
    def effective_sizes(self) -> np.ndarray:
        """`[S]` B (N - 1) / (N - B): drawn with replacement, so many points give statistics as good; inf for B = N."""
        with np.errstate(divide="ignore"):
            return np.asarray(self.batch_sizes * (self.points - 1) / (self.points - self.batch_sizes))

    @property
    def exponents(self) -> np.ndarray:
        """`[L]` slope of log flips on the log of effective sizes; -1/2 where offsets jitter as means of them do.

        Sizes at which no sign changes are left out, as is B = N, whose statistics are the data's own; nan where fewer
        than two are left.
        """
        slopes = np.full(len(self.depths), np.nan)
        for k, shares in enumerate(self.flips.T):
            used = np.isfinite(self.effective_sizes) & (shares > 0)
            if len(np.unique(self.batch_sizes[used])) > 1:
                slopes[k] = np.polyfit(np.log(self.effective_sizes[used]), np.log(shares[used]), 1)[0]
        return slopes

    def summary(self) -> str:
        """A table by batch size."""
        layers = [f"signs, depth {d}" for d in self.depths]
        rows: list[tuple[str, ...]] = [("B", "effective", *layers, "tiles", "classes")]
        for i, size in enumerate(self.batch_sizes):
            shares = [*self.flips[i], self.tiles[i, -1], self.classes[i]]
            rows.append((str(size), f"{self.effective_sizes[i]:.4g}", *(f"{share:.3g}" for share in shares)))
        rows.append(("exponent", "", *(f"{e:.3g}" for e in self.exponents), "", ""))
        return f"{table(rows)}\nShares that change, means over {self.draws} minibatches. {self.assurance}"


def statistics_fidelity(
    model: nn.Module,
    x: Any,
    batch_sizes: Sequence[int] = (8, 16, 32, 64, 128),
    *,
    draws: int = 20,
    generator: torch.Generator | None = None,
    progress: Progress | bool | None = None,
) -> StatisticsFidelity:
    """How much of the tiling at the data changes if batch norm takes its statistics from a minibatch.

    Of independent Gaussian pre-activations, an offset that jitters by 1/sqrt(b) of their deviation changes the share
    `arctan(1/sqrt(b)) / pi` of the signs: about 0.32 / sqrt(b), with `b = B (N - 1) / (N - B)` since B of N points are
    drawn without replacement (`effective_sizes`). Changes of earlier layers are passed on to later ones.

    Args:
        model: With batch norm; left as found.
        x: `[N, ...]` data; minibatches are drawn from it without replacement.
        batch_sizes: B, each from 2 to N.
        draws: Minibatches of each size.
        generator: Their source; a fresh one with seed 0 if None.
        progress: None: shown once it takes a few seconds; True, False, or a function of (share done, what it is at).

    Returns:
        `StatisticsFidelity`. Cost: one forward pass of the data per draw.

    Example:
        >>> net = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
        >>> found = statistics_fidelity(net, torch.randn(200, 4), (8, 32), draws=3)
        >>> found.flips.shape
        (2, 1)

    Reference: the essay on "Batch Normalization, Explained", which ties the batch size to the fidelity of adaptation.
    """
    given = as_rows(x, "x")
    if isinstance(batch_sizes, str) or not isinstance(batch_sizes, Sequence | np.ndarray) or not len(batch_sizes):
        raise InputError(f"batch_sizes must be a list of at least one size, such as (8, 16), got {batch_sizes!r}.")
    sizes = [check_whole(size, "batch_sizes", least=2, most=len(given)) for size in batch_sizes]
    check_whole(draws, "draws")
    generator = check_generator(generator) or torch.Generator().manual_seed(0)
    current, rows = with_statistics(model, given).double(), given.double()
    network = trace(current, rows[:1])  # follows the statistics that `current` is given below

    def look() -> tuple[list[np.ndarray], np.ndarray]:
        program = network.program()
        with torch.no_grad():
            signs = [(z > 0).flatten(1).numpy() for _, z in cuts(program, rows)]
            outputs = program.forward(rows).flatten(1)
        return signs, outputs.argmax(1).numpy() if outputs.shape[1] > 1 else np.full(len(rows), np.nan)

    depths = np.array([fold.site.depth for fold in network.program().folds])
    signs, classes = look()
    flips, tiles, moved = np.zeros((len(sizes), len(depths))), np.zeros((len(sizes), len(depths))), np.zeros(len(sizes))
    with sharing(progress, "fidelity") as share:
        for i, size in enumerate(sizes):
            for j, drawn in enumerate(
                minibatch_networks(model, rows.to(given.dtype), size, draws, generator=generator)
            ):
                share((i + j / draws) / len(sizes))
                current.load_state_dict(drawn.double().state_dict())
                other, predicted = look()
                changed = np.zeros(len(rows), bool)
                for k, (before, after) in enumerate(zip(signs, other, strict=True)):
                    differ = before != after
                    changed |= differ.any(1)
                    flips[i, k] += differ.mean() / draws
                    tiles[i, k] += changed.mean() / draws
                moved[i] += (predicted != classes).mean() / draws if not np.isnan(classes).any() else np.nan
    return StatisticsFidelity(np.array(sizes), depths, flips, tiles, moved, draws, len(rows))
