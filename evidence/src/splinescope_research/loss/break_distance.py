"""How far the parameters of a layer are from the nearest break of the loss's piecewise quadratic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from splinescope.landscape.inputs import Model, check_model, check_points, chosen_parameters, parameters_of, submodule
from splinescope.network import SplineNetwork, trace
from splinescope.network.outputs import Picked
from splinescope.network.program import Fold, Tournament, walk, walked
from splinescope.support.derivatives import row_jacobians
from splinescope.support.display import Result
from splinescope.support.errors import InputError

_TOUCHED = 1e-9  # of a layer's norm: a break closer than this is where we stand, not one ahead


@dataclass(frozen=True, repr=False)
class BreakDistance(Result):
    """How far a layer's parameters may move, in any direction, before some unit changes sign at some data point; exact.

    Attributes:
        radius: The Euclidean distance, over weight and bias together; inf if nothing after the layer folds.
        point: The data point whose pattern changes first; -1 if none does.
        site: Path and operation of the fold.
        unit: The unit in it.
    """

    radius: float
    point: int
    site: str
    unit: int
    certainty = "exact"


def break_distance(model: Model, x: Any, layer: str) -> BreakDistance:
    """The distance, in a linear layer's parameters, to the nearest change of any activation pattern on the data.

    With u = W h + b the layer's output at a point, a unit z after it has the gradient `dz/du (x) (h, 1)` in (W, b), of
    norm `|dz/du| sqrt(|h|^2 + 1)`; the distance is the least `|z|` over it. Within that ball the squared error is one
    quadratic, and no larger ball about the parameters has this property. Exact. A break closer than 1e-9 of the layer's
    norm is where the parameters are, and not counted.

    Args:
        model: A piecewise-affine module in eval mode (or the result of `trace`).
        x: `[N, ...]` inputs.
        layer: Path of an `nn.Linear` that is called once.

    Cost: a Jacobian of all units after the layer with respect to its output, at every point.

    Example:
        >>> net = nn.Sequential(nn.Linear(1, 1), nn.ReLU()).double().eval()
        >>> net.load_state_dict({"0.weight": torch.tensor([[1.0]]), "0.bias": torch.tensor([0.0])})
        <All keys matched successfully>
        >>> break_distance(net, torch.tensor([[3.0]]).double(), "0").radius  # 3 over the norm of (3, 1)
        0.9486832980505138
    """
    inputs = check_points(x, torch.float64)
    network = model if isinstance(model, SplineNetwork) else trace(check_model(model), inputs[:1])
    weight = linear_layer(network.module, layer).weight
    paths = chosen_parameters(network.module, layer)
    program = network.program()
    using = network.steps_using(paths)
    entry = next(i for i, step in enumerate(program.steps) if not isinstance(step, Tournament) and step.output in using)
    moved = program.steps[entry]
    assert not isinstance(moved, Tournament)
    before = program.steps[: entry + 1]
    needed = {name for step in program.steps[entry:] for name in step.inputs} & {
        program.input,
        *(step.output for step in before if not isinstance(step, Tournament)),
    }
    with torch.no_grad():
        values = walked(before, {program.input: inputs}, {*needed, moved.output})
    given, output = values[moved.inputs[0]], values[moved.output]
    if len(using) != 1 or given.shape[1:] != weight.shape[1:] or output.shape[1:] != weight.shape[:1]:
        raise InputError(f"layer must be an nn.Linear that is called once on rows of features, got {layer!r}.")
    sites: list[tuple[str, int]] = []

    def cuts(u: Tensor) -> Tensor:
        now = {**values, moved.output: u}
        found = []
        sites.clear()
        for step, arguments, _ in walk(program.steps[entry + 1 :], now, ()):
            if isinstance(step, Fold):
                found.append(step.cuts(*arguments).flatten(1))
                sites.extend((step.site.label, unit) for unit in range(found[-1].shape[1]))
        return torch.cat(found, 1) if found else u[:, :0]

    with torch.no_grad():
        z = cuts(output)
    if z.shape[1] == 0:
        return BreakDistance(float("inf"), -1, "", -1)
    slopes = row_jacobians(cuts, output).reshape(*z.shape, -1).norm(dim=2)
    reach = (given.square().sum(1) + (len(paths) > 1)).sqrt()[:, None] * slopes
    distance = torch.where(reach > 0, z.abs() / reach, torch.inf)
    named = parameters_of(network.module)
    scale = sum(float(named[path].detach().double().square().sum()) for path in paths)
    distance = torch.where(distance <= _TOUCHED * scale**0.5, torch.inf, distance)
    point, column = divmod(int(distance.argmin()), z.shape[1])
    return BreakDistance(float(distance.min()), point, *sites[column])


def linear_layer(model: nn.Module, path: str) -> nn.Linear:
    """The module at a path, refused unless it is an `nn.Linear`."""
    layer = submodule(model, path)
    layer = layer.whole if isinstance(layer, Picked) else layer
    if not isinstance(layer, nn.Linear):
        raise InputError(
            f"the distance to the nearest break is known for nn.Linear layers, got {path!r}, a {type(layer).__name__}; "
            "LayerwiseDescent's region='line' takes any layer."
        )
    return layer
