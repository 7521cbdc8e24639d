"""Equation (10): a ReLU generator stretches the volume of a latent tile by sqrt(det(A^T A))."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib import pyplot
from matplotlib.figure import Figure

from splinescope.generative.exact import TiledManifold
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.generative import seeded_mlp, surface_of

ARCHITECTURES = ((2, 8, 8, 3), (2, 32, 32, 3), (2, 16, 40))
ALLOWED = 1e-8  # relative; areas from corners cancel to about 1e-16 / (smallest tile's share)


def image_areas(manifold: TiledManifold) -> np.ndarray:
    """Areas of the tiles' images measured in output space, from the corners of their images alone."""
    values, tiles = manifold.tiling.values, manifold.tiling.tiles
    assert values is not None
    areas = np.empty(len(tiles))
    for i in range(len(tiles)):
        corners = values[tiles[i]]
        a, b = corners[1:-1] - corners[0], corners[2:] - corners[0]
        # |a|^2 |b|^2 - (a.b)^2 by the part of b across a, which does not cancel
        along = (a * b).sum(1) / np.maximum((a * a).sum(1), np.finfo(float).tiny)
        across = b - along[:, None] * a
        areas[i] = 0.5 * (np.linalg.norm(a, axis=1) * np.linalg.norm(across, axis=1)).sum()
    return areas


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    seeds = 2 if size == "quick" else 20
    predicted, measured, flat, tiles = [], [], 0, 0
    for number in range(seeds):
        for widths in ARCHITECTURES:
            if progress:
                progress(number / seeds, f"seed {seed + number}, widths {'-'.join(map(str, widths))}")
            manifold = surface_of(seeded_mlp(seed + number, *widths), half_width=3.0)
            tiles += manifold.tiling.count
            flat += int((manifold.volumes == 0).sum())
            predicted.append(manifold.surface_areas)
            measured.append(image_areas(manifold))
    x, y = np.concatenate(predicted), np.concatenate(measured)
    seen = x > 1e-9  # below, corners agree in their leading digits and the measurement has none left
    errors = np.abs(y[seen] / x[seen] - 1)
    zero = float(y[x == 0].max(initial=0.0))
    claim = judged(
        "A generator maps a latent tile onto sqrt(det(A^T A)) times its volume, zero on tiles where A loses rank.",
        f"{tiles} tiles of {seeds * len(ARCHITECTURES)} generators, {flat} of them without volume: relative error at "
        f"most {errors.max():.1e} (median {np.median(errors):.1e}); images of flat tiles have area at most {zero:.1e}",
        holds=[
            Check(
                "largest relative error of an image area above 1e-9",
                float(errors.max()),
                "<",
                ALLOWED,
                "cancellation in areas of tiles a millionth of the square",
            ),
            Check("largest area of the image of a flat tile", float(zero), "<", 1e-12, "zero: rounding"),
        ],
    )
    numbers = {"predicted": x[seen].tolist(), "measured": y[seen].tolist(), "tiles": tiles, "flat": flat,
               "largest_error": float(errors.max())}  # fmt: skip
    return Outcome(numbers, (claim,))


def draw(numbers: dict[str, Any]) -> Figure:
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 4), layout="constrained")
    x, y = np.array(numbers["predicted"]), np.array(numbers["measured"])
    left.loglog(x, y, ".", markersize=3, color="#332288")
    ends = [x.min(), x.max()]
    left.loglog(ends, ends, color="black", linewidth=0.8)
    left.set_xlabel(r"tile area $\times\ \sqrt{\det A^T A}$")
    left.set_ylabel("area of the image, from its corners")
    right.loglog(x, np.maximum(np.abs(y / x - 1), 1e-17), ".", markersize=3, color="#332288")
    right.set_xlabel("area of the image")
    right.set_ylabel("relative error")
    return figure


EXPERIMENT = Experiment("Equation (10): the volume of a generator's tiles", run, draw, place="equation (10)")
