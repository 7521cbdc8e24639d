"""`trace` and `SplineNetwork`: a PyTorch module read as affine steps and folds; snapshots of its finite parameters."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Node
from torch.utils import _pytree

from splinescope.support.checks import as_rows, check_module, no_batch_axis
from splinescope.support.display import Shown, counted, table
from splinescope.support.errors import InputError, UnsupportedModelError
from splinescope.support.threads import ALONE, one_torch_thread

from .outputs import Output, Picked, choose_output, leaves_of
from .program import Affine, Fold, Program, Site, Tournament, site_names
from .readable import as_batch, check_mode, check_readable, unwrap
from .reading.agreement import asks_for_rows, check_agreement, size_conditions
from .reading.cache import traced_before, what_it_does
from .reading.direct import read_sequence
from .reading.export import export
from .reading.lower import Lowering
from .reading.source import Source
from .watching.undisturbed import warn_of_hooks

_SMALL = 1024  # numbers that torch compares faster than numpy


def trace(model: nn.Module | SplineNetwork, x: Any, *, output: Output = None, smooth: bool = False) -> SplineNetwork:
    """Read a module as a continuous piecewise-affine network.

    The module is left as found, and compared with what was read on batches of several sizes. The result follows its
    parameters as they train, but not a change of structure or mode. It is used again while the module does the same.

    Args:
        model: A module of one floating-point input `[N, *shape]` that returns tensors `[N, *shape]`.
        x: A batch of at least one row.
        output: Which tensor is meant where a model returns several: its index, its name, or a path such as "boxes.0".
        smooth: Take smooth activations too (GELU, tanh, ...), of which `tessellate(..., tolerance=...)` tiles one near.

    Returns:
        The network, which computes in float64 on the CPU.

    Raises:
        UnsupportedModelError: Listing every part that is not piecewise affine, by module path.
        InputError: The example does not fit, or a parameter is not finite.

    Example:
        >>> import torch
        >>> net = trace(torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU()), torch.zeros(1, 2))
        >>> net.sites
        (Site(path='1', op='relu', shape=(8,), units=8, depth=1),)
    """
    if isinstance(model, SplineNetwork):
        if output is not None:
            raise InputError(f"output belongs to the first trace of a model, not to a traced network; got {output!r}.")
        return model
    if isinstance(model, Picked):
        return trace(model.whole, x, output=model.output if output is None else output, smooth=smooth)
    model = unwrap(model)
    check_mode(model)
    warn_of_hooks(model)
    batch = as_batch(model, x)
    sequence = read_sequence(model, batch[:2])

    def read() -> SplineNetwork:
        exported = sequence or export(model, batch[:2])
        network = SplineNetwork(model, exported, output, smooth=smooth)
        network.check(batch)
        return network

    with ALONE, one_torch_thread():
        does = what_it_does(model, batch) if sequence is None else sequence.text
        return traced_before(model, (output, smooth), does, read)


def module_of(model: object) -> nn.Module:
    """The torch module that is meant, as one that returns one tensor; of a network that was read, the one read."""
    module = model.module if isinstance(model, SplineNetwork) else check_module(model)
    check_readable(module)
    return module if isinstance(module, Picked) else Picked(module)


class SplineNetwork(Shown):
    """A module read as affine steps and folds; made by `trace` or `load`.

    Attributes:
        input_shape: Shape of one input.
        output_shape: Shape of one output, before any ending.
        sites: The places where the network folds, in execution order.
        ending: Name of what follows the last affine piece ("softmax"), which the tiling leaves out; or None.
    """

    def __init__(self, model: nn.Module, exported: Any, output: Output = None, *, smooth: bool = False) -> None:
        signature = exported.graph_signature
        self._model, self._output = model, output
        self._smooth = smooth
        self._graph = exported.graph
        self._conditions, self._asks = size_conditions(exported), asks_for_rows(exported)
        self._constants = dict(exported.constants)
        first = _first_paths(model)  # export names a tied parameter by any of its paths
        parameters = {name: first.get(path, path) for name, path in signature.inputs_to_parameters.items()}
        self._parameters = {**parameters, **signature.inputs_to_buffers}
        self._lifted = dict(signature.inputs_to_lifted_tensor_constants)
        nodes = {node.name: node for node in self._graph.nodes}
        inputs, outputs = signature.user_inputs, signature.user_outputs
        if len(inputs) != 1:
            raise UnsupportedModelError(
                f"The model must take one tensor, got {len(inputs)} inputs; wrap it in a module."
            )
        leaves = leaves_of(_pytree.tree_unflatten(list(outputs), exported.call_spec.out_spec))
        shapes = [tuple(nodes[leaf].meta["val"].shape) if leaf in nodes else None for _, leaf in leaves]
        self._leaf = choose_output([name for name, _ in leaves], shapes, output)
        self._source = Source(self._graph, nodes[inputs[0]], nodes[leaves[self._leaf][1]])
        self._held = [
            (node, self._parameters.get(node.name) or self._lifted[node.name])
            for node in self._source.nodes
            if node.op == "placeholder" and node is not self._source.input
        ]
        self._kept: dict[Node, Tensor] = {}
        self._raw: dict[Node, Tensor] = {}
        self._latest: Program | None = None
        program = self.program()
        check_rows(program)
        self.ending = program.ending
        self.input_shape = program.input_shape
        self.output_shape = program.output_shape
        self.sites: tuple[Site, ...] = program.sites

    def attached(self, model: nn.Module | None) -> SplineNetwork:
        """The same reading of a module, for it alone: networks share what was read, not the module they follow."""
        network = copy.copy(self)
        network._model = model  # type: ignore[assignment]
        return network

    @property
    def asks_for_rows(self) -> bool:
        """Whether the module's own code asked for the batch size while it was read."""
        return self._asks

    def check(self, like: Tensor) -> None:
        """Refuse, with the difference, if the module does not do what was read from it; `like` has its dtype."""
        check_agreement(self._model, self.program(), self._source.finish, like, self._leaf, self._conditions)

    @property
    def derived(self) -> Callable[[SplineNetwork], SplineNetwork] | None:
        """How it is made from what `trace` reads from its module, as something that pickles; None: it is that."""
        return None

    @property
    def module(self) -> nn.Module:
        """The torch module it was read from, whose parameters it follows; it returns the output that was chosen."""
        return self._model if self._output is None else Picked(self._model, self._output)

    def program(self, replace: Mapping[str, Tensor] | None = None) -> Program:
        """A float64 snapshot of the network with the parameters of this moment, which runs without the module.

        Tensors that have not changed since the last snapshot are shared with it, and where none has it is the same one.

        Args:
            replace: Parameters, by path, that get other values (of the same shapes) in the snapshot.
        """
        constants = self._constants_now(replace or {})
        latest = self._latest
        if latest is not None and all(a is b for a, b in zip(constants.values(), latest.constants, strict=True)):
            return latest
        program = Lowering(self._source, constants, self._smooth).program()
        if not replace:
            self._keep(program, constants)
        return program

    def steps_using(self, parameters: Iterable[str]) -> frozenset[str]:
        """Names of the program's steps whose own constants are made from any of these parameters (by path)."""
        paths = set(parameters)
        reached = {node for node in self._graph.nodes if self._parameters.get(node.name) in paths}
        users: set[Node] = set()
        live = {self._source.input}
        for node in self._graph.nodes:
            if live & set(node.all_input_nodes):
                live.add(node)
                source = node.args[0] if node.target is operator.getitem else node
                if reached & set(source.all_input_nodes):
                    users.add(node)
            elif reached & set(node.all_input_nodes):
                reached.add(node)
        names = {node.name for node in users}
        steps = (step.output for step in self.program().steps if not isinstance(step, Tournament))
        return frozenset(name for name in steps if name.partition(".")[0] in names)  # "node" or "node.part"

    def forward(self, x: Any) -> Tensor:
        """The network, before any ending, on a batch `[N, *input_shape]`, in float64."""
        batch = x if isinstance(x, Tensor) else as_rows(x, "x")
        if tuple(batch.shape[1:]) != self.input_shape or batch.dim() == 0:
            raise InputError(
                f"x must have shape (N, {', '.join(map(str, self.input_shape))}), got "
                f"{tuple(batch.shape)}{no_batch_axis(batch.shape, self.input_shape, 'x')}."
            )
        return self.program().forward(batch.to("cpu", torch.float64))

    __call__ = forward

    def fingerprint(self) -> str:
        """SHA-256 of structure and parameters: equal for equal networks, whatever their dtype or device."""
        return self.program().fingerprint

    def summary(self) -> str:
        """A table of the sites: number with path and op, shape, units, depth."""
        rows = [("site", "shape", "units", "depth")]
        rows += [
            (name, "x".join(map(str, s.shape)) or "-", f"{s.units:,}", str(s.depth))
            for name, s in zip(site_names(self.sites), self.sites, strict=True)
        ]
        return f"{self!r}\n{table(rows)}"

    def __repr__(self) -> str:
        units = sum(site.units for site in self.sites)
        ending = f", before {self.ending}" if self.ending else ""
        return (
            f"SplineNetwork({type(self._model).__name__}: {self.input_shape} -> {self.output_shape}, "
            f"{counted(units, 'unit')} at {counted(len(self.sites), 'site')}{ending})"
        )

    def _constants_now(self, replace: Mapping[str, Tensor]) -> dict[Node, Tensor]:
        """Every parameter, buffer and constant as it is now, or as replaced; what has not changed is not copied."""
        found: dict[Node, Tensor] = {}
        with torch.no_grad():
            for node, path in self._held:
                tensor = self._constants[path] if node.name in self._lifted else _attribute(self._model, path)
                tensor = replace.get(path, tensor).detach()
                kept, raw = self._kept.get(node), self._raw.get(node)
                if kept is not None and raw is not None and _same(raw, tensor):
                    found[node] = kept
                else:
                    found[node] = snapshot(tensor, kept, path)
        return found

    def _keep(self, program: Program, constants: dict[Node, Tensor]) -> None:
        """Remember a snapshot; and what it was made from in the model's own dtype, which is compared the fastest."""
        raw = {}
        for node, path in self._held:
            own = None if node.name in self._lifted else _attribute(self._model, path)
            if own is not None and own.is_floating_point() and own.device.type == "cpu":
                same = self._kept.get(node) is constants[node] and node in self._raw
                raw[node] = self._raw[node] if same else constants[node].to(own.dtype)
        self._latest, self._kept, self._raw = program, constants, raw


