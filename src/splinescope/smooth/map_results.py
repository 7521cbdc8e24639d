"""What a local map tells: blocks of its matrix, by products alone, and how far from its point it is valid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, svds
from torch import Tensor

from ..support.checks import check_whole
from ..support.display import Result, table
from ..support.drawing import drawn
from ..support.errors import InputError
from ..support.progress import Progress, stepping

if TYPE_CHECKING:
    from .local_map import LocalMap

_DENSE_UP_TO = 4096  # the shorter side of a matrix whose singular values are computed densely
_CHUNK = 64  # directions that run backwards together


class MapPart(Result):
    """A block of a local map's matrix A; made by `LocalMap.part`. A `LocalMap` is the block of all entries.

    Attributes:
        shape: (rows, columns).
    """

    certainty = "exact"

    def __init__(self, whole: LocalMap, output: Any = (), input: Any = ()) -> None:
        self._whole = whole
        self._rows = _chosen(whole.value.shape, output, "output")
        self._columns = _chosen(whole.point.shape, input, "input")
        self.shape = (len(self._rows), len(self._columns))

    def __repr__(self) -> str:
        return f"MapPart({self.shape[0]} x {self.shape[1]} of {self._whole!r})"

    def summary(self) -> str:
        """The block in words."""
        return f"{self.shape[0]} x {self.shape[1]} block of the matrix of\n{self._whole.summary()}"

    @cached_property
    def operator(self) -> LinearOperator:
        """The block as a scipy `LinearOperator` of float64 vectors; computed in the model's dtype."""
        rows, columns = self.shape

        def forward(v: np.ndarray) -> np.ndarray:
            return self._forward(torch.from_numpy(np.asarray(v, np.float64).reshape(columns, -1).T)).T

        def backward(w: np.ndarray) -> np.ndarray:
            return self._backward(torch.from_numpy(np.asarray(w, np.float64).reshape(rows, -1).T)).T

        return LinearOperator(
            self.shape, matvec=forward, rmatvec=backward, matmat=forward, rmatmat=backward, dtype=np.float64
        )

    def matrix(self, *, progress: Progress | bool | None = None) -> np.ndarray:
        """The block written down, float64. Cost: a backward pass per 64 rows or columns."""
        rows, columns = self.shape
        if rows <= columns:
            return self._backward(torch.eye(rows, dtype=torch.float64), progress)
        return self._forward(torch.eye(columns, dtype=torch.float64), progress).T

    def singular_values(self, count: int | None = None, *, progress: Progress | bool | None = None) -> np.ndarray:
        """Falling: all (dense), or the `count` largest (Lanczos); `progress`, of all, as in `tessellate`."""
        short = min(self.shape)
        if count is not None and check_whole(count, "count") < short - 1:
            return np.sort(svds(self.operator, k=count, return_singular_vectors=False, random_state=0))[::-1]
        if short > _DENSE_UP_TO:
            raise InputError(f"the matrix has {short} singular values; give count= for the largest ones.")
        return np.linalg.svd(self.matrix(progress=progress), compute_uv=False)[:count]

    def effective_rank(self, *, progress: Progress | bool | None = None) -> float:
        """Exponential of the entropy of the normalized singular values (Roy and Vetterli 2007); dense."""
        values = self.singular_values(progress=progress)
        if not values.any():
            return 0.0
        share = values[values > 0] / values.sum()
        return float(np.exp(-(share * np.log(share)).sum()))

    def _backward(self, w: Tensor, progress: Progress | bool | None = False) -> np.ndarray:
        """Rows `[n, rows]` through the transpose: `[n, columns]`."""
        return _through(self._whole.backward, w, self._whole.value, self._rows, self._columns, progress)

    def _forward(self, v: Tensor, progress: Progress | bool | None = False) -> np.ndarray:
        """Rows `[n, columns]` through the map: `[n, rows]`."""
        return _through(self._whole.forward, v, self._whole.point, self._columns, self._rows, progress)


def _through(
    apply: Callable[[Tensor], Tensor], rows: Tensor, like: Tensor, given: Tensor, wanted: Tensor,
    progress: Progress | bool | None,
) -> np.ndarray:  # fmt: skip
    """Rows `[n, given]` through a map of tensors like `like`, zero but for the places given: `[n, wanted]`."""
    found = []
    for chunk in stepping(rows.split(_CHUNK), progress, "rows of the matrix"):
        full = like.new_zeros(len(chunk), like.numel())
        full[:, given] = chunk.to(full)
        found.append(apply(full.reshape(len(chunk), *like.shape)).flatten(1)[:, wanted])
    return torch.cat(found).double().cpu().numpy()


def _chosen(shape: torch.Size, index: Any, name: str) -> Tensor:
    places = torch.arange(int(np.prod(shape))).reshape(shape)
    try:
        return places[index].reshape(-1)
    except (IndexError, TypeError) as error:
        raise InputError(f"{name} must index an array of shape {tuple(shape)}, got {index!r}.") from error


@dataclass(frozen=True, eq=False, repr=False)
class Validity(Result):
    """How far local maps are valid (measured).

    Attributes:
        paths: `[M]` which map: "" for the whole network, then the layers.
        radii: `[R]` distances from the point.
        error: `[M, R]` share of the network's change that the map gets wrong.
        sizes: `[M]` norm of each map's point, to compare radii with.
    """

    paths: tuple[str, ...]
    radii: np.ndarray
    error: np.ndarray
    sizes: np.ndarray
    certainty = "estimate"
    plot = drawn("smooth.plot_validity")

    def summary(self) -> str:
        """A table: per map the norm of its point and the error at each radius."""
        rows = [("map", "point's norm", *(f"error at {radius:.3g}" for radius in self.radii))]
        for path, size, errors in zip(self.paths, self.sizes, self.error, strict=True):
            rows.append((path or "whole network", f"{size:.4g}", *(f"{error:.2%}" for error in errors)))
        return f"{table(rows)}\nError: share of the network's change that the map gets wrong. {self.assurance}"
