"""The local Hessian of the loss, matrix-free: products with it cost a few gradients, it is never written down.

The generalized Gauss-Newton matrix is `1/N sum_n J_n^T (d^2 loss / d outputs^2) J_n`, J_n the slopes of the outputs at
point n; for one layer, squared error and fixed activation patterns it is the Hessian itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator
from torch import Tensor, nn
from torch.func import functional_call, grad, vjp, vmap

from ..support.checks import check_choice
from ..support.derivatives import along, differentiating
from ..support.display import Result, table
from ..support.errors import InputError
from ..support.losses import check_targets, summed
from .inputs import (
    Layers,
    Loss,
    Model,
    batches,
    check_batch_size,
    check_data,
    check_model,
    chosen_parameters,
    fitting_inputs,
    parameters_of,
    state_in,
)

DENSE_LIMIT = 4096
"""Most parameters for which a matrix is written down."""

_COLUMNS = 32  # vectors multiplied together
_SHOWN = 20  # parameters in a summary


class Curvature(Result, LinearOperator):
    """Hessian or generalized Gauss-Newton matrix of a mean loss, as a scipy `LinearOperator` of shape (P, P).

    Made by `curvature`. Attributes: `names` and `shapes` of the parameters, in the order of its rows; `kind`.

    Exact to the rounding of its dtype; products are computed when asked for.
    """

    certainty = "exact"

    def __init__(
        self, product: Callable[[dict[str, Tensor]], dict[str, Tensor]], parameters: dict[str, Tensor], kind: str,
        rank_bound: int | None,
    ) -> None:  # fmt: skip
        self.names = tuple(parameters)
        self.shapes = tuple(tuple(p.shape) for p in parameters.values())
        self.kind = kind
        self.rank_bound, self._product = rank_bound, product
        self._like = next(iter(parameters.values()))
        size = sum(p.numel() for p in parameters.values())
        super().__init__(np.dtype(np.float64), (size, size))  # type: ignore[call-arg]

    def _matvec(self, x: np.ndarray) -> np.ndarray:
        return self._matmat(np.asarray(x).reshape(-1, 1))[:, 0]

    def _rmatvec(self, x: np.ndarray) -> np.ndarray:
        return self._matvec(x)

    def _matmat(self, X: np.ndarray) -> np.ndarray:
        result = np.empty(X.shape)
        for start in range(0, X.shape[1], _COLUMNS):
            part = self._product(self.as_parameters(X[:, start : start + _COLUMNS].T))
            flat = torch.cat([part[name].flatten(1) for name in self.names], 1)
            result[:, start : start + _COLUMNS] = flat.to("cpu", torch.float64).numpy().T
        return result

    def as_parameters(self, vector: Any) -> dict[str, Tensor]:
        """A vector `[P]` (an eigenvector, say), or several `[..., P]`, as tensors by parameter path."""
        flat = torch.as_tensor(np.ascontiguousarray(vector)).to(self._like.device, self._like.dtype)
        pieces = flat.split([int(np.prod(shape)) for shape in self.shapes], -1)
        lead = flat.shape[:-1]
        return {n: p.reshape(*lead, *s) for n, p, s in zip(self.names, pieces, self.shapes, strict=True)}

    def _shown(self) -> list[tuple[str, Any]]:
        more = f" and {len(self.names) - 3} more" if len(self.names) > 3 else ""
        return [("kind", self.kind), ("parameters", self.shape[0]), ("of", ", ".join(self.names[:3]) + more)]

    def summary(self) -> str:
        """What matrix it is, and its parameters."""
        sizes = [int(np.prod(shape)) for shape in self.shapes]
        rows = [(n, str(shape), f"{size:,}") for n, shape, size in zip(self.names, self.shapes, sizes, strict=True)]
        if len(rows) > _SHOWN:
            rows[_SHOWN - 1 :] = [(f"... {len(rows) - _SHOWN + 1} more", "", f"{sum(sizes[_SHOWN - 1 :]):,}")]
        kind = {"ggn": "Generalized Gauss-Newton matrix", "hessian": "Hessian"}[self.kind]
        exact = f"products with vectors are exact to the rounding of {self._like.dtype}"
        return (
            f"{kind} of a mean loss, {self.shape[0]:,} by {self.shape[0]:,}: never formed; {exact}.\n"
            f"{table([('parameter', 'shape', 'numbers'), *rows])}\nlandscape.spectrum_summary takes it."
        )

    def dense(self) -> np.ndarray:
        """The matrix `[P, P]`, refused for more than 4,096 parameters. Symmetric to rounding."""
        if self.shape[0] > DENSE_LIMIT:
            raise InputError(
                f"a dense matrix needs at most {DENSE_LIMIT} parameters, got {self.shape[0]}; choose a layer."
            )
        matrix = self._matmat(np.eye(self.shape[0]))
        return 0.5 * (matrix + matrix.T)


def curvature(
    model: Model, x: Any, y: Any, *, loss: Loss = "squared", kind: Literal["ggn", "hessian"] = "ggn",
    layer: Layers = None, batch_size: int | None = None, dtype: torch.dtype = torch.float64,
) -> Curvature:  # fmt: skip
    """The curvature matrix of the mean loss over data with respect to a layer or all parameters, matrix-free.

    Args:
        model: Any differentiable module in eval mode (or the result of `trace` or `load`).
        x: `[N, ...]` inputs; token ids stay whole numbers.
        y: Targets: `[N, *output shape]` for "squared" (`|f - y|^2`, mean over N) and "mse" (torch's, mean over the
            outputs too), class numbers `[N]` for "cross_entropy", labels 0 and 1 for "bce" (of logits).
        loss: "squared", "mse", "cross_entropy", "bce", or a function (outputs, targets) -> mean over rows.
        kind: "ggn": the generalized Gauss-Newton matrix, positive semi-definite for convex losses and, for one layer of
            a piecewise-affine network and squared error, the Hessian itself. "hessian": the full Hessian.
        layer: Module path or parameter paths; None for all parameters.
        batch_size: Points per pass; memory grows with it, not with N. Default 256.
        dtype: In which products are computed; float32 is faster and loses half the digits.

    Returns:
        A `Curvature`; give it to `spectrum_summary` or scipy's `eigsh`.

    Cost: a product is about 3 (ggn) to 4 (hessian) gradients over the data.

    Example:
        >>> import torch, splinescope as ss
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        >>> ss.curvature(net, torch.randn(20, 2), torch.randn(20, 1), layer="0").shape
        (24, 24)
    """
    check_choice(kind, "kind", ("ggn", "hessian"))
    module = check_model(model)
    moving, frozen, inputs, targets, outputs = prepare(module, x, y, loss, layer, dtype)
    size = check_batch_size(batch_size)
    total = summed(loss)
    count = len(inputs)

    def of_batch(xs: Tensor, ys: Tensor, vectors: dict[str, Tensor]) -> dict[str, Tensor]:
        def outputs(parameters: dict[str, Tensor]) -> Tensor:
            return functional_call(module, {**frozen, **parameters}, (xs,))

        def one(v: dict[str, Tensor]) -> dict[str, Tensor]:
            if kind == "hessian":
                return along(grad(lambda p: total(outputs(p), ys)), moving, v)[1]
            values, slope = along(outputs, moving, v)
            bent = along(grad(lambda f: total(f, ys)), values, slope)[1]
            return vjp(outputs, moving)[1](bent)[0]

        with differentiating("the loss of the model", lambda: total(outputs(moving), ys)):
            if next(iter(vectors.values())).shape[0] > 1:
                return vmap(one)(vectors)  # over one vector it only costs
            return {name: v[None] for name, v in one({name: v[0] for name, v in vectors.items()}).items()}

    def product(vectors: dict[str, Tensor]) -> dict[str, Tensor]:
        result = {name: torch.zeros_like(v) for name, v in vectors.items()}
        for xs, ys in batches(inputs, targets, size):
            for name, value in of_batch(xs, ys, vectors).items():
                result[name] += value / count
        return result

    convex = kind == "ggn" and isinstance(loss, str)  # named losses are, so the matrix is positive semi-definite
    return Curvature(product, moving, kind, count * int(np.prod(outputs)) if convex else None)


def prepare(
    model: nn.Module, x: Any, y: Any, loss: Loss, layer: Layers, dtype: torch.dtype
) -> tuple[dict[str, Tensor], dict[str, Tensor], Tensor, Tensor, tuple[int, ...]]:
    """(moving parameters, everything else, inputs, targets, shape of one output), checked and in one dtype."""
    device = next((p.device for p in parameters_of(model).values()), torch.device("cpu"))
    inputs, targets = check_data(x, y, dtype, device, whole=True)
    state = state_in(model, dtype)
    moving = {name: state.pop(name) for name in chosen_parameters(model, layer)}
    inputs, shape = fitting_inputs(lambda rows: functional_call(model, {**state, **moving}, (rows,)), inputs, dtype)
    targets = check_targets(loss, shape, targets)
    return moving, state, inputs, targets.to(dtype) if targets.is_floating_point() else targets, shape
