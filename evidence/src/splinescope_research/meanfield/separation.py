"""Whether neurons separate low from high amplitudes: the condition of Theorem 5 on where training starts."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from splinescope.meanfield.networks import TwoLayer
from splinescope.support.checks import check_positive, check_whole

from .optimality import search_directions
from .particle_measure import ParticleMeasure


def separates(net: TwoLayer, *, radius: float, probes: int = 1024, generator: torch.Generator | None = None) -> bool:
    """Whether the neurons, thickened to balls of `radius`, separate `a = -infinity` from `a = +infinity`.

    Theorem 5 asks this of the support of the initial measure. Finitely many neurons never separate; balls
    around them do if they are dense enough. Probed on 65 amplitudes or more times `probes` directions: the
    condition fails if uncovered probes connect the lowest level to the highest. Exact up to the probe spacing
    in two dimensions (even grid), an estimate above (random directions, each joined to its 2 d nearest).

    Example:
        >>> angles = torch.arange(64) * (2 * torch.pi / 64)
        >>> ring = TwoLayer(torch.zeros(64), torch.stack([angles.cos(), angles.sin()], 1))
        >>> separates(ring, radius=0.2), separates(ring, radius=0.01)
        (True, False)
    """
    radius = check_positive(radius, "radius")
    check_whole(probes, "probes", least=2 * net.dimension + 1)
    rho = ParticleMeasure.of(net)
    u = search_directions(net.dimension, probes, generator).numpy()
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    top = float(np.abs(rho.a).max()) + 2 * radius
    a = np.linspace(-top, top, max(65, int(np.ceil(4 * top / radius)) + 1))
    # chord of the ball's angle: a Euclidean tree in (a, u) is exact for the chordal distance
    tree = cKDTree(np.column_stack([rho.a, rho.u]))
    points = np.column_stack([np.repeat(a, probes), np.tile(u, (len(a), 1))])
    free = np.asarray(tree.query(points, distance_upper_bound=radius)[0]) > radius
    ring = np.asarray(cKDTree(u).query(u, k=(3 if net.dimension == 2 else 2 * net.dimension + 1))[1])
    here = np.repeat(np.arange(probes), ring.shape[1] - 1)
    there = ring[:, 1:].ravel()
    rows = np.arange(len(a))[:, None] * probes
    around = np.stack([(rows + here).ravel(), (rows + there).ravel()])
    upwards = np.stack([np.arange(len(points) - probes), np.arange(probes, len(points))])
    pairs = np.concatenate([around, upwards], axis=1)
    pairs = pairs[:, free[pairs[0]] & free[pairs[1]]]
    graph = coo_matrix((np.ones(pairs.shape[1]), (pairs[0], pairs[1])), shape=(len(points), len(points)))
    label = connected_components(graph, directed=False)[1]
    return not bool(np.isin(label[:probes][free[:probes]], label[-probes:][free[-probes:]]).any())
