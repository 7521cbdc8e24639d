"""Where do data lie on a generator's manifold: as the model says, or evenly?

A generator with latent density p maps it to the density `q = p / vol` on its manifold. Between the model's own law and
the uniform one on the manifold lies the family `q^(1 - rho)`: rho = 0 is the model, rho = 1 uniform, rho < 0 crowds
where the model is dense. Data that did not train it are projected onto the manifold; the rho that gives their mean
of -log q says how they lie there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import brentq
from scipy.stats import spearmanr
from torch import Tensor, nn

from splinescope.generative.domains import LatentDomain, check_domain
from splinescope.generative.pushforward import Generator, latent_map
from splinescope.generative.resampling import effective_size
from splinescope.generative.volume import log_volume
from splinescope.network.network import module_of
from splinescope.support.checks import as_rows, check_generator, check_whole
from splinescope.support.derivatives import row_jacobians
from splinescope.support.display import Result, table
from splinescope.support.errors import InputError

_FAR = 50.0  # a rho beyond this is reported as infinite
_PACE = 0.25  # of the search for it
_TELLING = 0.5  # less of the reference's order is kept: its projections tell little
_STRAYS = 0.05  # a larger share of the data lies beyond the manifold's own spread: `kept` may not show it
_DAMPING = 10.0  # a step that fails is damped so much more, one that succeeds so much less


@dataclass(frozen=True, eq=False, repr=False)
class Projection(Result):
    """Points of a generator's manifold that are nearest to given ones, as found from several starts.

    Attributes:
        latents: `[n, d]`.
        distances: `[n]` from each point to the generator's output there: not below the distance to the manifold.
    """

    latents: Tensor
    distances: Tensor
    certainty = "bound"


@dataclass(frozen=True, eq=False, repr=False)
class ManifoldLaw(Result):
    """How data lie on a generator's manifold, between the model's law (rho = 0) and the uniform one (rho = 1).

    Attributes:
        rho: The exponent at which the family has the data's mean of -log q; +-inf if none in reach has.
        interval: 95% interval of it, by bootstrap over the data and the reference.
        p_model: p value of "the data follow the model's own law", two-sided, by bootstrap of both.
        p_uniform: The same for "the data are uniform on the manifold"; nan if the domain is unbounded.
        surprise: `[n]` -log q = log vol - log p at the data's projections.
        projection: The projections.
        effective: How many independent draws the pool is worth for the uniform law; below 100, mistrust p_uniform.
        flat: Shares of the reference and of the data whose volume factor is 0; they are left out.
        kept: Rank correlation of -log q over the reference, before and after it is moved off the manifold as the data
            are and projected again. Below 0.5 the data are so far off that a large p value says little.
        beyond: Share of the data farther off the manifold than the reference's outputs spread (root mean square from
            their mean). Such data are not of this manifold; above 0.05 a large p value says little too.
    """

    rho: float
    interval: tuple[float, float]
    p_model: float
    p_uniform: float
    surprise: np.ndarray
    projection: Projection
    effective: float
    flat: tuple[float, float]
    kept: float
    beyond: float
    certainty = "estimate"

    def __repr__(self) -> str:
        low, high = self.interval
        why = [f"kept {self.kept:.2f}"] * (self.kept < _TELLING) + [f"{self.beyond:.0%} beyond"] * (
            self.beyond > _STRAYS
        )
        doubt = f", of data so far off that p says little ({', '.join(why)})" if why else ""
        return (
            f"ManifoldLaw(rho {self.rho:.3f} ({low:.3f} to {high:.3f}), p of the model {self.p_model:.3g}, of uniform "
            f"{self.p_uniform:.3g}{doubt}, {self.certainty})"
        )

    def summary(self) -> str:
        """The result in words."""
        low, high = self.interval
        rows = [("rho (0: as the model says, 1: uniform)", f"{self.rho:.3f}, 95% interval {low:.3f} to {high:.3f}"),
                ("p value of the model's law", f"{self.p_model:.3g}"),
                ("p value of the uniform law", f"{self.p_uniform:.3g}"),
                ("points", f"{len(self.surprise)}"),
                ("median distance to the manifold", f"{float(self.projection.distances.median()):.4g}"),
                ("draws the pool is worth for the uniform law", f"{self.effective:.0f}"),
                ("left out, of no volume: model, data", ", ".join(f"{share:.1%}" for share in self.flat)),
                ("kept by projections, as rank correlation", f"{self.kept:.2f}"
                 + (" (the data are so far off that a large p value says little)" if self.kept < _TELLING else "")),
                ("data farther off than the manifold spreads", f"{self.beyond:.1%}"
                 + (" (so many that a large p value says little)" if self.beyond > _STRAYS else "")),
                ]  # fmt: skip
        return f"{table(rows)}\n{self.assurance}"


def manifold_law(
    model: nn.Module,
    x: Tensor,
    domain: LatentDomain,
    *,
    pool: int = 4096,
    reference: int = 1000,
    starts: int = 4,
    steps: int = 30,
    draws: int = 2000,
    top_k: int | None = None,
    generator: torch.Generator | None = None,
) -> ManifoldLaw:
    """Tests on held-out data whether they lie on a generator's manifold as the model says, or uniformly.

    Args:
        model: From `[N, d]` latents to `[N, ...]`, in eval mode; not changed.
        x: `[n, ...]` data, of the shape of its outputs, that did not train it.
        domain: Its latents and their law.
        pool: Latents drawn from the domain, among which projections begin.
        reference: How many of them stand for the model's law, and weighted for the uniform one.
        starts: Latents of the pool, nearest in output, from which each projection begins.
        steps: Of the projection, at most.
        draws: Of the bootstrap.
        top_k: As for `log_volume`: needed where the generator's rank is below the size of its latents, so that the
            volume is 0. The law of this number under the model is still tested; rho is then an exponent of the volume
            along the k most stretched directions.
        generator: Source of randomness; seed 0 if None.

    Returns:
        `ManifoldLaw`; an estimate. Data lie off the manifold, and what is off moves projections; so the reference is
        treated alike: its outputs, plus what the data's projections leave of the data, drawn at random, are projected
        again. Noise along the manifold, which no projection shows, and noise as large as the manifold's own features
        are made up for in part only. How far the data are off is not tested: see `projection.distances`, `kept`
        and `beyond`.

    Example:
        >>> from splinescope.generative import Box
        >>> net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 3)).double().eval()
        >>> square = Box(2)
        >>> x = net(square.draw(200, torch.Generator().manual_seed(1))).detach()
        >>> manifold_law(net, x, square, pool=500, reference=500, draws=200).p_model > 0.001
        True

    Reference: Balestriero, Humayun, Baraniuk, "On the Geometry of Deep Learning": how MaGNET could test whether a
    generator has learned the manifold.
    """
    check_whole(draws, "draws", least=100)
    model = module_of(model)
    generator = check_generator(generator) or torch.Generator().manual_seed(0)
    latents = check_domain(domain).draw(check_whole(pool, "pool", least=100), generator)
    compared = latents[: check_whole(reference, "reference", least=50, most=pool)]
    found = project(model, x, domain, latents, starts=starts, steps=steps)
    like = next(model.parameters(), torch.as_tensor(x))
    with torch.no_grad():  # `[n, D]` what the projections leave of the data
        off = torch.as_tensor(x).to(like).flatten(1) - model(found.latents.to(like)).flatten(1)
        outputs = model(compared.to(off)).flatten(1)
        made = outputs + off[torch.randint(len(off), (len(compared),), generator=generator)]
    again = project(model, made, domain, latents, starts=starts, steps=steps)
    own, seen, data = (_surprise(model, z, domain, top_k) for z in (compared, again.latents, found.latents))
    sound = np.isfinite(own) & np.isfinite(seen)
    if not sound.any():
        rank = log_volume(model, compared, tangents=domain.tangents(compared)).rank
        low, high = int(rank.min()), int(rank.max())
        raise InputError(
            f"the generator has volume factor 0 at all {len(own)} reference latents: its rank there is {low} "
            f"to {high}, below its {compared[0].numel()} latent numbers; give top_k, such as {max(low, 1)}."
        )
    flat = (float(1 - sound.mean()), float(1 - np.isfinite(data).mean()))
    own, seen, values = own[sound], seen[sound], data[np.isfinite(data)]
    if np.ptp(own) <= 1e-9 * max(1.0, float(np.abs(own).max())):
        raise InputError("the generator stretches its latents evenly, so its own law and the uniform one are the same.")
    if np.ptp(seen) <= 1e-9 * max(1.0, float(np.abs(seen).max())):
        far, wide = float(found.distances.median()), float(made.std(0).norm())
        raise InputError(
            f"x is so far off the generator's manifold (median distance {far:.3g}, where its outputs spread by "
            f"{wide:.3g}) that whatever is moved off as far projects to one place: nothing can be told."
        )
    if len(values) < 2:
        raise InputError(f"x must have at least 2 points whose volume factor is positive, got {len(values)}.")
    mean, random = float(values.mean()), np.random.default_rng(int(torch.randint(2**31, (1,), generator=generator)))
    rho = _tilt(own, seen, mean)
    tilted = np.clip(rho, -_FAR, _FAR) * own
    drawn = random.choice(values, (draws, len(values))).mean(1)
    ends = np.quantile(drawn - _reference_errors(seen, np.exp(tilted - tilted.max()), draws, random), (0.025, 0.975))

    def p_value(weights: np.ndarray) -> float:
        """Two-sided, of a mean of as many draws from the law that the reference is itself drawn from."""
        null = random.choice(seen, (draws, len(values)), p=weights / weights.sum()).mean(1)
        null = null + _reference_errors(seen, weights, draws, random)
        less = min((null >= mean).mean(), (null <= mean).mean())
        return float(min(1.0, 2 * (less * draws + 1) / (draws + 1)))

    interval = (_tilt(own, seen, float(ends[0])), _tilt(own, seen, float(ends[1])))
    p_model = p_value(np.ones_like(own))
    p_uniform = p_value(np.exp(own - own.max())) if domain.bounded else float("nan")
    kept, worth = float(spearmanr(own, seen).statistic), float(effective_size(torch.from_numpy(own)))
    beyond = float((found.distances > float(outputs.std(0).norm())).double().mean())
    return ManifoldLaw(rho, interval, p_model, p_uniform, data, found, worth, flat, kept, beyond)


def _reference_errors(seen: np.ndarray, weights: np.ndarray, draws: int, random: np.random.Generator) -> np.ndarray:
    """`[draws]` by how much the weighted mean of the reference is off because it is a sample, by bootstrap."""
    center = (weights * seen).sum() / weights.sum()
    errors = np.empty(draws)
    for i in range(draws):
        chosen = random.integers(len(seen), size=len(seen))
        errors[i] = (weights[chosen] * seen[chosen]).sum() / weights[chosen].sum() - center
    return errors


def project(
    model: Generator, x: Tensor, domain: LatentDomain, latents: Tensor, *, starts: int = 4, steps: int = 30
) -> Projection:
    """Nearest points of the generator's manifold, by damped Gauss-Newton steps from the nearest of given latents.

    Each step solves `(J^T J + m I) dz = J^T (x - G(z))` at every point; one that does not come nearer, or leaves the
    domain, is undone and damped more. On a piecewise-affine generator the last steps are exact within a tile. Where the
    domain has tangent spaces T (`Sphere`), it is J T that is solved with and T dz the step, whose end goes back to the
    nearest point of the domain, `domain.onto`, if it knows it.

    Each of the points `x` `[n, ...]` begins from the `starts` of the `latents` `[N, d]` that are nearest in output. A
    bound: what is found is on the manifold, and there may be something nearer.
    """
    check_domain(domain)
    model = module_of(model)
    latent_map(model, latents)  # refuses what is in training mode, random or of another latent size
    rows = as_rows(x, "x")
    if rows.dim() < 2:
        raise InputError(
            f"x must have shape (n, ...), one row per point, got {tuple(rows.shape)}: give x[None] for one."
        )
    if not bool(rows.isfinite().all()):
        raise InputError(f"x must be finite, got {int((~rows.isfinite()).sum())} NaN or infinite values.")
    like = next(model.parameters(), rows)
    target = rows.to(like).flatten(1)
    latents = latents.to(like)

    def outputs(z: Tensor) -> Tensor:
        return model(z).flatten(1)

    with torch.no_grad():
        there = outputs(latents)
        if there.shape[1] != target.shape[1]:
            raise InputError(
                f"x must have the shape of the generator's outputs, {there.shape[1]} numbers a point, got "
                f"{target.shape[1]}."
            )
        near = torch.cdist(target, there).topk(check_whole(starts, "starts", most=len(latents)), largest=False).indices
    z = latents[near.flatten()].clone()
    wanted = target.repeat_interleave(starts, 0)
    with torch.no_grad():
        error = wanted - outputs(z)
    damping = torch.full((len(z), 1, 1), 1e-3, dtype=z.dtype)
    onto = getattr(domain, "onto", None)
    for _ in range(check_whole(steps, "steps")):
        jacobian = row_jacobians(outputs, z)
        tangents = domain.tangents(z)
        if tangents is not None:
            jacobian = jacobian @ tangents.to(z)
        gram = jacobian.mT @ jacobian
        scale = gram.diagonal(dim1=1, dim2=2).mean(1)[:, None, None]
        scale = torch.where(scale > torch.finfo(z.dtype).tiny * 1e9, scale, 1.0)  # flat: no step
        unit = torch.eye(jacobian.shape[2], dtype=z.dtype)
        step = torch.linalg.solve(gram + damping * scale * unit, jacobian.mT @ error[:, :, None])
        with torch.no_grad():
            new = z + (step if tangents is None else tangents.to(z) @ step)[:, :, 0]
            new = new if onto is None else onto(new)
            other = wanted - outputs(new)
            better = (other.norm(dim=1) < error.norm(dim=1)) & torch.isfinite(domain.log_density(new.double()))
        z, error = torch.where(better[:, None], new, z), torch.where(better[:, None], other, error)
        damping = damping * torch.where(better, 1 / _DAMPING, _DAMPING).to(damping)[:, None, None]
        damping = damping.clamp(max(1e-12, 8 * torch.finfo(z.dtype).eps), 1e6)  # what is less rounding takes away
    distance = error.norm(dim=1).reshape(len(target), starts)
    best = distance.argmin(1)
    chosen = z.reshape(len(target), starts, -1)[torch.arange(len(target)), best]
    return Projection(chosen.double(), distance.amin(1).double())


def _surprise(model: nn.Module, z: Tensor, domain: LatentDomain, top_k: int | None) -> np.ndarray:
    """`[n]` -log q = log vol - log p."""
    volumes = log_volume(model, z, top_k=top_k, tangents=domain.tangents(z))
    return (volumes.log.double().cpu() - domain.log_density(z.double()).cpu()).numpy()


def _tilt(own: np.ndarray, seen: np.ndarray, mean: float) -> float:
    """The rho nearest to 0 at which the reference, weighted by exp(rho own), has this mean of what is seen of it."""

    def gap(rho: float) -> float:
        weights = np.exp(rho * own - (rho * own).max())
        return float((weights * seen).sum() / weights.sum()) - mean

    # outwards from the model's law: far out the weights are those of one or two points, which may have been moved
    sign = 1.0 if gap(0.0) < 0 else -1.0
    for far in np.arange(_PACE, _FAR + _PACE, _PACE):
        if sign * gap(sign * far) >= 0:
            return float(brentq(gap, sign * (far - _PACE), sign * far))
    return sign * float("inf")
