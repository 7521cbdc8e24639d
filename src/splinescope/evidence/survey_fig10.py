"""Figure 10: a ReLU generator's manifold is a continuous surface of flat facets with a constant density on each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..generative import Box
from ._experiment import Claim, Experiment, Outcome, Progress, Size, Verdict
from ._generative import chi_square, seeded_mlp, surface_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def unevenness(facets: list[np.ndarray]) -> float:
    """How far the corners of any facet lie off one plane, relative to its size."""
    worst = 0.0
    for corners in facets:
        values = np.linalg.svd(corners - corners.mean(0), compute_uv=False)
        worst = max(worst, float(values[2] / values[0]) if len(values) > 2 and values[0] > 1e-6 else 0.0)
    return worst


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    width, samples = (12, 20_000) if size == "quick" else (24, 500_000)
    generator = seeded_mlp(seed, 2, width, width, 3)
    if progress:
        progress(0.1, "tiling the latent square")
    manifold = surface_of(generator)
    tiling = manifold.tiling
    assert tiling.values is not None
    facets = [tiling.values[tiling.tiles[i]] for i in range(tiling.count)]
    flat = unevenness(facets)
    if progress:
        progress(0.5, f"{samples} samples")
    tiles = tiling.locate(Box(2).draw(samples, torch.Generator().manual_seed(seed)).numpy())
    # the model's density on a facet is 1 / (domain area * volume factor): its mass is that times the facet's area
    real = manifold.surface_areas > 0
    mass = np.where(real, 0.0, tiling.areas / tiling.areas.sum())
    mass[real] = (1 / (tiling.slice.size * manifold.volumes[real])) * manifold.surface_areas[real]
    ratio, p = chi_square(tiles, mass)
    spread = np.quantile(manifold.volumes[real], [0.01, 0.99])
    claims = (
        Claim(
            "The image of the latent square is a continuous surface made of flat facets, one per tile.",
            Verdict.HOLDS if flat < 1e-8 else Verdict.FAILS,
            f"{tiling.count} facets; corners of a facet off its plane by at most {flat:.1e} of its size; neighbours "
            "share their corners",
            "off the plane by less than 1e-8",
        ),
        Claim(
            "Uniform latents have a constant density on each facet, inversely proportional to its volume factor.",
            Verdict.HOLDS if p > 1e-3 else Verdict.FAILS,
            f"{samples} samples: chi-square per degree of freedom {ratio:.2f}, p = {p:.2g}; volume factors from "
            f"{spread[0]:.2g} to {spread[1]:.2g} (1st to 99th percentile), {int((~real).sum())} facets without area",
            "p > 1e-3",
        ),
    )
    numbers = {"facets": [f.tolist() for f in facets], "volumes": manifold.volumes.tolist(), "p": p, "unevenness": flat,
               "tiles": [tiling.tile(i).tolist() for i in range(tiling.count)]}  # fmt: skip
    return Outcome(numbers, claims)


def draw(numbers: dict[str, Any]) -> Figure:
    from matplotlib import colormaps, pyplot
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import LogNorm

    from ..plot.generative import plot_facets

    figure = pyplot.figure(figsize=(10, 4.5), layout="constrained")
    left = figure.add_subplot(1, 2, 1)
    volumes = np.array(numbers["volumes"])
    low, high = np.quantile(volumes[volumes > 0], [0.01, 0.99])
    polygons = [np.array(tile) for tile in numbers["tiles"]]
    shades = colormaps["viridis"].with_extremes(bad="lightgrey")
    colours = np.where(volumes > 0, volumes, np.nan)
    left.add_collection(
        PolyCollection(polygons, array=colours, cmap=shades, norm=LogNorm(low, high), edgecolor="black", linewidth=0.3)
    )
    corners = np.concatenate(polygons)
    left.set_xlim(corners[:, 0].min(), corners[:, 0].max())
    left.set_ylim(corners[:, 1].min(), corners[:, 1].max())
    left.set_aspect("equal")
    left.set_xlabel("$z_1$")
    left.set_ylabel("$z_2$")
    left.set_title("latent tiles (grey: no volume)")
    right = figure.add_subplot(1, 2, 2, projection="3d")
    plot_facets([np.array(f) for f in numbers["facets"]], volumes, right)
    right.set_title("their images")
    return figure


EXPERIMENT = Experiment("survey-fig10", "survey", "Figure 10: the manifold of a generator, facet by facet", run, draw)
