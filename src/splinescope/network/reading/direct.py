"""Reading a sequence of torch's own layers without `torch.export`, which takes two seconds to load: the same graph.

Anything else (a subclass, a hook, a patched `forward`, an input that does not fit) is left to `export`.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.fx import Graph, Node
from torch.nn.modules import module as of_all_modules
from torch.utils import _pytree

from ..ops.call import op_name

aten = torch.ops.aten
_INPUT = "input"  # what `nn.Sequential.forward` calls it


class _Layer(NamedTuple):
    """How a layer is written: its operation, the arguments behind the input, the axes of an input with its rows.

    Arguments that are strings name parameters and buffers. Axes 0: any number of them from two on.
    """

    op: Any
    arguments: Callable[[Any], list[Any] | None]
    axes: int = 0


def _conv(layer: Any) -> list[Any] | None:
    if layer.padding_mode != "zeros" or isinstance(layer.padding, str):
        return None
    sizes = [list(each) for each in (layer.stride, layer.padding, layer.dilation)]
    return ["weight", "bias", *sizes, layer.groups]


def _batch_norm(layer: Any) -> list[Any] | None:
    if layer.training or layer.running_mean is None or layer.momentum is None:
        return None
    return ["weight", "bias", "running_mean", "running_var", False, layer.momentum, layer.eps, False]


def _max_pool(layer: Any) -> list[Any] | None:
    if layer.return_indices:
        return None
    return [*map(_pair, (layer.kernel_size, layer.stride, layer.padding, layer.dilation)), layer.ceil_mode]


def _avg_pool(layer: Any) -> list[Any] | None:
    sizes = map(_pair, (layer.kernel_size, layer.stride, layer.padding))
    return [*sizes, layer.ceil_mode, layer.count_include_pad, layer.divisor_override]


def _adaptive(layer: Any) -> list[Any] | None:
    sizes = _pair(layer.output_size)
    return [sizes] if all(isinstance(size, int) for size in sizes) else None


def _flatten(layer: Any) -> list[Any] | None:
    return [layer.start_dim, layer.end_dim] if layer.start_dim > 0 else None


def _pair(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value, value]


_LAYERS: dict[type[nn.Module], _Layer] = {
    nn.Linear: _Layer(aten.linear.default, lambda layer: ["weight", "bias"]),
    nn.Conv1d: _Layer(aten.conv1d.default, _conv, 3),
    nn.Conv2d: _Layer(aten.conv2d.default, _conv, 4),
    nn.Conv3d: _Layer(aten.conv3d.default, _conv, 5),
    nn.BatchNorm1d: _Layer(aten.batch_norm.default, _batch_norm),
    nn.BatchNorm2d: _Layer(aten.batch_norm.default, _batch_norm, 4),
    nn.BatchNorm3d: _Layer(aten.batch_norm.default, _batch_norm, 5),
    nn.MaxPool2d: _Layer(aten.max_pool2d.default, _max_pool, 4),
    nn.AvgPool2d: _Layer(aten.avg_pool2d.default, _avg_pool, 4),
    nn.AdaptiveAvgPool2d: _Layer(aten.adaptive_avg_pool2d.default, _adaptive, 4),
    nn.Flatten: _Layer(aten.flatten.using_ints, _flatten),
    nn.Dropout: _Layer(aten.dropout.default, lambda layer: None if layer.training else [layer.p, False]),
    nn.ReLU: _Layer(aten.relu.default, lambda layer: []),
    nn.LeakyReLU: _Layer(aten.leaky_relu.default, lambda layer: [layer.negative_slope]),
    nn.PReLU: _Layer(aten.prelu.default, lambda layer: ["weight"]),
    nn.ReLU6: _Layer(aten.hardtanh.default, lambda layer: [layer.min_val, layer.max_val]),
    nn.Hardtanh: _Layer(aten.hardtanh.default, lambda layer: [layer.min_val, layer.max_val]),
    nn.ELU: _Layer(aten.elu.default, lambda layer: [layer.alpha]),
    nn.Tanh: _Layer(aten.tanh.default, lambda layer: []),
    nn.Sigmoid: _Layer(aten.sigmoid.default, lambda layer: []),
    nn.SiLU: _Layer(aten.silu.default, lambda layer: []),
}


@dataclass(frozen=True)
class Read:
    """What a network takes of an exported program. Nodes of which row i is made from row i have `meta["rows"]`."""

    graph: Graph
    graph_signature: Any
    constants: dict[str, Tensor] = field(default_factory=dict)
    call_spec: Any = field(default_factory=lambda: SimpleNamespace(out_spec=_pytree.tree_flatten(0)[1]))

    @property
    def text(self) -> tuple[Hashable, ...]:
        """All that the sequence does with which shapes, as a key: equal texts make equal programs."""
        return tuple(
            (str(node.target), str(node.args), node.meta["val"].shape, node.meta["val"].dtype)
            for node in self.graph.nodes
            if node.meta
        )


def read_sequence(model: nn.Module, batch: Tensor) -> Read | None:
    """The graph that `export` gives for a sequence of known layers; None for everything else."""
    if type(model) is not nn.Sequential or not _runs_only_torch(model):
        return None
    graph, places = Graph(), {}
    tensors = dict([*model.named_parameters(), *model.named_buffers()])
    kinds = {"p": model.named_parameters(), "b": model.named_buffers()}
    for kind, named in kinds.items():
        for path, tensor in named:
            places[path] = _placed(graph, f"{kind}_{path.replace('.', '_')}", tensor)
    value = first = _placed(graph, _INPUT, batch)
    first.name = _INPUT  # fx itself keeps away from names of Python's own functions
    first.meta["rows"] = 1
    rows = batch  # real ones: shapes from torch's meta device would load sympy
    for path, layer in _in_order(model, ""):
        call = _call(layer, rows.dim())
        if call is None:
            return None
        name, op, arguments = call
        given = [f"{path}.{each}" if isinstance(each, str) else each for each in arguments]
        nodes, numbers = (
            [known.get(each) if isinstance(each, str) else each for each in given] for known in (places, tensors)
        )
        try:
            with torch.no_grad():
                rows = op(rows, *numbers)
        except (RuntimeError, IndexError):  # the input does not fit
            return None
        value = graph.create_node("call_function", op, _without_defaults(op, [value, *nodes]), name=name)
        value.meta.update(val=rows.to("meta"), rows=1, nn_module_stack={path: (path, type(layer).__name__)})
    graph.output((value,))
    signature = SimpleNamespace(
        inputs_to_parameters={places[path].name: path for path, _ in model.named_parameters()},
        inputs_to_buffers={places[path].name: path for path, _ in model.named_buffers()},
        inputs_to_lifted_tensor_constants={},
        user_inputs=(first.name,),
        user_outputs=(value.name,),
    )
    return Read(graph, signature)


def _runs_only_torch(model: nn.Module) -> bool:
    """Whether its layers are all known, each at one place, and nothing of the user's acts on their calls."""
    modules = [module for _, module in model.named_modules(remove_duplicate=False)]
    hooked = any(module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module) for module in modules)
    known = all(type(module) in {*_LAYERS, nn.Identity, nn.Sequential} for module in modules)
    theirs = all(type(module).forward.__module__.startswith("torch.nn.modules.") for module in modules)
    parameters = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    once = len({id(module) for module in modules}) == len(modules)
    once = once and len({id(tensor) for _, tensor in parameters}) == len(parameters)
    watched = of_all_modules._global_forward_hooks or of_all_modules._global_forward_pre_hooks
    return known and theirs and once and not hooked and not watched and not torch._C._len_torch_function_stack()


