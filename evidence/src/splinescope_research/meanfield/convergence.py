"""Weak convergence as the width grows (Theorem 4): distances between widths and their fitted rate."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from splinescope.meanfield.data import Data
from splinescope.meanfield.flow import flow
from splinescope.meanfield.functions import LossLike
from splinescope.meanfield.networks import TwoLayerBN
from splinescope.meanfield.velocity import outputs
from splinescope.support.checks import check_choice, check_whole
from splinescope.support.display import Result
from splinescope.support.errors import InputError
from splinescope.support.progress import Progress, stepping

from ..drawings import plot_convergence
from .particle_measure import ParticleMeasure, bounded_lipschitz, wasserstein2

Start = Callable[[int, torch.Generator], TwoLayerBN]


@dataclass(frozen=True, repr=False)
class Rate(Result):
    """A power law `distance ~ width^slope`: mean over starts of least-squares slopes on logarithms, 95% interval.

    The interval is Student's over starts, since distances of one run are not independent; of one start the whole line.
    """

    slope: float
    low: float
    high: float
    certainty = "estimate"

    @classmethod
    def fit(cls, widths: np.ndarray, distances: np.ndarray) -> Rate:
        """Fit to `distances` of shape (starts, len(widths))."""
        slopes = np.polyfit(np.log(widths), np.log(distances).T, 1)[0]
        slope, count = float(slopes.mean()), len(slopes)
        if count < 2:
            return cls(slope, -np.inf, np.inf)
        reach = float(stats.t.ppf(0.975, count - 1) * slopes.std(ddof=1) / np.sqrt(count))
        return cls(slope, slope - reach, slope + reach)


@dataclass(frozen=True, repr=False)
class ConvergenceStudy(Result):
    """Distances between the measures of consecutive widths.

    Attributes:
        widths: The smaller width of each pair, shape (W,).
        start: W2 (geodesic cost) at time 0, shape (seeds, W).
        end: W2 at the end.
        lipschitz: Bounded-Lipschitz distance at the end.
        outputs: Root mean square difference of the two functions over the data at the end.
    """

    widths: np.ndarray
    start: np.ndarray
    end: np.ndarray
    lipschitz: np.ndarray
    outputs: np.ndarray
    certainty = "estimate"
    plot = plot_convergence

    def rate(self, quantity: str = "end") -> Rate:
        """The fitted rate of "start", "end", "lipschitz" or "outputs"."""
        check_choice(quantity, "quantity", ("start", "end", "lipschitz", "outputs"))
        return Rate.fit(self.widths, getattr(self, quantity))


def convergence_study(
    widths: Sequence[int],
    data: Data,
    start: Start,
    *,
    time: float,
    loss: LossLike = "squared",
    seeds: Sequence[int] = (0,),
    rtol: float = 1e-6,
    progress: Progress | bool | None = None,
) -> ConvergenceStudy:
    """Run the flow at each width and compare neighbors: W2(rho_m, rho_2m) for widths m, 2m, 4m, ...

    Theorem 4 says that the measures converge for almost every sequence of starts; for independent draws on a
    circle the expected rate is `m^(-1/2)`, for an even grid faster. Exact distances; cost dominated by the
    assignment at the largest width.

    Args:
        widths: At least three, increasing.
        data, loss: As for `flow`.
        start: `(width, generator) -> TwoLayerBN`.
        time: Mean-field time at which to compare.
        seeds: One run each.
        rtol: Of the integrator; keep it far below the distances.
        progress: As in `tessellate`.
    """
    widths = [check_whole(width, "widths") for width in widths]
    if len(seeds) == 0:
        raise InputError("seeds must hold at least one number, got none.")
    sizes = np.array(widths)
    if len(sizes) < 3 or bool((np.diff(sizes) <= 0).any()):
        raise InputError(f"widths must be at least three increasing numbers, got {widths}.")
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    runs: list[list[tuple[ParticleMeasure, ParticleMeasure, Tensor]]] = [[] for _ in seeds]
    for i, width in stepping(list(itertools.product(range(len(seeds)), widths)), progress, "convergence study"):
        run = flow(start(width, generators[i]), data, loss, times=[0.0, time], rtol=rtol, atol=rtol * 1e-2)
        first, last = (ParticleMeasure(run.a[t], run.b[t]) for t in (0, -1))
        runs[i].append((first, last, outputs(run.a[-1], run.b[-1], data, run.activation)))
    distances = [[_distances(p, q, data) for p, q in itertools.pairwise(of_seed)] for of_seed in runs]
    return ConvergenceStudy(sizes[:-1], *np.array(distances).transpose(2, 0, 1))


def _distances(
    p: tuple[ParticleMeasure, ParticleMeasure, Tensor], q: tuple[ParticleMeasure, ParticleMeasure, Tensor], data: Data
) -> tuple[float, float, float, float]:
    """`start`, `end`, `lipschitz` and `outputs` of a `ConvergenceStudy` for two neighboring widths of one seed."""
    apart = (data.weights @ (p[2] - q[2]) ** 2).sqrt().item()
    return wasserstein2(p[0], q[0]), wasserstein2(p[1], q[1]), bounded_lipschitz(p[1], q[1]), apart
