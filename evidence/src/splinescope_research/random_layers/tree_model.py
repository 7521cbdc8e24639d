r"""The tree model: one batch row `x` becomes two, `relu(x - mean)` and `relu(mean - x)`, layer after layer.

The literal model has `2^t` rows after `t` layers. But every row is an interval of the data's range: for some
`l < h` it is `clip(x, l, h) - l` (an upper child) or `h - clip(x, l, h)` (a lower child), and its two
transformations belong to the intervals `(l, mu)` and `(mu, h)` with `mu = mean clip(x, l, h)`. Three kinds:

* **wide**: at least two distinct values lie strictly inside. Kept one by one; soon there are none.
* **single**: one distinct value `v` strictly inside. Kept as `(v - l, h - v)`; at most one for each value.
* **empty**: the interval lies in a gap between neighboring values, `m` points below and `n - m` above. The
  row takes two values, and only the sum of the squared lengths matters, separately for upper children
  (`A_m`) and lower ones (`B_m`):
  $$ A_m' = (A_m + B_m)\,(m/n)^2, \qquad B_m' = (A_m + B_m)\,((n-m)/n)^2. $$

So a layer costs O(n), whatever its depth, and Gram matrices are exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from splinescope.support.checks import as_float64_array, check_whole
from splinescope.support.display import Result
from splinescope.support.errors import InputError

_RESCALE_EVERY = 64
"""Layers between two rescalings; the slowest gap loses at most a factor 2 a layer, so 2^-64: far from underflow."""


def tree_rows(values: Any, depth: int) -> np.ndarray:
    """The literal tree model: all rows `[2^depth, n]` of a batch row of numbers.

    Row `2 r` of a layer is `relu(x - mean)` and row `2 r + 1` is `relu(mean - x)` of row `r` before it.
    `tree_representation` gives the same Gram matrix in O(n depth).

    Example:
        >>> tree_rows([0.0, 1.0, 5.0], 1)
        array([[0., 0., 3.],
               [2., 1., 0.]])
    """
    if check_whole(depth, "depth", least=0) > 20:
        raise InputError(f"depth must be at most 20 for the literal model, got {depth}; see tree_representation.")
    rows = as_float64_array(values, "values")[None, :]
    for _ in range(depth):
        offset = rows - (rows.sum(axis=1) / rows.shape[1])[:, None]
        rows = np.stack([np.maximum(offset, 0), np.maximum(-offset, 0)], axis=1).reshape(-1, rows.shape[1])
    return rows


@dataclass(frozen=True, repr=False)
class TreeRepresentation(Result):
    """The batch after some layers of the tree model, without its `2^depth` rows.

    All lengths are in units of `exp(log_scale)`. Indices run over the `K` distinct values, in ascending order;
    gap `k` lies between distinct values `k` and `k + 1`.

    Attributes:
        values: `[n]` the batch row at depth 0, in the user's order.
        depth: Layers applied.
        log_scale: Natural logarithm of the unit of length.
        upper, lower: `[K-1]` sums of squared lengths of the empty intervals of each gap, by kind of child.
        left, right: `[K]` distances from a value to the ends of the single interval around it; 0 if none.
        single_is_upper: `[K]` whether that interval is an upper child.
        wide: `(l, h, is_upper)` of the intervals with two or more distinct values inside.
    """

    values: np.ndarray
    depth: int
    log_scale: float
    upper: np.ndarray
    lower: np.ndarray
    left: np.ndarray
    right: np.ndarray
    single_is_upper: np.ndarray
    wide: tuple[tuple[Any, Any, bool], ...]
    _distinct: np.ndarray
    _place: np.ndarray
    _below: np.ndarray
    _above: np.ndarray
    certainty = "exact"

    def __repr__(self) -> str:
        return f"TreeRepresentation({self.n} points, depth {self.depth}, {self.singles} rows with three clusters)"

    @property
    def n(self) -> int:
        """Batch size."""
        return len(self.values)

    @property
    def singles(self) -> int:
        """Number of rows with three clusters."""
        return int(np.count_nonzero(self.left))

    def cluster_counts(self) -> dict[int, int]:
        """How many of the `2^depth` rows take how many distinct values (Theorem 10: at most 3 from some depth on)."""
        if self.depth == 0:
            return {len(self._distinct): 1}
        counts: dict[int, int] = {}
        for l, h, _ in self.wide:
            inside = int(np.count_nonzero((self._distinct > l) & (self._distinct < h)))
            counts[inside + 2] = counts.get(inside + 2, 0) + 1
        if self.singles:
            counts[3] = self.singles
        empty = 2**self.depth - sum(counts.values())
        if empty:
            counts[2] = counts.get(2, 0) + empty
        return dict(sorted(counts.items()))

    def advance(self, layers: int = 1) -> TreeRepresentation:
        """The representation `layers` layers further on. Cost: O(n) a layer once no interval is wide."""
        check_whole(layers, "layers", least=0)
        state = self
        for _ in range(layers):
            if not state.wide:
                break
            state = _wide_layer(state)
        remaining = self.depth + layers - state.depth
        return _narrow_layers(state, remaining) if remaining else state

    def gram(self) -> np.ndarray:
        """`[n, n]` Gram matrix of the batch in units of `exp(2 log_scale)`; exact up to rounding. Cost: O(n^3)."""
        if self.depth == 0:
            return np.outer(self.values, self.values)
        upper = np.concatenate([[0], np.cumsum(self.upper)])  # at k: gaps below value k
        lower = np.concatenate([np.cumsum(self.lower[::-1])[::-1], [0]])  # at k: gaps above value k
        k = np.arange(len(self._distinct))
        gram = upper[np.minimum(k[:, None], k)] + lower[np.maximum(k[:, None], k)]
        rows = self._explicit_rows()
        gram = gram + rows.T @ rows
        return gram[np.ix_(self._place, self._place)]

    def _explicit_rows(self) -> np.ndarray:
        """`[singles + wide, K]` rows of the intervals with data inside, one column for each distinct value."""
        rows = []
        k = np.arange(len(self._distinct))
        for j in np.flatnonzero(self.left):
            own, before = (self.left[j], k < j) if self.single_is_upper[j] else (self.right[j], k > j)
            rows.append(np.where(before, 0, np.where(k == j, own, self.left[j] + self.right[j])))
        for l, h, is_upper in self.wide:
            clipped = np.clip(self._distinct, l, h)
            rows.append(clipped - l if is_upper else h - clipped)
        return np.array(rows) if rows else np.zeros((0, len(k)))

    def norms(self) -> np.ndarray:
        """`[n]` lengths of the points in units of `exp(log_scale)`."""
        return np.sqrt(np.diagonal(self.gram()))

    def angles(self) -> np.ndarray:
        """`[n, n]` angles between the points, in degrees, good to 1e-13 however small. Cost: O(n^3)."""
        vectors = self._vectors()
        unit = (vectors / np.linalg.norm(vectors, axis=0)).T
        chords = np.stack([np.linalg.norm(unit - u, axis=1) for u in unit])
        sums = np.stack([np.linalg.norm(unit + u, axis=1) for u in unit])
        angles = np.degrees(2 * np.arctan2(chords, sums))
        return angles[np.ix_(self._place, self._place)]

    def _vectors(self) -> np.ndarray:
        """`[rows, K]` with the tree's Gram matrix: the empty intervals of a gap are one row of each kind."""
        if self.depth == 0:
            return self._distinct[None]
        k = np.arange(len(self._distinct))
        gaps = k[:-1, None]
        upper, lower = np.sqrt(self.upper)[:, None] * (k > gaps), np.sqrt(self.lower)[:, None] * (k <= gaps)
        return np.concatenate([upper, lower, self._explicit_rows()])


