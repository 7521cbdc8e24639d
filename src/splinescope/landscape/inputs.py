"""What every function here is given: a model, which of its parameters are meant, data and their loss."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..network import SplineNetwork
from ..network.files.onnx import OnnxNetwork
from ..network.network import module_of
from ..network.outputs import Picked
from ..network.readable import check_mode
from ..support.checks import as_rows, check_whole
from ..support.derivatives import first_line
from ..support.errors import InputError, UnsupportedModelError, did_you_mean
from ..support.losses import Mean

Model = nn.Module | SplineNetwork
"""A module, or what `trace` and `load` make."""

Layers = str | Sequence[str] | None
"""A module path ("layer1.0.conv1"), parameter paths, or None for all parameters."""

Loss = str | Mean
"""A name of the package's losses, or a function (outputs, targets) -> mean over the rows."""


def check_model(model: object) -> nn.Module:
    """The module, refused where its layers are random or mix rows: in training mode, or without running statistics."""
    whole = module_of(model)
    check_mode(whole)
    for path, module in whole.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is None:
            raise UnsupportedModelError(
                f"{path or 'the model'} normalizes by the statistics of the batch, so its rows are mixed: give it "
                "running statistics (track_running_stats=True)."
            )
    return whole


def parameters_of(model: nn.Module) -> dict[str, Tensor]:
    """Floating-point parameters by path; of a network read from a file, its constants but those that prepare inputs."""
    named: dict[str, Tensor] = {path: p for path, p in model.named_parameters() if p.is_floating_point()}
    whole = model.whole if isinstance(model, Picked) else model
    if not named and isinstance(whole, OnnxNetwork):
        named = {path: whole.get_buffer(path) for path in whole.trained()}
    return named or {path: b for path, b in model.named_buffers() if b.is_floating_point()}


def precision_of(model: nn.Module) -> torch.dtype:
    """The dtype of the parameters; float32 of a model without any."""
    return next((p.dtype for p in parameters_of(model).values()), torch.float32)


def submodule(model: nn.Module, path: str) -> nn.Module:
    """A module by path; an error lists the possible ones."""
    modules = dict(model.named_modules())
    if not isinstance(path, str) or path not in modules:
        near = did_you_mean(path, [*filter(None, modules), *parameters_of(model)])
        raise InputError(f"layer must be a module path ({', '.join(filter(None, modules))}), got {path!r}{near}")
    return modules[path]


def chosen_parameters(model: nn.Module, layer: Layers) -> list[str]:
    """Paths of the parameters a layer argument means, in the model's order."""
    names = list(parameters_of(model))
    if layer is None:
        chosen = names
    elif isinstance(layer, str) and layer not in names:
        submodule(model, layer)
        chosen = [name for name in names if layer == "" or name.startswith(f"{layer}.")]  # "" is the model itself
    else:
        wanted = [layer] if isinstance(layer, str) else list(layer)
        unknown = [name for name in wanted if name not in names]
        if unknown:
            raise InputError(f"layer must name parameters, got {unknown[0]!r}; there are: {', '.join(names)}.")
        chosen = [name for name in names if name in wanted]
    if not chosen:
        has = f"; parameters are: {', '.join(names)}" if names and layer is not None else ""
        raise InputError(f"layer must have parameters, got {layer!r}, which has none{has}.")
    return chosen


def state_in(model: nn.Module, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    """Parameters and buffers by path, copied to a dtype; whole-number buffers as they are."""
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {k: v.detach().to(dtype, copy=True) if v.is_floating_point() else v.clone() for k, v in state.items()}


def check_points(x: Any, dtype: torch.dtype, device: torch.device | str = "cpu", *, whole: bool = False) -> Tensor:
    """At least one finite input, `[N, ...]`; whole numbers become floats unless `whole`: see `fitting_inputs`."""
    inputs = _finite(x, "x")
    if len(inputs) == 0:
        raise InputError(f"x must hold at least one point, shape (N, ...), got shape {tuple(inputs.shape)}.")
    return inputs.to(device) if whole and not inputs.is_floating_point() else inputs.to(device, dtype)


def check_data(
    x: Any, y: Any, dtype: torch.dtype, device: torch.device | str = "cpu", *, whole: bool = False
) -> tuple[Tensor, Tensor]:
    """Inputs `[N, ...]` (see `check_points`) and as many targets; class numbers stay whole numbers."""
    inputs, targets = check_points(x, dtype, device, whole=whole), _finite(y, "y")
    if len(targets) != len(inputs):
        raise InputError(f"y must have one row per point of x, shape ({len(inputs)}, ...), got {tuple(targets.shape)}.")
    return inputs, targets.to(device, dtype) if targets.is_floating_point() else targets.to(device)


def _finite(value: Any, name: str) -> Tensor:
    rows = as_rows(value, name)
    if rows.is_floating_point() and not bool(rows.isfinite().all()):
        raise InputError(f"{name} must be finite, got {int((~rows.isfinite()).sum())} NaN or infinite values.")
    return rows


def fitting_inputs(model: Callable[[Tensor], Tensor], x: Tensor, dtype: torch.dtype) -> tuple[Tensor, tuple[int, ...]]:
    """`x` as the model takes it, and the shape of one output, by running the first point.

    Whole numbers stay whole where the model takes them so (token ids); a model that does not (pixels as bytes into a
    convolution) gets floats.
    """
    if not x.is_floating_point():
        try:
            return x, _shape(model, x)
        except InputError as whole:
            try:
                return x.to(dtype), _shape(model, x.to(dtype))
            except InputError as floats:
                raise InputError(f"as whole numbers: {whole} As floats: {floats}") from floats
    return x, _shape(model, x)


def _shape(model: Callable[[Tensor], Tensor], x: Tensor) -> tuple[int, ...]:
    try:
        with torch.no_grad():
            result = model(x[:1])
    except UnsupportedModelError:
        raise  # it runs, and which of its outputs is meant is not known
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        raise InputError(
            f"x must hold points that the model takes, got {x.dtype} points of shape {tuple(x.shape[1:])}: "
            f"{first_line(error)}"
        ) from error
    if not isinstance(result, Tensor) or result.dim() == 0 or len(result) != 1:
        got = f"shape {tuple(result.shape)} for one point" if isinstance(result, Tensor) else type(result).__name__
        raise InputError(f"the model must return a tensor with a row per point, got {got}.")
    return tuple(result.shape[1:])


def batches(x: Tensor, y: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The data, `size` points at a time."""
    return zip(x.split(size), y.split(size), strict=True)


def check_batch_size(batch_size: int | None, default: int = 256) -> int:
    return default if batch_size is None else check_whole(batch_size, "batch_size")
