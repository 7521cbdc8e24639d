"""Batch norm folded into its neighbors: the same function, the same tiling, no batch norm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.fx
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..network import trace
from ..network.outputs import Picked
from ..network.program import Affine, Tournament
from ..network.readable import check_mode, unwrap
from ..network.watching.module_graph import Call, Graph
from ..network.watching.undisturbed import copied
from ..support.checks import as_rows
from ..support.errors import InputError, UnsupportedModelError
from ._data import first_row
from ._layers import value_shapes
from ._weights import (
    TRANSPOSED,
    add_to_bias_,
    input_channels,
    input_weight_sums,
    output_channels,
    scale_inputs_,
    scale_outputs_,
)


class ScaleShift(nn.Module):
    """`scale * x + shift` per channel: what is left of a batch norm with no neighbor to go into."""

    def __init__(self, scale: Tensor, shift: Tensor) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(scale), nn.Parameter(shift)

    def forward(self, x: Tensor) -> Tensor:
        shape = (-1,) + (1,) * (x.dim() - 2)
        return x * self.scale.reshape(shape) + self.shift.reshape(shape)


@torch.no_grad()
def merge_batchnorm(model: nn.Module, x: Any = None) -> nn.Module:
    r"""A copy of the model without batch norm that computes the same function.

    In evaluation mode a batch norm is $y \mapsto s y + t$ per channel, with $s = \gamma / \sqrt{v + \epsilon}$ and
    $t = \beta - s m$. After a linear map or convolution it goes into that one's weight and bias,
    $W \leftarrow s W,\ b \leftarrow s b + t$; before one, $b \leftarrow b + W t,\ W \leftarrow W s$ (for a
    convolution only without zero padding, unless t = 0: zeros stand where the shift would be). One with no
    such neighbor of its own becomes a `ScaleShift`. Which neighbor is read from the graph of calls, so blocks with
    skip connections and modules called from code are handled.

    Args:
        model: In evaluation mode; left as found.
        x: A batch of at least one row; only its shape is used. Without one the calls are read symbolically
            (`torch.fx`), which needs a model without branches on its input; shapes are then unknown, and a batch norm
            after a `Linear` is taken to act on its features, as it does on rows `[N, features]`. Give an example
            where it acts on sequences `[N, channels, features]`.

    Returns:
        A copy, in the model's dtype. Equal outputs up to rounding; batch norms turn into `nn.Identity`.

    Raises:
        UnsupportedModelError: Batch norm in train mode, or a model that cannot be traced.
        InputError: A batch norm keeps no running statistics.

    Example:
        >>> net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU()).eval()
        >>> x = torch.randn(5, 2)
        >>> torch.allclose(merge_batchnorm(net)(x), net(x), atol=1e-6)
        True
    """
    row = None if x is None else first_row(as_rows(x, "x"))
    return merged_by(model, None if row is None else lambda copy: _exported(copy, row))


@torch.no_grad()
def merged_by(model: nn.Module, read: Callable[[nn.Module], Graph] | None = None) -> nn.Module:
    """What `merge_batchnorm` returns, the calls of the copy read by a function; without an input if None."""
    model = unwrap(model)
    check_mode(model)
    folded = copied(model)
    norms = {path: m for path, m in folded.named_modules() if isinstance(m, _BatchNorm)}
    for path, norm in norms.items():
        if norm.running_mean is None or norm.running_var is None:
            raise InputError(f"{path} keeps no running statistics (track_running_stats=False): nothing to fold.")
    if not norms:
        return folded
    graph = Graph(folded, [], {}, "") if isinstance(folded, _BatchNorm) else (read or _symbolic)(folded)
    for path, norm in norms.items():
        scale, shift = scale_and_shift(norm)
        before, after = graph.before(path), graph.after(path)
        if before is not None and output_channels(before) != len(scale):
            before = None  # the channels are another axis than the features
        if after is not None and input_channels(after) != len(scale):
            after = None
        if before is not None:
            scale_outputs_(before, scale)
            add_to_bias_(before, shift)
        elif after is not None and (_passes_shifts(after) or not bool(shift.any())):
            add_to_bias_(after, input_weight_sums(after, shift))
            scale_inputs_(after, scale)
        else:
            folded = _replace(folded, path, ScaleShift(scale, shift).to(norm.running_mean.dtype))  # type: ignore[union-attr]
            continue
        folded = _replace(folded, path, nn.Identity())
    return folded


def scale_and_shift(norm: _BatchNorm) -> tuple[Tensor, Tensor]:
    """`[C]` s and t of a batch norm in evaluation mode, in float64."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    mean, variance = norm.running_mean.double(), norm.running_var.double()
    weight = torch.ones_like(mean) if norm.weight is None else norm.weight.double()
    bias = torch.zeros_like(mean) if norm.bias is None else norm.bias.double()
    scale = weight / (variance + norm.eps).sqrt()
    return scale, bias - scale * mean


def _exported(model: nn.Module, example: Tensor) -> Graph:
    """The calls of a model on an example, from its exported program."""
    program = trace(model, example).program()
    steps = [step for step in program.steps if not isinstance(step, Tournament)]
    calls = [Call(s.output, s.inputs, program.paths.get(s.output, ""), isinstance(s, Affine)) for s in steps]
    return Graph(model, calls, value_shapes(program), program.output)


class _Tracer(torch.fx.Tracer):
    """Batch norms of any class are taken whole, as torch's own are."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, _BatchNorm) or super().is_leaf_module(m, module_qualified_name)


def _symbolic(model: nn.Module) -> Graph:
    """The calls of a model on no input in particular, by `torch.fx`."""
    try:
        graph = _Tracer().trace(model.whole if isinstance(model, Picked) else model)  # whatever it returns
    except Exception as error:  # the model's own code runs on a stand-in for its input and may fail in any way
        raise UnsupportedModelError(
            f"The model's calls could not be read without an example ({type(error).__name__}: "
            f"{(str(error).splitlines() or [''])[0]}); give one: x, rows of its input."
        ) from error
    calls = [
        Call(
            node.name,
            tuple(source.name for source in node.all_input_nodes),
            str(node.target) if node.op == "call_module" else "",
            whole=node.op == "call_module" and len(node.all_input_nodes) == 1,
        )
        for node in graph.nodes
    ]
    return Graph(model, calls, {}, "output")  # the result is used by the node "output", which no module is


def _passes_shifts(module: Any) -> bool:
    """Whether a constant added to an input channel adds a constant to the output: not so beside padded zeros."""
    if isinstance(module, nn.Linear):
        return True
    if isinstance(module, TRANSPOSED):
        return False  # its rim sums fewer terms
    return module.padding == "valid" or (not isinstance(module.padding, str) and not any(module.padding))


def _replace(model: nn.Module, path: str, module: nn.Module) -> nn.Module:
    """Another module in the place of one, under every name that it has."""
    old = model.get_submodule(path)
    module.train(old.training)
    if path == "":
        return module
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if child is old:
                setattr(parent, name, module)
    return model
