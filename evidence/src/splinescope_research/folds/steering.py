"""`steer`: a trained classifier's boundary moved by one number, no weight touched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from splinescope.complexity.attacks import Norm
from splinescope.complexity.robustness import class_scores, robustness
from splinescope.network.readable import floating_like
from splinescope.smooth.capture import Forward
from splinescope.smooth.soften import soften
from splinescope.support.checks import as_rows, check_choice
from splinescope.support.display import Result, table
from splinescope.support.errors import InputError
from splinescope.support.progress import Progress, sharing

from ..drawings import plot_steering
from .boundary_curvature import NoBoundary, boundary_curvature, rows_at_once

BETAS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 1.0)


@dataclass(frozen=True, eq=False, repr=False)
class Steering(Result):
    """What softening does to a classifier. B values of beta, N points.

    Attributes:
        betas: `[B]`, ascending; 1 is the network itself.
        right: `[B, N]` bool: points put into their class.
        survived: `[B, N]` bool: points that no attack moved out of it (more than truly survive, if anything).
        curvature: `[B]` turn of the decision boundary's normal per unit of distance, see `boundary_curvature`; NaN
            where all points are in one class.
        curvature_error: `[B]` its standard error over places.
        epsilon: Size of the attack.
        norm: "linf" or "l2".
        mix: As for `soften`.
        masked: `[B]` bool: signs that gradients hide weakness.
    """

    betas: np.ndarray
    right: np.ndarray
    survived: np.ndarray
    curvature: np.ndarray
    curvature_error: np.ndarray
    epsilon: float
    norm: str
    mix: float
    masked: np.ndarray
    certainty = "estimate"
    plot = plot_steering

    @property
    def accuracy(self) -> np.ndarray:
        """`[B]` share of points put into their class."""
        return self.right.mean(1)

    @property
    def robust(self) -> np.ndarray:
        """`[B]` share of points that no attack moved out of it."""
        return self.survived.mean(1)

    def best(self, what: str = "accuracy") -> float:
        """The beta of the highest accuracy, or "robust" accuracy; the largest one of equals.

        Chosen and judged on the same points this flatters: choose on some, judge on others.
        """
        check_choice(what, "what", ("accuracy", "robust"))
        values = self.accuracy if what == "accuracy" else self.robust
        return float(self.betas[len(values) - 1 - int(values[::-1].argmax())])

    def summary(self) -> str:
        """A table by beta."""
        rows = [("beta", "accuracy", f"under {self.norm} {self.epsilon:g}", "boundary turns by")]
        for beta, accuracy, robust, turn, error, masked in zip(
            self.betas, self.accuracy, self.robust, self.curvature, self.curvature_error, self.masked, strict=True
        ):
            sign = " (masked gradients)" if masked else ""
            rows.append((f"{beta:g}", f"{accuracy:.3f}", f"{robust:.3f}{sign}", f"{turn:.3g} ± {error:.2g}"))
        return f"{table(rows)}\n{self.right.shape[1]} points. {self.assurance}"


def steer(
    model: nn.Module, x: Any, y: Any, *, epsilon: float, betas: Sequence[float] = BETAS, mix: float = 0.5,
    norm: Norm = "linf", steps: int = 20, restarts: int = 2, queries: int = 100,
    bounds: tuple[float, float] | None = None, places: int = 64, reach: float | None = None,
    forward: Forward | None = None, progress: Progress | bool | None = None,
) -> Steering:  # fmt: skip
    """Accuracy, robustness and curvature of the decision boundary against beta, with every ReLU softened by it.

    Curvature tuning: no weight is touched and nothing is trained; `soften(model, beta)` with a beta found here is the
    steered network.

    Args:
        model: A trained classifier with ReLUs; it is left as it is.
        x: `[N, *input shape]` points.
        y: `[N]` their classes.
        epsilon: Size of the attack, > 0, in units of the input.
        betas: In [0, 1]; sorted. 1, the network itself, is worth including.
        mix: As for `soften`; half of each part keeps the mean activation.
        norm: "linf" or "l2".
        steps, restarts, queries, bounds: Of the attacks; see `robustness`. Points that break the networks of the least
            and largest beta are tried on the others too, so that softer gradients are not taken for robustness.
        places, reach: Of the curvature; see `boundary_curvature`. The same pairs of points and, if `reach` is None, the
            same reach (that of the largest beta) for all, so that betas can be compared.
        forward: How to call the model.
        progress: None: shown once it takes a few seconds; True, False, or a function of (share done, what it is at).

    Returns:
        Estimates from these points: accuracy of this sample, robustness from above, curvature with its error.

    Cost: per beta that of `robustness` and of `boundary_curvature`; points are taken so many at a time that their
    activations need some 64 MB.

    Example:
        >>> import torch, splinescope_research
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
        >>> x = torch.randn(60, 2)
        >>> found = splinescope_research.steer(net, x, net(x).argmax(1), epsilon=0.1, betas=(0.5, 1.0))
        >>> float(found.accuracy[-1])
        1.0

    Reference: Hu, Gamba, Balestriero, "Curvature Tuning: Provable Training-free Model Steering From a Single
    Parameter".
    """
    order = sorted(float(beta) for beta in betas)
    if not order:
        raise InputError("betas must name at least one value in [0, 1], got none.")
    points, answers = as_rows(x, "x"), as_rows(y, "y")
    right, survived, turns, errors, masked = [], [], [], [], []
    ends = {beta: soften(model, beta, mix=mix) for beta in (order[0], order[-1])}
    with sharing(progress, "steering") as share:
        for number, beta in enumerate(reversed(order)):
            share(number / len(order))
            soft = ends.get(beta) or soften(model, beta, mix=mix)
            others = [other for end, other in ends.items() if end != beta]
            like = floating_like(soft, torch.zeros(0))
            together = rows_at_once(class_scores(soft, forward), points[:1].to(like.device, like.dtype))
            found = robustness(soft, points, answers, epsilons=epsilon, norm=norm, steps=steps, restarts=restarts,
                               queries=queries, transfer_from=others, bounds=bounds, forward=forward,
                               batch_size=together)  # fmt: skip
            try:
                bent = boundary_curvature(soft, points, places=places, reach=reach, forward=forward)
                reach, turn, error = bent.reach, bent.mean, bent.error
            except NoBoundary:  # so soft that all points are in one class
                turn = error = np.nan
            right.append(found.right.numpy())
            survived.append(found.survived[0].numpy())
            turns.append(turn)
            errors.append(error)
            masked.append(found.masked)
    return Steering(
        np.array(order), np.stack(right[::-1]), np.stack(survived[::-1]), np.array(turns[::-1]),
        np.array(errors[::-1]), float(epsilon), norm, mix, np.array(masked[::-1]),
    )  # fmt: skip
