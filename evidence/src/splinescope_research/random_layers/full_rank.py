r"""How wide a random ReLU layer must be to give a batch full rank (Lemma 2, Theorem 3, Corollary 4)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from splinescope.support.checks import as_float64_array, check_whole
from splinescope.support.display import Result
from splinescope.support.errors import InputError

from ..arguments import numpy_generator
from .sign_classes import SignClasses


@dataclass(frozen=True, repr=False)
class FullRankWidth(Result):
    """Widths at which a random ReLU layer first reached full rank, one for each draw.

    Attributes:
        widths: `[draws]` integers; `limit + 1` where full rank was not reached within `limit` units.
        limit: Largest width tried.
        n: Batch size, the full rank.
    """

    widths: np.ndarray
    limit: int
    n: int
    certainty = "estimate"

    def _shown(self) -> list[tuple[str, Any]]:
        return [*super()._shown(), ("reached", self.reached), ("mean", self.mean),
                ("standard_error", self.standard_error)]  # fmt: skip

    @property
    def reached(self) -> float:
        """Share of the draws that reached full rank within the limit."""
        return float(np.mean(self.widths <= self.limit))

    @property
    def mean(self) -> float:
        """Mean width; infinite if some draw did not get there."""
        return float(self.widths.mean()) if self.reached == 1 else math.inf

    @property
    def standard_error(self) -> float:
        """Standard error of the mean; nan for a single draw."""
        count = len(self.widths)
        return float(self.widths.std(ddof=1) / math.sqrt(count)) if count > 1 else math.nan


def full_rank_width(
    x: Any,
    *,
    recenter: bool = False,
    draws: int = 200,
    limit: int = 2000,
    tolerance: float = 1e-9,
    generator: torch.Generator | None = None,
) -> FullRankWidth:
    r"""Measure the width `y` at which $\mathrm{relu}(W X)$ first has rank `n`, for random Gaussian rows of `W`.

    Args:
        x: `[n, D]`, the columns of `X`.
        recenter: Center each row of `W X` over the batch before the ReLU (Corollary 4).
        draws: Independent repetitions.
        limit: Give up beyond this width.
        tolerance: A new row counts if more than this share of its length is new.
        generator: Source of the rows (a fixed seed if None).

    Returns:
        A `FullRankWidth`.

    Cost: O(n) for each row and dimension found (Gram-Schmidt, twice, one row at a time).

    Example:
        >>> full_rank_width(np.eye(3), draws=20).mean < 10
        True
        >>> full_rank_width([[1.0, 0.0], [2.0, 0.0]], draws=2, limit=50).reached    # collinear: never
        0.0
    """
    x = as_float64_array(x, "x")
    if x.ndim != 2 or x.size == 0:
        raise InputError(f"x must have shape (n, D), got {x.shape}.")
    check_whole(draws, "draws")
    check_whole(limit, "limit")
    if recenter:
        x = x - x.mean(axis=0)  # centering the rows of W X is centering the points
    random = numpy_generator(generator)
    n = len(x)
    widths = np.full(draws, limit + 1)
    for draw in range(draws):
        basis = np.zeros((n, n))
        rank = 0
        width = 0
        while rank < n and width < limit:
            rows = np.maximum(random.standard_normal((min(2 * n, limit - width), x.shape[1])) @ x.T, 0)
            for row in rows:
                width += 1
                size = np.linalg.norm(row)
                if size == 0:
                    continue
                new = row / size
                for _ in range(2):
                    new = new - basis[:rank].T @ (basis[:rank] @ new)
                length = np.linalg.norm(new)
                if length > tolerance:
                    basis[rank] = new / length
                    rank += 1
                    if rank == n:
                        widths[draw] = width
                        break
    return FullRankWidth(widths, limit, n)


def expected_width_bound(n: int, gamma: float) -> float:
    """Theorem 3.1: the expected width for full rank is at most `n / gamma` (no point zero, no two collinear)."""
    return check_whole(n, "n") / _check_gamma(gamma)


def width_tail_bounds(n: int, gamma: float, alpha: float) -> tuple[float, float]:
    r"""Theorem 3.2: bounds on the probability that `ceil(alpha n / gamma)` units do not give full rank, `alpha > 1`.

    $$ (7a)\; e^{-d\, \mathrm{KL}(\gamma/\alpha \,\|\, \gamma)}, \quad d = \alpha n/\gamma; \qquad
       (7b)\; e^{-n(\alpha - 1 - \ln\alpha)} $$

    Chernoff bounds for `n` successes of probability gamma (or a lower bound of it); (7a) is the tighter.
    """
    check_whole(n, "n")
    _check_gamma(gamma)
    if not alpha > 1:
        raise InputError(f"alpha must be above 1, got {alpha}.")
    share = gamma / alpha
    divergence = share * math.log(share / gamma) + (1 - share) * math.log((1 - share) / (1 - gamma))
    return math.exp(-alpha * n / gamma * divergence), math.exp(-n * (alpha - 1 - math.log(alpha)))


def new_direction_probability(x: Any, subspace: Any, classes: SignClasses) -> float:
    r"""Probability that a random row $\mathrm{relu}(w X)$ leaves a subspace of $\mathbb R^n$ (Lemma 2: at least gamma).

    On a sign class the row is linear in `w`, so the whole class stays inside the span of `subspace` `[r, n]` or almost
    all of it leaves: the volume of the classes that leave. Exact when the volumes are.
    """
    x = as_float64_array(x, "x")
    rows = as_float64_array(subspace, "subspace")
    if x.ndim != 2 or rows.ndim != 2 or rows.shape[1] != len(x) or classes.signs.shape[1] != len(x):
        raise InputError(
            f"points [n, D], subspace [r, n] and classes must share n, got {x.shape}, {rows.shape} and classes of "
            f"{classes.signs.shape[1]} points."
        )
    _, s, basis = np.linalg.svd(rows, full_matrices=True)
    rank = int(np.sum(s > 1e-10 * s[0])) if len(s) and s[0] > 0 else 0
    if rank >= len(x):
        raise InputError(f"subspace must not be all of R^{len(x)}.")
    outside = basis[rank:]
    image = np.einsum("rn,cn,nd->crd", outside, classes.signs.astype(np.float64), x)
    leaves = np.linalg.norm(image, axis=(1, 2)) > 1e-9 * np.linalg.norm(x)
    return float(classes.volumes[leaves].sum())


def _check_gamma(gamma: float) -> float:
    if not 0 < gamma <= 0.5:
        raise InputError(f"gamma must lie in (0, 1/2] (a class and its opposite have one volume), got {gamma}.")
    return gamma
