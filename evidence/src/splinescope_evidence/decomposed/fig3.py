"""Figure 3: recentering and ReLU drive a batch to a cluster and one odd point."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from splinescope.representation import odd_point, representation_geometry
from splinescope.representation.measures import LayerGeometry
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.words import span
from splinescope_research import random_network


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    n, width, depth, seeds = (32, 100, 100, 3) if size == "quick" else (32, 256, 200, 30)
    runs = []
    example: dict[str, Any] = {}
    for i in range(seeds):
        if progress is not None:
            progress(i / seeds, f"network {i + 1} of {seeds}")
        generator = torch.Generator().manual_seed(1000 * seed + i)
        x = torch.randn(n, 20, dtype=torch.float64, generator=generator)
        layers = _after_each_relu(x, width, depth, generator)
        last = layers[-1].odd
        assert last is not None
        runs.append({**vars(last), "early_isolation": _isolation(layers[9])})
        if i == 0:
            example = {
                "first": layers[0].projection,
                "last": layers[-1].projection,
                "index": last.index,
                "isolation": [_isolation(layer) for layer in layers],
            }
    ratio = [r["norm_ratio"] for r in runs]
    angle = [r["angle"] for r in runs]
    isolated = min(r["isolation"] for r in runs)
    longest, share = _odd_is_longest(1.0, 0.0, width, 4 * seeds, seed)
    shifted, planted = _odd_is_longest(3.0, 6.0, width, 4 * seeds, seed)
    return Outcome(
        {
            "runs": runs,
            "example": example,
            "odd_is_longest": share,
            "odd_is_planted": planted,
            "n": n,
            "width": width,
            "depth": depth,
        },
        (
            judged(
                "Through depth the batch becomes a cluster and one odd point, far away and orthogonal.",
                f"{seeds} networks (n = {n}, width {width}, depth {depth}): odd length over median length "
                f"{span(ratio)} (n - 1 = {n - 1}), angle {span(angle)} degrees, cluster within "
                f"{span([r['cluster_angle'] for r in runs])} degrees; at depth 10 its length is only "
                f"{span([r['early_isolation'] for r in runs])} times the longest of the others",
                holds=[
                    Check("odd length over the next longest, least", isolated, ">", 3.0, "no other stands out"),
                    Check("angle to the cluster, least", min(angle), ">", 85.0, "'orthogonal' to 5 degrees"),
                    Check(
                        "median ratio over n - 1, minus 1",
                        abs(float(np.median(ratio)) / (n - 1) - 1),
                        "<",
                        0.5,
                        "the limit n - 1 is approached, not reached, at finite width",
                    ),
                ],
            ),
            judged(
                "The odd point is the input of the largest length (remark on the odd point). Corrected: of the largest "
                "centered length, and only if it stands out.",
                f"{4 * seeds} networks of depth 60: {longest:.0%} for Gaussian inputs ({share:.0%} by centered "
                f"length), {planted:.0%} by centered length with one input stretched three times and all shifted "
                f"alike ({shifted:.0%} by length)",
                holds=[Check("share of networks, Gaussian inputs", longest, ">", 0.9, "as stated, with room for ties")],
                corrected=[
                    Check(
                        "share of networks by centered length, one stretched input", planted, ">", 0.7, "most of them"
                    ),
                    Check(
                        "share of networks by centered length, Gaussian inputs",
                        share,
                        "<",
                        0.5,
                        "'only if': not in most of them where none stands out",
                    ),
                ],
            ),
        ),
    )


def _odd_is_longest(stretch: float, shift: float, width: int, networks: int, seed: int) -> tuple[float, float]:
    """Shares of networks whose odd point is the input of largest length and centered length, input 0 stretched and all
    shifted by one vector.
    """
    hits = [0, 0]
    for i in range(networks):
        generator = torch.Generator().manual_seed(1000 * seed + 500 + i)
        x = torch.randn(32, 20, dtype=torch.float64, generator=generator)
        x[0] *= stretch
        if shift:
            x += shift * torch.randn(20, dtype=torch.float64, generator=generator)
        network = _network(x, width, 60, generator)
        with torch.no_grad():
            h = network(x).numpy()
        odd = odd_point(h @ h.T)
        assert odd is not None
        for j, inputs in enumerate((x, x - x.mean(dim=0))):
            hits[j] += odd.index == int(inputs.norm(dim=1).argmax())
    return hits[0] / networks, hits[1] / networks


def _after_each_relu(x: torch.Tensor, width: int, depth: int, generator: torch.Generator) -> list[LayerGeometry]:
    geometry = representation_geometry(_network(x, width, depth, generator), x, method="hooks", keep_gram=False)
    return [layer for layer in geometry if layer.op == "ReLU"]


def _network(x: torch.Tensor, width: int, depth: int, generator: torch.Generator) -> nn.Module:
    return random_network(
        depth, width, in_features=x.shape[1], components=("rc", "nl"), dtype=x.dtype, generator=generator
    )


def _isolation(layer: LayerGeometry) -> float:
    assert layer.odd is not None
    return layer.odd.isolation


def draw(numbers: dict[str, Any]) -> Any:
    figure, (left, middle, right) = subplots(3)
    example = numbers["example"]
    for ax, key, title in ((left, "first", "after layer 1"), (middle, "last", f"after layer {numbers['depth']}")):
        points = np.asarray(example[key])
        points = points / np.abs(points).max()
        others = np.arange(len(points)) != example["index"]
        ax.scatter(*points[others].T, s=14, color="#3b528b", alpha=0.7, label="the others")
        ax.scatter(*points[example["index"]], s=80, marker="*", color="#d55e00", label="odd point")
        ax.scatter([0], [0], marker="+", color="0.4", label="origin")
        ax.set_xlabel("random direction 1")
        ax.set_ylabel("random direction 2")
        ax.set_title(title)
        ax.legend(frameon=False, fontsize="small")
    right.semilogy(range(1, numbers["depth"] + 1), example["isolation"])
    right.axhline(numbers["n"] - 1, color="0.6", linestyle=":", label="n - 1")
    right.set_xlabel("layer")
    right.set_ylabel("odd length / longest of the others")
    right.legend(frameon=False, loc="lower right")
    return figure


EXPERIMENT = Experiment(
    "Figure 3: a cluster and one odd point",
    run,
    draw,
    place="Figure 3; the remark on the odd point in section IV",
    revised=(2,),
)
