"""`log_volume`: how much a generator stretches volume at a latent, sqrt(det(A^T A)) with A its Jacobian there."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..support.checks import check_whole
from ..support.display import Certainty, Result
from ..support.errors import InputError
from ..support.progress import Progress, check_progress, stepping
from .pushforward import Bound, LatentMap, latent_map

_CHUNK_BYTES = 12 << 20  # Jacobians of the latents that go through together: they should stay in the cache
_JACOBIAN_BYTES = 512 << 20  # a single latent's Jacobian beyond this is never formed
_SQUARING_LIMIT = 1e-6  # eigenvalue ratio of A^T A below which float64 squaring costs more than 1e-9 of a value
_TOLERANCE = 1e-9  # of the top-k block method, in the logarithm


@dataclass(frozen=True, eq=False, repr=False)
class Volumes(Result):
    """Volume factors at N latents.

    Attributes:
        log: `[N]` log of the product of all (or the `top_k` largest) singular values of A; -inf where one is zero.
        log_pseudo: `[N]` the same over the non-zero singular values only (0 where all are zero).
        rank: `[N]` how many singular values are non-zero (numerical rank; see `log_volume`).
        singular_values: `[N, k]` descending; k = d, or `top_k`.
        error: `[N]` of `log`: 0 where exact to rounding; a bound for the block method.
        output: "after" the generator's final tanh, sigmoid or softmax, or "before" it.
        certainty: "exact" to rounding; "bound" where `error` bounds it (the block method).

    All are float64 (rank: int64), on the device of the latents.
    """

    log: Tensor
    log_pseudo: Tensor
    rank: Tensor
    singular_values: Tensor
    error: Tensor
    output: str = "after"
    certainty: Certainty = "exact"

    def __len__(self) -> int:
        return len(self.log)

    @property
    def assurance(self) -> str:
        bound = f" Logs are off by at most {float(self.error.max()):.2g}." if self.certainty == "bound" else ""
        return super().assurance + bound


def log_volume(
    model: Bound,
    z: Tensor,
    *,
    top_k: int | None = None,
    output: str = "after",
    tangents: Tensor | None = None,
    rtol: float | None = None,
    batch_size: int | None = None,
    generator: torch.Generator | None = None,
    progress: Progress | bool | None = None,
) -> Volumes:
    """Log of the volume factor `sqrt(det(A^T A)) = prod_i sigma_i(A)` of a generator at latents.

    A is the Jacobian of the generator at z, on a piecewise-affine generator the slope of z's tile; the generator
    maps a small volume dz onto `prod sigma_i dz` of its manifold (equation (10)). Exact: the Gram matrix `A^T A` is
    built in float64 from Jacobian-vector products of whole batches; where squaring would cost digits (float64
    generators with singular values over three decades) the singular values are those of A itself.

    Args:
        model: A module from `[N, *latent shape]` to `[N, ...]`, in eval mode. Not changed. Of a conditional generator
            give a module that fixes the condition.
        z: `[N, *latent shape]`; taken in the generator's dtype and to its device.
        top_k: Only the product of the k largest singular values. Large latents use a block Krylov method that stops
            at an error below 1e-9 in the logarithm, or when it has become exact.
        output: "after" the final tanh, sigmoid or softmax (what the generator returns), or "before" it.
        tangents: `[N, d, k]` directions to restrict A to, e.g. the tangent space of a sphere; all of latent space
            if None.
        rtol: A singular value counts as zero below rtol times the largest; default max(D, d) * eps of the
            generator's dtype.
        batch_size: Latents per batch; by memory if None.
        generator: Source of the block method's start.
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
    random = generator if generator is not None else torch.Generator().manual_seed(0)
    work = _Work(mapping, directions, top_k, random, batch_size)
    with torch.no_grad():
        values, errors = work.run(z, tangents, progress)
    values, errors = values.to(z.device), errors.to(z.device)
    tolerance = rtol if rtol is not None else max(mapping.outputs, directions) * torch.finfo(mapping.dtype).eps
    nonzero = values > tolerance * values.amax(1, keepdim=True) if values.shape[1] else values > 0
    log_pseudo = torch.where(nonzero, values.log(), torch.zeros_like(values)).sum(1)
    rank = nonzero.sum(1)
    log = torch.where(rank == values.shape[1], log_pseudo, torch.full_like(log_pseudo, -torch.inf))
    return Volumes(log, log_pseudo, rank, values, errors, output, "bound" if bool(errors.any()) else "exact")


