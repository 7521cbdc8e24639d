"""From the user's module to an exported graph, without leaving a trace on the module."""

import contextlib
import functools
import importlib
import inspect
import io
import logging
import re
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses import fake_tensor

from splinescope.support.errors import SplinescopeError, UnsupportedModelError
from splinescope.support.interrupt import held_back

from ..ops.refused import RECURRENT
from ..watching.calls import Composed
from ..watching.undisturbed import exportable, state_kept
from .rewrites import make_functional, rewrite_softshrink, rewrite_softsign, rewrite_written_out


def export(model: nn.Module, batch: Tensor) -> Any:
    """The `ExportedProgram` of `model`, in-place ops removed, layers kept whole, the batch size free."""
    _load_exporter()
    with state_kept(batch.device), _silent(), exportable(model) as twin, torch.no_grad(), Composed():
        try:
            exported = _exported(twin, batch)
            inputs = exported.graph_signature.user_inputs
            first = next(node for node in exported.graph.nodes if node.name in inputs)
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
    """Export with a free batch size; a second time, `readable`, where code asks for `len(x)` or values of constants."""
    dynamic: tuple[Any, ...] = ({0: torch.export.Dim.DYNAMIC},)
    first = next(iter(inspect.signature(model.forward).parameters.values()), None)
    if first is not None and first.kind is inspect.Parameter.VAR_POSITIONAL:
        dynamic = (dynamic,)
    try:
        return torch.export.export(model, (batch,), dynamic_shapes=dynamic, strict=False)
    except Exception as error:
        if not fixes_batch(error) and not asks_for_values(error):
            raise
        with readable(model):
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
def readable(model: nn.Module) -> Iterator[None]:
    """`len(x)` of a tensor is `x.shape[0]` in the files of a model's code, and torch keeps values of more constants."""
    held = [each for module in model.modules() for each in (*type(module).__mro__, *vars(module).values())]
    files = {str(getattr(each, "__module__", "")) for each in held} & sys.modules.keys()
    theirs = [vars(sys.modules[file]) for file in files if file.partition(".")[0] not in _NOT_THEIRS]
    tables = [table for table in theirs if "len" not in table]
    constants = fake_tensor.CONSTANT_NUMEL_LIMIT
    try:
        for table in tables:
            table["len"] = _length
        fake_tensor.CONSTANT_NUMEL_LIMIT = _CONSTANTS_UP_TO
        yield
    finally:
        fake_tensor.CONSTANT_NUMEL_LIMIT = constants
        for table in tables:
            del table["len"]


_NOT_THEIRS = {"torch", *sys.stdlib_module_names}


def _length(value: Any, /) -> Any:
    return value.shape[0] if isinstance(value, Tensor) and value.dim() else len(value)


class DidNotRun(UnsupportedModelError):
    """The model raised an error on the example; most likely the example is not of its inputs' shape."""


def refusal(error: Exception, batch: Tensor, model: nn.Module) -> UnsupportedModelError:
    """What a failed export means for the user."""
    kind, text = type(error).__name__, str(error).strip()
    first = re.sub(r"\bs\d+\b", "N", text.splitlines()[0]) if text else kind  # torch's symbols for the batch size
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
            if isinstance(module, nn.RNNBase):  # whose first axis may be time
                return UnsupportedModelError(f"{path or 'model'} ({type(module).__name__}) {RECURRENT}")
        return UnsupportedModelError(
            "The model's code makes a plain number of the batch size, so that it holds for one size only: a number "
            "written out, or int(...) or len(...) of it. Use x.shape[0] as it is, or -1."
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
def _silent() -> Iterator[None]:
    """Torch's own reports are not heard: of a model that it cannot export it prints half a graph."""
    disabled = logging.root.manager.disable
    try:
        logging.disable(logging.CRITICAL)
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(disabled)
