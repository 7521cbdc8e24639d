"""From the user's module to an exported graph, without leaving a trace on the module."""

from __future__ import annotations

import builtins
import contextlib
import functools
import importlib
import inspect
import io
import logging
import random
import re
import warnings
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses import fake_tensor

from splinescope._checks import as_rows
from splinescope._errors import InputError, SplinescopeError, UnsupportedModelError
from splinescope._interrupt import held_back

from ._functional import make_functional
from ._written_out import rewrite_written_out
from .hooks import hooks_of_all_detached
from .recurrent import rewrite_last_states, unrolled
from .twin import exportable


def unwrap(model: nn.Module) -> nn.Module:
    """The module inside DataParallel, DistributedDataParallel and torch.compile wrappers."""
    if not isinstance(model, nn.Module):
        raise InputError(f"model must be a torch.nn.Module, got {type(model).__name__}.")
    while True:
        if isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            model = model.module
        elif isinstance(getattr(model, "_orig_mod", None), nn.Module):
            model = model._orig_mod  # type: ignore[assignment]
        else:
            return model


def as_batch(model: nn.Module, example: Any) -> Tensor:
    """`example` as a batch of at least two rows in the dtype and on the device of the model."""
    if isinstance(example, (tuple, dict)):
        raise InputError(
            f"example must be one batch (tensor or array), got a {type(example).__name__}: only models of one "
            "input can be traced; wrap the model in a module that fixes its other inputs."
        )
    batch = as_rows(example, "example")
    if not batch.is_floating_point():
        raise InputError(
            f"example must hold floating-point numbers, got {batch.dtype}: a network of integer or complex inputs "
            "has no tiles; trace the part after its embedding."
        )
    if batch.dim() == 0 or batch.shape[0] == 0:
        raise InputError(f"example must be a batch of at least one row, got shape {tuple(batch.shape)}.")
    like = next((p for p in [*model.parameters(), *model.buffers()] if p.is_floating_point()), batch)
    if like.device.type == "meta":
        raise UnsupportedModelError("The model has shapes but no numbers (device 'meta'): load its weights first.")
    return (batch if len(batch) > 1 else batch[[0, 0]]).to(dtype=like.dtype, device=like.device)


def check_statistics(model: nn.Module) -> None:
    """Refuse batch norms that keep no statistics: they take those of the batch in evaluation mode too."""
    norms = (
        (path or "it", module)
        for path, module in model.named_modules()
        if isinstance(module, nn.modules.batchnorm._BatchNorm)
    )
    names = [f"{path} ({type(norm).__name__})" for path, norm in norms if norm.running_mean is None]
    if names:
        raise UnsupportedModelError(
            f"These layers keep no running statistics, so a row's answer depends on its batch: {', '.join(names)}. "
            "Make them with track_running_stats=True."
        )


def check_mode(model: nn.Module) -> None:
    """Refuse layers that act differently in training, naming all of them."""
    moving = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd, nn.RReLU)
    names = [
        f"{path or type(module).__name__} ({type(module).__name__})"
        for path, module in model.named_modules()
        if module.training and isinstance(module, moving) and getattr(module, "p", 1.0) > 0
    ]
    if names:
        raise UnsupportedModelError(
            "These layers are in training mode, where they mix the rows of a batch or are random, so the network "
            f"is not piecewise affine: {', '.join(names)}. Call model.eval() first."
        )
    check_readable(model)
    lazy = [path for path, p in model.named_parameters() if isinstance(p, nn.UninitializedParameter)]
    if lazy:
        raise UnsupportedModelError(f"Parameters not initialised yet: {', '.join(lazy)}. Run the model once first.")


def check_readable(model: nn.Module, *, scripted: bool = False, quantised: bool = False) -> None:
    """Refuse scripted and quantised models (but those allowed) by what they are, naming their outermost such parts."""
    allowed = {reason for reason, allow in ((SCRIPTED, scripted), (QUANTISED, quantised)) if allow}
    modules = dict(model.named_modules())
    found = {path: hidden(module) for path, module in modules.items()}
    unreadable = {path: reason for path, reason in found.items() if reason is not None and reason not in allowed}
    outer = [path for path in unreadable if not path or path.rpartition(".")[0] not in unreadable]
    if outer:
        named: dict[str, list[str]] = {reason: [] for reason in unreadable.values()}
        for path in outer:
            named[unreadable[path]].append(f"{path or 'it'} ({type(modules[path]).__name__})")
        parts = [f"{', '.join(names)} {reason}" for reason, names in named.items() if names]
        raise UnsupportedModelError(f"The model cannot be read: {'; '.join(parts)}.")