class _Work:
    """Singular values of a batch of latents, by the method that fits the sizes."""

    def __init__(
        self, mapping: LatentMap, directions: int, top_k: int | None, generator: torch.Generator,
        batch_size: int | None,
    ) -> None:  # fmt: skip
        self.mapping, self.top_k, self.rng = mapping, top_k, generator
        self.kept = directions if top_k is None else top_k
        per_latent = directions * mapping.outputs * (8 + torch.finfo(mapping.dtype).bits // 8)
        # a block costs three passes a vector, and a few blocks are needed
        self.krylov = top_k is not None and 12 * (top_k + 8) < directions
        self.blocked = per_latent > _JACOBIAN_BYTES
        self.block = max(1, _JACOBIAN_BYTES * directions // (4 * per_latent)) if self.blocked else directions
        fitting = max(1, min(1024, _CHUNK_BYTES // max(per_latent, 1)))
        self.chunk = fitting if batch_size is None else check_whole(batch_size, "batch_size")

    def run(self, z: Tensor, tangents: Tensor | None, progress: Progress | bool | None) -> tuple[Tensor, Tensor]:
        values = torch.zeros(len(z), self.kept, dtype=torch.float64)
        errors = torch.zeros(len(z), dtype=torch.float64)
        for start in stepping(range(0, len(z), self.chunk), progress, "volumes"):
            rows = slice(start, start + self.chunk)
            along = None if tangents is None else self.mapping.cast(tangents[rows]).movedim(2, 0)
            found, error = self._chunk(self.mapping.cast(z[rows]), along)
            values[rows], errors[rows] = found[:, : self.kept].cpu(), error.cpu()
        return values, errors

    def _chunk(self, z: Tensor, tangents: Tensor | None) -> tuple[Tensor, Tensor]:
        mapping = self.mapping
        exact = torch.zeros(len(z), dtype=torch.float64, device=z.device)
        basis = (
            torch.eye(mapping.latent_size, dtype=z.dtype, device=z.device)[:, None] if tangents is None else tangents
        )
        if self.krylov:
            assert self.top_k is not None
            return krylov_top(mapping, z, basis, self.top_k, _TOLERANCE, self.rng)
        if self.blocked:
            gram = gram_by_blocks(mapping, z, basis, self.block)
            return torch.linalg.eigvalsh(gram).clamp_min(0.0).sqrt().flip(-1), exact
        return singular_values_of(mapping.columns(z, basis)), exact


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


def krylov_top(
    mapping: LatentMap, z: Tensor, basis: Tensor, k: int, tolerance: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """The k largest singular values of `A T` `[n, k]` and a bound `[n]` on the error of their log product.

    Block Krylov: Rayleigh-Ritz in the span of `V, G V, G^2 V...`, `G = T^T A^T A T`, V random. A
    Ritz value theta with residual r is within r of an eigenvalue of G: stops when `sum_i r_i / (2 theta_i)` is small.
    """
    pull = mapping.pull_back(z)
    every = basis.movedim(0, 1).expand(len(z), -1, -1)
    size, width = every.shape[1], k + 8

    def apply(vectors: Tensor) -> Tensor:  # [n, b, size] -> [n, b, size]
        images = mapping.columns(z, (vectors.to(z.dtype) @ every).movedim(1, 0))
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
