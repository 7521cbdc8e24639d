"""Folds placed by data without batch norm: training curves on digits against batch norm, default and He weights."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from splinescope.data import fashion
from splinescope.normalization import initialize_
from splinescope_evidence.framework.experiment import Check, Claim, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.data import digits
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.intervals import interval, ratio_interval
from splinescope_evidence.shared.normalization import seeded

FIRST = 100
"""Seeds before this one were seen when the sample size was chosen, and are not judged."""

TUNING = 1000
"""Added to the two seeds on which rates are chosen: neither is judged."""

KINDS = ("batch norm", "default", "He", "mean", "standard", "whiten", "quantile")


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    hidden, width, steps, seeds = (3, 24, 20, 2) if size == "quick" else (8, 128, 300, 10)
    rates = (0.1, 0.3) if size == "quick" else (0.01, 0.03, 0.1, 0.3, 1.0)
    sets = {"digits": (*digits(), 1200)}
    if size == "full" and fashion.FOLDER.exists():
        sets["Fashion-MNIST"] = (*_flat(fashion.fashion_mnist()), 6000)
    own, other = range(seed + FIRST, seed + FIRST + seeds), range(seed + TUNING, seed + TUNING + 2)
    found: dict[str, dict[str, Any]] = {data: {} for data in sets}
    for i, (data, kind) in enumerate(itertools.product(sets, KINDS)):
        if progress is not None:
            progress(i / (len(sets) * len(KINDS)), f"{data}, {kind}")

        def trained(s: int, rate: float, data: str = data, kind: str = kind) -> tuple[list[float], float]:
            x, y, x_test, y_test = _split(*sets[data], s)
            net = _network(kind, hidden, width, x, s)
            losses = _train(net, x, y, steps, rate, torch.Generator().manual_seed(s))
            with torch.no_grad():
                return losses, float((net.eval()(x_test).argmax(1) == y_test).double().mean())

        tuned = {rate: float(np.mean([_speed(trained(s, rate)[0]) for s in other])) for rate in rates}
        best = min(tuned, key=lambda rate: tuned[rate])
        curves, accuracy = zip(*(trained(s, best) for s in own), strict=True)
        found[data][kind] = {"rate": best, "speed": [_speed(losses) for losses in curves], "curves": list(curves),
                             "accuracy": list(accuracy)}  # fmt: skip
    return Outcome({"sets": found, "hidden": hidden, "steps": steps}, _claims(found, steps, hidden))


def _flat(loaded: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    return loaded[0].flatten(1), loaded[1]


def _split(x: Tensor, y: Tensor, train: int, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training and test rows; at most half as many to test as to train."""
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))[: train + train // 2]
    x, y = x[order].float(), y[order]
    return x[:train], y[:train], x[train:], y[train:]


def _speed(losses: list[float]) -> float:
    """Mean training loss over the run, each loss cut at twice that of guessing (so that one spike does not decide) and
    infinite where training diverged.
    """
    curve = np.asarray(losses)
    return float(np.minimum(curve, 2 * np.log(10)).mean()) if np.isfinite(curve).all() else float("inf")


def _claims(found: dict[str, dict[str, Any]], steps: int, hidden: int) -> tuple[Claim, ...]:
    def told(kinds: tuple[str, ...], key: str) -> str:
        return "; ".join(
            f"{data}: " + ", ".join(f"{k} {np.mean(of[k][key]):.3f} (rate {of[k]['rate']:g})" for k in kinds)
            for data, of in found.items()
        )

    def speeds(kind: str, of: dict[str, Any]) -> np.ndarray:
        return np.asarray(of[kind]["speed"], dtype=np.float64)

    faster = max(
        float((speeds("standard", of) / np.minimum(speeds("default", of), speeds("He", of))).max())
        for of in found.values()
    )
    level = 1 - 0.05 / len(found)
    shared = f" (95% intervals, 5% shared by {len(found)})"
    against = {data: ratio_interval(speeds("standard", of) / speeds("batch norm", of), level)
               for data, of in found.items()}  # fmt: skip
    networks = f"{len(next(iter(found.values()))['standard']['speed'])} networks and splits of the data each"
    gaps = [np.subtract(of["standard"]["accuracy"], of["batch norm"]["accuracy"]) for of in found.values()]
    ends = [interval(gap, level) for gap in gaps]
    return (
        judged(
            "A plain deep network whose folds are placed by data once, before training, trains faster than with "
            "default or He weights.",
            f"mean train loss over {steps} steps of SGD, {hidden} hidden layers, each at the best of rates about 3 "
            f"apart on two other seeds, {networks}: "
            + told(KINDS, "speed"),
            holds=[Check("mean loss over the better of default and He, worst seed and set", faster, "<", 1.0,
                         "1 is as fast (weights and offsets set by mean and deviation)")],
        ),
        judged(
            "It then trains as fast as with batch norm.",
            f"mean train loss over the run, {networks}: "
            + told(("standard", "batch norm"), "speed")
            + "; ratio "
            + ", ".join(f"{data} {low:.2f} to {high:.2f}" for data, (low, high) in against.items())
            + shared,
            holds=[Check("upper end of the 95% interval of the ratio, worst set", max(e[1] for e in against.values()),
                         "<", 1.1, "a tenth more loss counts as equally fast")],
            fails=[Check("lower end of the 95% interval of the ratio, worst set", max(e[0] for e in against.values()),
                         ">", 1.1, "significantly slower on one set")],
        ),
        judged(
            "And after as many steps it is as accurate on held-out data as with batch norm (to .01).",
            f"test accuracy, {networks}: "
            + told(("standard", "batch norm", "He", "mean"), "accuracy")
            + "; difference "
            + ", ".join(f"{data} {low:+.3f} to {high:+.3f}" for data, (low, high) in zip(found, ends, strict=True))
            + shared,
            holds=[Check("lower end of the 95% interval of accuracy minus batch norm's, worst set",
                         min(low for low, _ in ends), ">", -0.01, "one point in a hundred is as good")],
            fails=[Check("upper end of the 95% interval of accuracy minus batch norm's, worst set",
                         min(high for _, high in ends), "<", -0.01, "the same threshold")],
        ),
    )  # fmt: skip


def _network(kind: str, hidden: int, width: int, x: Tensor, seed: int) -> nn.Sequential:
    """Default weights, He weights, with batch norm, or set by data from He weights."""

    def make() -> nn.Sequential:
        layers: list[nn.Module] = []
        for fan_in in (x.shape[1], *[width] * (hidden - 1)):
            linear = nn.Linear(fan_in, width)
            if kind != "default":
                nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
                nn.init.zeros_(linear.bias)
            layers += [linear, *([nn.BatchNorm1d(width)] if kind == "batch norm" else []), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(width, 10))

    net = seeded(make, seed)
    if kind in KINDS[3:]:
        initialize_(net, x, method=kind, generator=torch.Generator().manual_seed(seed))  # type: ignore[arg-type]
    return net


def _train(net: nn.Module, x: Tensor, y: Tensor, steps: int, rate: float, generator: torch.Generator) -> list[float]:
    """Losses of SGD with batches of 64."""
    optimizer = torch.optim.SGD(net.parameters(), lr=rate)
    losses = []
    for _ in range(steps):
        pick = torch.randint(len(x), (64,), generator=generator)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x[pick]), y[pick])
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def draw(numbers: dict[str, Any]) -> Any:
    figure, axes = subplots(2, len(numbers["sets"]))
    colors = ("black", "#999999", "#56b4e9", "#e6a000", "#d55e00", "#009e73", "#cc79a7")
    for (left, right), (data, found) in zip(np.reshape(axes, (-1, 2)), numbers["sets"].items(), strict=True):
        for i, (of_kind, color) in enumerate(zip(found.values(), colors, strict=True)):
            curve = np.mean(of_kind["curves"], 0)
            smooth = np.convolve(curve, np.ones(10) / 10, mode="valid")
            left.semilogy(np.arange(len(smooth)) + 10, smooth, color=color)
            right.plot(of_kind["accuracy"], [i] * len(of_kind["accuracy"]), "o", color=color)
        left.set_ylim(bottom=max(1e-3, left.get_ylim()[0]))
        left.set_title(data)
        left.set_xlabel("step")
        left.set_ylabel("train loss (mean of 10 steps)")
        right.set_yticks(range(len(found)), [f"{kind}, rate {of['rate']:g}" for kind, of in found.items()])
        for tick, color in zip(right.get_yticklabels(), colors, strict=True):
            tick.set_color(color)  # the key to the curves
        right.invert_yaxis()
        right.set_title(data)
        right.set_xlabel("test accuracy (one point a seed)")
    return figure


EXPERIMENT = Experiment(
    "Folds placed by data, without batch norm",
    run,
    draw,
    place="the part on adaptation before training",
    revised=(1, 2, 3),
)
