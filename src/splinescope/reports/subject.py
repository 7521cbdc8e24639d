"""What a report is about: the network, the data, and what several blocks need of both."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from ..complexity import data_spacing
from ..landscape.inputs import parameters_of
from ..network import SplineNetwork, trace
from ..network.network import module_of
from ..network.outputs import one_tensor
from ..network.readable import check_exact, check_mode
from ..support.checks import as_float64_array, as_rows, check_module, check_rows_of, running_on
from ..support.errors import InputError, UnsupportedModelError
from ..support.losses import LOSSES, Mean, behind, check_targets, class_numbers, fitting_targets, named_loss
from .block import NotApplicable

_TOLERANCE = 0.01  # of the outputs' range over the data
_RANGE_POINTS = 256

_TOKENS = (
    " For token ids give their embeddings, and a module that takes these; token_geometry takes the ids themselves."
)


@dataclass(frozen=True, eq=False)
class Subject:
    """A network with its data; `say` is called with what takes long, before it does."""

    model: nn.Module | SplineNetwork
    x: Tensor
    y: Tensor | None
    seed: int
    asked_loss: str | Mean | None = None
    say: Callable[[str], None] = lambda _: None

    @cached_property
    def refusal(self) -> str:
        """Why the network cannot be read as affine steps and folds; empty if it can."""
        return "" if isinstance(self._traced, SplineNetwork) else self._traced

    @cached_property
    def _traced(self) -> SplineNetwork | str:
        try:
            if isinstance(self.model, SplineNetwork):
                check_exact(self.model.program(), "It was traced with smooth=True.")
                return self.model
            return trace(self.model, self.x[:2])
        except UnsupportedModelError as error:
            return str(error)

    @property
    def network(self) -> SplineNetwork:
        """The network as affine steps and folds."""
        if isinstance(self._traced, str):
            raise NotApplicable(f"the network is not piecewise affine. {self._traced}")
        return self._traced

    @cached_property
    def near_network(self) -> tuple[SplineNetwork, float | None]:
        """The network to tile, and within which tolerance: None, or a share of the outputs' range over the data.

        The tolerance is for networks whose smooth activations are all that is in the way.
        """
        if not self.refusal:
            return self.network, None
        try:
            smooth = trace(self.model, self.x[:2], smooth=True)
        except UnsupportedModelError:
            return self.network, None  # refuses with what is in the way
        outputs = smooth(self.some(_RANGE_POINTS)).flatten(1)
        span = float((outputs.amax(0) - outputs.amin(0)).max())
        if span == 0:
            raise NotApplicable("the outputs are the same on all data points, so no tolerance can be chosen.")
        return smooth, _TOLERANCE * span

    @property
    def module(self) -> nn.Module:
        """The torch module, for what works on parameters."""
        if not self.parameters:
            raise NotApplicable("the network has no parameters that could be trained.")
        return module_of(self.model)

    @cached_property
    def parameters(self) -> dict[str, Tensor]:
        """What can be trained, by path; of a network read from a file, its constants."""
        return parameters_of(module_of(self.model))

    @cached_property
    def output(self) -> Tensor:
        """`[2, ...]` outputs of the whole model, endings included, on two inputs."""
        with torch.no_grad():
            if isinstance(self.model, SplineNetwork):
                return self.model(self.x[:2])
            return one_tensor(self.model(self.rows(self.x[:2])))

    def rows(self, x: Tensor) -> Tensor:
        """Inputs in the module's own dtype and on its device."""
        like = next((p for p in self.model.parameters()), None) if isinstance(self.model, nn.Module) else None
        return x if like is None else x.to(like.device, like.dtype if like.is_floating_point() else x.dtype)

    @cached_property
    def classes(self) -> Tensor | None:
        """`[N]` class numbers, or None if the targets are not classes."""
        return None if self.y is None else class_numbers(self.y, tuple(self.output.shape[1:]))

    @property
    def classifies(self) -> bool:
        """Whether outputs are scores of classes: so the targets say, or, without any, fewer outputs than inputs."""
        if self.y is not None:
            return self.classes is not None
        return self.output[0].numel() <= self.x[0].numel()

    def some(self, most: int) -> Tensor:
        """At most so many points, evenly spread over the data."""
        return self.x[self.spread(most)]

    def spread(self, most: int) -> Tensor:
        """The numbers of at most so many points, evenly spread over the data."""
        return torch.linspace(0, len(self.x) - 1, min(most, len(self.x))).round().long()

    @cached_property
    def spacing(self) -> float:
        """Median distance of a point to its nearest other point: the scale of "near"."""
        return data_spacing(self.x)

    @cached_property
    def loss(self) -> ChosenLoss:
        """The loss that was asked for, or the one that fits outputs and targets."""
        if self.y is None:
            raise NotApplicable("a loss needs targets: give y.")
        shape = tuple(self.output.shape[1:])
        ending = "" if isinstance(self._traced, str) else self._traced.ending or ""
        if self.asked_loss is not None and not isinstance(self.asked_loss, str):
            return ChosenLoss(getattr(self.asked_loss, "__name__", "your loss"), self.asked_loss, self.y, "loss", "y")
        name, why = (self.asked_loss, "as asked") if self.asked_loss is not None else self._fitting_loss(shape)
        targets = fitting_targets(name, self.y, shape, self.rows(self.x[:1]).dtype)
        loss, call = behind(name, ending)
        try:
            check_targets(name, shape, targets)
        except InputError as error:
            raise NotApplicable(str(error)) from error
        places = " per place" if name == "cross_entropy" and len(shape) > 1 else ""
        return ChosenLoss(LOSSES[name].words + places, loss, targets, call, written(self.y, targets), why)

    def _fitting_loss(self, shape: tuple[int, ...]) -> tuple[str, str]:
        """The name of the loss that outputs of this shape and the targets suggest, and what suggests it."""
        assert self.y is not None
        if self.classes is not None:
            given = (
                "one-hot rows" if self.y.dim() == 2 and self.y.shape[1] > 1
                else "whole numbers" if self.y.is_floating_point() else "class numbers"
            )  # fmt: skip
            if math.prod(shape) == 1:
                return "bce", f"y holds {given} and there is one output"
            return "cross_entropy", f"y holds {given}"
        if not self.y.is_floating_point() and tuple(self.y.shape[1:]) == shape[:-1]:
            return "cross_entropy", "y holds class numbers for each place"
        if self.y.numel() != len(self.y) * math.prod(shape):
            raise NotApplicable(f"the targets have shape {tuple(self.y.shape[1:])}, the outputs {shape}.")
        return "squared", "y holds numbers of the outputs' shape"


