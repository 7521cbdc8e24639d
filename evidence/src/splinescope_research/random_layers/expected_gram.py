r"""A batch through depth without sampling weights: the expected Gram matrix of one layer.

A unit with Gaussian weights sees the batch as a Gaussian vector `z ~ N(0, G)`, where `G` is the Gram matrix of
the representation before it. Everything below is an average over that one vector.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from splinescope.support.checks import as_float64_array, check_choice, check_positive, check_whole
from splinescope.support.errors import InputError

from .layers import COMPONENTS, check_components

_STEP = 0.4
"""Of the trapezoidal rule in log s: the integrand is analytic for |Im log s| < pi, so errors are e^(-2 pi^2 / step)."""


def arc_cosine(correlation: Any) -> np.ndarray:
    r"""The order-1 arc-cosine kernel $J(r) = (\sqrt{1-r^2} + (\pi - \arccos r)\, r)/\pi$, from 0 at -1 to 1 at 1.

    `E[relu(u) relu(v)] = |u| |v| J(r) / 2` for centered Gaussians of standard deviations `|u|`, `|v|` and
    correlation `r`. Reference: Cho and Saul (2009).
    """
    r = np.clip(np.asarray(correlation, dtype=np.float64), -1, 1)
    return np.maximum(np.sqrt(1 - r * r) + (np.pi - np.arccos(r)) * r, 0) / np.pi


def relu_gram(gram: np.ndarray) -> np.ndarray:
    """`E[relu(z) relu(z)^T]` for `z ~ N(0, gram)`, closed form; leading axes are a batch of Gram matrices."""
    norms = np.sqrt(np.maximum(np.diagonal(gram, axis1=-2, axis2=-1), 0))
    products = norms[..., :, None] * norms[..., None, :]
    correlation = np.divide(gram, products, out=np.zeros_like(products), where=products > 0)
    index = np.arange(gram.shape[-1])
    correlation[..., index, index] = 1.0  # rounding here would cost half of the digits in J
    return products * arc_cosine(correlation) / 2


def recentered_gram(gram: np.ndarray) -> np.ndarray:
    """Gram matrix of the batch minus its mean: `C G C` with `C = I - 1 1^T / n`."""
    half = gram - gram.mean(axis=-1, keepdims=True)
    return half - half.mean(axis=-2, keepdims=True)


def expected_gram(
    gram: Any,
    components: Iterable[str] = COMPONENTS,
    *,
    weight_variance: float = 1.0,
    spread: str = "std",
) -> np.ndarray:
    r"""Expected Gram matrix (per unit) of one random layer with recentering, rescaling, non-linearity on or off.

    $$ G' = E\big[\phi(z)\phi(z)^T\big], \qquad z \sim N(0, \sigma^2 G), \qquad
       \phi = \mathrm{relu}^{[\text{nl}]} \circ \tfrac{\sqrt n}{\|\cdot\|}^{[\text{rs}]} \circ C^{[\text{rc}]} $$

    Without RS this is a closed form (`C G C` and the arc-cosine kernel). With RS, $1/\|z\|^2 =
    \int_0^\infty e^{-s\|z\|^2}\,ds$ turns the average into one integral over `s` of closed forms,

    $$ G' = n \int_0^\infty \det(I + 2 s G)^{-1/2}\; K\big(G (I + 2 s G)^{-1}\big)\, ds, $$

    with `K` the arc-cosine kernel (or the identity without NL); the trapezoidal rule in `log s` gives it to
    about 12 digits.

    Args:
        gram: `[n, n]` symmetric, positive semi-definite: mean over units of `h h^T` before the layer.
        components: Any of "rc", "rs", "nl".
        weight_variance: `sigma^2`: 1 for variance 1/width, 2 for He initialization; no effect with RS.
        spread: What RS divides by: "std" over the batch, or "rms". After RC they agree.

    Returns:
        `[n, n]`.

    Cost: O(n^3) to check the input, then O(n^2) without RS, O(n^3) for each of some 200 nodes with it.

    Example:
        >>> expected_gram(np.eye(2), ("rc", "nl")).round(9)    # recentered, two points are opposite: never both active
        array([[0.25, 0.  ],
               [0.  , 0.25]])

    Reference: the infinite-width layer of "Batch Normalization Decomposed", section V; integral: our own.
    """
    chosen = check_components(components)
    check_choice(spread, "spread", ("std", "rms"))
    return _layer(_check_gram(gram), chosen, check_positive(weight_variance, "weight_variance"), spread)


def _layer(g: np.ndarray, chosen: frozenset[str], weight_variance: float, spread: str) -> np.ndarray:
    g = weight_variance * g
    if "rc" in chosen:
        g = recentered_gram(g)
    if "rs" in chosen:
        return _rescaled(g, centered=spread == "std", rectified="nl" in chosen)
    return relu_gram(g) if "nl" in chosen else g


def follow_expected_gram(
    gram: Any,
    layers: int,
    components: Iterable[str] = COMPONENTS,
    *,
    weight_variance: float = 2.0,
    spread: str = "std",
) -> tuple[np.ndarray, float]:
    """Apply `expected_gram` again and again: a batch through depth in the limit of infinite width.

    Returns `(gram, log_scale)`: the Gram matrix is `exp(log_scale) * gram`, with `gram` of trace 1.

    Example:
        >>> g, _ = follow_expected_gram(np.diag([1.0, 2.0, 3.0]), 50, ("rc", "rs", "nl"))
        >>> bool(abs(g[0, 1] / g[0, 0] - arc_cosine(-1 / 2)) < 1e-6)    # all angles become arccos J(-1/(n-1))
        True
    """
    chosen = check_components(components)
    check_choice(spread, "spread", ("std", "rms"))
    check_positive(weight_variance, "weight_variance")
    g, log_scale = _trace_one(_check_gram(gram), 0.0)
    for _ in range(check_whole(layers, "layers", least=0)):
        g, log_scale = _trace_one(_layer(g, chosen, weight_variance, spread), log_scale)
    return g, log_scale


def _trace_one(g: np.ndarray, log_scale: float) -> tuple[np.ndarray, float]:
    trace = float(np.trace(g))
    if trace <= 0:
        raise InputError("the batch has collapsed to one point: nothing is left after recentering.")
    return g / trace, log_scale + math.log(trace)


def _check_gram(gram: Any) -> np.ndarray:
    """`gram` as a symmetric positive semi-definite float64 `[n, n]` array, refused otherwise."""
    g = as_float64_array(gram, "gram")
    if g.ndim != 2 or g.shape[0] != g.shape[1] or g.size == 0:
        raise InputError(f"gram must have shape (n, n), got {g.shape}.")
    if np.abs(g - g.T).max() > 1e-8 * np.abs(g).max():
        raise InputError("gram must be symmetric.")
    g = (g + g.T) / 2
    values = np.linalg.eigvalsh(g)
    if values[0] < -1e-8 * np.abs(values).max():
        raise InputError(f"gram must be positive semi-definite, got the eigenvalue {values[0]:.3g}.")
    return g


def _rescaled(g: np.ndarray, *, centered: bool, rectified: bool) -> np.ndarray:
    """The integral over `s`, after `z = F g` with `g` standard normal and `|z|^2 -> sum_k rate_k g_k^2`."""
    n = len(g)
    values, vectors = np.linalg.eigh(g)
    factor = vectors * np.sqrt(np.maximum(values, 0))
    rates, rotation = np.linalg.eigh(factor.T @ (recentered_gram(np.eye(n)) if centered else np.eye(n)) @ factor)
    factor = factor @ rotation
    rates = np.where(rates > 1e-13 * rates[-1], rates, 0.0)
    if rates[-1] <= 0:
        raise InputError("rescaling needs a batch whose points differ.")
    live = int(np.count_nonzero(rates))
    undivided = float(np.square(factor[:, rates == 0]).sum()) > 1e-12 * float(np.trace(g))
    if undivided and live <= 2:
        raise InputError(
            f"the expectation is infinite: a batch that spreads in {live} direction(s) is divided by a spread that is "
            'often near 0; add "rc", take spread="rms" or a larger batch.'
        )
    # In t = log s the integrand rises like e^t and falls like e^-(decay t); cut both ends at 1e-17 of their bends.
    decay = live / 2 - 1 if undivided else live / 2
    low, high = np.log(1e-17 / rates[-1]), np.log(1e17 ** (1 / decay) / rates[rates > 0][0])
    result = np.zeros_like(g)
    for t in np.arange(low, high + _STEP, _STEP):
        damping = 1 / (1 + 2 * np.exp(t) * rates)
        measure = np.exp(t + 0.5 * np.log(damping).sum())
        damped = (factor * damping) @ factor.T
        result += measure * (relu_gram(damped) if rectified else damped)
    return n * _STEP * result
