"""Where the normalization stands: before the non-linearity, after it, or nowhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from splinescope.data import star
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots

PLACES = ("before", "after", "none")
_EPS = 1e-12


def _split_shares(x: Tensor, width: int, depth: int, place: str, generator: torch.Generator) -> list[float]:
    """Per layer, the share of units with data on both sides of their fold: He weights, standard normal biases.

    A batch norm in training mode, gamma 1 and beta 0, without its own bias effect: "before" normalizes the
    pre-activation (so that the bias has none), "after" the activation.
    """
    shares = []
    for _ in range(depth):
        weight = torch.randn(width, x.shape[1], generator=generator, dtype=x.dtype) * (2 / x.shape[1]) ** 0.5
        bias = torch.randn(width, generator=generator, dtype=x.dtype)
        z = x @ weight.T + bias
        if place == "before":
            z = (z - z.mean(0)) / (z.std(0, correction=0) + _EPS)
        shares.append(float(((z > 0).any(0) & (z < 0).any(0)).double().mean()))
        x = torch.relu(z)
        if place == "after":
            x = (x - x.mean(0)) / (x.std(0, correction=0) + _EPS)
    return shares


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    width, depth, seeds = (60, 6, 2) if size == "quick" else (200, 11, 10)
    table: dict[str, list[list[float]]] = {place: [] for place in PLACES}
    for i in range(seeds):
        if progress is not None:
            progress(i / seeds, f"weights {i + 1} of {seeds}")
        x = star(50).double()
        for place in PLACES:
            generator = torch.Generator().manual_seed(100 * seed + i)
            table[place].append(_split_shares(x, width, depth, place, generator))
    values = {place: np.array(rows) for place, rows in table.items()}
    last = {place: v[:, -1] for place, v in values.items()}
    first_after = float(values["after"][:, 0].max())
    gain = last["before"] - last["after"]
    text = "; ".join(
        f"{place}: {v[:, 0].mean():.2f} in the first layer, {v[:, -1].mean():.2f} in layer {depth}"
        for place, v in values.items()
    )
    claims = (
        judged(
            "Before the non-linearity, batch norm lays every fold of every layer through the data (essay, placement of "
            "the normalization).",
            f"share of units with data on both sides, {seeds} networks {depth} x {width}, {text}",
            holds=[Check("least share over layers and networks", float(values["before"].min()), ">", 1 - 1e-9,
                         "a centered unit that is not constant has both signs")],
        ),
        judged(
            "Placed after the non-linearity it does so too (essay, placement of the normalization). Corrected: more "
            "than no normalization does, but not for all folds, and not for the first layer's.",
            f"{text}; least difference before - after in the last layer {gain.min():.2f}",
            holds=[Check("least share over layers and networks", float(values["after"].min()), ">", 0.99, "all folds")],
            corrected=[
                Check("least difference to no normalization, last layer", float((last["after"] - last["none"]).min()),
                      ">", 0.05, "a twentieth of the units, in every network"),
                Check("share in the first layer", first_after, "<", 0.99, "nothing stands before it"),
            ],
        ),
    )  # fmt: skip
    return Outcome({"shares": {place: v.tolist() for place, v in values.items()}}, claims)


def draw(numbers: dict[str, Any]) -> Any:
    figure, (ax,) = subplots(1)
    for (place, rows), color in zip(numbers["shares"].items(), ("#3b528b", "#5ec962", "#d55e00"), strict=True):
        v = np.array(rows)
        layers = np.arange(1, v.shape[1] + 1)
        ax.plot(
            layers,
            v.mean(0),
            ".-",
            color=color,
            label={"none": "no normalization"}.get(place, f"{place} the non-linearity"),
        )
        ax.fill_between(layers, v.min(0), v.max(0), color=color, alpha=0.2, lw=0)
    ax.set(xlabel="layer", ylabel="share of units with data on both sides", ylim=(0, 1.03))
    ax.legend(frameon=False)
    return figure


EXPERIMENT = Experiment(
    "Normalization before or after the non-linearity", run, draw, place="the part on where the normalization is placed"
)
