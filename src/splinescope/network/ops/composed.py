"""Piecewise-affine functions of torch that are made of others: sorting, order statistics, norms of one and infinity.

Written out, their parts are in the table of operations like any others, so tracing and watching see the same folds. A
sort of k values is a network of sorted pairs (Batcher's), which is exact.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .python_names import function_name


def written_out(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any] | None:
    """A call as a function that runs its parts; None if it is not made of any, or acts on the batch axis."""
    compose = COMPOSED.get(function_name(func))
    if compose is None:
        return None
    if not args and "input" in kwargs:
        args, kwargs = (kwargs["input"],), {key: value for key, value in kwargs.items() if key != "input"}
    if not args or not isinstance(args[0], Tensor) or not args[0].is_floating_point():
        return None
    return compose(func, *args, **kwargs)


def _axes(x: Tensor, dim: Any) -> list[int] | None:
    """The axes that `dim` names, if the batch axis is not among them."""
    dims = list(dim) if isinstance(dim, (list, tuple)) else [] if dim is None else [dim]
    axes = [axis % x.dim() for axis in dims if isinstance(axis, int)]
    return axes if axes and len(axes) == len(dims) and 0 not in axes else None


def comparators(count: int) -> list[tuple[list[int], list[int]]]:
    """Batcher's network: in each layer the places that are compared, smaller values going to the first of two."""
    layers = []
    reach = 1
    while reach < count:
        step = reach
        while step >= 1:
            pairs = [
                (place, place + step)
                for start in range(step % reach, count - step, 2 * step)
                for place in range(start, min(start + step, count - step))
                if place // (2 * reach) == (place + step) // (2 * reach)
            ]
            if pairs:
                layers.append(([low for low, _ in pairs], [high for _, high in pairs]))
            step //= 2
        reach *= 2
    return layers


def selecting(count: int, ranks: set[int]) -> list[tuple[list[int], list[int]]]:
    """The comparisons of `comparators` that the values of these ranks depend on; other places hold anything."""
    layers, needed = [], set(ranks)
    for low, high in reversed(comparators(count)):
        pairs = [(a, b) for a, b in zip(low, high, strict=True) if a in needed or b in needed]
        if pairs:
            layers.append(([a for a, _ in pairs], [b for _, b in pairs]))
            needed.update(*pairs)
    return layers[::-1]


def sorted_values(x: Tensor, axis: int, descending: bool = False, start: int = 0, length: int | None = None) -> Tensor:
    """The values along an axis in order, by sorting pairs; or `length` of them from rank `start` on."""
    count = x.shape[axis]
    length = count - start if length is None else length
    first = count - start - length if descending else start
    if length == 1 and first in (0, count - 1):
        return (x.amin if first == 0 else x.amax)(axis, keepdim=True)
    x = x.movedim(axis, -1)
    for low, high in selecting(count, set(range(first, first + length))):
        rest = sorted(set(range(count)) - {*low, *high})
        pairs = torch.stack([_at(x, low), _at(x, high)], -1).sort(-1)[0]
        parts = [pairs[..., 0], pairs[..., 1], *([_at(x, rest)] if rest else [])]
        order = [*low, *high, *rest]
        x = _at(torch.cat(parts, -1), [order.index(place) for place in range(count)])
    x = x.narrow(-1, first, length)
    return (x.flip(-1) if descending else x).movedim(-1, axis)


def _at(x: Tensor, places: list[int]) -> Tensor:
    return x.index_select(-1, torch.tensor(places, device=x.device))


def _places(func: Any, *args: Any, **kwargs: Any) -> Tensor:
    """The indices that torch itself returns, seen by nobody."""
    with torch._C.DisableTorchFunction():
        places: Tensor = func(*args, **kwargs)[1]
    return places


def _sort(func: Any, x: Tensor, dim: int = -1, descending: bool = False, stable: bool | None = None) -> Any:
    axes = _axes(x, dim)
    if axes is None or x.shape[axes[0]] <= 2:
        return None
    places = partial(_places, func, x, dim=dim, descending=descending)
    return lambda: torch.return_types.sort((sorted_values(x, axes[0], descending), places()))


