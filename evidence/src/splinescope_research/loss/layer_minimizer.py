"""The minimizer of one layer's quadratic `|r - J d|^2`: directly where J can be written down, else by products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.linalg import lstsq
from torch import Tensor, nn
from torch.func import functional_call, vjp

from splinescope.support.derivatives import along, differentiating

from .curvature_factor import dense_factor

Vector = dict[str, Tensor]

_CONVERGED = 1e-12  # of the first gradient's norm: what float64 products can still tell
_NUMBERS = 16 << 20  # of a Jacobian that is written down (128 MB)
_WORK = 1e10  # rows x columns x the lesser: what its singular values may cost


def minimizer(
    model: nn.Module, moved: Vector, rest: Vector, x: Tensor, y: Tensor, *, products: int | None, radius: float
) -> Vector:
    """The change d of the moved parameters of least |outputs + J d - y| in the ball; of several, the shortest.

    Without a limit on products, and where J is of moderate size, from J's singular values; they are exact to rounding
    whatever the scales of the inputs. Otherwise, and where that lies outside the ball, by conjugate gradients.
    """
    rows, columns = y.numel(), sum(v.numel() for v in moved.values())
    small = rows * columns <= _NUMBERS and rows * columns * min(rows, columns) <= _WORK
    if products is None and small:
        d = _direct(model, moved, rest, x, y)
        if _dot(d, d) < radius**2:
            return d

    def outputs(at: Vector) -> Tensor:
        return functional_call(model, {**rest, **at}, (x,))

    return _by_products(outputs, moved, y, products, radius)


def _direct(model: nn.Module, moved: Vector, rest: Vector, x: Tensor, y: Tensor) -> Vector:
    """By singular values, twice: of what is left, with columns of one length, so that no scale hides a small column."""
    jacobian = dense_factor(model, moved, rest, x, "squared", 256) * np.sqrt(len(x) / 2)
    with torch.no_grad():
        wanted = (y - functional_call(model, {**rest, **moved}, (x,))).flatten().cpu().numpy()
    change = lstsq(jacobian, wanted, cond=_rank_cut(jacobian), check_finite=False)[0]
    left = wanted - jacobian @ change
    lengths = np.linalg.norm(jacobian, axis=0)
    lengths[lengths == 0] = 1.0
    jacobian /= lengths
    more = lstsq(jacobian, left, cond=_rank_cut(jacobian), check_finite=False)[0]
    if np.linalg.norm(left - jacobian @ more) < np.linalg.norm(left) * (1 - 1e-12):
        change = change + more / lengths
    parts = torch.from_numpy(change).split([v.numel() for v in moved.values()])
    return {name: part.reshape(v.shape).to(v) for (name, v), part in zip(moved.items(), parts, strict=True)}


def _rank_cut(matrix: np.ndarray) -> float:
    """Below this share of the largest, a singular value is rounding."""
    return float(np.finfo(matrix.dtype).eps * max(matrix.shape))


def _by_products(
    outputs: Callable[[Vector], Tensor], start: Vector, y: Tensor, products: int | None, radius: float
) -> Vector:
    """Conjugate gradients on the normal equations.

    They end at the sphere if they reach it (Steihaug): then at least half of the best decrease in the ball is had.
    """
    with differentiating("the model", lambda: outputs(start)):
        values, pull = vjp(outputs, start)[:2]
        residual = y - values
        descent: Vector = pull(residual)[0]
        d = {name: torch.zeros_like(v) for name, v in start.items()}
        p, size = descent, _dot(descent, descent)
        first = size
        most = products or 2 * min(sum(v.numel() for v in start.values()), y.numel()) + 2
        for _ in range(most):
            if size <= _CONVERGED**2 * first or size == 0:
                break
            image = along(outputs, start, p)[1]
            bend = float(image.square().sum())
            if bend == 0:
                break
            step = size / bend
            ahead = _plus(d, p, step)
            if _dot(ahead, ahead) >= radius**2:
                return _plus(d, p, _to_sphere(d, p, radius))
            d, residual = ahead, residual - step * image
            descent = pull(residual)[0]
            size, last = _dot(descent, descent), size
            p = _plus(descent, p, size / last)
    return d


def _dot(a: Vector, b: Vector) -> float:
    return float(sum((a[name] * b[name]).sum() for name in a))


def _plus(a: Vector, b: Vector, amount: float) -> Vector:
    return {name: a[name] + amount * b[name] for name in a}


def _to_sphere(d: Vector, p: Vector, radius: float) -> float:
    """How far along p the sphere about 0 is from d, which lies inside."""
    a, b, c = _dot(p, p), _dot(d, p), _dot(d, d) - radius**2
    return float((-b + (b * b - a * c) ** 0.5) / a)
