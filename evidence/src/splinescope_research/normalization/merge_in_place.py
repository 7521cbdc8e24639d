"""Batch norm merged into its neighbors in place, in the middle of training, or not at all."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import Optimizer

from splinescope.network.readable import unwrap
from splinescope.network.watching.batch_statistics import Forward, set_statistics_
from splinescope.normalization._data import raw_batches
from splinescope.normalization.merge_copy import merged_by
from splinescope.support.checks import as_rows, running_on
from splinescope.support.errors import InputError, SplinescopeError, UnsupportedModelError
from splinescope.support.evaluating import evaluating

from .optimizer_groups import Structure, check_optimizer, put_back_on_error, restructure_, structure_of
from .watched_calls import Run, outputs, watched

ROWS = 8
"""How many rows a model is run on to see that its outputs stay."""


def merge_batchnorm_(
    model: nn.Module,
    *,
    optimizer: Optimizer | None = None,
    statistics: Tensor | None = None,
    x: Any = None,
    forward: Forward | None = None,
) -> tuple[str, ...]:
    """Merge the batch norms of a model away in place, in the middle of training; in evaluation the function stays.

    The tensors of the layers that take them up keep their identity, so an optimizer goes on with them. What it
    remembers of those (moments) belonged to other coordinates and is forgotten; norms leave it, biases that had
    to be made join the group of their layer's weight, if that is in one and trained.

    Args:
        model: In training or evaluation mode, which it keeps.
        optimizer: The one that trains the model.
        statistics: `[N, ...]` data whose mean and variance the norms are merged with; their running averages if None.
        x: `[N, ...]` rows of input, `statistics` if None. On the first few of them the model is run: to see its calls
            (any code, any layers) and that its outputs stay what they were. Without either, calls are read as by
            `merge_batchnorm(model)`, which takes a norm after a `Linear` to act on its features; nothing is compared.
        forward: How to call the model, `(model, x) -> anything`; `model(x)` if None.

    Returns:
        Paths of the layers whose parameters changed.

    Raises:
        UnsupportedModelError: The outputs would not stay, or calls cannot be read; model and optimizer are as before.

    Example:
        >>> net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU())
        >>> merge_batchnorm_(net)
        ('0',)
    """
    check_normed(model)
    if optimizer is not None:
        check_optimizer(optimizer, unwrap(model))
    rows = None if statistics is None else statistics_rows(statistics)
    given = rows if x is None else input_rows(x)
    run = None if given is None else run_on(given, unwrap(model), forward)
    return merged_in_place(model, optimizer, rows, run, forward)[0]


def check_normed(model: nn.Module) -> None:
    """Refuse a model without batch norm."""
    norms = [path for path, module in unwrap(model).named_modules() if isinstance(module, _BatchNorm)]
    if not norms:
        raise InputError("model must have batch norm modules, found none: nothing to merge.")
    if "" in norms:
        raise InputError("model must contain its batch norms, got a batch norm itself: it cannot be replaced in place.")


def statistics_rows(statistics: Any) -> Tensor:
    """The data that norms are merged with, which must be some."""
    (rows,) = raw_batches(as_rows(statistics, "statistics"))
    if len(rows) < 2:
        raise InputError(f"statistics must hold at least 2 rows of input to have a variance, got {len(rows)}.")
    return rows


def input_rows(x: Any) -> Tensor:
    """The first rows of inputs, which may be whole numbers (tokens)."""
    rows = as_rows(x, "x")[:ROWS]
    if not len(rows):
        raise InputError("x must hold at least one row of input, got none.")
    if rows.is_floating_point():
        (rows,) = raw_batches(rows)
    return rows


def run_on(rows: Tensor, model: nn.Module, forward: Forward | None) -> Run:
    """How to run a model on the first of some rows."""
    rows = rows[:ROWS]
    like = next((p for p in model.parameters() if p.is_floating_point()), rows)
    rows = rows.to(like.device, like.dtype if rows.is_floating_point() else rows.dtype)

    def run(model: nn.Module) -> Any:
        with running_on(rows):
            return model(rows) if forward is None else forward(model, rows)

    return run


@torch.no_grad()
def merged_in_place(
    model: nn.Module, optimizer: Optimizer | None, statistics: Tensor | None, run: Run | None, forward: Forward | None
) -> tuple[tuple[str, ...], Structure]:
    """Paths of the layers that changed, and what is built otherwise now."""
    module = unwrap(model)
    with put_back_on_error(module, optimizer):
        if statistics is not None:
            try:
                set_statistics_(module, statistics, forward)
            except InputError as error:
                shape = tuple(statistics.shape[1:])
                raise InputError(f"statistics must be rows of the model's input, got shape {shape}: {error}") from error
        before = None if run is None else outputs(module, run)
        with evaluating(module):
            merged = _read(module) if run is None else merged_by(module, lambda copy: watched(copy, run))
        changed = [path for path, made in merged.named_modules() if _differ(module, path, made)]
        structure = structure_of(module, merged)
        restructure_(module, structure, optimizer)
        for path in [*changed, *(path for path, scaled in structure.norms.items() if scaled)]:
            for name, value in merged.get_submodule(path).named_parameters(recurse=False):
                mine = module.get_submodule(path).get_parameter(name)
                mine.copy_(value)
                if optimizer is not None:
                    optimizer.state.pop(mine, None)
        if run is not None and before is not None:
            _check_same(module, run, before)
    return tuple(changed), structure


def _read(model: nn.Module) -> nn.Module:
    """Merged by calls that are read without an input."""
    try:
        return merged_by(model)
    except UnsupportedModelError as error:
        raise UnsupportedModelError(
            f"{error} With x=, rows of input, and forward= where model(x) is not how it is called, as in "
            "forward=lambda m, x: m(pixel_values=x), it is run instead, and any code will do."
        ) from error


def _differ(model: nn.Module, path: str, made: nn.Module) -> bool:
    """Whether merging changed the parameters that a module itself owns; a norm has none any more."""
    own = model.get_submodule(path)
    if isinstance(own, _BatchNorm):
        return False
    before, after = (dict(m.named_parameters(recurse=False)) for m in (own, made))
    return before.keys() != after.keys() or any(not torch.equal(before[k], after[k]) for k in before)


def _check_same(model: nn.Module, run: Run, before: list[Tensor]) -> None:
    """Refuse outputs that differ from those before by more than rounding."""
    advice = (
        "Model and optimizer are as they were. A forward that looks at its norms themselves (their kind, weights or "
        "statistics) cannot do without them: write it without, merge only the part that does "
        "(MergeAway(model.part, ...)), or train on with the norms."
    )
    try:
        after = outputs(model, run)
    except Exception as error:  # the model's own code, which may miss its norms in any way
        if isinstance(error, SplinescopeError) and not isinstance(error, InputError):
            raise
        said = (str(error).splitlines() or [""])[0]
        raise UnsupportedModelError(
            f"Without its batch norms the model no longer runs ({type(error).__name__}: {said}). {advice}"
        ) from error
    for old, new in zip(before, after, strict=True):
        kinds = [old.dtype, *(p.dtype for p in model.parameters() if p.is_floating_point())]
        rounding = min(0.25, 3 * max(torch.finfo(kind).eps for kind in kinds) ** 0.5)
        finite = old[old.isfinite()].abs()
        scale = float(finite.max()) if finite.numel() else 0.0
        if old.shape != new.shape or not torch.allclose(new, old, rtol=0, atol=rounding * scale, equal_nan=True):
            off = float((new - old).abs().max()) if old.shape == new.shape else float("nan")
            raise UnsupportedModelError(
                f"Merging batch norm away changed what the model computes, by up to {off:.3g} in outputs of up to "
                f"{scale:.3g}: more than rounding. {advice}"
            )
