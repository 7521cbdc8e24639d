"""The local Hessian of the loss, matrix-free: products with it cost a few gradients, it is never written down.

For layer l, squared error and fixed activation patterns the Hessian is `2/N sum_n A_n^T A_n` with
`A_n = d outputs_n / d parameters = [M_n kron z_n^T, M_n]`, z_n the layer's input and M_n the Jacobian of all that
follows the layer: the singular values of A set the curvature. In general this is the generalised Gauss-Newton matrix
`1/N sum_n J_n^T (d^2 loss / d outputs^2) J_n`, which is what `kind="ggn"` gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator
from torch import Tensor, nn
from torch.func import functional_call, grad, vjp, vmap

from .._checks import check_choice
from .._errors import InputError
from ._losses import (
    Loss,
    along,
    batches,
    check_batch_size,
    check_data,
    check_model,
    check_targets,
    output_shape,
    summed,
)

Layers = str | Sequence[str] | None
"""A module path ("layer1.0.conv1"), parameter paths, or None for all parameters."""

DENSE_LIMIT = 4096
"""Most parameters for which a matrix is written down."""

_COLUMNS = 32  # vectors multiplied together


class Curvature(LinearOperator):
    """Hessian or generalised Gauss-Newton matrix of a mean loss, as a scipy `LinearOperator` of shape (P, P).

    Made by `curvature`. Attributes: `names` and `shapes` of the parameters, in the order of its rows; `kind`.
    """

    def __init__(
        self,
        product: Callable[[dict[str, Tensor]], dict[str, Tensor]],
        parameters: dict[str, Tensor],
        kind: str,
    ) -> None:
        self.names = tuple(parameters)
        self.shapes = tuple(tuple(p.shape) for p in parameters.values())
        self.kind = kind
        self._product = product
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

    def dense(self) -> np.ndarray:
        """The matrix `[P, P]`, refused for more than 4,096 parameters. Symmetric to rounding."""
        if self.shape[0] > DENSE_LIMIT:
            raise InputError(
                f"a dense matrix needs at most {DENSE_LIMIT} parameters, got {self.shape[0]}; choose a layer."
            )
        matrix = self._matmat(np.eye(self.shape[0]))
        return 0.5 * (matrix + matrix.T)


def curvature(
    model: nn.Module,
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
        model: Any differentiable module in eval mode.
        x: `[N, ...]` inputs.
        y: Targets: `[N, *output shape]` for "squared" (`|f - y|^2`, mean over N), class numbers `[N]` for
            "cross_entropy".
        loss: "squared", "cross_entropy", or a function (outputs, targets) -> mean over rows.
        kind: "ggn": the generalised Gauss-Newton matrix, positive semi-definite for convex losses and, for one layer of
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
    model = check_model(model)
    moving, frozen, inputs, targets = prepare(model, x, y, loss, layer, dtype)
    size = check_batch_size(batch_size, 256)
    total = summed(loss)
    count = len(inputs)

    def product(vectors: dict[str, Tensor]) -> dict[str, Tensor]:
        result = {name: torch.zeros_like(v) for name, v in vectors.items()}
        for xs, ys in batches(inputs, targets, size):
            one = partial(_one_batch, model, moving, frozen, xs, ys, total, kind)
            single = next(iter(vectors.values())).shape[0] == 1
            if single:  # vmap over one vector only costs
                part = {name: v[None] for name, v in one({name: v[0] for name, v in vectors.items()}).items()}
            else:
                part = vmap(one)(vectors)
            for name, value in part.items():
                result[name] += value / count
        return result

    return Curvature(product, moving, kind)


def _one_batch(
    model: nn.Module, moving: dict[str, Tensor], frozen: dict[str, Tensor], x: Tensor, y: Tensor,
    total: Callable[[Tensor, Tensor], Tensor], kind: str, v: dict[str, Tensor],
) -> dict[str, Tensor]:  # fmt: skip
    def outputs(parameters: dict[str, Tensor]) -> Tensor:
        return functional_call(model, {**frozen, **parameters}, (x,))

    if kind == "hessian":
        return along(grad(lambda p: total(outputs(p), y)), moving, v)[1]
    values, slope = along(outputs, moving, v)
    bent = along(grad(lambda f: total(f, y)), values, slope)[1]
    return vjp(outputs, moving)[1](bent)[0]


def curvature_factor(model: nn.Module, x: Any, y: Any, *, loss: str = "squared", layer: Layers = None) -> np.ndarray:
    """The matrix `A` `[N C, P]` with GGN = `A^T A`: its squared singular values are the curvatures.

    Dense, for small problems and as a reference: `sqrt(2/N) J` for the squared error, `sqrt(1/N) S_n J_n` with
    `S_n^T S_n = diag(p) - p p^T` for the cross-entropy. Cost: N C backward passes of all points.
    """
    check_choice(loss, "loss", ("squared", "cross_entropy"))
    model = check_model(model)
    moving, frozen, inputs, _ = prepare(model, x, y, loss, layer, torch.float64)

    values, backward, *_ = vjp(lambda p: functional_call(model, {**frozen, **p}, (inputs,)).flatten(1), moving)
    units = torch.eye(values.numel(), dtype=values.dtype).reshape(-1, *values.shape)
    jacobians = vmap(lambda unit: backward(unit)[0], chunk_size=_COLUMNS)(units)
    J = torch.cat([jacobians[name].flatten(1) for name in moving], 1).detach()
    if loss == "squared":
        return (J * np.sqrt(2.0 / len(inputs))).numpy()
    J = J.reshape(*values.shape, -1)
    p = torch.softmax(values.detach(), 1)
    root = torch.diag_embed(p.sqrt()) - p[:, :, None] * p.sqrt()[:, None, :]  # S^T: S^T S = diag(p) - p p^T
    return (root.mT @ J / np.sqrt(len(inputs))).flatten(0, 1).numpy()


def downstream_jacobians(model: nn.Module, x: Any, layer: str) -> np.ndarray:
    """`M` `[N, C, H]`: at each point, the Jacobian of the outputs with respect to the output of a layer.

    It contains the slopes D of the folds after the layer. Because the Hessian of a layer is usually rank deficient, the
    condition number of M is the one to compare between networks. Exact; constant on each tile of input space.

    Args:
        model: A module in eval mode.
        x: `[N, ...]` inputs.
        layer: Path of a module that is called once and returns one tensor.
    """
    model = check_model(model)
    module = submodule(model, layer)
    state = float64_state(model)
    inputs, _ = check_data(x, np.zeros(len(x)), torch.float64)
    shapes: list[torch.Size] = []

    def note_shape(out: Tensor) -> Tensor:
        shapes.append(out.shape)
        return out

    with torch.no_grad(), _output_hook(module, note_shape):
        functional_call(model, state, (inputs,))
    if len(shapes) != 1:
        raise InputError(f"{layer} must be called exactly once, got {len(shapes)} calls.")

    def outputs(shift: Tensor) -> Tensor:
        with _output_hook(module, lambda out: out + shift):
            return functional_call(model, state, (inputs,))

    return row_jacobians(outputs, torch.zeros(shapes[0], dtype=torch.float64))


def row_jacobians(function: Callable[[Tensor], Tensor], at: Tensor) -> np.ndarray:
    """`[N, m, n]` Jacobian of each row of the output by the same row of the input, for a function that mixes no rows.

    One backward pass of all rows per output number.
    """
    values, backward, *_ = vjp(lambda rows: function(rows).flatten(1), at)
    units = torch.eye(values.shape[1], dtype=values.dtype, device=values.device)
    slopes = vmap(lambda unit: backward(unit.expand(values.shape))[0], chunk_size=_COLUMNS)(units)
    return slopes.flatten(2).transpose(0, 1).detach().cpu().numpy()


class _output_hook:
    """While it lasts, a module's output is replaced by a function of it."""

    def __init__(self, module: nn.Module, change: Callable[[Tensor], Tensor]) -> None:
        self._module, self._change = module, change

    def __enter__(self) -> None:
        self._handle = self._module.register_forward_hook(lambda module, args, out: self._change(out))

    def __exit__(self, *_: object) -> None:
        self._handle.remove()