def _same(raw: Tensor, tensor: Tensor) -> bool:
    if raw.dtype != tensor.dtype or raw.device != tensor.device or raw.shape != tensor.shape:
        return False
    if raw.numel() < _SMALL or raw.dtype not in (torch.float32, torch.float64):
        return torch.equal(raw, tensor)
    return bool((raw.numpy() == tensor.numpy()).all())  # torch compares number by number: six times slower


def snapshot(tensor: Tensor, kept: Tensor | None, path: str) -> Tensor:
    """A copy on the CPU, in float64 if floating and then finite; `kept`, an earlier copy, if that is equal."""
    if tensor.layout != torch.strided:
        raise InputError(f"{path} must be dense, got layout {tensor.layout}; keep {path}.to_dense() instead.")
    if kept is not None and torch.equal(kept, tensor.to("cpu", kept.dtype)):
        return kept
    copy = tensor.to("cpu", torch.float64 if tensor.is_floating_point() else tensor.dtype, copy=True)
    # a sum is finite where all values are, and found much faster; of large ones it may overflow
    if copy.is_floating_point() and not bool(copy.sum().isfinite()) and (bad := int((~copy.isfinite()).sum())):
        raise InputError(f"{path} must be finite, got {bad} NaN or infinite values among {copy.numel()}.")
    return copy


