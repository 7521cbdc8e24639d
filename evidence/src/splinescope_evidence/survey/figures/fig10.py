"""Figure 10: a ReLU generator's manifold is a continuous surface of flat facets with a constant density on each."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.spatial import cKDTree
from torch import nn

from splinescope.generative import Box
from splinescope.generative.exact import TiledManifold
from splinescope.tiling import Tiling
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.generative import seeded_mlp, surface_of
from splinescope_evidence.shared.intervals import interval

NEIGHBORS = 32
STEEP = 0.05  # of the slope: a law that is off by a twentieth is another one
DENSE = 0.02  # of the density: discs that reach over a facet's edge without a sample to tell


def unevenness(facets: list[np.ndarray]) -> float:
    """How far the corners of any facet lie off one plane, relative to its size."""
    worst = 0.0
    for corners in facets:
        values = np.linalg.svd(corners - corners.mean(0), compute_uv=False)
        worst = max(worst, float(values[2] / values[0]) if len(values) > 2 and values[0] > 1e-6 else 0.0)
    return worst


def jumps(generator: nn.Module, tiling: Tiling) -> float:
    """How far apart two facets are at a corner that they share, at most, relative to the surface's size.

    Each facet by its own affine map, against the generator at the corner, which has one value there.
    """
    with torch.no_grad():
        values = generator(torch.tensor(tiling.vertices)).numpy()
    slopes, offsets = tiling.slopes(), tiling.offsets()
    worst = max(
        float(np.abs(tiling.tile(i) @ slopes[i].T + offsets[i] - values[tiling.tiles[i]]).max())
        for i in range(tiling.count)
    )
    return 2 * worst / float(np.ptp(values))


def densities(
    generator: nn.Module, manifold: TiledManifold, samples: int, places: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Density of samples on the surface, by nearest neighbors in the output space, and the facets' volume factors.

    At a sample whose K-th neighbor is at distance r, the density is (K - 1) / (samples pi r^2) if the disc of radius r
    lies inside one flat facet; it does where all samples within 2 r are of one tile. Facets without area are left out.
    """
    rng = torch.Generator().manual_seed(seed)
    latents = Box(2).draw(samples, rng)
    with torch.no_grad():
        outputs = generator(latents).numpy()
    tiles = manifold.tiling.locate(latents.numpy())
    tree = cKDTree(outputs)
    chosen = torch.randperm(samples, generator=rng)[:places].numpy()
    reach = np.asarray(tree.query(outputs[chosen], k=NEIGHBORS + 1)[0])[:, -1]  # the first is the sample itself
    inside = [
        i
        for i, near in enumerate(tree.query_ball_point(outputs[chosen], 2 * reach))
        if manifold.volumes[tiles[chosen[i]]] > 0 and (tiles[near] == tiles[chosen[i]]).all()
    ]
    density = (NEIGHBORS - 1) / (samples * np.pi * reach[inside] ** 2)
    return density, manifold.volumes[tiles[chosen[inside]]]