def _topk(func: Any, x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    axes = _axes(x, dim)
    if axes is None or not 1 <= k <= x.shape[axes[0]] or not (sorted or k == 1):  # torch may order them in any way
        return None
    places = partial(_places, func, x, k, dim, largest, sorted)
    return lambda: torch.return_types.topk((sorted_values(x, axes[0], largest, length=k), places()))


def _ranked(x: Tensor, axis: int, rank: int, keepdim: bool) -> Tensor:
    found = sorted_values(x, axis, start=rank, length=1)
    return found if keepdim else found.squeeze(axis)


def _kthvalue(func: Any, x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    axes = _axes(x, dim)
    if axes is None or not 1 <= k <= x.shape[axes[0]]:
        return None
    places = partial(_places, func, x, k, dim, keepdim)
    return lambda: torch.return_types.kthvalue((_ranked(x, axes[0], k - 1, keepdim), places()))


def _median(func: Any, x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower one of two in the middle, as torch takes it."""
    axes = _axes(x, dim)
    if axes is None or not x.shape[axes[0]]:
        return None
    middle, places = (x.shape[axes[0]] - 1) // 2, partial(_places, func, x, dim, keepdim)
    return lambda: torch.return_types.median((_ranked(x, axes[0], middle, keepdim), places()))


def _running(func: Any, x: Tensor, dim: int) -> Callable[[], Any] | None:
    """Running maximum or minimum."""
    axes, name = _axes(x, dim), function_name(func)
    if axes is None:
        return None
    choose = torch.maximum if name == "cummax" else torch.minimum

    def values() -> Tensor:
        parts = list(x.unbind(axes[0]))
        for i in range(1, len(parts)):
            parts[i] = choose(parts[i - 1], parts[i])
        return torch.stack(parts, axes[0])

    return lambda: getattr(torch.return_types, name)((values(), _places(func, x, dim)))


def _aminmax(func: Any, x: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Callable[[], Any] | None:
    axes = _axes(x, dim)
    if axes is None:
        return None
    return lambda: torch.return_types.aminmax((x.amin(axes, keepdim=keepdim), x.amax(axes, keepdim=keepdim)))


def _length(x: Tensor, order: Any, axes: Any, keepdim: bool = False) -> Callable[[], Tensor] | None:
    """The norm of one, of infinity, or of minus infinity (the smallest absolute value)."""
    if axes is None or not isinstance(order, (int, float)):
        return None
    if order == 1:
        return lambda: x.abs().sum(axes, keepdim=keepdim)
    if math.isinf(order):
        return lambda: x.abs().amax(axes, keepdim=keepdim) if order > 0 else x.abs().amin(axes, keepdim=keepdim)
    return None


def _norm(func: Any, x: Tensor, p: Any = 2, dim: Any = None, keepdim: bool = False, **rest: Any) -> Any:
    order = rest.pop("ord", p)  # as torch.linalg calls it
    matrix = function_name(func) == "linalg_norm" and isinstance(dim, (list, tuple)) and len(dim) > 1
    if matrix or any(value is not None for value in rest.values()):
        return None
    return _length(x, order, _axes(x, dim), keepdim)


def _cdist(func: Any, x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: Any = None) -> Any:
    return _length(x1.unsqueeze(-2) - x2.unsqueeze(-3), p, -1)


def _pairwise(func: Any, x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    return _length(x1 - x2 + eps, p, -1, keepdim) if x1.dim() > 1 else None


COMPOSED: dict[str, Callable[..., Callable[[], Any] | None]] = {
    "sort": _sort,
    "topk": _topk,
    "kthvalue": _kthvalue,
    "median": _median,
    "cummax": _running,
    "cummin": _running,
    "aminmax": _aminmax,
    "norm": _norm,
    "linalg_norm": _norm,
    "linalg_vector_norm": _norm,
    "cdist": _cdist,
    "pairwise_distance": _pairwise,
}
