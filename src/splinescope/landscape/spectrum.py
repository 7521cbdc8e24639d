"""Spectra of symmetric operators: extreme eigenvalues, density, trace, effective rank; dense where it is small."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from scipy.linalg import eigh_tridiagonal
from scipy.sparse.linalg import LinearOperator, eigsh

from ..support.checks import check_choice, check_whole
from ..support.display import Certainty, Result
from ..support.drawing import drawn
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
        method: "factor" or "dense" (exact), or "matrix-free" (trace and effective rank are estimates).
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


@dataclass(frozen=True, eq=False, repr=False)
class SpectralDensity(Result):
    """The spectrum as a weighted set of points (Gauss quadrature by Lanczos), an estimate of its distribution.

    Attributes:
        nodes: `[M]` Ritz values, ascending.
        weights: `[M]`, summing to 1: the share of eigenvalues each stands for.
    """

    nodes: np.ndarray
    weights: np.ndarray
    certainty = "estimate"
    plot = drawn("landscape.plot_spectral_density")

    def on(self, grid: np.ndarray, width: float) -> np.ndarray:
        """The density on a grid, every node widened to a Gaussian of this standard deviation."""
        z = (np.asarray(grid)[:, None] - self.nodes[None]) / width
        return (self.weights * np.exp(-0.5 * z**2)).sum(1) / (width * np.sqrt(2 * np.pi))


def spectrum_summary(
    operator: Curvature,
    *,
    method: Literal["auto", "factor", "dense", "matrix-free"] = "auto",
    probes: int = 32,
    generator: torch.Generator | None = None,
    progress: Progress | bool | None = None,
) -> SpectrumSummary:
    """Extreme eigenvalues, condition number, trace and effective rank of a curvature matrix.

    Args:
        operator: From `curvature`.
        method: "factor": exact, from `A` with `A^T A` the matrix (Gauss-Newton matrices of named losses); "dense":
            exact, from the matrix; "matrix-free": from products alone. "auto" takes the first that is affordable:
            a factor of up to 64 million numbers with a side of at most 4,096, a matrix of at most 4,096 parameters.
        probes: Random vectors for trace and effective rank where it is matrix-free.
        generator: Source of the random vectors.
        progress: None: shown once it takes a few seconds; True, False, or a function of (share done, what it is at).

    Cost: "factor": C backward passes of the data; "dense": P products, each about 3 gradients; "matrix-free": 30 to 100
    products for the largest eigenvalue, thousands for the smallest (none where N C < P: it is 0), and `probes`.
    Products of a dense matrix go 32 at a time, which costs as much as 4 alone: measured at 2,058 parameters and 300
    points, the three take 0.9, 1.9 and 25 s.
    """
    check_choice(method, "method", ("auto", "factor", "dense", "matrix-free"))
    probes = check_whole(probes, "probes")
    with telling(progress, "spectrum") as tell:
        return _summarised(operator, method, probes, generator, tell)


def _summarised(
    operator: Curvature, method: str, probes: int, generator: torch.Generator | None, tell: Progress
) -> SpectrumSummary:
    size = operator.shape[0]
    tell(0.0, "matrix")
    bound = getattr(operator, "rank_bound", None) or 0
    fits = isinstance(operator, Curvature) and min(bound, size) <= DENSE_LIMIT
    factor = operator.factor() if method == "factor" or (method == "auto" and fits) else None
    if factor is not None:
        return _exact(_squared_singular_values(factor), "factor")
    if method == "factor":
        raise InputError(
            "method='factor' needs a Gauss-Newton matrix of a named loss of at most 64 million numbers (points times "
            "outputs times parameters): use 'auto', fewer points or a layer."
        )
    if method == "dense" or (method == "auto" and size <= DENSE_LIMIT):
        return _exact(np.linalg.eigvalsh(operator.dense()), "dense")
    large = float(extreme_eigenvalues(_telling(operator, tell, 0.0, "largest eigenvalue"), 1, generator=generator)[0])
    small = 0.0  # by its size, where it is positive semi-definite of a rank below its side
    if not (getattr(operator, "factored", False) and bound < size):
        announced = _telling(operator, tell, 0.1, "smallest eigenvalue")
        small = float(extreme_eigenvalues(announced, 1, largest=False, generator=generator)[0])
    signs = torch.randint(0, 2, (size, probes), generator=generator).numpy() * 2.0 - 1.0
    tell(0.9, "trace")
    products = operator @ signs
    traces = (signs * products).sum(0)
    squares = float((products**2).sum(0).mean())
    trace, error = float(traces.mean()), float(traces.std(ddof=1) / np.sqrt(probes)) if probes > 1 else np.inf
    rank = _participation(trace, squares)
    condition = _condition(large, small, _SMALL) if small >= -_SMALL * abs(large) else float("nan")
    return SpectrumSummary(size, large, small, None, condition, trace, error, rank, None, "matrix-free")


def _telling(operator: LinearOperator, tell: Progress, share: float, what: str) -> LinearOperator:
    """The operator, telling how many products were made: how many there will be is not known beforehand."""
    made = itertools.count(1)

    def product(vector: np.ndarray) -> np.ndarray:
        tell(share, f"{what}, {next(made)} products")
        return np.asarray(operator @ vector)

    return LinearOperator(operator.shape, matvec=product, matmat=lambda m: operator @ m, dtype=np.float64)


def _squared_singular_values(factor: np.ndarray) -> np.ndarray:
    """`[P]` eigenvalues of `A^T A`, ascending, by the smaller of the two Gram matrices of A `[rows, P]`."""
    rows, size = factor.shape
    values = np.linalg.eigvalsh(factor @ factor.T if rows < size else factor.T @ factor).clip(min=0.0)
    return np.concatenate([np.zeros(max(0, size - rows)), values])


def _exact(values: np.ndarray, method: str) -> SpectrumSummary:
    """The summary of all eigenvalues, ascending."""
    large, small = float(values[-1]), float(values[0])
    sizes = np.abs(values)
    condition = _condition(float(sizes.max()), float(sizes.min()), _ZERO)
    nonzero = values[np.abs(values) > _ZERO * np.abs(values).max()]
    smallest_nonzero = float(nonzero[np.argmin(np.abs(nonzero))]) if len(nonzero) else None
    return SpectrumSummary(
        len(values), large, small, smallest_nonzero, condition, float(values.sum()), 0.0,
        _participation(float(values.sum()), float((values**2).sum())), len(nonzero), method,
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


def spectral_density(
    operator: LinearOperator, *, steps: int = 60, probes: int = 8, generator: torch.Generator | None = None
) -> SpectralDensity:
    """The distribution of eigenvalues by stochastic Lanczos quadrature: an estimate that needs only products.

    Each probe runs `steps` of Lanczos with full reorthogonalisation; moments up to degree 2 steps - 1 are exact for
    the probe, and averaging over probes has an error of order `1 / sqrt(probes P)`.

    Cost: steps * probes products, steps * P numbers of memory.

    Reference: Ghorbani, Krishnan, Xiao, "An Investigation into Neural Net Optimization via Hessian Eigenvalue Density".
    """
    if steps < 1 or probes < 1:
        raise InputError(f"steps and probes must be at least 1, got {steps!r} and {probes!r}.")
    nodes, weights = [], []
    for _ in range(probes):
        start = torch.randn(operator.shape[0], generator=generator, dtype=torch.float64).numpy()
        alpha, beta = _lanczos(operator, start, min(steps, operator.shape[0]))
        values, vectors = eigh_tridiagonal(alpha, beta)
        nodes.append(values)
        weights.append(vectors[0] ** 2 / probes)
    order = np.argsort(np.concatenate(nodes), kind="stable")
    return SpectralDensity(np.concatenate(nodes)[order], np.concatenate(weights)[order])


def _lanczos(operator: LinearOperator, start: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Diagonal and off-diagonal of the tridiagonal matrix; ends early when the space is exhausted."""
    basis = np.zeros((steps, len(start)))
    basis[0] = start / np.linalg.norm(start)
    alpha: list[float] = []
    beta: list[float] = []
    for i in range(steps):
        w = np.asarray(operator @ basis[i])
        alpha.append(float(basis[i] @ w))
        for _ in range(2):  # twice is enough
            w = w - basis[: i + 1].T @ (basis[: i + 1] @ w)
        norm = float(np.linalg.norm(w))
        if i + 1 == steps or norm <= 1e-12 * max(map(abs, [*alpha, *beta])):
            break
        beta.append(norm)
        basis[i + 1] = w / norm
    return np.array(alpha), np.array(beta)


def _condition(large: float, small: float, zero: float) -> float:
    return float("inf") if abs(small) <= zero * abs(large) else abs(large) / abs(small)


def _participation(total: float, squares: float) -> float:
    return total**2 / squares if squares > 0 else 0.0
