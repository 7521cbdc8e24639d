"""Losses by name: the one table of the package, with what each computes and which targets it takes."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from .errors import InputError, did_you_mean

Mean = Callable[[Tensor, Tensor], Tensor]
"""A function (outputs, targets) -> mean over the rows."""


@dataclass(frozen=True)
class Loss:
    """A loss `l(f, y)` per data point, convex in `f` for the theorems, and its slope `dl/df`; shapes (N,)."""

    name: str
    value: Callable[[Tensor, Tensor], Tensor]
    slope: Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class NamedLoss:
    """What a name in `LOSSES` stands for.

    Attributes:
        words: How a report calls it.
        takes: Its targets: numbers of the outputs' shape, class numbers, labels 0 and 1, or signs -1 and 1.
        total: (outputs, targets) -> sum over the rows, so that batches add up.
        root: `[N, C]` outputs -> `[N, C, C]` R with `R R^T` the Hessian of a row's loss; independent of the targets.
        of_number: The same of networks with one output, its slope in closed form; None if there is no such thing.
    """

    words: str
    takes: Literal["numbers", "classes", "labels", "signs"]
    total: Callable[[Tensor, Tensor], Tensor]
    root: Callable[[Tensor], Tensor]
    of_number: Loss | None = None


def squared(outputs: Tensor, targets: Tensor) -> Tensor:
    """Sum over the points of the squared distance of output and target."""
    return (outputs - targets).square().sum()


def _cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Sum over the points of the cross-entropy with class numbers or distributions; the mean over places, if any."""
    flat = targets.flatten(0, -2) if targets.is_floating_point() else targets.flatten()
    places = max(1, outputs[:1, ..., 0].numel())
    return F.cross_entropy(outputs.flatten(0, -2), flat, reduction="sum") / places


def _binary(outputs: Tensor, targets: Tensor) -> Tensor:
    wanted = targets.reshape(outputs.shape).to(outputs.dtype)
    return F.binary_cross_entropy_with_logits(outputs, wanted, reduction="sum") / max(1, outputs[:1].numel())


def _scaled_identity(outputs: Tensor, factor: float) -> Tensor:
    one = torch.eye(outputs.shape[1], dtype=outputs.dtype, device=outputs.device)
    return factor**0.5 * one.expand(len(outputs), -1, -1)


def _softmax_root(outputs: Tensor) -> Tensor:
    p = outputs.softmax(1)
    return torch.diag_embed(p.sqrt()) - p[:, :, None] * p.sqrt()[:, None, :]  # R R^T = diag(p) - p p^T


def _sigmoid_root(outputs: Tensor, share: float = 1.0) -> Tensor:
    p = outputs.sigmoid()
    return torch.diag_embed((share * p * (1 - p)).sqrt())


LOSSES: dict[str, NamedLoss] = {
    "squared": NamedLoss(
        "squared error", "numbers", squared, lambda f: _scaled_identity(f, 2.0),
        Loss("squared", lambda f, y: 0.5 * (f - y) ** 2, lambda f, y: f - y),
    ),
    "mse": NamedLoss(
        "mean squared error", "numbers", lambda f, y: squared(f, y) / max(1, f[:1].numel()),
        lambda f: _scaled_identity(f, 2.0 / f.shape[1]),
        Loss("mse", lambda f, y: (f - y) ** 2, lambda f, y: 2 * (f - y)),
    ),
    "cross_entropy": NamedLoss("cross-entropy", "classes", _cross_entropy, _softmax_root),
    "bce": NamedLoss(
        "binary cross-entropy", "labels", _binary, lambda f: _sigmoid_root(f, 1 / f.shape[1]),
        Loss("bce", lambda f, y: F.softplus(f) - y * f, lambda f, y: torch.sigmoid(f) - y),
    ),
    "logistic": NamedLoss(
        "logistic loss", "signs", lambda f, y: F.softplus(-y.reshape(f.shape).to(f.dtype) * f).sum(), _sigmoid_root,
        Loss("logistic", lambda f, y: torch.logaddexp(-y * f, torch.zeros_like(f)),
             lambda f, y: -y * torch.sigmoid(-y * f)),
    ),
}  # fmt: skip
"""Name -> loss. "squared" is the squared distance of a row (mean-field theory takes half of it), "mse" and "bce" are
torch's `MSELoss` and `BCEWithLogitsLoss`, which average over a row's outputs; "logistic" has labels -1 and 1."""


def named_loss(loss: Any, *, functions: bool = True) -> NamedLoss | None:
    """The loss of that name; None for a function, where those are taken. What is neither is refused."""
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss]
    if functions and callable(loss):
        return None
    names = ", ".join(map(repr, LOSSES)) + (" or a function (outputs, targets)" if functions else "")
    raise InputError(f"loss must be one of {names}, got {loss!r}{did_you_mean(loss, LOSSES)}")


def summed(loss: str | Mean) -> Callable[[Tensor, Tensor], Tensor]:
    """The loss as a sum over the rows of a batch, so that batches add up."""
    known = named_loss(loss)
    if known is not None:
        return known.total
    assert callable(loss)
    return lambda outputs, targets: loss(outputs, targets) * len(outputs)


