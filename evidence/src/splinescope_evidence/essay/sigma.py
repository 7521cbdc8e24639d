"""What sigma does: it never moves its own layer's folds, but draws those of later layers to the data."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from splinescope.normalization import with_statistics
from splinescope.tiling import Slice
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.intervals import ratio_interval
from splinescope_evidence.shared.normalization import star
from splinescope_research.normalization.normalizations import normalized_mlp, sign_changes

ARMS = ("alike, recentered", "alike, rescaled too", "unequal, recentered", "unequal, rescaled too")
"""Rows of one length or of lengths over two decades; batch norm's mean alone, or its deviation too."""


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    width, layers, cells, seeds = (32, 5, 24, 2) if size == "quick" else (128, 11, 64, 12)
    view = Slice.axes([0.0, 0.0], (0, 1), -3.0, 3.0)
    x = star(50)
    ratios: dict[str, list[float]] = {arm: [] for arm in ARMS}
    pictures: dict[str, Any] = {}
    for s in range(seeds):
        if progress is not None:
            progress(s / seeds, f"network {s + 1} of {seeds}")
        for arm in ARMS:
            model = _network(width, layers, seed + s, x, "unequal" in arm, "rescaled" in arm)
            density = sign_changes(model, x, view, cells=cells)
            ratios[arm].append(density.ratio(layers, near=0.25, far=1.0))
            if s == 0:
                pictures[arm] = density.rasters[layers].values.tolist()
    gains = {kind: np.array(ratios[f"{kind}, rescaled too"]) / np.array(ratios[f"{kind}, recentered"])
             for kind in ("alike", "unequal")}  # fmt: skip
    ends = {kind: ratio_interval(gain) for kind, gain in gains.items()}
    moved = max(_moved(width, layers, seed + s, view) for s in range(seeds))
    mean = {arm: float(np.exp(np.mean(np.log(values)))) for arm, values in ratios.items()}
    return Outcome(
        {"ratios": ratios, "pictures": pictures, "star": x.tolist()},
        (
            judged(
                "Sigma draws folds of later layers to the data: with it they are denser there than with the mean "
                "alone.",
                f"density near over far at layer {layers}, width {width}, {seeds} networks: rows of one length "
                f"{mean[ARMS[0]]:.1f} recentered, {mean[ARMS[1]]:.1f} rescaled too, factor "
                f"{float(np.exp(np.log(gains['alike']).mean())):.2f} (95% interval {ends['alike'][0]:.2f} to "
                f"{ends['alike'][1]:.2f}); rows of unequal length {mean[ARMS[2]]:.1f} and {mean[ARMS[3]]:.1f}, factor "
                f"{float(np.exp(np.log(gains['unequal']).mean())):.2f} (95% interval {ends['unequal'][0]:.2f} to "
                f"{ends['unequal'][1]:.2f})",
                holds=[Check(f"lower end of the 95% interval: factor, rows {kind}", ends[kind][0], ">", 1.0,
                             "1 is no effect") for kind in ends],
                fails=[Check(f"upper end of the 95% interval: factor, rows {kind}", ends[kind][1], "<", 1.0,
                             "1 is no effect") for kind in ends],
            ),
            judged(
                "The adaptation is unsupervised: it sees the inputs alone and follows them. Moving and scaling data "
                "moves and scales the tiling of a batch-norm network, f(p; X) = f(c p + s; c X + s).",
                f"largest relative difference {moved:.1e}, {seeds} networks with {layers} layers",
                holds=[Check("largest relative difference", moved, "<", 1e-9, "an identity: rounding is left")],
            ),
        ),
    )  # fmt: skip


def _network(width: int, layers: int, seed: int, x: Tensor, unequal: bool, rescaled: bool) -> nn.Sequential:
    """A random network whose folds are placed by the data layer by layer, as batch norm does at the start."""
    generator = torch.Generator().manual_seed(seed)
    parts: list[nn.Module] = []
    h = x
    for _ in range(layers):
        linear = nn.Linear(h.shape[1], width, dtype=torch.float64)
        with torch.no_grad():
            weight = torch.randn(width, h.shape[1], generator=generator, dtype=torch.float64)
            weight /= weight.norm(dim=1, keepdim=True)
            lengths = 10 ** (2 * torch.rand(width, 1, generator=generator, dtype=torch.float64) - 1)
            weight *= lengths if unequal else 1.0
            z = h @ weight.T
            spread = z.std(0, correction=0) if rescaled else z.std(correction=0)  # one number for all moves no fold
            linear.weight.copy_(weight / (spread[:, None] if rescaled else spread))
            linear.bias.copy_(-z.mean(0) / spread)
            h = torch.relu(linear(h))
        parts += [linear, nn.ReLU()]
    return nn.Sequential(*parts).eval()


def _moved(width: int, layers: int, seed: int, view: Slice) -> float:
    """Largest relative difference of a batch-norm network when data and places are scaled by 7 and moved."""
    random = normalized_mlp((2, *[width] * layers), "batch", generator=torch.Generator().manual_seed(seed))
    for module in random.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.eps = 0.0
    places = torch.from_numpy(view.inputs(np.random.default_rng(seed).uniform(-3, 3, (200, 2))))
    shift = torch.tensor([4.0, -2.0], dtype=torch.float64)
    with torch.no_grad():
        before = with_statistics(random, star(50))(places)
        after = with_statistics(random, 7 * star(50) + shift)(7 * places + shift)
    return float((after - before).abs().max() / before.abs().max())


def draw(numbers: dict[str, Any]) -> Any:
    figure, axes = subplots(2, 2)
    points = np.array(numbers["star"])
    for ax, arm in zip(axes, ARMS, strict=True):
        image = ax.imshow(numbers["pictures"][arm], origin="lower", extent=(-3, 3, -3, 3), cmap="viridis")
        ax.plot(points[:, 0], points[:, 1], ".", color="white", markersize=2)
        ratio = np.exp(np.mean(np.log(numbers["ratios"][arm])))
        ax.set(title=f"rows {arm}: ratio {ratio:.1f}", xlabel="$x_1$", ylabel="$x_2$")
        figure.colorbar(image, ax=ax, label="folds per cell", shrink=0.8)
    return figure


EXPERIMENT = Experiment(
    "What sigma does to the folds of later layers",
    run,
    draw,
    place="the part on the scale sigma; the adaptation as unsupervised",
)
