r"""The configuration that recentering and ReLU leave in place: a cluster and one odd point.

The layer is `x -> relu(W (x - mean))` with Gaussian `W`. Its entries have variance `2 gain / d_out`, with

$$ \mathrm{gain} = \frac{n^2}{(n-1)^2 R^2}, \qquad R = \|x_1 - \nu\|, \qquad \nu = \text{mean of } x_2, \dots, x_n, $$

which keeps the odd point's expected squared length at 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from splinescope.support.checks import as_float64_array, check_whole
from splinescope.support.display import Result
from splinescope.support.errors import InputError

from ..arguments import numpy_generator
from .expected_gram import relu_gram


def invariant_representation(n: int, k: int = 2) -> np.ndarray:
    r"""The invariant representation of Definition 12: `x_1` and `n - 1` copies of a vector orthogonal to it.

    $$ \|x_1\| = 1, \qquad x_2 = \dots = x_n = \nu, \qquad \|\nu\| = \frac{1}{n-1}, \qquad x_1 \cdot \nu = 0 $$

    Args:
        n: Batch size, at least 2.
        k: Dimension, at least 2 (two orthogonal vectors are needed).

    Returns:
        `[n, k]`; any rotation of it is one too.

    Example:
        >>> invariant_representation(3)
        array([[1. , 0. ],
               [0. , 0.5],
               [0. , 0.5]])
    """
    check_whole(n, "n", least=2)
    check_whole(k, "k", least=2)
    x = np.zeros((n, k))
    x[0, 0] = 1.0
    x[1:, 1] = 1 / (n - 1)
    return x


@dataclass(frozen=True, repr=False)
class OddPointStep(Result):
    """One layer of recentering and ReLU applied to an odd point and a cluster, in expectation.

    Attributes:
        distance: `R`, from the odd point to the cluster's mean.
        gain: Half the width times the weights' variance (see the module's text).
        contracts: Whether `R > n/(n-1)`, i.e. `gain < 1`: the condition of Theorem 14, corrected.
        gram: `[n+1, n+1]` expected Gram matrix after the layer; the last entry is `nu`, carried along.
        ratios: `[n-1, n-1]` expected squared distances in the cluster, after over before (nan where 0/0).
    """

    distance: float
    gain: float
    contracts: bool
    gram: np.ndarray
    ratios: np.ndarray
    certainty = "exact"


def odd_point_step(x: Any) -> OddPointStep:
    r"""Theorems 13 and 14 in closed form: what one layer does, on average, to an odd point and its cluster.

    In expectation the odd point has squared length 1, the image of the cluster's mean has `1/(n-1)^2`, the two
    are orthogonal, and squared distances in the cluster become

    $$ D_{ij} = K_{ii} + K_{jj} - 2 K_{ij} \le \mathrm{gain}\, \|x_i - x_j\|^2, \qquad
       K_{ij} = \mathrm{gain}\, \|y_i\| \|y_j\|\, J(\cos(y_i, y_j)), \quad y = x - \bar x, $$

    so that the cluster contracts when `R > n/(n-1)`. It is the expected Gram matrix that is invariant
    (Theorem 13), not the expected representation, and an invariant representation has `R < n/(n-1)`.

    Args:
        x: `[n, k]` with the odd point first.

    Returns:
        An `OddPointStep`; exact.

    Cost: O(n^2 k).
    """
    x, y, distance, gain = _odd_first(x)
    gram = 2 * gain * relu_gram(y @ y.T)
    inner = gram[1:-1, 1:-1]
    squares = np.diagonal(inner)
    after = np.maximum(squares[:, None] + squares - 2 * inner, 0)
    before = np.square(x[1:, None] - x[1:]).sum(axis=-1)
    ratios = np.divide(after, before, out=np.full_like(after, np.nan), where=before > 0)
    return OddPointStep(distance, gain, gain < 1, gram, ratios)


def sample_odd_point_step(x: Any, width: int, draws: int, generator: torch.Generator | None = None) -> np.ndarray:
    """The same layer by Monte Carlo: `[draws, n+1, width]`, the last point being the image of the cluster's mean."""
    x, y, _, gain = _odd_first(x)
    check_whole(width, "width")
    check_whole(draws, "draws")
    random = numpy_generator(generator)
    scale = math.sqrt(2 * gain / width)
    return np.maximum(np.matmul(y, scale * random.standard_normal((draws, x.shape[1], width))), 0)


def _odd_first(x: Any) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Points `[n, k]`, the odd one first; they and the cluster's mean, recentered `[n+1, k]`; distance and gain."""
    x = as_float64_array(x, "x")
    if x.ndim != 2 or len(x) < 2:
        raise InputError(f"x must have shape (n, k) with n >= 2, got {x.shape}.")
    n, nu = len(x), x[1:].mean(axis=0)
    distance = float(np.linalg.norm(x[0] - nu))
    if distance == 0:
        raise InputError("the odd point (the first) must differ from the mean of the others.")
    return x, np.vstack([x, nu]) - x.mean(axis=0), distance, n**2 / ((n - 1) ** 2 * distance**2)
