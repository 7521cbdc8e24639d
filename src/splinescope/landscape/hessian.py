"""The local Hessian of the loss, matrix-free: products with it cost a few gradients, it is never written down.

For layer l, squared error and fixed activation patterns the Hessian is `2/N sum_n A_n^T A_n` with
`A_n = d outputs_n / d parameters = [M_n kron z_n^T, M_n]`, z_n the layer's input and M_n the Jacobian of all that
follows the layer: the singular values of A set the curvature. In general this is the generalized Gauss-Newton matrix
`1/N sum_n J_n^T (d^2 loss / d outputs^2) J_n`, which is what `kind="ggn"` gives.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator
from torch import Tensor, nn
from torch.func import functional_call, grad, vjp, vmap

from ..network.watching.intercept import Hooked
from ..support.checks import check_choice
from ..support.derivatives import along, differentiating, row_jacobians
from ..support.display import Result, table
from ..support.errors import InputError
from ..support.losses import LOSSES, check_targets, named_loss, summed
from ..support.progress import Progress, stepping
from .inputs import (
    Layers,
    Loss,
    Model,
    batches,
    check_batch_size,
    check_data,
    check_model,
    check_points,
    chosen_parameters,
    fitting_inputs,
    parameters_of,
    state_in,
    submodule,
)  # fmt: skip

DENSE_LIMIT = 4096
"""Most parameters for which a matrix is written down."""

_COLUMNS = 32  # vectors multiplied together
_SHOWN = 20  # parameters in a summary
_FACTOR_NUMBERS = 64 << 20  # numbers of a factor that a spectrum is taken from (512 MB)


class Curvature(Result, LinearOperator):
    """Hessian or generalized Gauss-Newton matrix of a mean loss, as a scipy `LinearOperator` of shape (P, P).

    Made by `curvature`. Attributes: `names` and `shapes` of the parameters, in the order of its rows; `kind`.

    Exact to the rounding of its dtype; products are computed when asked for.
    """

    certainty = "exact"

    def __init__(
        self,
        product: Callable[[dict[str, Tensor]], dict[str, Tensor]],
        parameters: dict[str, Tensor],
        kind: str,
        rows: int,
        factor: Callable[[], np.ndarray] | None = None,
    ) -> None:
        self.names = tuple(parameters)
        self.shapes = tuple(tuple(p.shape) for p in parameters.values())
        self.kind = kind
        self.rank_bound = rows if kind == "ggn" else None
        self.factored = factor is not None
        self._product, self._factor = product, factor
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

    def factor(self) -> np.ndarray | None:
        """`A` `[rows, P]` with `A^T A` this matrix, where there is one that is small enough to hold; else None."""
        if self._factor is None or self.rank_bound is None or self.rank_bound * self.shape[0] > _FACTOR_NUMBERS:
            return None
        return self._factor()

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
    model: Model,
    x: Any,
    y: Any,
    *,
    loss: Loss = "squared",
    kind: Literal["ggn", "hessian"] = "ggn",
    layer: Layers = None,
    batch_size: int | None = None,
    dtype: torch.dtype = torch.float64,
) -> Curvature:
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
        A `Curvature`; give it to `spectrum_summary`, `spectral_density`, or scipy's `eigsh`.

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

    factored = kind == "ggn" and isinstance(loss, str) and (loss == "squared" or len(outputs) == 1)
    factor = partial(dense_factor, module, moving, frozen, inputs, str(loss), size) if factored else None
    return Curvature(product, moving, kind, count * int(np.prod(outputs)), factor)


def curvature_factor(
    model: Model,
    x: Any,
    y: Any,
    *,
    loss: str = "squared",
    layer: Layers = None,
    progress: Progress | bool | None = None,
) -> np.ndarray:
    """The matrix `A` `[N C, P]` with GGN = `A^T A`: its squared singular values are the curvatures.

    Dense: `sqrt(2/N) J` for the squared error, `sqrt(1/N) S_n J_n` with `S_n^T S_n = diag(p) - p p^T` for the
    cross-entropy, and so on for every named loss. Cost: C backward passes of all points, and N C P numbers; `progress`
    as in `tessellate`.
    """
    named_loss(loss, functions=False)
    module = check_model(model)
    moving, frozen, inputs, *_ = prepare(module, x, y, loss, layer, torch.float64)
    return dense_factor(module, moving, frozen, inputs, loss, 256, progress)


def dense_factor(
    model: nn.Module,
    moving: dict[str, Tensor],
    frozen: dict[str, Tensor],
    x: Tensor,
    loss: str,
    size: int,
    progress: Progress | bool | None = False,
) -> np.ndarray:
    """The factor, some points at a time: each point has its own gradients, so a pass serves all of them."""
    parameters = sum(p.numel() for p in moving.values())

    def of_point(point: Tensor) -> tuple[Tensor, Tensor]:
        values, backward, *_ = vjp(lambda p: functional_call(model, {**frozen, **p}, (point[None],)).flatten(), moving)
        units = torch.eye(len(values), dtype=values.dtype, device=values.device)
        slopes = vmap(lambda unit: backward(unit)[0])(units)
        return values, torch.cat([slopes[name].flatten(1) for name in moving], 1)

    parts = []
    with differentiating("the model", lambda: functional_call(model, {**frozen, **moving}, (x,))):
        outputs = vjp(lambda p: functional_call(model, {**frozen, **p}, (x[:1],)), moving)[0].numel()
        together = max(1, min(size, _FACTOR_NUMBERS // (8 * outputs * parameters)))
        for start in stepping(range(0, len(x), together), progress, "gradients of points"):
            values, J = (t.detach() for t in _of_points(of_point, x[start : start + together]))
            if loss != "squared":
                J = LOSSES[loss].root(values).mT @ J
            parts.append(J.flatten(0, 1).to("cpu", torch.float64).numpy())
    return np.concatenate(parts) * np.sqrt((2.0 if loss == "squared" else 1.0) / len(x))


def _of_points(one: Callable[[Tensor], tuple[Tensor, Tensor]], x: Tensor) -> tuple[Tensor, Tensor]:
    """`one` at all points at once where torch batches its ops rightly (of PReLU it does not), else one by one."""
    try:
        together = vmap(one)(x)
        right = all(torch.allclose(together[1][i], one(x[i])[1], rtol=1e-6, atol=1e-12) for i in (0, len(x) - 1))
    except RuntimeError:
        right = False
    if right:
        return together
    values, slopes = zip(*(one(point) for point in x), strict=True)
    return torch.stack(values), torch.stack(slopes)


def downstream_jacobians(model: Model, x: Any, layer: str) -> np.ndarray:
    """`M` `[N, C, H]`: at each point, the Jacobian of the outputs with respect to the output of a layer.

    The Hessian of a layer is usually rank deficient: the condition number of M is the one to compare between networks.
    Exact; constant on each tile of input space. The layer must be called once and return one tensor.
    """
    model = check_model(model)
    module = submodule(model, layer)
    state = state_in(model)
    inputs = check_points(x, torch.float64, whole=True)
    inputs, _ = fitting_inputs(lambda rows: functional_call(model, state, (rows,)), inputs, torch.float64)
    shapes: list[torch.Size] = []

    def note_shape(module: nn.Module, inputs: Any, out: Tensor) -> None:
        shapes.append(out.shape)

    with torch.no_grad(), Hooked(after=[(module, note_shape)]):
        functional_call(model, state, (inputs,))
    if len(shapes) != 1:
        raise InputError(f"{layer} must be called exactly once, got {len(shapes)} calls.")

    def outputs(shift: Tensor) -> Tensor:
        with Hooked(after=[(module, lambda _module, _inputs, out: out + shift)]):
            return functional_call(model, state, (inputs,))

    with differentiating("the model", lambda: functional_call(model, state, (inputs,))):
        return row_jacobians(outputs, torch.zeros(shapes[0], dtype=torch.float64)).cpu().numpy()


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
