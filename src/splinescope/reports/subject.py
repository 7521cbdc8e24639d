"""What a report is about: the network, the data, and what several blocks need of both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from .._checks import as_float64_array, as_rows, check_rows_of, running_on
from .._errors import InputError, UnsupportedModelError
from ..complexity import data_spacing
from ..landscape.parameters import parameters_of
from ..network import SplineNetwork, trace
from ..network.export import check_mode
from ..network.module import module_of
from ..network.outputs import one_tensor
from ..network.program import Smooth
from .block import NotApplicable

_TOLERANCE = 0.01  # of the outputs' range over the data
_RANGE_POINTS = 256

_TOKENS = (
    " For token ids give their embeddings, and a module that takes these; token_geometry takes the ids themselves."
)

Loss = str | Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Subject:
    """A network with its data.

    Attributes:
        model: The module, or a network that was read from a file.
        x: `[N, *input shape]` inputs.
        y: `[N, ...]` class numbers or targets, or None.
        seed: Of everything random in a report.
    """

    model: nn.Module | SplineNetwork
    x: Tensor
    y: Tensor | None
    seed: int

    @cached_property
    def refusal(self) -> str:
        """Why the network cannot be read as affine steps and folds; empty if it can."""
        return "" if isinstance(self._traced, SplineNetwork) else self._traced

    @cached_property
    def _traced(self) -> SplineNetwork | str:
        if isinstance(self.model, SplineNetwork):
            soft = [step.site for step in self.model.program().steps if isinstance(step, Smooth)]
            named = ", ".join(f"{site.path or 'model'} ({site.op})" for site in soft)
            return f"It was traced with smooth activations: {named}." if soft else self.model
        try:
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
        outputs = smooth(self.some(_RANGE_POINTS)[0]).flatten(1)
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

    @property
    def classes(self) -> Tensor | None:
        """`[N]` class numbers, or None if the targets are not classes."""
        if self.y is None or self.y.dim() != 1 or self.y.is_floating_point():
            return None
        return self.y

    @property
    def classifies(self) -> bool:
        """Whether outputs are scores of classes: so the targets say, or, without any, fewer outputs than inputs."""
        if self.y is not None:
            return self.classes is not None
        return self.output[0].numel() <= self.x[0].numel()

    def some(self, most: int) -> tuple[Tensor, Tensor | None]:
        """At most so many points, evenly spread over the data, with their targets."""
        count = min(most, len(self.x))
        rows = torch.linspace(0, len(self.x) - 1, count).round().long()
        return self.x[rows], None if self.y is None else self.y[rows]

    @cached_property
    def spacing(self) -> float:
        """Median distance of a point to its nearest other point: the scale of "near"."""
        return data_spacing(self.x)

    @cached_property
    def loss(self) -> tuple[str, Loss]:
        """The loss that fits outputs and targets: its name, and what computes it."""
        if self.y is None:
            raise NotApplicable("a loss needs targets: give y.")
        ending = "" if isinstance(self._traced, str) else self._traced.ending or ""
        width = self.output.flatten(1).shape[1]
        if self.classes is not None and width == 1:
            return "binary cross-entropy", _binary(ending)
        if self.classes is not None:
            return "cross-entropy", _multiclass(ending)
        if not self.y.is_floating_point() and self.y.shape[1:] == self.output.shape[1:-1]:
            return "cross-entropy per place", _per_place
        if self.y.numel() != len(self.y) * self.output[0].numel():
            raise NotApplicable(
                f"the targets have shape {tuple(self.y.shape[1:])}, the outputs {tuple(self.output.shape[1:])}."
            )
        return "squared error", _squared


def _squared(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean over the rows of the squared distance; a column of targets may come without its axis."""
    return (outputs.flatten(1) - targets.reshape(len(targets), -1).to(outputs.dtype)).square().sum(1).mean()


def _per_place(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy of sequences: class numbers `[N, T]` against scores `[N, T, classes]`."""
    return nn.functional.cross_entropy(outputs.flatten(0, -2), targets.flatten())


def _multiclass(ending: str) -> Loss:
    if ending.endswith("log_softmax"):
        return lambda outputs, targets: nn.functional.nll_loss(outputs, targets)
    if ending.endswith("softmax"):
        return lambda outputs, targets: nn.functional.nll_loss(outputs.clamp_min(1e-30).log(), targets)
    return "cross_entropy"


def _binary(ending: str) -> Loss:
    entropy = nn.functional.binary_cross_entropy
    with_logits = nn.functional.binary_cross_entropy_with_logits
    chosen = entropy if ending.endswith("sigmoid") else with_logits
    return lambda outputs, targets: chosen(outputs.reshape(-1), targets.to(outputs.dtype))


def as_subject(model: Any, x: Any, y: Any, seed: int) -> Subject:
    """Checked arguments of a report."""
    if not isinstance(model, nn.Module | SplineNetwork):
        raise InputError(f"model must be a torch.nn.Module or the result of trace or load, got {type(model).__name__}.")
    if isinstance(model, nn.Module):
        check_mode(model)
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
    subject = Subject(model, points.float() if points.dtype == torch.float16 else points, targets, seed)
    with running_on(subject.x, forward=False):
        _ = subject.output  # of several one must be chosen, before blocks are measured
    return subject