SCRIPTED = "is a ScriptModule, which hides its operations: give the torch.nn.Module that it was made from"
QUANTISED = "is quantised: it rounds, so its output is made of steps, not of affine pieces; give the float model"


def hidden(module: nn.Module) -> str | None:
    """Why nothing of a module can be read, for the kinds of which torch shows too little."""
    if isinstance(module, torch.jit.ScriptModule):
        return SCRIPTED
    if "quantized" in type(module).__module__ and type(module).__module__.startswith("torch."):
        return QUANTISED
    return None


def export(model: nn.Module, batch: Tensor) -> Any:
    """The `ExportedProgram` of `model`, in-place ops removed, layers kept whole, the batch size free."""
    _load_exporter()
    with state_kept(batch.device), exportable(model) as twin, torch.no_grad(), unrolled():
        try:
            exported = _exported(twin, batch)
            inputs = exported.graph_signature.user_inputs
            first = next(node for node in exported.graph.nodes if node.name in inputs)
            rewrite_last_states(exported.graph)
            if not make_functional(exported.graph, first):
                rewrite_softshrink(exported.graph)
                exported = exported.run_decompositions({})
            rewrite_softsign(exported.graph)
            rewrite_written_out(exported.graph)
            return exported
        except SplinescopeError:
            raise  # says already what is meant: several outputs
        except Exception as error:
            raise refusal(error, batch, model) from error


@functools.cache
def _load_exporter() -> None:
    """What torch itself imports at the first export. Half imported, it would serve no later call: Ctrl-C waits."""
    with held_back():
        importlib.import_module("torch.fx.experimental.symbolic_shapes")
        importlib.import_module("torch._dynamo")
        importlib.import_module("torch.export")


def _exported(model: nn.Module, batch: Tensor) -> Any:
    """Export with a free batch size.

    Code that takes it from `len(x)`, or asks for values of constants that it makes itself (torchvision's `Normalize`),
    is read a second time, with a `len` and with constants that can tell.
    """
    dynamic: tuple[Any, ...] = ({0: torch.export.Dim.DYNAMIC},)
    first = next(iter(inspect.signature(model.forward).parameters.values()), None)
    if first is not None and first.kind is inspect.Parameter.VAR_POSITIONAL:
        dynamic = (dynamic,)
    try:
        return torch.export.export(model, (batch,), dynamic_shapes=dynamic, strict=False)
    except Exception as error:
        if not fixes_batch(error) and not asks_for_values(error):
            raise
        with free_length(), mock.patch.object(fake_tensor, "CONSTANT_NUMEL_LIMIT", _CONSTANTS_UP_TO):
            return torch.export.export(model, (batch,), dynamic_shapes=dynamic, strict=False)


def fixes_batch(error: Exception) -> bool:
    """Whether an export failed since the batch size was taken for a number."""
    from torch._dynamo.exc import UserError, UserErrorType

    return isinstance(error, UserError) and error.error_type is UserErrorType.CONSTRAINT_VIOLATION


def asks_for_values(error: Exception) -> bool:
    """Whether an export failed since Python code asked for the value of a tensor."""
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    kinds = (GuardOnDataDependentSymNode, fake_tensor.DataDependentOutputException)
    return isinstance(error, kinds) or isinstance(error.__cause__, kinds)


_CONSTANTS_UP_TO = 4096  # numbers of a constant whose values torch keeps while it reads a model; 1 by its own choice


@contextlib.contextmanager
def free_length() -> Iterator[None]:
    """`len(x)` of a tensor is `x.shape[0]`: Python's own makes a number of it, even where it stands for any."""
    original = builtins.len

    def length(value: Any, /) -> Any:
        return value.shape[0] if isinstance(value, Tensor) and value.dim() else original(value)

    builtins.len = length
    try:
        yield
    finally:
        builtins.len = original


