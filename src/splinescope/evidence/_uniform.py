"""The uniform law on a part of a generator's manifold by Markov chains, and data compared with it.

In many latent dimensions a pool of the model's own draws, weighted, is worth a handful of draws of the uniform law
(`ManifoldLaw.effective`). Metropolis walks reach it: latents of density vol(z) inside a bounded domain.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.stats import ks_2samp, kstwobign, spearmanr
from torch import Tensor, nn

from ..generative import Box, Gaussian, TruncatedGaussian, log_volume, project
from ..generative.metropolis import Chains, metropolis

_BURN, _APART, _RECORDS = 600, 100, 5
"""Steps before a chain's first record, steps between two, records."""


def uniform_walks(model: nn.Module, domain: TruncatedGaussian, chains: int, seed: int) -> Tensor:
    """`[chains, records, d]` latents whose outputs are uniform on what the generator makes of the domain.

    Even chains begin at the model's draws, odd ones evenly in the domain: where both agree they have forgotten it.
    """
    rng = torch.Generator().manual_seed(seed)
    drawn, evenly = domain.draw(chains, rng), Box(domain.size, -domain.bound, domain.bound).draw(chains, rng)
    z = torch.where((torch.arange(chains) % 2 == 0)[:, None], drawn, evenly)

    def evaluate(z: Tensor) -> tuple[Tensor, Tensor]:
        volume = log_volume(model, z, progress=False).log
        inside = torch.isfinite(domain.log_density(z))
        return volume, torch.where(inside, volume, torch.full_like(volume, -torch.inf))

    stand, records = Chains(z, torch.empty(0)), []
    for steps in (_BURN, *[_APART] * (_RECORDS - 1)):
        stand = metropolis(evaluate, domain, stand, steps, stand.step_size, rng, lambda share: None)
        records.append(stand.latents)
    return torch.stack(records, 1)


def uniform_law(
    model: nn.Module,
    x: Tensor,
    domain: TruncatedGaussian,
    walks: Tensor,
    *,
    pool: int = 1000,
    reference: int = 150,
    draws: int = 2000,
    seed: int = 0,
) -> dict[str, float]:
    """Are data that project into the domain uniform on the manifold there? By their -log q, as in `manifold_law`.

    All is projected without a bound, and what ends outside the domain is left out, of data and references alike: data
    uniform on a manifold are uniform on each part of it. References are moved off the manifold as the data are. The
    chains' first records are where projections begin, beside the model's draws; the later ones are the reference.

    Returns:
        p values of the uniform law, `uniform` of the mean and `distribution` by Kolmogorov and Smirnov's distance, and
        of the model's law in the domain, `model`, of the mean; how many data were compared (`inside`) and independent
        draws of the uniform law with them (`effective`); by how many standard errors chains from two kinds of starts
        differ (`apart`); `kept` as in `ManifoldLaw`, over the uniform reference. nan where fewer than two are inside.
    """
    rng, random = torch.Generator().manual_seed(seed), np.random.default_rng(seed)
    starts = torch.cat([domain.draw(pool, rng), walks[:, 0]])
    own = _surprise(model, walks[:, 1:].flatten(0, 1), domain).reshape(len(walks), -1)
    apart, worth = _mixed(own)

    def projected(outputs: Tensor) -> Tensor:
        return project(model, outputs, Gaussian(domain.size), starts, starts=2, steps=20).latents

    latents = projected(x)
    values = _surprise(model, latents, domain)
    inside = np.isfinite(values)
    found = {"inside": float(inside.sum()), "apart": apart}
    if inside.sum() < 2:
        names = ("uniform", "distribution", "model", "effective", "kept")
        return found | dict.fromkeys(names, float("nan"))
    values, like = values[inside], next(model.parameters())
    with torch.no_grad():
        off = (x.to(like).flatten(1) - model(latents.to(like)).flatten(1))[torch.from_numpy(inside)]

    def seen(z: Tensor) -> np.ndarray:
        with torch.no_grad():
            made = model(z.to(like)).flatten(1) + off[torch.randint(len(off), (len(z),), generator=rng)]
        return _surprise(model, projected(made), domain)

    even = seen(walks[:, 1:].flatten(0, 1)).reshape(own.shape)
    ended = np.isfinite(even) & np.isfinite(own)
    effective = worth * float(ended.mean())
    distance = ks_2samp(values, even[ended]).statistic
    size = len(values) * effective / (len(values) + effective)
    return found | {
        "uniform": _p_value(values, even, draws, random),
        "distribution": float(kstwobign.sf(distance * math.sqrt(size))),
        "model": _p_value(values, seen(domain.draw(reference, rng))[:, None], draws, random),
        "effective": effective,
        "kept": float(spearmanr(own[ended], even[ended]).statistic),
    }


def _surprise(model: nn.Module, z: Tensor, domain: TruncatedGaussian) -> np.ndarray:
    """`[n]` -log q = log vol - log p; not finite outside the domain and where there is no volume."""
    return (log_volume(model, z, progress=False).log - domain.log_density(z)).numpy()


def _mixed(own: np.ndarray) -> tuple[float, float]:
    """Of `[chains, records]` values: by how many standard errors even and odd chains differ, and how many independent
    draws all are worth, by the spread of the chains' means.
    """
    means = own.mean(1)
    even, odd = means[::2], means[1::2]
    error = math.sqrt(even.var(ddof=1) / len(even) + odd.var(ddof=1) / len(odd))
    return abs(float(even.mean() - odd.mean())) / error, min(own.size, len(own) * float(own.var() / means.var(ddof=1)))


def _p_value(values: np.ndarray, chains: np.ndarray, draws: int, random: np.random.Generator) -> float:
    """Two-sided, of the mean of values, by bootstrap of the reference's whole chains and of as many values from it."""
    finite = np.isfinite(chains)
    sums, counts = np.where(finite, chains, 0.0).sum(1), finite.sum(1)
    chosen = random.integers(len(chains), size=(draws, len(chains)))
    centre = sums.sum() / counts.sum()
    errors = sums[chosen].sum(1) / np.maximum(1, counts[chosen].sum(1)) - centre
    null = random.choice(chains[finite], (draws, len(values))).mean(1) + errors
    less = min((null >= values.mean()).mean(), (null <= values.mean()).mean())
    return float(min(1.0, 2 * (less * draws + 1) / (draws + 1)))