def _off(values: list[float], law: float) -> tuple[float, float]:
    """How far the nearer and the farther end of the interval of the mean lie from the law; the nearer one's is negative
    if the law lies inside."""
    low, high = interval(values)
    return max(low - law, law - high), max(law - low, high - law)


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    width, samples, places, seeds = (6, 5000, 400, 2) if size == "quick" else (16, 400_000, 4000, 6)
    rows, points = [], []
    for k in range(seeds):
        if progress:
            progress(k / seeds, f"generator {k + 1} of {seeds}")
        generator = seeded_mlp(seed + k, 2, width, width, 3)
        manifold = surface_of(generator)
        tiling = manifold.tiling
        assert tiling.values is not None
        facets = [tiling.values[tiling.tiles[i]] for i in range(tiling.count)]
        density, volumes = densities(generator, manifold, samples, places, seed + k)
        predicted = 1 / (tiling.view.size * volumes)
        slope = float(np.polyfit(np.log(volumes), np.log(density), 1)[0])
        rows.append(
            {
                "facets": tiling.count,
                "unevenness": unevenness(facets),
                "jump": jumps(generator, tiling),
                "places": len(density),
                "slope": slope,
                "ratio": float(np.mean(density / predicted)),
                "volumes": np.quantile(volumes, [0.01, 0.99]).tolist(),
            }
        )
        if k == 0:
            points = [volumes[:1000].tolist(), density[:1000].tolist()]
            picture = {"facets": [f.tolist() for f in facets], "volumes": manifold.volumes.tolist(),
                       "tiles": [tiling.tile(i).tolist() for i in range(tiling.count)],
                       "area": tiling.view.size}  # fmt: skip
    flat, apart = (max(r[key] for r in rows) for key in ("unevenness", "jump"))
    slopes, ratios = ([r[key] for r in rows] for key in ("slope", "ratio"))
    (low, high), (least, most) = interval(slopes), interval(ratios)
    steep, dense = _off(slopes, -1.0), _off(ratios, 1.0)
    claims = (
        judged(
            "The image of the latent square is a continuous surface made of flat facets, one per tile.",
            f"{' '.join(str(r['facets']) for r in rows)} facets; corners of a facet off its plane by at most "
            f"{flat:.1e} of its size; neighbors apart at shared corners by at most {apart:.1e} of the surface's",
            holds=[
                Check("largest distance of a corner from its facet's plane", flat, "<", 1e-8,
                      "rounding of slopes on tiles a millionth of the square"),
                Check("largest jump between neighbors at a shared corner", apart, "<", 1e-8, "continuous: rounding"),
            ],
        ),
        judged(
            "Uniform latents have a constant density on each facet, inversely proportional to its volume factor.",
            f"density of {samples} samples by {NEIGHBORS} nearest neighbors in the output space, at "
            f"{min(r['places'] for r in rows)} or more places of each of {seeds} generators: slope of log density "
            "on log "
            f"volume factor {np.mean(slopes):.4f} ({low:.4f} to {high:.4f}), density over 1 / (area * factor) "
            f"{np.mean(ratios):.4f} ({least:.4f} to {most:.4f}), 95% intervals",
            holds=[
                Check("farther end of the slope's interval from -1", steep[1], "<", STEEP,
                      "a law that is off by a twentieth is another one; all of the interval must lie near"),
                Check("farther end of the interval of the density over the law's from 1", dense[1], "<", DENSE,
                      "2%: discs that reach over a facet's edge without a sample to tell"),
            ],
            fails=[Check("nearer end of one of these intervals, in its line, larger of the two",
                         max(steep[0] / STEEP, dense[0] / DENSE), ">", 1.0, "significantly another law")],
        ),
    )  # fmt: skip
    return Outcome({**picture, "rows": rows, "points": points, "unevenness": flat}, claims)


def draw(numbers: dict[str, Any]) -> Figure:
    from matplotlib import colormaps, pyplot
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import LogNorm

    from splinescope.plot.generative import plot_facets

    figure = pyplot.figure(figsize=(9.6, 3.6), layout="constrained")
    left = figure.add_subplot(1, 3, 1)
    volumes = np.array(numbers["volumes"])
    low, high = np.quantile(volumes[volumes > 0], [0.01, 0.99])
    polygons = [np.array(tile) for tile in numbers["tiles"]]
    shades, colors = colormaps["viridis"].with_extremes(bad="lightgray"), np.where(volumes > 0, volumes, np.nan)
    drawn = PolyCollection(polygons, array=colors, cmap=shades, norm=LogNorm(low, high), edgecolor="black", lw=0.3)
    figure.colorbar(left.add_collection(drawn), ax=left, location="bottom", label="volume factor")
    corners = np.concatenate(polygons)
    left.set_xlim(corners[:, 0].min(), corners[:, 0].max())
    left.set_ylim(corners[:, 1].min(), corners[:, 1].max())
    left.set_aspect("equal")
    left.set_xlabel("$z_1$")
    left.set_ylabel("$z_2$")
    left.set_title("latent tiles (gray: no volume)")
    right = figure.add_subplot(1, 3, 2, projection="3d")
    plot_facets([np.array(f) for f in numbers["facets"]], volumes, right, colorbar=False)
    right.set_title("their images")
    right.set_zlabel("$x_3$", labelpad=0)
    last = figure.add_subplot(1, 3, 3)
    factors, density = (np.array(values) for values in numbers["points"])
    last.loglog(factors, density, ".", ms=2, color="#3b528b", label="nearest neighbors")
    line = np.geomspace(factors.min(), factors.max(), 20)
    last.loglog(line, 1 / (numbers["area"] * line), color="#d55e00", label="1 / (area times factor)")
    last.set_xlabel("volume factor of the facet")
    last.set_ylabel("density of samples on the surface")
    last.legend(frameon=False, loc="upper right")
    return figure


EXPERIMENT = Experiment(
    "Figure 10: the manifold of a generator, facet by facet",
    run,
    draw,
    place="Figure 10, with equation (10)",
    revised=(2,),
)
