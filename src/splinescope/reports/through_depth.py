"""A batch through the network: ranks and angles layer by layer; and how a generator stretches its latents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..generative import log_volume
from ..network.network import module_of
from ..plot.style import name_places
from ..representation import representation_geometry
from .block import NotApplicable, ReportBlock
from .subject import Subject

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LARGEST_LATENT = 512


def depth(subject: Subject) -> ReportBlock:
    """Rank and angles of a batch through depth."""
    points = subject.some(128)
    found = representation_geometry(subject.model, subject.rows(points))
    rank, angle = found.series("effective_rank"), found.series("mean_angle")
    last = -2 if len(found) > 2 else -1  # before the output, whose size is the number of classes
    lost = rank[last] < 0.5 * rank[0]

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        left.plot(rank, ".-", color="#3a87b8")
        left.set_ylabel("effective rank")
        right.plot(angle, ".-", color="#3a87b8")
        right.set_ylabel("mean angle, degrees")
        for ax in (left, right):
            name_places(
                ax,
                [layer.name if layer.op in ("", layer.name) else f"{layer.name} {layer.op}" for layer in found],
                "place",
            )

    return ReportBlock(
        finding=f"The data spread over {rank[0]:.2g} directions at the input and {rank[last]:.2g} before the output: "
        + ("the layers lose directions." if lost else "the layers keep them apart."),
                advice="See below at which layer they are lost; normalization or skips keep more." if lost
        else "Nothing to fix here: a collapse would end near 1.",
        headline=f"effective rank {rank[0]:.3g} at the input, {rank[last]:.3g} before the output; mean angle "
        f"{angle[0]:.0f} to {angle[last]:.0f} degrees",
        certainty="exact",
        scope=f"for these {len(points)} points",
        reading="If the rank falls to 1 or all angles to 0, later layers can no longer tell the points apart. "
        "A rank that stays, or angles that widen, mean that depth separates the batch.",
        call="print(ss.representation_geometry(model, x).summary())",
        numbers={
            "effective rank before the output": float(rank[last]), "mean angle before the output": float(angle[last]),
            "places": found.records(), "method": found.method,
        },
        draw=draw,
    )  # fmt: skip


def volume(subject: Subject) -> ReportBlock:
    """Volume factors of a generator at the given latents."""
    inputs, outputs = subject.x[0].numel(), subject.output[0].numel()
    if subject.y is not None or outputs < 2 * inputs or inputs > _LARGEST_LATENT or subject.x.dim() != 2:
        raise NotApplicable(
            "this is for generators, which map few numbers to at least twice as many and have no labels; "
            f"here {inputs} inputs give {outputs} outputs"
            f"{' and y was given' if subject.y is not None else ''}."
        )
    points = subject.some(256)
    found = log_volume(module_of(subject.model), subject.rows(points), progress=False)
    logs = found.log_pseudo.numpy()
    low, high = np.percentile(logs, [5, 95])

    def draw(figure: Figure) -> None:
        ax = figure.subplots()
        ax.hist(logs, bins=30, color="#21918c")
        ax.set_xlabel("log volume factor")
        ax.set_ylabel("latents")

    return ReportBlock(
        finding=f"Some latents stand for {np.exp(high - low):.2g} times as much of the manifold as others.",
        advice="Sample by MagnetSampler where even coverage matters.",
        headline=f"volumes stretch by factors from e^{low:.3g} to e^{high:.3g} (5% to 95% of {len(points)} latents)",
        certainty="exact",
        scope="at each latent, to the model's rounding",
        reading="Where the factor is large, few samples cover much of the manifold; where it is small, many crowd "
        "together. The wider this spread, the more samples change when they are drawn evenly on the manifold.",
        call=f"ss.MagnetSampler(model, ss.generative.TruncatedGaussian({inputs})).sample(64)",
        numbers={
            "spread of the log volume, 5% to 95%": float(high - low), "median log volume": float(np.median(logs)),
            "full rank": float((found.rank == found.singular_values.shape[1]).double().mean()),
        },
        draw=draw,
    )  # fmt: skip