def tree_representation(values: Any, depth: int) -> TreeRepresentation:
    """A batch of `n` numbers after `depth` layers of the tree model.

    Args:
        values: `[n]` numbers, at least two of them distinct, their range between 1e-100 and 1e100 (the tree
            commutes with scaling). For a batch of vectors, add the Gram matrices of the coordinates (`tree_gram`).
        depth: Number of layers; 100,000 take seconds.

    Returns:
        A `TreeRepresentation`: exact Gram matrix, angles, norms, cluster counts; `advance` goes on from it.

    Cost: O(n) a layer, plus O(n) for each interval that still holds two distinct values or more.

    Example:
        >>> tree = tree_representation([0.0, 1.0, 5.0], 1)
        >>> tree.gram()
        array([[4., 2., 0.],
               [2., 1., 0.],
               [0., 0., 9.]])

    Reference: "Batch Normalization Decomposed", section IV (Definition 5, Theorems 10 and 11); the intervals
    are our own shortcut.
    """
    numbers = as_float64_array(values, "values")
    if numbers.ndim != 1:
        raise InputError(f"values must have shape (n,), got {numbers.shape}; tree_gram takes (n, d).")
    distinct, place, count = np.unique(numbers, return_inverse=True, return_counts=True)
    if len(distinct) < 2:
        raise InputError(f"values must hold at least two distinct numbers, got {len(distinct)}.")
    if not 1e-100 < distinct[-1] - distinct[0] < 1e100:
        raise InputError(
            f"values must span between 1e-100 and 1e100 (squares must be numbers), got "
            f"{distinct[-1] - distinct[0]:.3g}: rescale them."
        )
    check_whole(depth, "depth", least=0)
    below = np.cumsum(count) - count
    zeros = np.zeros(len(distinct))
    narrow = (zeros[1:], zeros[1:], zeros, zeros, np.zeros(len(distinct), dtype=bool))
    wide = ((distinct[0], distinct[-1], True),)
    above = len(numbers) - below - count
    return TreeRepresentation(numbers, 0, 0.0, *narrow, wide, distinct, place, below, above).advance(depth)


