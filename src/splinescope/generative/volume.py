"""`log_volume`: how much a generator stretches volume at a latent, sqrt(det(A^T A)) with A its Jacobian there."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..support.checks import check_whole
from ..support.display import Result
from ..support.errors import InputError
from ..support.progress import Progress, check_progress, stepping
from .pushforward import Bound, LatentMap, latent_map

_CHUNK_BYTES = 12 << 20  # Jacobians of the latents that go through together: they should stay in the cache
_JACOBIAN_BYTES = 512 << 20  # a single latent's Jacobian beyond this is never formed
_SQUARING_LIMIT = 1e-6  # eigenvalue ratio of A^T A below which float64 squaring costs more than 1e-9 of a value


@dataclass(frozen=True, eq=False, repr=False)
class Volumes(Result):
    """Volume factors at N latents.

    Attributes:
        log: `[N]` log of the product of all (or the `top_k` largest) singular values of A; -inf where one is zero.
        log_pseudo: `[N]` the same over the non-zero singular values only (0 where all are zero).
        rank: `[N]` how many singular values are non-zero (numerical rank; see `log_volume`).
        singular_values: `[N, k]` descending; k = d, or `top_k`.
        output: "after" the generator's final tanh, sigmoid or softmax, or "before" it.

    All are float64 (rank: int64), on the device of the latents.
    """

    log: Tensor
    log_pseudo: Tensor
    rank: Tensor
    singular_values: Tensor
    output: str = "after"
    certainty = "exact"

    def __len__(self) -> int:
        return len(self.log)


def log_volume(
    model: Bound, z: Tensor, *, top_k: int | None = None, output: str = "after", tangents: Tensor | None = None,
    rtol: float | None = None, batch_size: int | None = None, progress: Progress | bool | None = None,
) -> Volumes:  # fmt: skip
    """Log of the volume factor `sqrt(det(A^T A)) = prod_i sigma_i(A)` of a generator at latents.

    A is the Jacobian of the generator at z, on a piecewise-affine generator the slope of z's tile; the generator
    maps a small volume dz onto `prod sigma_i dz` of its manifold (equation (10)). Exact: the Gram matrix `A^T A` is
    built in float64 from Jacobian-vector products of whole batches; where squaring would cost digits (float64
    generators with singular values over three decades) the singular values are those of A itself.

    Args:
        model: A module from `[N, *latent shape]` to `[N, ...]`, in eval mode. Not changed. Of a conditional generator
            give a module that fixes the condition.
        z: `[N, *latent shape]`; taken in the generator's dtype and to its device.
        top_k: Only the product of the k largest singular values.
        output: "after" the final tanh, sigmoid or softmax (what the generator returns), or "before" it.
        tangents: `[N, d, k]` directions to restrict A to, e.g. the tangent space of a sphere; all of latent space
            if None.
        rtol: A singular value counts as zero below rtol times the largest; default max(D, d) * eps of the
            generator's dtype.
        batch_size: Latents per batch; by memory if None.
        progress: None: shown once it takes a few seconds; True, False, or a function of (share done, what it is at).

    Returns:
        `Volumes`, with logs, ranks and singular values.

    Cost: d forward-mode tangents per latent, i.e. about d + 1 forward passes, and d^2 D for the Gram matrix. The
    D x d Jacobian of one latent is held only if it is below 512 MB; otherwise the Gram matrix comes from d forward
    and d reverse passes in blocks, and a ratio of singular values beyond 1e7 cannot be told from zero.

    Example:
        >>> import torch
        >>> model = torch.nn.Linear(2, 3, dtype=torch.float64)
        >>> volumes = log_volume(model, torch.zeros(1, 2, dtype=torch.float64))
        >>> bool(torch.isclose(volumes.log.exp() ** 2, torch.linalg.det(model.weight.T @ model.weight)))
        True

    Reference: Balestriero, Humayun, Baraniuk, "On the Geometry of Deep Learning", equation (10); Humayun et al.,
    "MaGNET" (2022).
    """
    check_progress(progress)
    mapping = latent_map(model, z, output=output)
    size = mapping.latent_size
    if tangents is not None and (tangents.dim() != 3 or tangents.shape[:2] != (len(z), size)):
        raise InputError(f"tangents must have shape ({len(z)}, {size}, k), got {tuple(tangents.shape)}.")
    directions = size if tangents is None else tangents.shape[2]
    if top_k is not None:
        check_whole(top_k, "top_k", most=directions)  # the latent size
    per_latent = directions * mapping.outputs * (8 + torch.finfo(mapping.dtype).bits // 8)
    fitting = max(1, min(1024, _CHUNK_BYTES // max(per_latent, 1)))
    chunk = fitting if batch_size is None else check_whole(batch_size, "batch_size")
    block = max(1, _JACOBIAN_BYTES * directions // (4 * per_latent)) if per_latent > _JACOBIAN_BYTES else None
    values = torch.zeros(len(z), top_k or directions, dtype=torch.float64, device=z.device)
    every = torch.eye(size, dtype=mapping.dtype, device=mapping.device)[:, None]
    with torch.no_grad():
        for start in stepping(range(0, len(z), chunk), progress, "volumes"):
            rows = slice(start, start + chunk)
            points = mapping.cast(z[rows])
            basis = every if tangents is None else mapping.cast(tangents[rows]).movedim(2, 0)
            if block is None:
                found = singular_values_of(mapping.columns(points, basis))
            else:
                gram = gram_by_blocks(mapping, points, basis, block)
                found = torch.linalg.eigvalsh(gram).clamp_min(0.0).sqrt().flip(-1)
            values[rows] = found[:, : values.shape[1]].to(z.device)
    tolerance = rtol if rtol is not None else max(mapping.outputs, directions) * torch.finfo(mapping.dtype).eps
    nonzero = values > tolerance * values.amax(1, keepdim=True) if values.shape[1] else values > 0
    log_pseudo = torch.where(nonzero, values.log(), torch.zeros_like(values)).sum(1)
    rank = nonzero.sum(1)
    log = torch.where(rank == values.shape[1], log_pseudo, torch.full_like(log_pseudo, -torch.inf))
    return Volumes(log, log_pseudo, rank, values, output)


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


def gram_by_blocks(mapping: LatentMap, z: Tensor, basis: Tensor, block: int) -> Tensor:
    """`[n, b, b]` Gram matrix `T^T A^T A T` in float64 without holding A: a block forward, then back in reverse."""
    pull = mapping.pull_back(z)
    every = basis.movedim(0, 1).expand(len(z), -1, -1).to(torch.float64)
    parts = [pull(mapping.columns(z, part)).to(torch.float64) @ every.mT for part in basis.split(block)]
    gram = _finite(torch.cat(parts, 1))
    return (gram + gram.mT) / 2


def _finite(gram: Tensor) -> Tensor:
    """Gram matrices `[n, b, b]` as given; an error where a Jacobian was not finite, before LAPACK trips over it."""
    bad = int((~gram.isfinite().flatten(1).all(1)).sum())
    if bad:
        raise InputError(
            f"the generator's Jacobian must be finite, got NaN or infinite values at {bad} of {len(gram)} latents that "
            "went through together."
        )
    return gram