def check_rows(program: Program) -> None:
    """Refuse programs in which a row sees another one (a sum over the batch): each step is run row by row."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, *program.input_shape, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        for step, given, whole in program.walk(x):
            if not bool(whole.isfinite().all()):
                raise InputError(
                    f"{program.paths.get(step.output) or 'model'} ({step.output}): values beyond the range of float64, "
                    "1.8e308, at inputs of size 1: the weights up to here are too large; scale them down."
                )
            alone = torch.cat([step.run(*(value[i : i + 1] for value in given)) for i in range(3)])
            if whole.shape != alone.shape or not (
                torch.allclose(whole, alone, rtol=1e-6, atol=1e-9 * _scale(whole))
                or torch.allclose(whole, alone, rtol=1e-6, atol=_trembling(step, given, whole))
            ):
                raise UnsupportedModelError(
                    f"{program.paths.get(step.output) or 'model'} ({step.output}): mixes the rows of a batch; every "
                    "operation must act on each row by itself."
                )


def _trembling(step: Affine | Fold, given: list[Tensor], whole: Tensor) -> float:
    """How much a step's result moves when its inputs do by 1e-9 of themselves: large terms may cancel in it."""
    generator = torch.Generator().manual_seed(0)
    moves = (1e-9 * torch.randn(value.shape, generator=generator, dtype=value.dtype) for value in given)
    return _scale(step.run(*(value * (1 + move) for value, move in zip(given, moves, strict=True))) - whole)


def _scale(tensor: Tensor) -> float:
    return float(tensor.abs().max()) if tensor.numel() else 1.0


def _first_paths(model: nn.Module) -> dict[str, str]:
    """Every path of a parameter -> the one that `named_parameters()` gives it: tied parameters have several."""
    names = {id(parameter): path for path, parameter in model.named_parameters()}
    return {path: names[id(parameter)] for path, parameter in model.named_parameters(remove_duplicate=False)}


def _attribute(model: nn.Module, path: str) -> Tensor:
    """A parameter or buffer by its path."""
    value: Any = model
    for part in path.split("."):
        # what `getattr` finds the hard way; a parametrized weight is in no table
        children: Any = value.__dict__.get("_modules", {}) if isinstance(value, nn.Module) else {}
        value = children[part] if part in children else getattr(value, part, None)
    if not isinstance(value, Tensor):
        raise UnsupportedModelError(f"The model has changed since it was traced: {path} is gone; trace it again.")
    return value
