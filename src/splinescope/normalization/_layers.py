"""What lies between one fold and the next: a unit's weights in its layer's input space, and who owns them.

The pre-activation of a unit is affine in the values that come in through its layer: outputs of earlier folds, or the
network's input. These values together are the layer's input space. A skip connection adds its source to it.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from ..network import SplineNetwork
from ..network.ops import operation
from ..network.program import Affine, Fold, Program, Step, Tournament, walked
from ..network.watching.module_graph import WEIGHTED
from ..tiling.measures.differentiate import recording

_BLOCK_NUMBERS = 4 << 20


@dataclass(frozen=True)
class Layer:
    """A fold with the affine steps that lead to it.

    Attributes:
        fold: The fold.
        number: Of its site among all sites of the network.
        sources: Names of the values that span the layer's input space.
        steps: The affine steps from the sources to the fold.
        groups: `[U]` statistic that each of the fold's units belongs to: a channel's positions share one.
        centers: `[G]` the unit that stands for each group: in the middle of its channel, away from padding.
    """

    fold: Fold
    number: int
    sources: tuple[str, ...]
    steps: tuple[Affine, ...]
    groups: np.ndarray
    centers: np.ndarray

    def weight_norms(self, shapes: dict[str, tuple[int, ...]]) -> np.ndarray:
        """`[G]` norms of the units' weights in the layer's input space; exact, one backward pass per block of units.

        `shapes` is what `value_shapes` returns. At the rim of a padded image a unit sees part of its kernel only;
        the norm is that of the whole kernel.
        """
        size = max(1, _BLOCK_NUMBERS // sum(math.prod(shapes[name]) for name in self.sources))
        norms = []
        for start in range(0, len(self.centers), size):
            units = torch.from_numpy(self.centers[start : start + size])
            with recording():
                given = {
                    name: torch.zeros(len(units), *shapes[name], dtype=torch.float64).requires_grad_()
                    for name in self.sources
                }
                made = walked(self.steps, given, {*self.fold.inputs})
                z = self.fold.cuts(*(made[name] for name in self.fold.inputs))
                chosen = z[torch.arange(len(units)), units].sum()
                gradients = torch.autograd.grad(chosen, list(given.values()), allow_unused=True)
            squares = sum((g.flatten(1) ** 2).sum(1) for g in gradients if g is not None)
            norms.append(torch.sqrt(torch.as_tensor(squares)).expand(len(units)).numpy())
        return np.concatenate(norms)


def layers(program: Program) -> list[Layer]:
    """The layers of a network, in execution order; the stages of a max-pool, which have no offset, are left out."""
    made_by = {step.output: step for step in program.steps if not isinstance(step, Tournament)}
    stages = {name for step in program.steps if isinstance(step, Tournament) for name, _ in step.stages}
    found = []
    for fold in program.folds:
        if fold.output in stages:
            continue
        sources, steps = _upstream(fold, made_by, program.steps)
        groups, centers = _groups(fold)
        found.append(Layer(fold, program.site_numbers[fold.output], sources, steps, groups, centers))
    return found


def _upstream(
    fold: Fold, made_by: dict[str, Affine | Fold], order: tuple[Step, ...]
) -> tuple[tuple[str, ...], tuple[Affine, ...]]:
    """Sources and affine steps of a fold."""
    sources: dict[str, None] = {}
    between: set[str] = set()
    stack = list(fold.inputs)
    while stack:
        name = stack.pop()
        step = made_by.get(name)
        if isinstance(step, Affine):
            if name not in between:
                between.add(name)
                stack.extend(step.inputs)
        else:
            sources[name] = None
    steps = tuple(step for step in order if isinstance(step, Affine) and step.output in between)
    return tuple(sources), steps


def _groups(fold: Fold) -> tuple[np.ndarray, np.ndarray]:
    """Group of each unit (hinge by hinge, channel by channel) and the unit that stands for each group."""
    shape = fold.site.shape
    positions = math.prod(shape[1:])
    channels = shape[0] if shape else 1
    order = np.argsort(fold.elements, kind="stable")
    elements = fold.elements[order]
    first = np.flatnonzero(np.diff(elements, prepend=-1))
    hinge = np.empty(len(elements), np.int64)
    hinge[order] = np.arange(len(elements)) - np.repeat(first, np.diff(np.append(first, len(elements))))
    keys = hinge * channels + fold.elements // positions
    _, groups = np.unique(keys, return_inverse=True)
    middle = int(np.ravel_multi_index([n // 2 for n in shape[1:]], shape[1:])) if len(shape) > 1 else 0
    off_center = np.abs(fold.elements % positions - middle)
    ranked = np.lexsort((off_center, groups))
    centers = ranked[np.flatnonzero(np.diff(groups[ranked], prepend=-1))]
    return groups.reshape(-1), centers


def value_shapes(program: Program) -> dict[str, tuple[int, ...]]:
    """Shape of every value of the network, without the batch axis; one row goes through it."""
    x = torch.zeros(1, *program.input_shape, dtype=torch.float64)
    with torch.no_grad():
        made = {step.output: tuple(output.shape[1:]) for step, _, output in program.walk(x)}
    return {program.input: program.input_shape, **made}


@dataclass(frozen=True)
class Owners:
    """Who sets the folds of a model.

    Attributes:
        layers: Path -> Linear, convolution or norm (held, see `freeze_statistics`) whose output reaches a fold through
            nothing but parameter-free affine steps, in execution order.
        functions: Maps on the way to a fold that no such module owns, in words.
        sums: Paths of the folds that a sum goes into: of several such layers, or of one and a skip connection.
        branches: Paths of the layers that reach folds through sums alone.
    """

    layers: dict[str, nn.Module]
    functions: tuple[str, ...]
    sums: tuple[str, ...]
    branches: tuple[str, ...]


def owners(network: SplineNetwork, model: nn.Module) -> Owners:
    """The modules that hold each fold's weights and offset."""
    program = network.program()
    made_by = {step.output: step for step in program.steps if isinstance(step, Affine)}
    found: dict[str, nn.Module] = {}
    functions: dict[str, None] = {}
    sums: dict[str, None] = {}
    alone: set[str] = set()
    for layer in layers(program):
        stack = list(layer.fold.inputs)
        ends = 0
        own: list[str] = []
        while stack:
            name = stack.pop()
            path = program.paths.get(name, "")
            module = model.get_submodule(path)
            if name not in made_by:
                ends += 1
            elif isinstance(module, (*WEIGHTED, *NORMS)):
                found[path] = module
                own.append(path)
                ends += 1
            else:
                known = operation(program.ops[name])
                if known.role in ("product", "added product") and not known.elementwise:
                    functions[f"{known.name} in {path or 'the model'}"] = None
                stack.extend(made_by[name].inputs)
        if ends > 1:
            sums[layer.fold.site.path or layer.fold.output] = None
        else:
            alone.update(own)
    order = {path: i for i, path in enumerate(program.paths[s.output] for s in program.steps if isinstance(s, Affine))}
    ordered = dict(sorted(found.items(), key=lambda item: order[item[0]]))
    return Owners(ordered, tuple(functions), tuple(sums), tuple(path for path in ordered if path not in alone))


NORMS = (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.modules.instancenorm._InstanceNorm)
"""Norms with weights and biases per unit that have the last word on where a fold lies."""