def check_targets(loss: str | Mean, outputs: tuple[int, ...], targets: Tensor) -> Tensor:
    """Targets that fit the named loss and one output of the network of this shape."""
    known = named_loss(loss)
    if known is None:
        return targets
    if known.takes == "classes":
        return _check_classes(outputs, targets)
    if known.takes == "numbers":
        if targets.shape[1:] != outputs:
            hint = "" if targets.is_floating_point() else "; for classes pass loss='cross_entropy' or their one_hot"
            raise InputError(
                f"y must have the shape of the outputs for the {known.words}, (N, {', '.join(map(str, outputs))}), "
                f"got {tuple(targets.shape)}{hint}."
            )
        return targets if targets.is_floating_point() else targets.to(torch.float64)
    low, high = (0, 1) if known.takes == "labels" else (-1, 1)
    if targets.numel() != len(targets) * math.prod(outputs):
        raise InputError(
            f"y must have a label for each output, shape (N, {', '.join(map(str, outputs))}), for the {known.words}, "
            f"got {tuple(targets.shape)}."
        )
    bad = (targets < low) | (targets > high) if known.takes == "labels" else targets.abs() != 1
    if bool(bad.any()):
        raise InputError(
            f"y must be labels {low} {'to' if known.takes == 'labels' else 'and'} {high} for the {known.words}, got "
            f"{float(targets[bad][0]):g}."
        )
    return targets.reshape(len(targets), *outputs).to(targets.dtype if targets.is_floating_point() else torch.float64)


def _check_classes(outputs: tuple[int, ...], targets: Tensor) -> Tensor:
    """Class numbers `[N, *places]`, or as many distributions over the classes as there are places."""
    if targets.is_floating_point() and targets.shape[1:] == outputs and outputs:
        if bool(((targets.sum(-1) - 1).abs() > 1e-3).any()) or bool((targets < 0).any()):
            raise InputError("y must be class numbers, or rows of probabilities that sum to 1, for the cross-entropy.")
        return targets
    if targets.is_floating_point() or targets.shape[1:] != outputs[:-1]:
        wanted = ", ".join(["N", *map(str, outputs[:-1])]) + ("," if len(outputs) < 2 else "")
        raise InputError(
            f"y must be class numbers of shape ({wanted}) for the cross-entropy, got {targets.dtype} of shape "
            f"{tuple(targets.shape)}."
        )
    if not outputs or int(targets.min()) < 0 or int(targets.max()) >= outputs[-1]:
        raise _not_classes(targets, outputs)
    return targets.long()


def _not_classes(y: Tensor, outputs: tuple[int, ...]) -> InputError:
    last = outputs[-1] - 1 if outputs else 0
    return InputError(f"y must hold class numbers from 0 to {last}, got {int(y.min())} to {int(y.max())}.")


def class_numbers(y: Tensor, outputs: tuple[int, ...]) -> Tensor | None:
    """`[N]` class numbers that targets mean, by outputs of this shape: None if they are not classes.

    Whole numbers are, also as floats where there is an output for each class; so are one-hot rows, and labels 0 and 1
    for one output. Whole-number floats for one output are numbers to regress on.
    """
    width = math.prod(outputs)
    if y.dim() == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.dim() == 1:
        if not y.is_floating_point():
            return y.long()
        most = max(width, 2)
        whole = bool(((y == y.round()) & (y >= 0) & (y < most)).all())
        return y.long() if whole and (width > 1 or len(y.unique()) == 2) else None
    if y.dim() == 2 and tuple(y.shape[1:]) == tuple(outputs) and width > 1:
        one_hot = bool(((y == 0) | (y == 1)).all()) and bool((y.sum(1) == 1).all())
        return y.argmax(1) if one_hot else None
    return None


def fitting_targets(loss: str, y: Tensor, outputs: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Targets in the form that a named loss takes: class numbers as one-hot rows for squared errors, and back."""
    known = LOSSES[loss]
    classes = class_numbers(y, outputs)
    if known.takes == "classes":
        return y if classes is None else classes
    if known.takes == "numbers" and classes is not None and y.numel() == len(y) and math.prod(outputs) > 1:
        if int(classes.min()) < 0 or int(classes.max()) >= outputs[-1]:
            raise _not_classes(y, outputs)
        return F.one_hot(classes, outputs[-1]).to(dtype)
    return y.reshape(len(y), *outputs).to(dtype) if y.numel() == len(y) * math.prod(outputs) else y


def behind(loss: str, ending: str) -> tuple[str | Mean, str]:
    """The named loss of what a model returns behind an ending (a softmax), and how one writes it in a call."""
    if loss == "cross_entropy" and ending.endswith("log_softmax"):
        return F.nll_loss, "lambda p, y: -p.gather(1, y[:, None]).mean()"
    if loss == "cross_entropy" and ending.endswith("softmax"):
        return (
            lambda p, y: F.nll_loss(p.clamp_min(1e-30).log(), y),
            "lambda p, y: -p.gather(1, y[:, None]).clamp_min(1e-30).log().mean()",
        )
    if loss == "bce" and ending.endswith("sigmoid"):
        return (
            lambda p, y: F.binary_cross_entropy(p, y.reshape(p.shape).to(p.dtype)),
            "lambda p, y: -(p.clamp_min(1e-30).log() * y.reshape(p.shape) "
            "+ (1 - p).clamp_min(1e-30).log() * (1 - y.reshape(p.shape))).mean()",
        )
    return loss, repr(loss)
