"""Data-aware initialization: folds where batch norm would put them, in a network without batch norm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..network import trace
from ..network.freeze import freeze_statistics
from ..network.program import Affine
from ..network.readable import unwrap
from ..network.watching.intercept import Hooked
from ..network.watching.module_graph import owns_weights
from ..support.checks import check_choice, check_generator, check_positive
from ..support.display import Result, table
from ..support.errors import InputError
from ._data import Moments, first_row, raw_batches
from ._layers import NORMS, Owners, owners
from ._weights import add_to_bias_, channel_rows, scale_outputs_

Method = Literal["mean", "standard", "whiten", "quantile", "unit_variance"]
METHODS = ("mean", "standard", "whiten", "quantile", "unit_variance")

_CONSTANT = 1e-12  # a deviation below this share of the largest value is rounding: float64 sums of a million terms


@dataclass(frozen=True, eq=False, repr=False)
class Initialization(Result):
    """What `initialize_` did.

    Attributes:
        method: The method.
        layers: Paths of the layers that were set, in order.
        constant: Path -> units whose pre-activation did not vary over the data: centered, but not scaled.
        sums: Paths of non-linearities that a sum goes into (a skip connection): the layers in it are set, each on its
            own, but not the sum, so these folds need not pass through the mean.
        branches: Paths of the layers that reach non-linearities through sums alone, to which `branch` applied.
    """

    method: str
    layers: tuple[str, ...]
    constant: dict[str, tuple[int, ...]]
    sums: tuple[str, ...]
    branches: tuple[str, ...]
    _before: tuple[tuple[Tensor, Tensor], ...] = field(repr=False)
    certainty = "exact"

    def __repr__(self) -> str:
        return f"Initialization({self.method!r}, {len(self.layers)} layers, {self.certainty})"

    def summary(self) -> str:
        """What was set, layer by layer, and where it is less than the method promises."""
        rows = [("layer", "constant units", "residual branch")]
        for path in self.layers:
            still = len(self.constant.get(path, ()))
            rows.append((path or "model", str(still) if still else "-", "yes" if path in self.branches else "-"))
        sums = f"Sums that were not set as a whole go into: {', '.join(self.sums)}.\n" if self.sums else ""
        return f"Set by {self.method!r}; undo() puts everything back.\n{table(rows)}\n{sums}{self.assurance}"

    @torch.no_grad()
    def undo(self) -> None:
        """Put the weights and biases back as they were before the call."""
        for parameter, value in self._before:
            parameter.copy_(value)


@torch.no_grad()
def initialize_(
    model: nn.Module, x: Any, *, method: Method = "standard", branch: float = 1.0,
    generator: torch.Generator | None = None,
) -> Initialization:  # fmt: skip
    r"""Set a plain network's folds by the data, layer by layer, in place and without a gradient.

    Every linear map or convolution whose output reaches a non-linearity is set in turn, with the layers before it
    already set; where a layer, group or instance norm lies between the two, its own weight and bias are set instead.
    $m$ and $s$ are mean and deviation of the output $z$ over the data, per unit or channel:

    - "mean": $b \leftarrow b - m$. The fold passes through the mean of the layer's inputs.
    - "standard": $W \leftarrow W/s,\ b \leftarrow (b - m)/s$. The network then equals, on this data, the same
      network with batch norm after each of these layers ($\gamma = 1, \beta = 0, \epsilon = 0$, full batch).
    - "whiten": $W \leftarrow C^{-1/2} W$ with $C$ the covariance of the layer's outputs, so that folds also turn
      until the outputs are uncorrelated; where $C$ is singular (more units than input dimensions) its inverse is
      taken on its range, and each unit is scaled to deviation 1 again.
    - "quantile": as "standard", but the fold of each unit passes through a quantile of its outputs, from 0.1 to 0.9,
      in an order drawn at random.
    - "unit_variance": $W \leftarrow W / s$ with one $s$ for the whole layer, offsets 0: what LSUV does (Mishkin and
      Matas 2016), from whatever directions the weights have. It places no folds; it is here to compare with.

    Args:
        model: Without batch norm (see `merge_batchnorm`), in evaluation mode if it has dropout; changed in place.
        x: `[N, ...]`, or a loader that can be iterated once per layer.
        method: One of the above. A second call with "mean" or "standard" changes nothing (up to rounding).
        branch: Deviation that a layer gets whose output reaches non-linearities only as a term of a sum (the last of a
            residual block), instead of 1. In a stack of n blocks 1 lets the sums grow about like sqrt(n), as batch norm
            inside the blocks does; n ** -0.5 keeps them about sqrt(2). Not for "mean", nor for a model that has no
            such layer.
        generator: Order of the quantiles; torch's global one if None, as in `torch.nn.init`.

    Returns:
        An `Initialization`; its `undo()` puts everything back.

    Limits: a sum that enters a non-linearity (skip connection) has each of its own layers normalized, as batch norm
    inside a block does, not the sum (`sums` of the result names them). Maps written as functions (`F.linear`), tied or
    computed weights and layers without bias are refused, all at once. The output layer is left alone.

    Cost: one forward pass per layer. "quantile" keeps one layer's outputs in memory, the others none.

    Example:
        >>> net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
        >>> x = torch.randn(50, 2) + 3
        >>> initialize_(net, x).layers
        ('0',)
        >>> bool(net[0](x).mean(0).abs().max() < 1e-5)
        True
    """
    check_choice(method, "method", METHODS)
    check_generator(generator)
    check_positive(branch, "branch")
    if method == "mean" and branch != 1:
        raise InputError(f"branch must be 1 for method 'mean', which sets no deviations, got {branch}.")
    model = unwrap(model)
    targets, owned = _targets(model, x, method)
    if branch != 1 and not owned.branches:
        raise InputError(
            f"branch must be 1 for this model, got {branch}: no layer reaches a non-linearity through a sum alone "
            "(behind a norm, the deviation of a branch moves no fold)."
        )
    parameters = [p for layer in targets.values() for p in (layer.weight, layer.bias)]
    before = tuple((p, p.clone()) for p in parameters)
    done = Initialization(method, tuple(targets), {}, owned.sums, owned.branches, before)
    try:
        for path, layer in targets.items():
            layer.bias.zero_()  # whatever it was, it is about to be replaced, and a large one would cost digits
            moments = Moments(whiten=method == "whiten")
            for z in _outputs(model, layer, x):
                moments.add(z)
            constant = moments.deviation <= _CONSTANT * moments.largest
            square = moments.deviation**2
            if method == "unit_variance":
                square = (square.mean() + moments.mean.var(correction=0)).expand_as(square)  # of all outputs together
            scale = torch.where(constant, 1.0, square.rsqrt())
            if constant.any():
                done.constant[path] = tuple(constant.nonzero().flatten().tolist())
            center = moments.mean if method != "unit_variance" else torch.zeros_like(moments.mean)
            if method == "quantile":
                center = _spread_quantiles(model, layer, x, generator)
            add_to_bias_(layer, -center)
            if method == "whiten":
                _whiten_(layer, moments.covariance)
            elif method != "mean":
                scale_outputs_(layer, scale)
            if path in owned.branches and method != "mean":
                scale_outputs_(layer, torch.full_like(scale, branch))
    except BaseException:
        done.undo()
        raise
    return done


def _targets(model: nn.Module, data: Any, method: str) -> tuple[dict[str, Any], Owners]:
    """The layers to set, refused all at once with their paths if they cannot be."""
    norms = [path for path, module in model.named_modules() if isinstance(module, _BatchNorm)]
    if norms:
        raise InputError(
            f"model must have no batch norm, got {', '.join(norms)}: batch norm places the folds by itself; "
            "merge_batchnorm makes a plain network of it."
        )
    row = first_row(data)
    held = any(isinstance(module, NORMS) for module in model.modules())
    network = trace(freeze_statistics(model, row.to(next(model.parameters()))) if held else model, row)
    owned = owners(network, model)
    targets: dict[str, Any] = owned.layers
    if not targets and not owned.functions:
        raise InputError("model must have a Linear or convolution module before a non-linearity, found none.")
    program = network.program()
    paths = [program.paths.get(step.output, "") for step in program.steps if isinstance(step, Affine)]
    calls = [id(model.get_submodule(path)) for path in paths]
    uses = [id(p) for m in model.modules() for p in m._parameters.values() if p is not None]
    problems = [f"{name} is a function: make it a Linear or convolution module" for name in owned.functions]
    for path, layer in targets.items():
        norm = isinstance(layer, NORMS)
        if getattr(layer, "bias", None) is None:
            problems.append(f"{path} has no bias to hold the offset")
        elif not owns_weights(layer):
            problems.append(f"{path} computes its weight (weight norm, spectral norm or pruning)")
        elif (not norm and calls.count(id(layer)) > 1) or uses.count(id(layer.weight)) > 1:
            problems.append(f"{path} is used more than once: its inputs differ from use to use")
        elif method == "whiten" and (norm or getattr(layer, "groups", 1) > 1):
            problems.append(f"{path} is a norm or has groups, and whitening mixes units")
    if problems:
        raise InputError("initialize_ cannot set these layers: " + "; ".join(problems) + ".")
    return targets, owned


class _Reached(Exception):
    """The layer has been run; the rest of the forward pass is not needed."""


def _outputs(model: nn.Module, layer: Any, data: Any) -> Iterator[Tensor]:
    """A layer's outputs as rows `[n, channels]` in float64, batch by batch; the model runs in its own dtype."""
    like = next(model.parameters())
    seen: list[Tensor] = []

    def hook(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
        seen.append(channel_rows(layer, output.double()))
        raise _Reached

    rows = 0
    for batch in raw_batches(data):
        try:
            with Hooked(after=[(layer, hook)]):
                model(batch.to(like))
        except _Reached:
            rows += len(batch)
        yield seen.pop()
    if rows < 2:
        raise InputError(f"data must hold at least 2 rows (one row has no spread), got {rows}.")


def _whiten_(layer: Any, covariance: Tensor) -> None:
    """Turn the outputs, whose mean is zero, so that their covariance is the identity on its range, scaled to 1."""
    values, vectors = torch.linalg.eigh(covariance)
    kept = values > 1e-10 * values.max()  # below: the rounding of the covariance itself
    inverse_root = torch.where(kept, values.clamp_min(0).rsqrt(), 0.0)
    turn = vectors * inverse_root @ vectors.T
    left = (turn @ covariance @ turn).diagonal().clamp_min(0).sqrt()
    turn = turn / torch.where(left > 1e-6, left, 1.0)[:, None]
    axis = 1 if hasattr(layer, "output_padding") and layer.transposed else 0
    weight = layer.weight.double().movedim(axis, 0)
    layer.weight.copy_((turn.to(weight) @ weight.flatten(1)).reshape(weight.shape).movedim(0, axis))
    layer.bias.copy_(turn.to(weight) @ layer.bias.double())


def _spread_quantiles(model: nn.Module, layer: Any, data: Any, generator: torch.Generator | None) -> Tensor:
    """`[channels]` one quantile of each channel's outputs."""
    z = torch.cat(list(_outputs(model, layer, data))).cpu().sort(0).values
    channels = z.shape[1]
    wanted = torch.linspace(0.1, 0.9, channels, dtype=torch.float64) if channels > 1 else torch.tensor([0.5]).double()
    place = wanted[torch.randperm(channels, generator=generator)] * (len(z) - 1)
    below = place.floor().long()
    columns = torch.arange(channels)
    lower, upper = z[below, columns], z[(below + 1).clamp_max(len(z) - 1), columns]
    return torch.lerp(lower, upper, place - below)
