"""Figure 12: the polarity of a planar Wasserstein GAN moves its samples from modes to anti-modes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib import pyplot
from matplotlib.figure import Figure

from splinescope.generative import Box, PolaritySampler
from splinescope_evidence.framework.experiment import Check, Claim, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.intervals import interval
from splinescope_research.generators.small_generators import (
    THREE_CENTERS,
    THREE_SPREAD,
    log_three_gaussians,
    three_gaussians,
    train_planar_wgan,
)

RHOS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)
TRUSTED = 50  # effective samples below which a mean is not used
POWERS = 3  # trusted ones that a network needs to be judged
FIRST = 200
"""Seeds before this one were seen when claims and sample size were chosen, and are not judged."""


def near_modes(x: torch.Tensor) -> torch.Tensor:
    """Whether points lie within two standard deviations of a mode."""
    distance = (x[:, None] - torch.tensor(THREE_CENTERS, dtype=x.dtype)).norm(dim=2)
    return (distance < 2 * THREE_SPREAD).any(1).double()


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    seeds, pool = (2, 4_000) if size == "quick" else (24, 60_000)
    steps = 30 if size == "quick" else 300
    rng = torch.Generator().manual_seed(seed)
    rows = []
    clouds: dict[str, Any] = {}
    for number in range(seeds):
        if progress:
            progress(number / seeds, f"training, network {number}")
        start = seed + FIRST + number
        generator = train_planar_wgan(three_gaussians, steps=steps, seed=start)
        sampler = PolaritySampler(generator, Box(2), rho=0.0, pool=pool, seed=start, progress=False)
        x = sampler.generate(sampler.pool.latents).double()
        values, near = log_three_gaussians(x), near_modes(x)
        for rho in RHOS:
            weights = torch.softmax(sampler.log_weights(rho), 0)
            size_ = sampler.effective_size(rho)
            rows.append((float(weights @ values), float(weights @ near), size_))
            if number == 0:
                chosen = torch.multinomial(weights, 1000, replacement=True, generator=rng)
                clouds[f"{rho:g}"] = x[chosen].tolist()
    table = np.array(rows).reshape(seeds, len(RHOS), 3)
    data = three_gaussians(20_000, rng).double()
    own = float(log_three_gaussians(data).mean())
    convention = "rho is the power of the product of singular values: 1 is MaGNET, 1/2 in the survey's det^rho"
    claims = (
        _claim("As rho rises from 0, samples of a planar WGAN leave the modes of the data for its anti-modes, from "
               f"each power to the next (Figure 12; {convention}).",
               table, (0.0, 0.5, 1.0, 2.0), -1.0, f" (of the data themselves {own:.2f})", every=True),
        _claim("As rho falls from 0 to -1, samples gather at the modes of the data (Figure 12).", table,
               (0.0, -0.5, -1.0, -2.0), 1.0, "", every=False),
    )  # fmt: skip
    numbers = {"rhos": RHOS, "log_density": table[:, :, 0].tolist(), "near": table[:, :, 1].tolist(), "clouds": clouds,
               "effective_size": table[:, :, 2].tolist(), "data": data[:1000].tolist()}  # fmt: skip
    return Outcome(numbers, claims)


def _claim(text: str, table: np.ndarray, rhos: tuple[float, ...], sign: float, beside: str, every: bool) -> Claim:
    """Judged by the change from rho = 0 to +-1 of both measures, over networks, by `[networks, rhos, 3]`.

    With `every`, both measures must change so from each power to the next in every network. Cells of few effective
    samples are left out of every mean.
    """
    part = table[:, [RHOS.index(rho) for rho in rhos]]
    trusted = part[:, :, 2] >= TRUSTED
    kept = np.where(trusted[:, :, None], part, np.nan)
    enough = trusted[:, [0, 2]].all(1) & (trusted.sum(1) >= POWERS)
    changes = sign * (kept[:, 2] - kept[:, 0])[enough]  # in the claimed direction
    (low, high), (near_low, near_high) = (interval(changes[:, i]) for i in range(2))
    direction = "fall" if sign < 0 else "rise"
    along = [bool((sign * np.diff(row[keep, :2], axis=0) > 0).all()) for row, keep in zip(kept, trusted, strict=True)]
    throughout = sum(a for a, e in zip(along, enough, strict=True) if e)
    steadily = Check("share of networks in which both change so from each power to the next",
                     throughout / max(len(changes), 1), ">", 0.999, "as stated: throughout")  # fmt: skip
    return judged(
        text,
        f"mean log density of the data {_trend(kept[:, :, 0])} for rho = {', '.join(f'{r:g}' for r in rhos)}{beside}; "
        f"share within two deviations of a mode {_trend(kept[:, :, 1])}; from rho = 0 to {rhos[2]:g} the log density "
        f"is to {direction}: by {low:.2f} to {high:.2f}, the share by {near_low:.2f} to {near_high:.2f} (95% intervals "
        f"over {len(changes)} networks); both {direction} throughout in {throughout} of {len(changes)}; cells of fewer "
        f"than {TRUSTED} effective samples, left out: {int((~trusted).sum())} of {trusted.size}",
        holds=[Check(f"lower end of the {direction} of the log density", low, ">", 0.0, "0 is no change"),
               Check(f"lower end of the {direction} of the share near a mode", near_low, ">", 0.0, "0 is no change"),
               *([steadily] if every else [])],
        fails=[Check(f"upper end of the {direction} of the log density", high, "<", 0.0, "the other way")],
        needs=[Check(f"networks with {POWERS} trusted powers or more, 0 and {rhos[2]:g} among them", len(changes), ">",
                     9.5, "at least ten")],
    )  # fmt: skip


def _trend(values: np.ndarray) -> str:
    """Means over networks `[networks, rhos]` with their spread, of those that are not nan."""
    columns = [column[~np.isnan(column)] for column in values.T]
    return ", ".join(f"{c.mean():.2f} ± {c.std(ddof=1):.2f} ({len(c)})" if len(c) > 1 else "-" for c in columns)


def draw(numbers: dict[str, Any]) -> Figure:
    from splinescope_research.pictures import plot_cloud

    shown = [name for name in ("-2", "-1", "0", "1", "2") if name in numbers["clouds"]]
    figure, grid = pyplot.subplots(2, 3, figsize=(9, 6), layout="constrained", gridspec_kw={"hspace": 0.08})
    axes = grid.ravel()
    for ax, name in zip(axes, shown, strict=False):
        title = f"ρ = {name}" + {"0": " (model)", "1": " (MaGNET)"}.get(name, "")
        plot_cloud(numbers["clouds"][name], ax, x=numbers["data"], title=title, limit=3.0)
        ax.set(xlabel="", ylabel="")
    for row in numbers["near"]:
        axes[-1].plot(numbers["rhos"], row, "o-", markersize=4, color="#332288", linewidth=1)
    axes[-1].set_xlabel("ρ")
    axes[-1].set_ylabel("share of samples near a mode")
    return figure


EXPERIMENT = Experiment("Figure 12: polarity sampling of a planar WGAN", run, draw, place="Figure 12", revised=(1, 2))
