"""Batch norm and the late drop of local complexity on MNIST, by steps and by the path of the weights."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from splinescope.complexity import local_complexity
from splinescope.network.watching.batch_statistics import statistics_of
from splinescope.support.evaluating import evaluating
from splinescope_evidence.framework.experiment import Check, Claim, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.framework.parts import part
from splinescope_evidence.shared.grokking import Setting, quick
from splinescope_evidence.shared.intervals import ratio_interval
from splinescope_evidence.survey.figures.fig9_mnist import RADIUS, mnist_5k
from splinescope_evidence.survey.questions.bn_earlier import EVERY, draw, drop

RATE = 4e-3
"""One of the rates of the digits: the late drop comes soonest at the largest."""


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    make, seeds, steps = (quick, 2, 60) if size == "quick" else (Setting, 5, round(25 / RATE))
    curves: dict[str, list[list[dict[str, list[float]]]]] = {}
    for place, name in enumerate(("plain", "batch norm")):
        curves[name] = [[]]
        for s in range(seed, seed + seeds):
            if progress is not None:
                progress((place + (s - seed) / seeds) / 2, f"{name}, seed {s}")
            setting = make(s, rate=RATE, steps=steps, batch_norm=name != "plain", points=100)
            curves[name][0].append(part(f"{name} {s}", partial(_curve, setting)))
    drops = {name: [[drop(curve) for curve in row] for row in rows] for name, rows in curves.items()}
    claims = (
        _claim("On MNIST, too, batch norm brings the late drop of local complexity earlier.", "step", drops),
        _claim("It does so also at equal effective rate: by the relative path of the hidden weights.", "path", drops),
    )
    return Outcome({"rates": (RATE,), "curves": curves, "drops": drops}, claims)


def _claim(text: str, key: str, drops: dict[str, list[list[dict[str, float]]]]) -> Claim:
    (plain,), (normed,) = drops["plain"], drops["batch norm"]
    ratios = np.array([b[key] / a[key] for a, b in zip(plain, normed, strict=True)])
    low, high = ratio_interval(ratios)
    least = {what: min(run[what] for run in (*plain, *normed)) for what in ("reached", "accuracy")}
    return judged(
        text,
        f"{key} of the drop, batch norm over plain: {np.exp(np.log(ratios).mean()):.2f}, 95% interval {low:.2f} to "
        f"{high:.2f}, rate {RATE:g}, {len(ratios)} seeds",
        holds=[Check("upper end of the 95% interval", high, "<", 1.0, "1 is no difference")],
        fails=[Check("lower end of the 95% interval", low, ">", 1.0, "1 is no difference")],
        needs=[
            Check("runs that reach the drop", least["reached"], ">", 0.5, "an end is no drop"),
            Check("training accuracy at the end, least", least["accuracy"], ">", 0.995, "it must have learned"),
        ],
    )


def _curve(setting: Setting) -> dict[str, list[float]]:
    """Local complexity at training images over steps and over the relative path of the hidden weights."""
    images, labels = mnist_5k()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(setting.seed))[: setting.train]
    x, y = images[order].flatten(1), labels[order]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(setting.seed)
        model = _network(setting)
    hidden = [layer.weight for layer in model if isinstance(layer, nn.Linear)][:-1]
    targets = F.one_hot(y, 10).float()
    generator = torch.Generator().manual_seed(setting.seed)
    optimizer = torch.optim.Adam(model.parameters(), setting.rate)
    due = {0, setting.steps, *(round(10 ** (k / 16)) for k in range(80))}  # sixteen a decade
    path, records = 0.0, []
    for step in range(setting.steps + 1):
        if step in due:
            records.append({"step": step, "path": path, **_measured(model, x, y, setting.points)})
        rows = torch.randint(len(x), (setting.batch,), generator=generator)
        optimizer.zero_grad()
        F.mse_loss(model(x[rows]), targets[rows]).backward()
        before = [w.detach().clone() for w in hidden] if step % EVERY == 0 else []
        optimizer.step()
        moved = [float((w.detach() - old).norm() / old.norm()) for w, old in zip(hidden, before, strict=False)]
        path += EVERY * float(np.mean(moved)) if moved else 0.0
    return {key: [record[key] for record in records] for key in records[0]}


def _measured(model: nn.Module, x: Tensor, y: Tensor, points: int) -> dict[str, float]:
    with statistics_of(model, x), evaluating(model), torch.no_grad():
        folds = local_complexity(model, x[:points], radius=RADIUS).total.double().mean()
        return {"folds": float(folds), "accuracy": float((model(x).argmax(1) == y).double().mean())}


def _network(setting: Setting) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs in (784, setting.width, setting.width):
        layers += [nn.Linear(inputs, setting.width), *([nn.BatchNorm1d(setting.width)] * setting.batch_norm), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(setting.width, 10))


EXPERIMENT = Experiment("Batch norm and the late drop on MNIST", run, draw, place="after Figure 9")
