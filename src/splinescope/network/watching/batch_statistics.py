"""Batch norm with the statistics of given data instead of its running averages, which lag behind the weights."""

import contextlib
from collections.abc import Iterator
from typing import Any, Literal

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ...support.checks import check_choice
from ...support.errors import InputError, SplinescopeError
from ..readable import floating_like, unwrap
from .intercept import Hooked
from .sites import Forward
from .undisturbed import undisturbed

Statistics = Literal["data", "running"]
"""Where a batch norm's mean and variance come from."""


def batch_norms(model: nn.Module) -> dict[str, Any]:
    """Path -> batch norm."""
    return {path: module for path, module in model.named_modules() if isinstance(module, _BatchNorm)}


def choose(statistics: Statistics | None, model: nn.Module, rows: int) -> Literal["data", "running", "none"]:
    """What is measured with: "none" without batch norm; else as asked; else the data's if there are two rows of it."""
    if statistics is not None:
        check_choice(statistics, "statistics", ("data", "running"))
    if not batch_norms(unwrap(model)):
        return "none"
    return statistics or ("data" if rows > 1 else "running")


def set_statistics_(model: nn.Module, rows: Tensor, forward: Forward | None = None) -> None:
    """Give batch norms mean and (biased) variance of their inputs on `rows`; a gradient may need the old tensors."""

    def hook(path: str) -> Any:
        def set_(norm: Any, inputs: tuple[Tensor, ...]) -> None:
            z = inputs[0].movedim(1, -1).reshape(-1, norm.num_features)
            if len(z) < 2:
                raise InputError(f"{path} needs at least 2 values per channel, got a batch of {len(rows)} row(s).")
            like = inputs[0] if norm.running_mean is None else norm.running_mean
            norm.track_running_stats = True
            centers = getattr(norm, "centers", None)  # of a norm that places its folds by another criterion
            norm.running_mean = (z.double().mean(0) if centers is None else centers(z.double())).to(like)
            norm.running_var = z.double().var(0, correction=0).to(like)

        return set_

    like = floating_like(model, rows)
    batch = rows.to(like.device, like.dtype)
    with undisturbed(model), Hooked(before=[(norm, hook(path)) for path, norm in batch_norms(model).items()]):
        try:
            model(batch) if forward is None else forward(model, batch)
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            if isinstance(error, SplinescopeError):
                raise
            shape = tuple(batch.shape[1:])
            raise InputError(f"the model does not take points of shape {shape}: {error}") from error


@contextlib.contextmanager
def statistics_of(model: nn.Module, rows: Tensor, forward: Forward | None = None) -> Iterator[None]:
    """The statistics of `rows` in the model's batch norms, for the time of the context; its own come back."""
    model = unwrap(model)
    kept = [
        (norm, norm.track_running_stats, norm.running_mean, norm.running_var) for norm in batch_norms(model).values()
    ]
    try:
        set_statistics_(model, rows, forward)
        yield
    finally:
        for norm, tracked, mean, variance in kept:
            norm.track_running_stats, norm.running_mean, norm.running_var = tracked, mean, variance


def measured_with(
    statistics: Literal["data", "running", "none"], model: nn.Module, rows: Tensor, forward: Forward | None = None
) -> contextlib.AbstractContextManager[None]:
    """The context of a measurement by what `choose` gave: the statistics of `rows`, or the model as it is."""
    return statistics_of(model, rows, forward) if statistics == "data" else contextlib.nullcontext()