@functools.cache
def _softsign() -> Any:
    """x / (1 + |x|) as one op: torch has it as a Python function only, whose quotient says nothing of its shape."""
    torch.library.define("splinescope::softsign", "(Tensor self) -> Tensor")
    torch.library.impl("splinescope::softsign", "CompositeImplicitAutograd")(nn.functional.softsign)
    return torch.ops.splinescope.softsign.default


def rewrite_softsign(graph: torch.fx.Graph) -> None:
    """Read the quotient that `softsign` becomes as that op."""
    for node in list(graph.nodes):
        made_by = str(node.meta.get("torch_fn", ("", ""))[1]).rpartition(".")[2]
        if node.target is torch.ops.aten.div.Tensor and made_by == "softsign":
            with graph.inserting_before(node):
                whole = graph.call_function(_softsign(), (node.args[0],))
            whole.meta = dict(node.meta)
            node.replace_all_uses_with(whole)
            graph.erase_node(node)


def rewrite_softshrink(graph: torch.fx.Graph) -> None:
    """softshrink(x) = x - clamp(x, -lambda, lambda), before torch makes comparisons of it."""
    aten = torch.ops.aten
    for node in list(graph.nodes):
        if node.target is aten.softshrink.default:
            bound = node.args[1] if len(node.args) > 1 else node.kwargs.get("lambd", 0.5)
            with graph.inserting_before(node):
                middle = graph.call_function(aten.clamp.default, (node.args[0], -bound, bound))
                result = graph.call_function(aten.sub.Tensor, (node.args[0], middle))
            middle.meta, result.meta = dict(node.meta), dict(node.meta)
            node.replace_all_uses_with(result)
            graph.erase_node(node)


class DidNotRun(UnsupportedModelError):
    """The model raised an error on the example; most likely the example is not of its inputs' shape."""


def refusal(error: Exception, batch: Tensor, model: nn.Module) -> UnsupportedModelError:
    """What a failed export means for the user."""
    kind, text = type(error).__name__, str(error).strip()
    first = text.splitlines()[0] if text else kind
    if asks_for_values(error):
        return UnsupportedModelError(
            "The model's control flow depends on the values of its input (an `if` on a tensor, `.item()`, a mask "
            "of unknown size), so there is no one network to read."
        )
    if re.search(r"got s\d+ channels|dimensional input of size \[s\d+", text):
        return UnsupportedModelError(
            f"The batch axis is missing: the first axis was taken for it, so that one input had the shape "
            f"{tuple(batch.shape[1:])}. Give a batch, example[None]; in a file, the input's first axis is the batch."
        )
    if batch.dim() == 1:
        return UnsupportedModelError(
            "The model does not take rows of single numbers: the example needs a batch axis first, example[None]."
        )
    if fixes_batch(error):
        for path, module in model.named_modules():
            if isinstance(module, nn.RNNBase) and not module.batch_first:
                return UnsupportedModelError(
                    f"{path or 'model'} ({type(module).__name__}) takes the first axis, that of the batch, for time: "
                    "make it with batch_first=True."
                )
        return UnsupportedModelError(
            "The model's code makes a plain number of the batch size, so that it holds for one size only: a number "
            "written out, or int(...) of it. Use x.shape[0] as it is, or -1."
        )
    if isinstance(error, TypeError) and "argument" in text:
        return UnsupportedModelError(
            f"The model cannot be called with one input: {first.rstrip('.')}. Wrap it in a module that takes one "
            "tensor and fixes the rest."
        )
    return DidNotRun(
        f"The model could not be read with an example of shape {(1, *batch.shape[1:])} (batch "
        f"axis first): {kind}: {first}"
    )


@contextlib.contextmanager
def state_kept(device: torch.device) -> Iterator[None]:
    """Random states, warning filters and logging stay as they were; torch's own reports on stderr are not heard.

    Of a model that it cannot export, torch prints half a graph there; our error says what is wrong. Nor are hooks of
    all modules called, which would meet torch's own modules too.
    """
    python, disabled = random.getstate(), logging.root.manager.disable
    numpy = np.random.get_state()  # noqa: NPY002  (the state a model's own code may draw from)
    devices = [device] if device.type == "cuda" else []
    try:
        logging.disable(logging.CRITICAL)
        quiet = contextlib.redirect_stderr(io.StringIO())
        with torch.random.fork_rng(devices=devices), warnings.catch_warnings(), quiet, hooks_of_all_detached():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
