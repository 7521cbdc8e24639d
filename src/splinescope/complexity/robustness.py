"""`robustness`: accuracy under attack, and whether gradients hide the weakness."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..network import SplineNetwork
from ..network.outputs import one_tensor
from ..network.readable import check_readable, floating_like
from ..network.watching.sites import Forward
from ..support.checks import as_rows, check_choice, check_module, check_positive, check_whole, running_on
from ..support.display import Result, table
from ..support.errors import InputError
from ..support.evaluating import evaluating
from ..support.progress import Progress, check_progress, sharing
from .attacks import Norm, Scores, margins, pgd, random_search

_HIDDEN = 0.1
"""Share of points beyond which what the gradient attack missed is a sign of masking. Local maxima alone cost it up to
5% where exact distances tell (2-D, four starts); masked gradients cost tens of percent."""


@dataclass(frozen=True, eq=False, repr=False)
class Robustness(Result):
    """Accuracy under attack. Upper bounds: a better attack may break more points, never fewer.

    Attributes:
        norm: "linf" or "l2".
        epsilons: `[E]` sizes of the perturbations.
        right: `[N]` bool: points classified rightly without attack.
        gradient: `[E]` accuracy under PGD.
        search: `[E]` accuracy under the gradient-free random search.
        transfer: `[E]` accuracy under the points that break other models; None if no others were given.
        survived: `[E, N]` bool: points that all attacks left right.
        zero_gradients: Share of rightly classified points at which the margin has no gradient at all.
        signs: Signs of gradient masking, in words; empty if there are none.
    """

    norm: Norm
    epsilons: Tensor
    right: Tensor
    gradient: Tensor
    search: Tensor
    transfer: Tensor | None
    survived: Tensor
    zero_gradients: float
    signs: tuple[str, ...]
    certainty = "bound"

    @property
    def clean(self) -> float:
        """Accuracy without attack."""
        return float(self.right.double().mean())

    @property
    def accuracy(self) -> Tensor:
        """`[E]` share of points that all attacks left right."""
        return self.survived.double().mean(1)

    @property
    def masked(self) -> bool:
        """Whether the gradient hides weakness: then accuracy under PGD alone is not robustness."""
        return bool(self.signs)

    def summary(self) -> str:
        """A table by size of the perturbation, and any signs of masking."""
        columns = {"accuracy": self.accuracy, "gradient attack": self.gradient, "random search": self.search}
        columns |= {} if self.transfer is None else {"transferred": self.transfer}
        rows = [("epsilon", *columns)]
        for values in zip(self.epsilons, *columns.values(), strict=True):
            e, *shares = (float(value) for value in values)
            rows.append((f"{e:g}", *(f"{share:.3f}" for share in shares)))
        masked = "".join(f"\nSign of masked gradients: {sign}." for sign in self.signs)
        return (
            f"{self.norm}, {self.survived.shape[1]} points, clean accuracy {self.clean:.3f}\n{table(rows)}{masked}\n"
            "Upper bounds: a better attack may break more points, never fewer."
        )

    def __repr__(self) -> str:
        under = ", ".join(
            f"{e:g}: {a:.3f}" for e, a in zip(self.epsilons.tolist(), self.accuracy.tolist(), strict=True)
        )
        return f"Robustness({self.norm}, clean {self.clean:.3f}, {under}{', MASKED GRADIENTS' if self.masked else ''})"


def robustness(
    model: nn.Module | SplineNetwork, x: Any, y: Any, *, epsilons: Sequence[float] | float, norm: Norm = "linf",
    steps: int = 20, restarts: int = 2, queries: int = 200, transfer_from: Sequence[nn.Module | SplineNetwork] = (),
    bounds: tuple[float, float] | None = None, forward: Forward | None = None,
    generator: torch.Generator | None = None, batch_size: int = 1024, progress: Progress | bool | None = None,
) -> Robustness:  # fmt: skip
    """Accuracy of a classifier under perturbations of given sizes.

    Each point is attacked by projected gradient descent on the margin and by a random search that sees scores only.
    Where the second breaks points that the first cannot, or the margin has no gradient, or accuracy does not fall
    although the perturbation is as large as the data themselves, gradients are masked and the result says so.

    Args:
        model: A torch module, or the result of `trace` or `load`. Gives scores `[N, C]`; the class is
            the largest (one score: 1 where it is positive). Its mode is kept.
        x: `[N, *input shape]`.
        y: `[N]` right classes.
        epsilons: Sizes, each > 0.
        norm: "linf" or "l2".
        steps: Gradient steps of PGD.
        restarts: Starts of PGD, the first at the point itself, the others random.
        queries: Proposals of the random search per point.
        transfer_from: Other models of the same inputs and classes, such as other checkpoints: points that gradient
            descent finds against them are tried on this one. Breaking more than its own gradient is a sign of masking.
        bounds: (low, high) of valid inputs.
        forward: How to call the model, `(model, x) -> scores`.
        generator: Source of random starts; a fresh one with seed 0 if None.
        batch_size: Points attacked at once.
        progress: None: shown once it takes a few seconds; True, False, or a function of (share done, what it is at).

    Returns:
        Accuracies, which points survive, and signs of masking. Upper bounds; `Tiling.margin` is exact in 2-D.

    Cost: `restarts * steps` passes forward and backward (again for each model of `transfer_from`) and `queries` forward
    per point and epsilon; points already broken at a smaller epsilon are not attacked again.

    Example:
        >>> net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
        >>> robustness(net, torch.rand(8, 2), torch.zeros(8, dtype=torch.long), epsilons=[0.1]).accuracy.shape
        torch.Size([1])

    References: Madry et al. 2018 (PGD); Andriushchenko et al. 2020 (Square); Athalye, Carlini, Wagner 2018 (masking).
    """
    model = _module(model, "model")
    others = [_module(other, "transfer_from") for other in transfer_from]
    check_progress(progress)
    check_choice(norm, "norm", ("linf", "l2"))
    sizes = [check_positive(e, "epsilons") for e in np.atleast_1d(np.asarray(epsilons)).tolist()]
    steps, restarts, queries = (
        check_whole(value, name) for value, name in ((steps, "steps"), (restarts, "restarts"), (queries, "queries"))
    )
    check_whole(batch_size, "batch_size")
    if bounds is not None and not bounds[0] < bounds[1]:
        raise InputError(f"bounds must be (low, high) with low < high, got {bounds!r}.")
    order = sorted(range(len(sizes)), key=sizes.__getitem__)
    generator = generator or torch.Generator().manual_seed(0)
    with contextlib.ExitStack() as stack:
        for module in (model, *others):
            stack.enter_context(evaluating(module))
        share = stack.enter_context(sharing(progress, "attacks"))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.no_grad())  # the attack switches gradients on
        scores = class_scores(model, forward)
        sources = [class_scores(other, forward) for other in others]
        like = floating_like(model, torch.zeros(0))
        points = as_rows(x, "x").to(like.device, like.dtype)
        answers = as_rows(y, "y").to(points.device, torch.long)
        if not sizes or len(points) == 0 or answers.shape != (len(points),):
            raise InputError(
                f"expected N >= 1 points, as many y and at least one epsilon, got {tuple(points.shape)}, "
                f"{tuple(answers.shape)} and {len(sizes)}."
            )
        classes = scores(points[:1]).shape[1]
        if not bool(((answers >= 0) & (answers < classes)).all()):
            raise InputError(f"y must be classes 0 to {classes - 1}, got {int(answers.min())} to {int(answers.max())}.")
        if bounds is not None:
            slack = 1e-6 * (bounds[1] - bounds[0])  # of rounding
            if not bool(((points >= bounds[0] - slack) & (points <= bounds[1] + slack)).all()):
                span = f"{float(points.min()):g} to {float(points.max()):g}"
                raise InputError(f"x must lie within bounds {bounds!r}, got {span}.")
        parts = zip(points.split(batch_size), answers.split(batch_size), strict=True)
        right = torch.cat([margins(scores(some), classes) > 0 for some, classes in parts])
        standing = {name: right.clone() for name in ("gradient", "search", "transfer")}
        left = {name: torch.zeros(len(sizes), len(points), dtype=torch.bool) for name in standing}
        for number, (place, (name, kept)) in enumerate(itertools.product(order, standing.items())):
            epsilon, whole = sizes[place], len(order) * len(standing)
            parts = torch.nonzero(kept)[:, 0].split(batch_size)
            for part, b in enumerate(parts):
                share((number + part / len(parts)) / whole)
                if name != "search":
                    for source in [scores] if name == "gradient" else sources:
                        moved = pgd(source, points[b], answers[b], epsilon, norm=norm, steps=steps,
                                    restarts=restarts, bounds=bounds, generator=generator,
                                    to_the_end=name == "transfer")  # fmt: skip
                        kept[b] &= margins(scores(moved), answers[b]) > 0
                else:
                    moved = random_search(scores, points[b], answers[b], epsilon, norm=norm, queries=queries,
                                          bounds=bounds, generator=generator)  # fmt: skip
                    kept[b] = margins(scores(moved), answers[b]) > 0
            left[name][place] = kept.cpu()
        flat = _without_gradient(scores, points, answers, right, batch_size)
    gradient, search, transfer = (left[name].double().mean(1) for name in left)
    survived = left["gradient"] & left["search"] & left["transfer"]
    found = Robustness(
        norm, torch.tensor(sizes, dtype=torch.float64), right.cpu(), gradient, search, transfer if others else None,
        survived, flat, (),
    )  # fmt: skip
    missed = {
        "random search breaks": (left["gradient"] & ~left["search"]).double().mean(1),
        "points that break other models break": (left["gradient"] & ~left["transfer"]).double().mean(1),
    }
    return replace(found, signs=_signs(found, missed, _spread(points, norm)))


def _module(model: Any, name: str) -> nn.Module:
    if isinstance(model, SplineNetwork):
        model = model.module
    module = check_module(model, name)
    check_readable(module, scripted=True)  # attacks need gradients
    return module


def _signs(found: Robustness, missed: dict[str, Tensor], spread: float) -> tuple[str, ...]:
    """What speaks for masked gradients."""
    signs = []
    for what, hidden in missed.items():
        worst = int(hidden.argmax())
        if float(hidden[worst]) > _HIDDEN:
            share, size = float(hidden[worst]), float(found.epsilons[worst])
            signs.append(f"{what} {share:.1%} of all points, which the gradient attack misses, at {size:g}")
    if found.zero_gradients > _HIDDEN:
        signs.append(f"the margin has no gradient at {found.zero_gradients:.1%} of the rightly classified points")
    largest = int(found.epsilons.argmax())
    if found.epsilons[largest] >= spread and float(found.gradient[largest]) > 0.5 * found.clean > 0:
        signs.append(
            f"accuracy under the gradient attack is {float(found.gradient[largest]):.3f} at epsilon "
            f"{float(found.epsilons[largest]):g}, a perturbation as large as the data's spread {spread:.3g}"
        )
    return tuple(signs)


def _spread(points: Tensor, norm: Norm) -> float:
    """Median distance of the points from their mean, in the norm of the attack."""
    away = (points - points.mean(0)).flatten(1).double()
    lengths = away.abs().amax(1) if norm == "linf" else away.norm(dim=1)
    return float(lengths.median())


def _without_gradient(scores: Scores, points: Tensor, labels: Tensor, right: Tensor, batch: int) -> float:
    """Share of rightly classified points where the margin has gradient exactly zero."""
    flat = total = 0
    for b in torch.nonzero(right)[:, 0].split(batch):
        with torch.enable_grad():
            moved = points[b].requires_grad_(True)
            (gradient,) = torch.autograd.grad(-margins(scores(moved), labels[b]).sum(), moved)
        flat += int((gradient.flatten(1) == 0).all(1).sum())
        total += len(b)
    return flat / total if total else 0.0


def class_scores(model: nn.Module, forward: Forward | None) -> Scores:
    """`[N, C]` scores of C >= 2 classes; a model of one score has its zero as the other one's."""

    def scores(x: Tensor) -> Tensor:
        with running_on(x):
            values = one_tensor(model(x) if forward is None else forward(model, x))
        if values.dim() == 1:
            values = values[:, None]
        if values.dim() != 2:
            raise InputError(f"the model must give scores of shape (N, C), got {tuple(values.shape)}.")
        if values.shape[1] == 1:
            values = torch.cat([torch.zeros_like(values), values], 1)
        return values

    return scores
