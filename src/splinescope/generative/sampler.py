"""`PolaritySampler` (and `MagnetSampler`): draw from a trained generator's manifold by a law of our choosing."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..network import SplineNetwork
from ..network.outputs import one_tensor
from ..network.readable import floating_like
from ..support.checks import check_choice, check_module, check_whole
from ..support.display import Result, Shown, table
from ..support.errors import InputError
from ..support.progress import Progress, check_progress, telling
from .cache import SHARD, Pool, fingerprint, gather
from .domains import LatentDomain, check_domain
from .pushforward import Generator
from .resampling import Chains, effective_size, metropolis, rejected, resampled
from .volume import Volumes, log_volume

OUTPUTS = ("after", "before")


class EffectiveSizeWarning(UserWarning):
    """The weights have collapsed onto few proposals: samples repeat and say little."""


@dataclass(frozen=True, eq=False, repr=False)
class Samples(Result):
    """What a sampler draws.

    Attributes:
        latents: `[n, d]` float64.
        outputs: `[n, ...]` what the generator makes of them.
        log_volume: `[n]` at the latents.
        effective_size: Of the pool under these weights; for Metropolis, nan.
        acceptance: Share of proposals accepted (rejection, Metropolis); 1 for resampling.
        rho: The power they were drawn by.
        output: Whether volumes are those "after" the generator's final tanh, sigmoid or softmax, or "before" it.
        method: "resample", "rejection" or "metropolis".

    An estimate: the law holds for a pool (or a walk) without end.
    """

    latents: Tensor
    outputs: Tensor
    log_volume: Tensor
    effective_size: float
    acceptance: float
    rho: float
    output: str
    method: str
    certainty = "estimate"

    @property
    def law(self) -> str:
        """What the samples follow, in words."""
        where = "outputs" if self.output == "after" else "outputs before their final squashing function"
        if self.rho == 1:
            return f"uniform on the set of the generator's {where}"
        return f"p_model^(1 - rho) with rho = {self.rho:g}, per volume of the set of the generator's {where}"

    def __repr__(self) -> str:
        return (
            f"Samples({len(self.latents):,} by {self.method}, rho={self.rho:g}, output={self.output!r}, outputs "
            f"{tuple(self.outputs.shape[1:])}, {self.certainty})"
        )

    def summary(self) -> str:
        """The samples in words."""
        rows = [("samples", f"{len(self.latents):,}"), ("law", self.law), ("method", self.method),
                ("distinct latents", f"{len(torch.unique(self.latents, dim=0)):,}"),
                ("effective size", "-" if math.isnan(self.effective_size) else f"{self.effective_size:,.1f}"),
                ("acceptance", f"{self.acceptance:.3g}")]  # fmt: skip
        return f"{table(rows)}\n{self.assurance}"


class PolaritySampler(Shown):
    """Samples a generator by the law `p(x) ~ p_model(x)^(1 - rho)` on its manifold; no retraining.

    The model draws z from p_z; its output then has the density `p_model = p_z(z) / vol(z)` per volume of the
    manifold, with `vol = prod_i sigma_i` of the generator's Jacobian. The sampler weights latents so that they
    follow

        `p(z) ~ p_z(z)^(1 - rho) * vol(z)^rho`

    rho = 0 is the model's own law, rho = 1 the uniform law on the manifold (MaGNET), rho < 0 goes to modes, rho > 1
    to anti-modes. For uniform p_z this is `vol^rho`. With the convention `det(A^T A)^rho` of the survey, MaGNET
    is at 1/2. Where the generator is not injective, "uniform" counts each sheet of the manifold that covers a place.

    Args:
        model: A module from `[n, *latent shape]` to `[n, ...]`, in eval mode. Not changed.
        domain: Where latents live and how the model draws them; see `domains`.
        rho: The power.
        pool: How many proposals to draw and weight.
        divide_prior: False targets `p_z * vol^rho` (what public code does for normal latents: not uniform at rho = 1).
        top_k: Volume of the k largest singular values only; needed where the manifold has fewer dimensions than the
            latent (then the whole volume is zero).
        output: Volumes "after" the generator's final tanh, sigmoid or softmax, so that "the manifold" is the set of
            what it returns, or "before" it. `tiled_manifold` has the same default.
        latent_shape: Shape of one latent as the generator takes it; `(d,)` if None.
        seed: Of the pool and of the draws; the same seed gives the same samples.
        cache: Folder that keeps the pool's volumes; work resumes there.
        progress: None: shown once it takes a few seconds; True, False, or a function of (share done, what it is at).

    Example:
        >>> import torch
        >>> from splinescope.generative import Box
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
        >>> sampler = PolaritySampler(model, Box(2), rho=1.0, pool=512, progress=False)
        >>> sampler.sample(10).outputs.shape
        torch.Size([10, 3])

    Reference: Humayun, Balestriero, Baraniuk, "MaGNET" (ICLR 2022) and "Polarity Sampling" (CVPR 2022).
    """

    def __init__(
        self, model: Generator, domain: LatentDomain, *, rho: float = 1.0, pool: int = 4096,
        divide_prior: bool = True, top_k: int | None = None, output: str = "after",
        latent_shape: tuple[int, ...] | None = None, seed: int = 0, cache: str | os.PathLike[str] | None = None,
        progress: Progress | bool | None = None,
    ) -> None:  # fmt: skip
        if isinstance(model, SplineNetwork):
            model = model.module  # with the ending that its tiling leaves out
        check_module(model)
        check_domain(domain)
        pool = check_whole(pool, "pool")
        _check_power(rho)
        if divide_prior and not domain.bounded and rho >= 1:
            raise InputError(
                f"rho={rho} has no law on an unbounded latent domain (uniform on an infinite manifold): use rho < 1, a "
                "bounded domain (Ball, TruncatedGaussian, Box, Sphere), or divide_prior=False for p_z * vol^rho."
            )
        shape = (domain.size,) if latent_shape is None else tuple(latent_shape)
        if torch.Size(shape).numel() != domain.size:
            raise InputError(f"latent_shape must hold the domain's {domain.size} numbers, got {shape}.")
        check_progress(progress)
        self.model, self.domain, self.rho, self.divide_prior = model, domain, float(rho), divide_prior
        self.top_k, self.output = top_k, check_choice(output, "output", OUTPUTS)
        self.latent_shape, self.seed = shape, seed
        self._size, self._cache, self._progress = pool, cache, progress
        self._pool: Pool | None = None

    def __repr__(self) -> str:
        state = "drawn" if self._pool is not None else "not drawn yet"
        return (
            f"{type(self).__name__}({type(self.model).__name__}, {self.domain!r}, rho={self.rho:g}, "
            f"output={self.output!r}, pool of {self._size:,}, {state})"
        )

    def summary(self) -> str:
        """What it draws from, by which law, and what is known of its pool."""
        pool = self._pool.summary() if self._pool is not None else "Its pool is drawn with the first sample."
        law = f"p_z{'^(1 - rho)' * self.divide_prior} * vol^rho with rho = {self.rho:g}"
        return f"{self!r}\nLatents follow {law}, volumes {self.output} the final squashing function.\n{pool}"

    @property
    def pool(self) -> Pool:
        """The proposals and their volumes; computed (or read from the cache) when first asked for."""
        if self._pool is None:
            settings = (self.domain, self.top_k, self.output, self.latent_shape, self.seed)
            key = fingerprint(self.model, *settings)
            with telling(self._progress, "volumes") as report:
                self._pool = gather(self._size, self._shard, folder=self._cache, key=key, progress=report)
        return self._pool

    def log_weights(self, rho: float | None = None) -> Tensor:
        """`[N]` log weights of the pool, their largest 0; -inf for latents whose volume is zero (at rho != 0)."""
        rho = self.rho if rho is None else _check_power(rho)
        pool = self.pool
        weights = self._log_target(pool.latents, pool.log_volume, rho) - self.domain.log_density(pool.latents)
        if not bool(weights.isfinite().any()):
            raise InputError(
                f"all {len(pool)} volumes are zero: the manifold has fewer dimensions than the latent's "
                f"{self.domain.size}. Use top_k (ranks here: {int(pool.rank.min())} to {int(pool.rank.max())})."
            )
        return weights - weights.max()

    def effective_size(self, rho: float | None = None) -> float:
        """`(sum w)^2 / sum w^2`: how many equally weighted proposals the pool is worth; N at rho = 0."""
        return effective_size(self.log_weights(rho))

    def sample(
        self, count: int, *, rho: float | None = None, method: str = "resample", steps: int = 100,
        step_size: float | None = None, progress: Progress | bool | None = None,
    ) -> Samples:  # fmt: skip
        """Draw n samples.

        Args:
            count: How many.
            rho: Another power than the sampler's; the pool serves all powers.
            method: "resample" from the pool by weight; "rejection": walk through the pool and accept in proportion
                to the weight: independent and distinct samples, exact up to the largest weight being the pool's;
                "metropolis": n random walks started from the resampled pool, which move off it.
            steps: Of Metropolis.
            step_size: Of Metropolis, in units of latent space; tuned to an acceptance of about 0.3 if None.
            progress: Of Metropolis. None: shown if it takes a few seconds, unless the sampler was made with False;
                True, False, or a function of the share done.

        Returns:
            `Samples`; the same arguments give the same samples.
        """
        check_choice(method, "method", ("resample", "rejection", "metropolis"))
        count = check_whole(count, "count")
        check_progress(progress)
        quiet = False if progress is None and self._progress is False else progress
        rho = self.rho if rho is None else _check_power(rho)
        rng = torch.Generator().manual_seed((self.seed * 1_000_003 + 999_983) % 2**32)  # apart from the shards'
        weights = self.log_weights(rho)
        size = effective_size(weights)
        if method == "rejection":
            chosen, acceptance = rejected(weights, count, rng)
        else:
            chosen, acceptance = resampled(weights, count, rng), 1.0
        if size < count and method == "resample":
            warnings.warn(
                f"{count} samples are asked of a pool of {len(weights)} whose effective size at rho={rho:g} is "
                f"{size:.1f}: samples will repeat. Use a larger pool, a smaller |rho|, top_k, or method='metropolis'.",
                EffectiveSizeWarning,
                stacklevel=2,
            )
        z, volume = self.pool.latents[chosen], self.pool.log_volume[chosen]
        if method == "metropolis":
            walk = metropolis(self._evaluate(rho), self.domain, Chains(z, volume), steps, step_size, rng, quiet)
            z, volume, acceptance, size = walk.latents, walk.log_volume, walk.acceptance, float("nan")
        return Samples(z, self.generate(z), volume, size, acceptance, rho, self.output, method)

    def generate(self, latents: Tensor, *, batch_size: int = 256) -> Tensor:
        """The generator's outputs `[n, ...]` at latents `[n, d]`, in batches and without gradients."""
        with torch.no_grad():
            return torch.cat([one_tensor(self.model(z)) for z in self._shaped(latents).split(batch_size)])

    def _shard(self, number: int, n: int) -> Pool:
        rng = torch.Generator().manual_seed((self.seed * 1_000_003 + number) % 2**32)  # torch keeps 32 bits of a seed
        z = self.domain.draw(SHARD, rng)[:n]
        found = self._volumes(z)
        return Pool(z, found.singular_values.cpu(), found.rank.cpu(), found.log.cpu())

    def _volumes(self, z: Tensor) -> Volumes:
        along = self.domain.tangents(z)
        return log_volume(
            self.model, self._shaped(z), top_k=self.top_k, output=self.output, tangents=along, progress=False
        )

    def _evaluate(self, rho: float) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        def run(z: Tensor) -> tuple[Tensor, Tensor]:
            volume = self._volumes(z).log.cpu()
            return volume, self._log_target(z, volume, rho)

        return run

    def _log_target(self, z: Tensor, volume: Tensor, rho: float) -> Tensor:
        prior = self.domain.log_density(z)
        if rho == 0:
            return prior
        inside = prior.isfinite() & volume.isfinite()
        target = (1 - rho if self.divide_prior else 1) * prior + rho * volume
        return torch.where(inside, target, torch.full_like(target, -torch.inf))

    def _shaped(self, z: Tensor) -> Tensor:
        like = floating_like(self.model, z)
        return z.to(like.device, like.dtype).unflatten(1, self.latent_shape)


def _check_power(rho: float) -> float:
    if not isinstance(rho, (int, float)) or not math.isfinite(rho):
        raise InputError(f"rho must be a finite number, got {rho!r}.")
    return float(rho)


class MagnetSampler(PolaritySampler):
    """`PolaritySampler` with rho = 1 (its default): uniform on the manifold."""