def submodule(model: nn.Module, path: str) -> nn.Module:
    """A module by path; an error lists the possible ones."""
    modules = dict(model.named_modules())
    if path not in modules:
        raise InputError(f"layer must be a module path, got {path!r}; there are: {', '.join(p for p in modules if p)}.")
    return modules[path]


def float64_state(model: nn.Module, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    """Parameters and buffers by path, copied to a dtype; whole-number buffers as they are."""
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {k: v.detach().to(dtype, copy=True) if v.is_floating_point() else v.clone() for k, v in state.items()}


def prepare(
    model: nn.Module, x: Any, y: Any, loss: Loss, layer: Layers, dtype: torch.dtype
) -> tuple[dict[str, Tensor], dict[str, Tensor], Tensor, Tensor]:
    """(moving parameters, everything else, inputs, targets), checked and in one dtype."""
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    inputs, targets = check_data(x, y, dtype, device)
    state = float64_state(model, dtype)
    chosen = chosen_parameters(model, layer)
    moving = {name: state.pop(name) for name in chosen}
    shape = output_shape(lambda rows: functional_call(model, {**state, **moving}, (rows,)), inputs)
    targets = check_targets(loss, shape, targets)
    return moving, state, inputs, targets.to(dtype) if targets.is_floating_point() else targets


def chosen_parameters(model: nn.Module, layer: Layers) -> list[str]:
    """Paths of the parameters a layer argument means, in the model's order."""
    names = [name for name, _ in model.named_parameters()]
    if layer is None:
        chosen = names
    elif isinstance(layer, str) and layer not in names:
        submodule(model, layer)
        chosen = [name for name in names if name.startswith(f"{layer}.")]
    else:
        wanted = [layer] if isinstance(layer, str) else list(layer)
        unknown = [name for name in wanted if name not in names]
        if unknown:
            raise InputError(f"layer must name parameters, got {unknown[0]!r}; there are: {', '.join(names)}.")
        chosen = [name for name in names if name in wanted]
    if not chosen:
        raise InputError(f"layer must have parameters, got {layer!r}, which has none.")
    return chosen
