"""Figure 12: the polarity of a planar Wasserstein GAN moves its samples from modes to anti-modes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..generative import Box, PolaritySampler
from ..generative.training import (
    THREE_CENTRES,
    THREE_SPREAD,
    log_three_gaussians,
    three_gaussians,
    train_planar_wgan,
)
from ._experiment import Claim, Experiment, Outcome, Progress, Size, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RHOS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)
TRUSTED = 50  # effective samples below which a mean is not used


def near_modes(x: torch.Tensor) -> torch.Tensor:
    """Whether points lie within two standard deviations of a mode."""
    distance = (x[:, None] - torch.tensor(THREE_CENTRES, dtype=x.dtype)).norm(dim=2)
    return (distance < 2 * THREE_SPREAD).any(1).double()


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    seeds, pool = (1, 10_000) if size == "quick" else (5, 60_000)
    rng = torch.Generator().manual_seed(seed)
    rows = []
    clouds: dict[str, Any] = {}
    for number in range(seeds):
        if progress:
            progress(number / seeds, f"training, seed {seed + number}")
        generator = train_planar_wgan(three_gaussians, steps=300, seed=seed + number)
        sampler = PolaritySampler(generator, Box(2), rho=0.0, pool=pool, seed=seed + number, progress=False)
        x = sampler.generate(sampler.pool.latents).double()
        values, near = log_three_gaussians(x), near_modes(x)
        for rho in RHOS:
            weights = torch.softmax(sampler.log_weights(rho), 0)
            size_ = sampler.effective_size(rho)
            rows.append((seed + number, rho, float(weights @ values), float(weights @ near), size_))
            if number == 0:
                chosen = torch.multinomial(weights, 1000, replacement=True, generator=rng)
                clouds[f"{rho:g}"] = x[chosen].tolist()
    table = np.array(rows).reshape(seeds, len(RHOS), 5)
    data = three_gaussians(20_000, rng).double()
    trusted = table[:, :, 4] >= TRUSTED
    monotone = {name: _falls(table[:, :, column], trusted) for name, column in (("log density", 2), ("share", 3))}
    holds = all(monotone["log density"]) and all(monotone["share"])
    at = {rho: table[:, RHOS.index(rho)] for rho in (-1.0, 0.0, 1.0)}
    claim = Claim(
        "Samples of a planar WGAN move to the modes of the data as rho falls below 0, to the anti-modes as it rises.",
        Verdict.HOLDS if holds else Verdict.FAILS,
        "mean log density of the data at the samples for rho = -1, 0, 1: "
        + ", ".join(_spread(at[rho][:, 2]) for rho in at)
        + f" (data themselves {float(log_three_gaussians(data).mean()):.2f}); share within two deviations of a mode: "
        + ", ".join(_spread(at[rho][:, 3]) for rho in at)
        + f"; {seeds} seeds, effective sizes {table[:, 0, 4].min():.0f} or more at rho = -2 out of {pool}",
        f"both fall from each rho to the next in every seed (where the effective size is at least {TRUSTED})",
    )
    numbers = {"rhos": RHOS, "log_density": table[:, :, 2].tolist(), "near": table[:, :, 3].tolist(), "clouds": clouds,
               "effective_size": table[:, :, 4].tolist(), "data": data[:1000].tolist()}  # fmt: skip
    return Outcome(numbers, (claim,))


def _falls(values: np.ndarray, trusted: np.ndarray) -> list[bool]:
    """Per seed, whether the values at trusted powers fall."""
    return [bool((np.diff(row[keep]) < 0).all()) for row, keep in zip(values, trusted, strict=True)]


def _spread(values: np.ndarray) -> str:
    return f"{values.mean():.2f}" if len(values) == 1 else f"{values.mean():.2f} ± {values.std(ddof=1):.2f}"


def draw(numbers: dict[str, Any]) -> Figure:
    from matplotlib import pyplot

    from ..plot.generative import plot_cloud

    shown = [name for name in ("-2", "-1", "0", "1", "2") if name in numbers["clouds"]]
    figure, axes = pyplot.subplots(1, len(shown) + 1, figsize=(3 * len(shown) + 3.5, 3.2), layout="constrained")
    for ax, name in zip(axes, shown, strict=False):
        title = f"ρ = {name}" + {"0": " (model)", "1": " (MaGNET)"}.get(name, "")
        plot_cloud(numbers["clouds"][name], ax, data=numbers["data"], title=title, limit=3.0)
    for row in numbers["near"]:
        axes[-1].plot(numbers["rhos"], row, "o-", markersize=4, color="#332288", linewidth=1)
    axes[-1].set_xlabel("ρ")
    axes[-1].set_ylabel("share of samples near a mode")
    return figure


EXPERIMENT = Experiment("survey-fig12", "survey", "Figure 12: polarity sampling of a planar WGAN", run, draw)
