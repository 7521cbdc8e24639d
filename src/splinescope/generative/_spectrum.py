"""Singular values of Jacobians that are known as columns, or only as an operator."""

from __future__ import annotations

import torch
from torch import Tensor

from ..support.errors import InputError
from .pushforward import LatentMap

_SQUARING_LIMIT = 1e-6  # eigenvalue ratio of A^T A below which float64 squaring costs more than 1e-9 of a value


def singular_values_of(columns: Tensor) -> Tensor:
    """`[n, b]` singular values, descending, of Jacobians given as columns `[n, b, D]`; float64.

    By the Gram matrix, which squares the condition: ill-conditioned float64 columns are decomposed themselves.
    """
    wide = columns.to(torch.float64)
    gram = _finite(wide @ wide.mT)
    values = torch.linalg.eigvalsh(gram).clamp_min(0.0)
    result = values.sqrt().flip(-1)
    if columns.dtype == torch.float64 and columns.shape[1] and columns.shape[2]:
        ill = ~(values[:, 0] > _SQUARING_LIMIT * values[:, -1])
        if bool(ill.any()):
            direct = torch.linalg.svdvals(wide[ill])
            result[ill] = 0.0
            result[ill, : direct.shape[1]] = direct
    return result


def gram_by_blocks(mapping: LatentMap, z: Tensor, basis: Tensor, condition: Tensor | None, block: int) -> Tensor:
    """`[n, b, b]` Gram matrix `T^T A^T A T` in float64 without holding A: a block forward, then back in reverse."""
    pull = mapping.pull_back(z, condition)
    every = basis.movedim(0, 1).expand(len(z), -1, -1).to(torch.float64)
    parts = []
    for start in range(0, len(basis), block):
        images = pull(mapping.columns(z, basis[start : start + block], condition)).to(torch.float64)
        parts.append(images @ every.mT)
    gram = _finite(torch.cat(parts, 1))
    return (gram + gram.mT) / 2


def krylov_top(
    mapping: LatentMap,
    z: Tensor,
    basis: Tensor,
    condition: Tensor | None,
    k: int,
    tolerance: float,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """The k largest singular values of `A T` `[n, k]` and a bound `[n]` on the error of their log product.

    Block Krylov: Rayleigh-Ritz in the span of `V, G V, G^2 V...`, `G = T^T A^T A T`, V random. A
    Ritz value theta with residual r is within r of an eigenvalue of G: stops when `sum_i r_i / (2 theta_i)` is small.
    """
    pull = mapping.pull_back(z, condition)
    every = basis.movedim(0, 1).expand(len(z), -1, -1)
    size, width = every.shape[1], k + 8

    def apply(vectors: Tensor) -> Tensor:  # [n, b, size] -> [n, b, size]
        images = mapping.columns(z, (vectors.to(z.dtype) @ every).movedim(1, 0), condition)
        return (pull(images) @ every.mT).to(torch.float64)

    start = torch.randn(len(z), width, size, generator=generator, dtype=torch.float64).to(z.device)
    space = _orthonormal(start, None)
    images = apply(space)
    while True:
        projected = _finite(space @ images.mT)
        theta, turn = torch.linalg.eigh((projected + projected.mT) / 2)
        theta, turn = theta[:, -k:].flip(-1).clamp_min(0.0), turn[:, :, -k:].flip(-1)
        residual = turn.mT @ images - theta[..., None] * (turn.mT @ space)
        relative = residual.norm(dim=2) / theta.clamp_min(torch.finfo(torch.float64).tiny)
        error = torch.where(theta > 0, relative, torch.zeros_like(relative)).sum(1) / 2
        left = size - space.shape[1]
        if left == 0:
            return theta.sqrt(), torch.zeros_like(error)
        if bool((error <= tolerance).all()):
            return theta.sqrt(), error
        fresh = _orthonormal(images[:, -min(width, left) :], space)
        space = torch.cat([space, fresh], 1)
        images = torch.cat([images, apply(fresh)], 1)


def _finite(gram: Tensor) -> Tensor:
    """Gram matrices `[n, b, b]` as given; an error where a Jacobian was not finite, before LAPACK trips over it."""
    bad = int((~gram.isfinite().flatten(1).all(1)).sum())
    if bad:
        raise InputError(
            f"the generator's Jacobian must be finite, got NaN or infinite values at {bad} of {len(gram)} latents that "
            "went through together."
        )
    return gram


def _orthonormal(rows: Tensor, against: Tensor | None) -> Tensor:
    """As many orthonormal rows, orthogonal to the orthonormal rows `against`, that with them span `rows`."""
    stacked = rows if against is None else torch.cat([against, rows], 1)
    return torch.linalg.qr(stacked.mT).Q.mT[:, -rows.shape[1] :]
