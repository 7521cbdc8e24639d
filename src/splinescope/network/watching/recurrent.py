"""Recurrent layers with ReLU as what they are: one affine map and one ReLU after the other.

Torch runs `nn.RNN` as one op, with a state whose batch axis is not the first. Written out step by step, its parts are
in the table of operations like any others: tracing and watching see the same ReLUs, one per step, layer and direction.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@contextlib.contextmanager
def unrolled(model: nn.Module) -> Iterator[None]:
    """In a model, `nn.RNN(nonlinearity="relu", batch_first=True)` and `nn.RNNCell` of that kind run step by step.

    A sequence that starts from a state of its own, is packed or has the batch axis second runs as torch runs it.
    """
    written_out: dict[Any, Any] = {nn.RNN.forward: _layers, nn.RNNCell.forward: _cell}
    found = [module for module in model.modules() if type(module).forward in written_out]
    found = [module for module in found if "forward" not in vars(module)]
    try:
        for module in found:
            vars(module)["forward"] = types.MethodType(written_out[type(module).forward], module)
        yield
    finally:
        for module in found:
            del vars(module)["forward"]


_torch_layers, _torch_cell = nn.RNN.forward, nn.RNNCell.forward


def _layers(self: nn.RNN, input: Any, hx: Any = None) -> Any:
    plain = isinstance(input, Tensor) and input.dim() == 3 and hx is None
    if not plain or self.nonlinearity != "relu" or not self.batch_first or (self.training and self.dropout > 0):
        return _torch_layers(self, input, hx)
    directions = 2 if self.bidirectional else 1
    states: list[Tensor] = []  # the last of each layer and direction
    for layer in range(self.num_layers):
        names = self._all_weights[layer * directions : (layer + 1) * directions]
        ways = [_steps(self, own, input, backwards=way == 1) for way, own in enumerate(names)]
        states += [steps[0 if way == 1 else -1] for way, steps in enumerate(ways)]
        input = torch.cat([torch.stack(steps, 1) for steps in ways], 2)
    return input, torch.stack(states)


def _steps(layer: nn.RNN, names: list[str], x: Tensor, backwards: bool) -> list[Tensor]:
    """The states of one layer in one direction, in the order of the sequence."""
    weights = [getattr(layer, name) for name in names]
    order = range(x.shape[1])
    found: dict[int, Tensor] = {}
    state = None
    for time in reversed(order) if backwards else order:
        state = _step(x[:, time], state, *weights)
        found[time] = state
    return [found[time] for time in order]


def _cell(self: nn.RNNCell, input: Tensor, hx: Tensor | None = None) -> Tensor:
    if self.nonlinearity != "relu" or input.dim() != 2:
        return _torch_cell(self, input, hx)
    biases = (self.bias_ih, self.bias_hh) if self.bias else ()
    return _step(input, hx, self.weight_ih, self.weight_hh, *biases)


def _step(x: Tensor, state: Tensor | None, enters: Tensor, stays: Tensor, bias: Any = None, more: Any = None) -> Tensor:
    """`relu(W x + b + V h + c)`; without a state, h = 0."""
    moved = F.linear(x, enters, bias)
    if state is not None:
        moved = moved + F.linear(state, stays, more)
    elif more is not None:
        moved = moved + more
    return F.relu(moved)
