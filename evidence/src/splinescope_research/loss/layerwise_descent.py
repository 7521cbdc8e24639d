"""An optimizer made of the pieces: each layer in turn goes to where its piecewise quadratic says.

With all layers but one held, and within one piece, the squared error is the quadratic `|r + J d|^2 / N` in that layer's
change d (r the residuals, J the slopes of the outputs), whose minimizer linear algebra gives. What the piece does not
know is where it ends. Two ways to respect that: search the whole line to the minimizer, and beyond it, over all pieces
exactly; or stay in the ball that reaches to the nearest break.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from splinescope.landscape.inputs import check_model, chosen_parameters, parameters_of, state_in
from splinescope.network import SplineNetwork
from splinescope.support.checks import check_choice, check_whole
from splinescope.support.display import Shown
from splinescope.support.errors import InputError

from ..arguments import check_names
from .break_distance import break_distance, linear_layer
from .layer_minimizer import Vector, minimizer
from .loss_section import loss_section
from .parameter_network import traced_with_data

_REACH = 2.0  # how far a line goes, in units of the way to the piece's minimizer


class LayerwiseDescent(Shown):
    """Minimizes a squared error layer by layer, each by the exact quadratic of the piece it is in.

    A step is one sweep from the last layer to the first. Of each layer the minimizer of the present piece's quadratic
    is found: from singular values, exact to rounding, where its Jacobian has up to 16 million numbers (and 1e10 of them
    times its lesser side), by conjugate gradients beyond, which badly conditioned data stop short. Then, with
    `region="line"`, the exact minimum over all pieces on the line from where it is to twice that far; with
    `region="ball"`, where the minimizer lies outside, conjugate gradients stop at the sphere that touches the nearest
    break (Steihaug), inside which the quadratic is the loss itself. The loss never rises, up to the rounding of the
    parameters' dtype. A layer in which the network is affine (the only one of a linear model, a last layer) is solved
    at once, with the others as they are.

    Args:
        model: A piecewise-affine module in eval mode; its parameters are changed in place by `step`.
        layers: Paths of the modules to move, in the order of a sweep; None for all that have parameters, last first.
            Of a module that has parameters of its own and children, its own are meant.
        region: "line" or "ball" (the latter for `nn.Linear` layers).
        products: Most products with J and with J^T per layer, by conjugate gradients; None: until the quadratic is
            solved.

    It needs more than gradients, so it is no `torch.optim.Optimizer`: `step` takes the data, the whole set or a batch
    that is large beside the layer's parameters, whose noise it otherwise fits. There is no learning rate. Parameters
    that do not require gradients at a step stay.

    Cost of a layer's step: about 2 passes per product, and on the line one pass for every break of a data point.

    Example:
        >>> import torch, splinescope_research
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)).double().eval()
        >>> x = torch.randn(50, 2).double()
        >>> optimizer = splinescope_research.LayerwiseDescent(net)
        >>> losses = [optimizer.step(x, x[:, :1] * x[:, 1:]) for _ in range(5)]
        >>> losses[-1] < losses[0]
        True

    Reference: Balestriero, Humayun, Baraniuk, "On the Geometry of Deep Learning", which asks for optimizers that use
    the piecewise quadratic.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        layers: Sequence[str] | None = None,
        region: str = "line",
        products: int | None = None,
    ) -> None:
        module = check_model(model)
        check_choice(region, "region", ("line", "ball"))
        paths = check_names(layers, "layers") if layers is not None else _layers_with_parameters(module)[::-1]
        if not paths:
            raise InputError("model must have a layer with parameters to move, got one without.")
        named = dict(module.named_parameters())
        moved = {path: _moved_by(module, path) for path in paths}
        twice = [name for name, times in Counter(chain(*(_moved_by(module, p) for p in paths))).items() if times > 1]
        if twice:
            raise InputError(f"layers must not share parameters, got {twice[0]} in two of: {', '.join(paths)}.")
        if not any(named[name].requires_grad for names in moved.values() for name in names):
            raise InputError("model must have parameters to move, got none that require gradients.")
        if region == "ball":
            for path in paths:
                linear_layer(module, path)
        self._model, self._moved, self._region = module, moved, region
        self._products = None if products is None else check_whole(products, "products")
        self._network: SplineNetwork | None = None

    def _shown(self) -> list[tuple[str, Any]]:
        return [("model", type(self._model).__name__), ("layers", ", ".join(self._moved)), ("region", self._region)]

    def step(self, x: Any, y: Any) -> float:
        """One sweep over the layers on data `[N, ...]` and targets; returns the mean squared distance after it.

        That is the mean over rows of the squared length of what is missed: of outputs their sum, not their mean.
        """
        self._network, inputs, targets = traced_with_data(self._network or self._model, x, y)
        with torch.no_grad():
            loss = float((functional_call(self._model, state_in(self._model), (inputs,)) - targets).square().sum())
        loss /= len(targets)
        trainable = {name for name, p in self._model.named_parameters() if p.requires_grad}
        for path, moved in self._moved.items():
            names = [name for name in moved if name in trainable]
            if not names:
                continue
            state = state_in(self._model)
            start = {name: state.pop(name) for name in names}

            def outputs(moved: Vector, rest: Vector = state) -> Tensor:
                return functional_call(self._model, {**rest, **moved}, (inputs,))

            radius = float("inf")
            if self._region == "ball":
                radius = break_distance(self._network, inputs, path).radius
            change = minimizer(self._model, start, state, inputs, targets, products=self._products, radius=radius)
            if self._region == "line" and any(bool(v.any()) for v in change.values()):
                line = loss_section(self._network, inputs, targets, change, span=(0.0, _REACH), progress=False)
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


def _moved_by(model: nn.Module, path: str) -> list[str]:
    """Paths of the parameters that are moved together: a module's own, of one that has none those below it."""
    own = [name for name in parameters_of(model) if name.rpartition(".")[0] == path]
    return own or chosen_parameters(model, path)


def _layers_with_parameters(model: nn.Module) -> list[str]:
    """Modules that own parameters, in the model's order."""
    paths = {name.rpartition(".")[0] for name, p in model.named_parameters() if p.is_floating_point()}
    return [path for path, _ in model.named_modules() if path in paths]
