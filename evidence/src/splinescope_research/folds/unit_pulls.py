"""What a loss does to single units: its derivative by their pre-activations and by their own parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

from splinescope.network.ops.bend import Given
from splinescope.network.ops.registry import Operation
from splinescope.network.outputs import one_tensor
from splinescope.network.watching.calls import Watch
from splinescope.network.watching.sites import Sites, rows_first
from splinescope.support.derivatives import plain_kernels

_PROBES = 16  # units whose derivatives are looked at until it is clear along which axes parameters belong to units


@dataclass(frozen=True)
class Entered:
    """What enters the call of a site whose state is a value, in the graph of a loss.

    Attributes:
        like: The tensor; its numbers may have been written over.
        edge: Its place in the graph.
        axis: Along which rows lie.
        hinges: How many units each of its numbers has.
    """

    like: Tensor
    edge: GradientEdge
    axis: int
    hinges: int


@dataclass(frozen=True)
class LossGraph:
    """A loss and how it came about.

    Attributes:
        value: The loss, a sum over rows.
        rows: How many rows.
        entered: By site.
        bent: Nodes that these sites' calls end in.
        parameters: Those of the model that require gradients.
    """

    value: Tensor
    rows: int
    entered: dict[int, Entered]
    bent: frozenset[Node]
    parameters: tuple[Tensor, ...]

    def pulls(self) -> dict[int, Tensor]:
        """Per site `[N, units]` derivatives of the loss by what enters each unit."""
        edges = [entered.edge for entered in self.entered.values()]
        slopes: Any = torch.autograd.grad(self.value, edges, retain_graph=True, allow_unused=True)
        return {
            site: _rows(torch.zeros_like(entered.like) if slope is None else slope, entered, self.rows)
            .reshape(self.rows, -1)
            .repeat_interleave(entered.hinges, 1)
            for (site, entered), slope in zip(self.entered.items(), slopes, strict=True)
        }

    def own_gradients(self) -> dict[int, Tensor]:
        """Per site `[units]` norms of the gradient of the mean loss by the unit's own parameters; nan without any.

        A unit's own are those entries of parameters that lead to its pre-activation through no other fold, and to no
        other unit of its site (of a convolution: of its channel). All of a site are nan if that cannot be told.
        """
        slopes: Any = ()
        if self.parameters:
            slopes = torch.autograd.grad(self.value, self.parameters, retain_graph=True, allow_unused=True)
        gradient = {
            id(p): g.double() / self.rows for p, g in zip(self.parameters, slopes, strict=True) if g is not None
        }
        found = {}
        for site, entered in self.entered.items():
            shape = _rows(entered.like, entered, self.rows).shape[1:]
            leading = _leaves(entered.edge.node, self.bent)
            near = [p for p in self.parameters if id(p) in leading and id(p) in gradient]
            squares = torch.full(shape, torch.nan, dtype=torch.float64, device=self.value.device)
            for parameter, (pairs, seen) in zip(near, self._axes(entered, near, shape), strict=True):
                slope = gradient[id(parameter)].square()
                if not pairs:
                    continue
                if not seen and bool(slope.any()):
                    squares = torch.full_like(squares, torch.nan)
                    break
                of_unit, of_parameter = pairs[0]
                sums = slope.movedim(of_parameter, 0).reshape(shape[of_unit], -1).sum(1)
                squares = squares.nan_to_num(0.0) + sums.reshape([-1 if a == of_unit else 1 for a in range(len(shape))])
            found[site] = squares.sqrt().flatten().repeat_interleave(entered.hinges)
        return found

    def _axes(
        self, entered: Entered, near: list[Tensor], shape: torch.Size
    ) -> list[tuple[list[tuple[int, int]], bool]]:
        """Per parameter the axes of units and of it along which it belongs to them, none if units share it.

        Seen at single units: the derivative by an own parameter vanishes but for one index. And whether any derivative
        was seen: where nothing flows through the parameter there is none.
        """
        fitting = [
            [(u, a) for u in range(len(shape)) for a in range(p.dim()) if shape[u] == p.shape[a]] if p.dim() else []
            for p in near
        ]
        seen = [False] * len(near)
        for probe in range(_PROBES):
            open_ = [i for i, pairs in enumerate(fitting) if len(pairs) > 1 or (pairs and not seen[i])]
            if not open_:
                break
            unit: tuple[Any, ...] = tuple((probe * (u + 1) + u) % size for u, size in enumerate(shape))
            toward = torch.zeros_like(entered.like)
            uneven = torch.linspace(1, 2, self.rows, dtype=toward.dtype, device=toward.device)  # so that no rows cancel
            _rows(toward, entered, self.rows)[(slice(None), *unit)] = uneven
            slopes: Any = torch.autograd.grad(
                [entered.edge], [near[i] for i in open_], [toward], retain_graph=True, allow_unused=True
            )
            for i, slope in zip(open_, slopes, strict=True):
                if slope is not None and bool(slope.any()):
                    seen[i] = True
                    fitting[i] = [(u, a) for u, a in fitting[i] if _only_at(slope, a, unit[u])]
        return list(zip(fitting, seen, strict=True))


def loss_graph(net: Sites, x: Tensor, loss: Callable[[Tensor], Tensor]) -> LossGraph:
    """Run a model on rows and a loss, a sum over them, on its outputs; remember where its sites are in the graph."""
    entered: dict[int, Entered] = {}
    bent: set[Node] = set()
    number, within = 0, False

    def see(operation: Operation, given: Given) -> None:
        nonlocal number, within
        call = net.calls[number] if number < len(net.calls) else None
        number += 1
        first = next((t for t in given.tensors() if t.requires_grad), None)
        within = call is not None and first is not None and not net.winner[call.site]
        if call is not None and first is not None and within:
            # the edge is that of the value before the call, which may write over it
            entered[call.site] = Entered(first, get_gradient_edge(first), call.axis, net.hinges[call.site])

    def saw(result: Any) -> None:
        if within and isinstance(result, Tensor) and result.grad_fn is not None:
            bent.add(result.grad_fn)

    with torch.enable_grad(), plain_kernels():
        with Watch(see, saw):
            outputs = net.forward(net.model, x.clone().requires_grad_() * 1)
        net.check_count(number)
        value = loss(one_tensor(outputs))
    parameters = tuple(p for p in net.model.parameters() if p.requires_grad)
    return LossGraph(value, len(x), entered, frozenset(bent), parameters)


def _rows(tensor: Tensor, entered: Entered, rows: int) -> Tensor:
    return rows_first(tensor, entered.axis, rows).detach()


def _leaves(start: Node, ends: Iterable[Node]) -> set[int]:
    """Ids of the leaves that a node comes from without passing an end."""
    stack, seen, found = [start], set(ends), set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.add(id(node.variable))
        stack += [before for before, _ in node.next_functions if before is not None]
    return found


def _only_at(slope: Tensor, axis: int, index: int) -> bool:
    """Whether all that is not zero lies at one index of an axis."""
    rest = slope.clone()
    rest.select(axis, index).zero_()
    return not bool(rest.any())
