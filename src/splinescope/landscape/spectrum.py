"""Spectra of symmetric operators: extreme eigenvalues, trace, effective rank; dense where it is small."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, eigsh

from ..support.checks import check_choice, check_whole
from ..support.display import Certainty, Result
from ..support.errors import InputError
from ..support.progress import Progress, telling
from .hessian import DENSE_LIMIT, Curvature

_ZERO = 1e-10  # eigenvalues below this share of the largest count as zero
_SMALL = 1e-6  # the same for eigenvalues found without writing the matrix down


@dataclass(frozen=True, repr=False)
class SpectrumSummary(Result):
    """What the spectrum of a curvature matrix says.

    Attributes:
        size: Number of parameters P.
        largest: Largest eigenvalue (exact, or converged Lanczos).
        smallest: Smallest eigenvalue.
        smallest_nonzero: Smallest eigenvalue above 1e-10 of the largest; None if the matrix was not written down.
        condition: largest over smallest eigenvalue in size; inf if the latter is below 1e-10 (matrix-free: 1e-6) of the
            former; nan where it was not found (matrix-free, with eigenvalues of both signs).
        trace: Sum of the eigenvalues.
        trace_error: Standard error of the trace; 0 if exact.
        effective_rank: `(sum of eigenvalues)^2 / sum of their squares`: between 1 and P if none is negative, less
            (down to 0) where signs cancel.
        rank: Eigenvalues above 1e-10 of the largest; None if the matrix was not written down.
        method: "dense" (exact), or "matrix-free" (trace and effective rank are estimates).
    """

    size: int
    largest: float
    smallest: float
    smallest_nonzero: float | None
    condition: float
    trace: float
    trace_error: float
    effective_rank: float
    rank: int | None
    method: str

    @property
    def certainty(self) -> Certainty:
        """ "exact", or "estimate" where the matrix was not written down."""
        return "estimate" if self.method == "matrix-free" else "exact"

    @property
    def assurance(self) -> str:
        if self.certainty == "exact":
            return super().assurance
        return (
            "The extremes are converged (the largest to 1e-10 of itself, the smallest to 1e-6 of the largest); trace "
            "and effective rank are estimates by random vectors, with the trace's standard error."
        )


def spectrum_summary(
    operator: Curvature, *, method: Literal["auto", "dense", "matrix-free"] = "auto", probes: int = 32,
    generator: torch.Generator | None = None, progress: Progress | bool | None = None,
) -> SpectrumSummary:  # fmt: skip
    """Extreme eigenvalues, condition number, trace and effective rank of a curvature matrix.

    Args:
        operator: From `curvature`.
        method: "dense": exact, from the matrix; "matrix-free": from products alone. "auto": dense up to 4,096
            parameters.
        probes: Random vectors for trace and effective rank where it is matrix-free.
        generator: Source of the random vectors.
        progress: As in `tessellate`.

    Cost: "dense": P products, each about 3 gradients; "matrix-free": 30 to 100 products for the largest eigenvalue,
    thousands for the smallest (none where N C < P: it is 0), and `probes`.
    """
    check_choice(method, "method", ("auto", "dense", "matrix-free"))
    probes = check_whole(probes, "probes")
    size = operator.shape[0]
    with telling(progress, "spectrum") as tell:
        tell(0.0, "matrix")
        if method == "dense" or (method == "auto" and size <= DENSE_LIMIT):
            return _exact(np.linalg.eigvalsh(operator.dense()))
        announced = _telling(operator, tell, 0.0, "largest eigenvalue")
        large = float(extreme_eigenvalues(announced, 1, generator=generator)[0])
        small = 0.0  # of a positive semi-definite matrix of a rank below its side
        if (getattr(operator, "rank_bound", None) or size) >= size:
            announced = _telling(operator, tell, 0.1, "smallest eigenvalue")
            small = float(extreme_eigenvalues(announced, 1, largest=False, generator=generator)[0])
        signs = torch.randint(0, 2, (size, probes), generator=generator).numpy() * 2.0 - 1.0
        tell(0.9, "trace")
        products = operator @ signs
    traces = (signs * products).sum(0)
    squares = float((products**2).sum(0).mean())
    trace, error = float(traces.mean()), float(traces.std(ddof=1) / np.sqrt(probes)) if probes > 1 else np.inf
    condition = _condition(large, small, _SMALL) if small >= -_SMALL * abs(large) else float("nan")
    rank = _participation(trace, squares)
    return SpectrumSummary(size, large, small, None, condition, trace, error, rank, None, "matrix-free")


def _telling(operator: LinearOperator, tell: Progress, share: float, what: str) -> LinearOperator:
    """The operator, telling how many products were made: how many there will be is not known beforehand."""
    made = itertools.count(1)

    def product(vector: np.ndarray) -> np.ndarray:
        tell(share, f"{what}, {next(made)} products")
        return np.asarray(operator @ vector)

    return LinearOperator(operator.shape, matvec=product, matmat=lambda m: operator @ m, dtype=np.float64)


def _exact(values: np.ndarray) -> SpectrumSummary:
    """The summary of all eigenvalues, ascending."""
    sizes = np.abs(values)
    condition = _condition(float(sizes.max()), float(sizes.min()), _ZERO)
    nonzero = values[sizes > _ZERO * sizes.max()]
    smallest_nonzero = float(nonzero[np.argmin(np.abs(nonzero))]) if len(nonzero) else None
    return SpectrumSummary(
        len(values), float(values[-1]), float(values[0]), smallest_nonzero, condition, float(values.sum()), 0.0,
        _participation(float(values.sum()), float((values**2).sum())), len(nonzero), "dense",
    )  # fmt: skip


def extreme_eigenvalues(
    operator: LinearOperator, count: int = 1, *, largest: bool = True, generator: torch.Generator | None = None
) -> np.ndarray:
    """`[count]` largest eigenvalues, descending (or smallest, ascending), by Lanczos (scipy `eigsh`).

    The largest are converged to 1e-10 of themselves. The smallest are found as the largest of `largest * I - operator`,
    to 1e-6 of the largest: curvature spectra crowd at zero, where more digits would take very many products.
    """
    size = operator.shape[0]
    if not 1 <= count <= size:
        raise InputError(f"count must be from 1 to {size}, got {count!r}.")
    if size <= max(2 * count + 1, 20):
        values = np.linalg.eigvalsh(operator @ np.eye(size))
        return values[::-1][:count] if largest else values[:count]
    start = torch.randn(size, generator=generator, dtype=torch.float64).numpy()
    if not np.any(operator @ start):  # the zero matrix (a layer whose units are all off), on which ARPACK fails
        return np.zeros(count)
    top = eigsh(operator, k=count if largest else 1, which="LA", v0=start, return_eigenvectors=False, tol=1e-10)
    if largest:
        return np.sort(top)[::-1]
    shift = float(top[0])
    mirrored = LinearOperator(operator.shape, matvec=lambda v: shift * v - operator @ v, dtype=np.float64)
    return np.sort(shift - eigsh(mirrored, k=count, which="LA", v0=start, return_eigenvectors=False, tol=_SMALL))


def _condition(large: float, small: float, zero: float) -> float:
    return float("inf") if abs(small) <= zero * abs(large) else abs(large) / abs(small)


def _participation(total: float, squares: float) -> float:
    return total**2 / squares if squares > 0 else 0.0