def _in_order(model: nn.Module, path: str) -> Iterator[tuple[str, nn.Module]]:
    for name, module in model.named_children():
        inner = f"{path}.{name}".lstrip(".")
        if isinstance(module, nn.Sequential):
            yield from _in_order(module, inner)
        elif not isinstance(module, nn.Identity):
            yield inner, module


def _placed(graph: Graph, name: str, tensor: Tensor) -> Node:
    node = graph.placeholder(name)
    node.meta["val"] = tensor.detach().to("meta")
    return node


def _call(layer: nn.Module, axes: int) -> tuple[str, Any, list[Any]] | None:
    """Name, operation and arguments of a layer on an input of so many axes; None if it is none of the plain cases."""
    op, arguments, needed = _LAYERS[type(layer)]
    given = arguments(layer)
    in_place = bool(getattr(layer, "inplace", False))
    renamed = in_place and not isinstance(layer, nn.ReLU)  # by torch, which rewrites them
    if given is None or renamed or axes < 2 or (needed and axes != needed):
        return None
    return op_name(op) + "_" * in_place, op, given


def _without_defaults(op: Any, arguments: list[Any]) -> tuple[Any, ...]:
    """As torch itself hands arguments on: the last ones go while they are of the default's type and value."""
    defaults = [argument.default_value for argument in op._schema.arguments]
    while len(arguments) > 1 and not isinstance(arguments[-1], Node):
        default = defaults[len(arguments) - 1]
        if type(default) is not type(arguments[-1]) or default != arguments[-1]:
            break
        arguments = arguments[:-1]
    return tuple(arguments)
