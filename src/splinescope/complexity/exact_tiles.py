"""Local complexity, exactly: the tiles and folds in a disc of a 2-D slice, from the tiling."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from ..network import SplineNetwork, trace
from ..network.program import units_of_cuts
from ..support.progress import Share
from ..tiling import Slice, Tiling, tessellate


def exact_counts(
    model: nn.Module | SplineNetwork, x: Tensor, directions: Tensor, radius: float, share: Share
) -> tuple[Tensor, Tensor, Tensor, SplineNetwork]:
    """`[N, S]` folds, `[N, S]` neurons and `[N]` tiles about each point, and the network that was traced."""
    network = (
        model if isinstance(model, SplineNetwork) else trace(model, x[:1] if len(x) else x.new_zeros(1, *x.shape[1:]))
    )
    counts, neurons = torch.zeros(2, len(x), len(network.sites), dtype=torch.int64)
    tiles = torch.zeros(len(x), dtype=torch.int64)
    for i, point in enumerate(x):
        share(i / len(x))
        tiling = tessellate(network, Slice.box(point, directions, radius), progress=False)
        folds, bending, tiles[i] = folds_and_tiles_within(tiling, radius)
        counts[i], neurons[i] = torch.from_numpy(folds), torch.from_numpy(bending)
    return counts, neurons, tiles, network


def folds_and_tiles_within(tiling: Tiling, radius: float) -> tuple[np.ndarray, np.ndarray, int]:
    """Folds and neurons per site, `[S]` each, and tiles that meet the open disc of this radius about 0.

    A wall that only touches the circle does not count, nor do the domain's sides. Where several folds coincide, the
    tiling names the first of them, and one is counted.
    """
    walls = tiling.walls
    meets = (walls.cuts >= 0) & (_distance_to_origin(tiling.vertices[walls.ends]) < radius)
    met = np.unique(np.stack(units_of_cuts(tiling.sites, walls.cuts[meets])), axis=1)
    bending = np.unique(np.stack([met[0], _neurons(tiling, *met)]), axis=1)
    folds, neurons = (np.bincount(found[0], minlength=len(tiling.sites)) for found in (met, bending))
    return folds, neurons, len(tiling.tiles_near(np.zeros(2), radius))


def _neurons(tiling: Tiling, sites: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Which neuron of its site each unit belongs to: itself, but where numbers bend at several places."""
    found = units.copy()
    for number, site in enumerate(tiling.sites):
        if site.units > site.neurons:
            fold = next(fold for fold in tiling.program("telling neurons apart").folds if fold.site == site)
            found[sites == number] = fold.elements[units[sites == number]]
    return found


def _distance_to_origin(ends: np.ndarray) -> np.ndarray:
    """`[E]` distances of segments `[E, 2, 2]` from the origin."""
    a, b = ends[:, 0], ends[:, 1]
    along = b - a
    share = np.clip(-(a * along).sum(1) / np.maximum((along**2).sum(1), np.finfo(float).tiny), 0.0, 1.0)
    return np.asarray(np.linalg.norm(a + share[:, None] * along, axis=1))
