"""An optimiser made of the pieces: each layer in turn goes to where its piecewise quadratic says.

With all layers but one held, and within one piece, the squared error is the quadratic `|r + J d|^2 / N` in that layer's
change d (r the residuals, J the slopes of the outputs): conjugate gradients minimise it with products by J and J^T
alone. What the piece does not know is where it ends. Two ways to respect that: search the whole line to the minimiser,
and beyond it, over all pieces exactly; or stay in the ball that reaches to the nearest break.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp
from torch.optim import Optimizer

from .._checks import check_choice, check_names, check_positive, check_whole
from .._derivatives import along, differentiating
from .._errors import InputError
from ..network import SplineNetwork
from ._section_inputs import traced_with_data
from .break_distance import break_distance, linear_layer
from .parameters import check_model, chosen_parameters, state_in
from .sections import loss_section

Vector = dict[str, Tensor]

_CONVERGED = 1e-12  # of the first gradient's norm: what float64 products can still tell


class LayerwiseDescent(Optimizer):
    """Minimises a squared error layer by layer, each by the exact quadratic of the piece it is in.

    A step is one sweep from the last layer to the first. Of each layer the minimiser of the present piece's quadratic
    is sought by conjugate gradients, and then, with `region="line"`, the exact minimum over all pieces on the line from
    where it is to `reach` times that far; with `region="ball"`, conjugate gradients stop at the sphere that touches the
    nearest break (Steihaug), inside which the quadratic is the loss itself. The loss never rises, up to the rounding of
    the parameters' dtype. A network that is affine in the layer (a linear network, a last layer) is solved at once.

    Args:
        model: A piecewise-affine module in eval mode; its parameters are changed in place by `step`.
        layers: Paths of the modules to move, in the order of a sweep; None for all that have parameters, last first.
        region: "line" or "ball" (the latter for `nn.Linear` layers).
        products: Most products with J and with J^T per layer; None: until the quadratic is solved.
        reach: How far the line goes, in units of the way to the piece's minimiser.

    Like L-BFGS it needs more than gradients, so `step` takes the data: the whole set, or a batch that is large beside
    the layer's parameters, whose noise it otherwise fits. `state_dict` and `param_groups` are torch's.

    Cost of a layer's step: about 2 passes per product, and on the line one pass for every break of a data point.

    Example:
        >>> import torch, splinescope as ss
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)).double().eval()
        >>> x = torch.randn(50, 2).double()
        >>> optimizer = ss.landscape.LayerwiseDescent(net)
        >>> losses = [optimizer.step(x, x[:, :1] * x[:, 1:]) for _ in range(5)]
        >>> losses[-1] < losses[0]
        True

    Reference: Balestriero, Humayun, Baraniuk, "On the Geometry of Deep Learning", which asks for optimisers that use
    the piecewise quadratic.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        layers: Sequence[str] | None = None,
        region: str = "line",
        products: int | None = None,
        reach: float = 2.0,
    ) -> None:
        module = check_model(model)
        check_choice(region, "region", ("line", "ball"))
        paths = check_names(layers, "layers") if layers is not None else _layers_with_parameters(module)[::-1]
        if not paths:
            raise InputError("model must have a layer with parameters to move, got one without.")
        named = dict(module.named_parameters())
        groups = [{"params": [named[name] for name in chosen_parameters(module, path)], "path": path} for path in paths]
        defaults = {
            "region": region,
            "products": None if products is None else check_whole(products, "products"),
            "reach": check_positive(reach, "reach"),
        }
        if region == "ball":
            for path in paths:
                linear_layer(module, path)
        super().__init__(groups, defaults)
        self._model = module
        self._network: SplineNetwork | None = None

    def step(self, x: Any, y: Any) -> float:  # type: ignore[override]
        """One sweep over the layers on data `[N, ...]` and targets; returns the mean squared distance after it."""
        self._network, inputs, targets = traced_with_data(self._network or self._model, x, y)
        loss = float("nan")
        for group in self.param_groups:
            names = chosen_parameters(self._model, group["path"])
            state = state_in(self._model)
            start = {name: state.pop(name) for name in names}

            def outputs(moved: Vector, rest: Vector = state) -> Tensor:
                return functional_call(self._model, {**rest, **moved}, (inputs,))

            radius = float("inf")
            if group["region"] == "ball":
                radius = break_distance(self._network, inputs, group["path"]).radius
            change = _minimiser(outputs, start, targets, group["products"], radius)
            if group["region"] == "line" and any(bool(v.any()) for v in change.values()):
                line = loss_section(self._network, inputs, targets, change, span=(0.0, group["reach"]), progress=False)
                amount = float(line.minimum[1][0])
                change = {name: amount * v for name, v in change.items()}
            loss = self._take(outputs, start, change, targets)
        return loss

    def _take(self, outputs: Callable[[Vector], Tensor], start: Vector, change: Vector, y: Tensor) -> float:
        """Move if the loss does not rise; the loss then."""

        def loss(at: Vector) -> float:
            with torch.no_grad():
                return float((outputs(at) - y).square().sum() / len(y))

        named = dict(self._model.named_parameters())
        moved = {name: (v + change[name]).to(named[name].dtype).double() for name, v in start.items()}
        before, after = loss(start), loss(moved)
        if not after <= before:
            return before
        with torch.no_grad():
            for name, value in moved.items():
                named[name].copy_(value)
        return after


def _minimiser(
    outputs: Callable[[Vector], Tensor], start: Vector, y: Tensor, products: int | None, radius: float
) -> Vector:
    """The change d of least |outputs + J d - y| in the ball, by conjugate gradients on the normal equations.

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


def _layers_with_parameters(model: nn.Module) -> list[str]:
    """Modules that own parameters, in the model's order."""
    return [path for path, module in model.named_modules() if list(module.parameters(recurse=False))]
