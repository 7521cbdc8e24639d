"""Instance norm where it belongs, on feature maps of a convolutional network: does it draw folds to the data?"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from splinescope.data.digits import digits
from splinescope.normalization import with_statistics
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.intervals import interval

KINDS: dict[str, Callable[[int], nn.Module | None]] = {
    "zero bias": lambda channels: None,
    "batch": lambda channels: nn.BatchNorm2d(channels, eps=0.0),
    "instance": lambda channels: nn.InstanceNorm2d(channels, eps=0.0),
    "group": lambda channels: nn.GroupNorm(4, channels, eps=0.0),
    "layer": lambda channels: nn.GroupNorm(1, channels, eps=0.0),
}
REACH = 0.05
"""Length of the segments that are searched for folds: 5% of the digits' spacing (1.03), both ways."""
HALF = 0.5


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    depth, channels, points, seeds = (2, 8, 40, 2) if size == "quick" else (5, 32, 300, 5)
    images, _ = digits()
    data = images[: max(points, 300)].double()
    ratios: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    for k in range(seed, seed + seeds):
        for number, kind in enumerate(KINDS):
            if progress:
                progress((k - seed + number / len(KINDS)) / seeds, f"{kind}, seed {k}")
            model: nn.Module = _network(kind, depth, channels, k)
            model = with_statistics(model, data) if kind == "batch" else model.eval()
            x = data[:points]
            ratios[kind].append((_crossings(model, x, k) / _crossings(model, -x, k)).tolist())
    bend = {kind: _second_difference(kind, seed) for kind in ("zero bias", "instance")}
    last = {kind: np.log([row[-1] for row in rows]) for kind, rows in ratios.items()}
    low, high = interval(last["instance"] - HALF * last["batch"])
    able = interval(last["batch"])[0]
    return Outcome(
        {"ratios": ratios, "second_difference": bend, "depth": depth},
        (
            judged(
                "Instance norm moves the folds to the data as batch norm does (the essay on other normalizations; here "
                f"on the feature maps of {depth} random convolutional layers, at digits against their negatives, which "
                "a network without biases cannot tell apart in its first layer).",
                f"folds at digits over folds at their negatives, layer {depth}, geometric means of {seeds} networks: "
                + ", ".join(f"{kind} {math.exp(values.mean()):.3f}" for kind, values in last.items())
                + f"; log of instance norm's minus half of batch norm's: 95% interval {low:+.3f} to {high:+.3f}",
                holds=[Check("lower end of that interval", low, ">", 0.0, "'as batch norm does': half of it, on a "
                             "logarithmic scale, at the least")],
                fails=[Check("upper end of that interval", high, "<", 0.0, "less than half of it")],
                needs=[Check("lower end of the interval of batch norm's own logarithm", able, ">", 0.05,
                             "batch norm must draw folds to the data by 5% for a comparison")],
            ),
            judged(
                "A network with instance norm on its feature maps still has linear regions (the essay on other "
                "normalizations).",
                "second difference inside one activation pattern, first layer: "
                + ", ".join(f"{kind} {value:.1e}" for kind, value in bend.items()),
                holds=[Check("second difference with instance norm", bend["instance"], "<", 1e-9,
                             "an affine map has none; rounding gives 1e-16 / 6e-5")],
                needs=[Check("second difference without a norm", bend["zero bias"], "<", 1e-9,
                             "what is affine must be seen to be")],
            ),
        ),
    )  # fmt: skip


def _network(kind: str, depth: int, channels: int, seed: int) -> nn.Sequential:
    """Convolutions 3x3 with He weights and no biases; the norm before each ReLU. The same weights for every kind."""
    generator = torch.Generator().manual_seed(seed)
    layers: list[nn.Module] = []
    for number in range(depth):
        inputs = 1 if number == 0 else channels
        with torch.random.fork_rng(devices=[]):
            conv = nn.Conv2d(inputs, channels, 3, padding=1, bias=False)
        with torch.no_grad():
            conv.weight.normal_(0, math.sqrt(2 / (9 * inputs)), generator=generator)
        norm = KINDS[kind](channels)
        layers += [conv, *([norm] if norm is not None else []), nn.ReLU()]
    return nn.Sequential(*layers).double()


def _crossings(model: nn.Module, x: Tensor, seed: int) -> np.ndarray:
    """`[layers]` mean number of units whose sign differs between the ends of short random segments about x."""
    away = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed), dtype=x.dtype)
    away = REACH * away / away.flatten(1).norm(dim=1).reshape(-1, 1, 1, 1)
    ends = [_signs(model, x + away), _signs(model, x - away)]
    return np.array([float((a != b).double().sum() / len(x)) for a, b in zip(*ends, strict=True)])


def _signs(model: nn.Module, x: Tensor) -> list[Tensor]:
    """Signs of what enters the ReLUs, per layer."""
    signs = []
    with torch.no_grad():
        for layer in model:  # type: ignore[attr-defined]
            if isinstance(layer, nn.ReLU):
                signs.append((x > 0).flatten(1))
            x = layer(x)
    return signs


def _second_difference(kind: str, seed: int) -> float:
    """Largest |f(x+h) - 2 f(x) + f(x-h)| / |h|^2 over digits whose three activation patterns are equal."""
    model = _network(kind, 1, 4, seed).eval()
    generator = torch.Generator().manual_seed(seed)
    x = digits()[0][:200].double()
    x = x + 0.1 * torch.rand(x.shape, generator=generator, dtype=x.dtype)  # blank corners lie on folds without biases
    h = 1e-3 * torch.randn(x.shape, generator=generator, dtype=x.dtype)
    with torch.no_grad():
        left, middle, right = model(x - h), model(x), model(x + h)
    same = (((left > 0) == (middle > 0)) & ((right > 0) == (middle > 0))).flatten(1).all(1)
    bend = (left - 2 * middle + right).flatten(1).abs().amax(1) / h.flatten(1).square().sum(1)
    return float(bend[same].max()) if bool(same.any()) else math.nan


def draw(numbers: dict[str, Any]) -> Any:
    figure, axes = subplots(1)
    ax = np.atleast_1d(axes)[0]
    for kind, marker in zip(numbers["ratios"], "sovD^", strict=True):
        values = np.exp(np.log(numbers["ratios"][kind]).mean(0))
        ax.plot(range(1, numbers["depth"] + 1), values, marker=marker, label=kind)
    ax.axhline(1, color="gray", linewidth=0.8)
    ax.set_xticks(range(1, numbers["depth"] + 1))
    ax.set_xlabel("convolutional layer")
    ax.set_ylabel("folds at digits / at their negatives")
    ax.legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    "Instance norm on feature maps: where its folds pass", run, draw, place="the part on other normalizations"
)