@dataclass(frozen=True, eq=False)
class ChosenLoss:
    """The loss of a report, its targets in the form it takes, how one writes both in a call, and what suggested it."""

    words: str
    loss: str | Mean
    targets: Tensor
    call: str
    call_y: str
    why: str = "as asked"

    def __str__(self) -> str:
        return f"{self.words} ({self.why})"


def written(y: Tensor | None, targets: Tensor) -> str:
    """How the targets of a loss are written in a call, from what was given."""
    assert y is not None
    if targets.shape == y.shape:
        return "y" if targets.is_floating_point() == y.is_floating_point() else "y.long()"
    if targets.dim() < y.dim():
        return "y.argmax(1)" if y.shape[1] > 1 else "y[:, 0].long()"
    if targets.numel() > y.numel():
        return f"y.new_ones({targets.shape[1]}).diag()[y.flatten().long()].float()"
    return f"y.reshape(len(y), {', '.join(map(str, targets.shape[1:]))}).float()"


def as_subject(model: Any, x: Any, y: Any, seed: int, loss: str | Mean | None = None) -> Subject:
    """Checked arguments of a report."""
    if loss is not None:
        named_loss(loss)
    if not isinstance(model, SplineNetwork):
        check_mode(check_module(model))
    points = x.detach().cpu() if isinstance(x, Tensor) else torch.from_numpy(as_float64_array(x, "x"))
    if not points.is_floating_point() or points.dim() < 2 or len(points) < 2:
        raise InputError(
            f"x must hold at least 2 floating-point inputs, shape (N, *input shape), got {points.dtype} of shape "
            f"{tuple(points.shape)}.{'' if points.is_floating_point() else _TOKENS}"
        )
    if not bool(points.isfinite().all()):
        raise InputError("x must be finite, got NaN or infinite values.")
    if isinstance(model, SplineNetwork):
        points = check_rows_of(points, model.input_shape, "x")
    targets = None if y is None else as_rows(y, "y").cpu()
    if targets is not None and (targets.dim() == 0 or len(targets) != len(points)):
        raise InputError(f"y must have one row per input, {len(points)} of them, got shape {tuple(targets.shape)}.")
    subject = Subject(model, points.float() if points.dtype == torch.float16 else points, targets, seed, loss)
    with running_on(subject.x, forward=False):
        _ = subject.output  # of several one must be chosen, before blocks are measured
    return subject