def tree_gram(x: Any, depth: int) -> tuple[np.ndarray, float]:
    """Gram matrix of a batch of vectors `[n, d]` after `depth` layers: the sum over its coordinates' trees.

    Returns `(gram, log_scale)`: the true Gram matrix is `exp(2 log_scale) * gram`.
    """
    x = as_float64_array(x, "x")
    if x.ndim != 2:
        raise InputError(f"x must have shape (n, d), got {x.shape}.")
    check_whole(depth, "depth")
    trees = [tree_representation(column, depth) for column in x.T if np.ptp(column) > 0]
    if not trees:
        raise InputError("the points of x must not all be equal.")
    unit = max(tree.log_scale for tree in trees)
    return sum((math.exp(2 * (t.log_scale - unit)) * t.gram() for t in trees), np.zeros((len(x), len(x)))), unit


def three_cluster_depth_bound(values: Any) -> int:
    r"""A depth from which every row takes at most three values: an explicit bound for Theorem 10.

    $$ t_0 \le \left\lceil \frac{\ln((x_n - x_1)/g)}{\ln(n/(n-1))} \right\rceil $$

    with `g` the smallest positive gap among `x_2, ..., x_{n-1}` (sorted): a child interval has at most
    `1 - 1/n` of its parent's length, and an interval no longer than `g` cannot hold two of the inner values
    strictly inside. A rigorous bound, loose for random batches.
    """
    x = np.sort(as_float64_array(values, "values"))
    if x.ndim != 1 or len(x) == 0:
        raise InputError(f"values must have shape (n,), got {x.shape}.")
    inner = np.unique(x[(x > x[0]) & (x < x[-1])])
    if len(inner) < 2:
        return 0
    n = len(x)
    return math.ceil(math.log((x[-1] - x[0]) / np.diff(inner).min()) / math.log(n / (n - 1)))


def _wide_layer(state: TreeRepresentation) -> TreeRepresentation:
    """One layer: the narrow intervals by their recursion, then the wide ones one by one."""
    after = _narrow_layers(state, 1, rescale=False)
    upper, lower = after.upper.copy(), after.lower.copy()
    left, right, single_is_upper = after.left.copy(), after.right.copy(), after.single_is_upper.copy()
    u, n = state._distinct, state.n
    wide: list[tuple[Any, Any, bool]] = []
    for l, h, _ in state.wide:
        inside = np.flatnonzero((u > l) & (u < h))
        counts = n - state._below[inside] - state._above[inside]
        above = n - np.count_nonzero(state.values < h)
        rise = (np.sum(counts * (u[inside] - l)) + above * (h - l)) / n
        mu = l + rise
        for is_upper, (low, high) in ((False, (l, mu)), (True, (mu, h))):
            held = inside[(u[inside] > low) & (u[inside] < high)]
            if len(held) > 1:
                wide.append((low, high, is_upper))
            elif len(held) == 1:
                j = held[0]
                left[j], right[j], single_is_upper[j] = u[j] - low, high - u[j], is_upper
            else:
                gap = np.searchsorted(u, low, side="right") - 1
                (upper if is_upper else lower)[gap] += (high - low) ** 2
    after = replace(after, left=left, right=right, single_is_upper=single_is_upper)
    return replace(after, upper=upper, lower=lower, wide=tuple(wide))


def _narrow_layers(state: TreeRepresentation, layers: int, rescale: bool = True) -> TreeRepresentation:
    """`layers` layers of the empty and the single intervals (the wide ones are left out)."""
    below, above = state._below / state.n, state._above / state.n
    to_upper, to_lower = below[1:] ** 2, above[:-1] ** 2  # squared shares of a gap's two children
    upper, lower = state.upper, state.lower
    left, right, single_is_upper = state.left, state.right, state.single_is_upper
    log_scale = state.log_scale
    for layer in range(layers):
        total = upper + lower
        upper, lower = to_upper * total, to_lower * total
        # the mean lies at v + shift; the child that holds v keeps one end, the other child is empty
        shift = above * right - below * left
        up, down = shift > 0, shift < 0
        upper += np.where(up | (shift == 0), right - shift, 0)[:-1] ** 2
        lower += np.where(down | (shift == 0), left + shift, 0)[1:] ** 2
        left, right = np.where(up, left, np.where(down, -shift, 0)), np.where(up, shift, np.where(down, right, 0))
        single_is_upper = down
        if rescale and layer % _RESCALE_EVERY == 0:
            unit = math.sqrt(upper.sum() + lower.sum()) or 1.0
            upper, lower, left, right = upper / unit**2, lower / unit**2, left / unit, right / unit
            log_scale += math.log(unit)
    after = replace(state, depth=state.depth + layers, log_scale=log_scale, upper=upper, lower=lower, wide=())
    return replace(after, left=left, right=right, single_is_upper=single_is_upper)
