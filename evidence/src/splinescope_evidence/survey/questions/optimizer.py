"""An open question of the survey: optimizers that use the loss's piecewise quadratic, against the usual ones."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from splinescope_evidence.framework.experiment import Check, Claim, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.data import digits
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.intervals import ratio_interval
from splinescope_evidence.shared.normalization import seeded, two_moons
from splinescope_research import LayerwiseDescent

PRODUCTS = 20
"""Conjugate-gradient products per layer: fixed before the first run, not tuned."""

STEPS = 50
RATES = {"SGD": (0.01, 0.03, 0.1, 0.3), "Adam": (0.001, 0.003, 0.01, 0.03, 0.1)}
"""Of each, the rate that is best in the mean over seeds counts, for each task and each budget: the usual optimizers are
tuned, ours are not."""

FLOOR = 1e-12
"""Losses below are equal: all of them fit the data."""

Stepper = Callable[[], object]
"""One step on all of the data."""


@dataclass(frozen=True)
class Problem:
    """A network at its start, training data and held-out data."""

    net: nn.Sequential
    x: Tensor
    y: Tensor
    other_x: Tensor
    other_y: Tensor

    def loss(self, held_out: bool = False) -> Tensor:
        x, y = (self.other_x, self.other_y) if held_out else (self.x, self.y)
        return (self.net(x) - y).square().sum() / len(x)


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    seconds, steps, seeds = (0.02, 3, 2) if size == "quick" else (2.0, STEPS, 5)
    rates = {name: values[-1:] if size == "quick" else values for name, values in RATES.items()}
    tried = [("line", 0.0), ("ball", 0.0), ("L-BFGS", 0.0), *((name, r) for name in rates for r in rates[name])]
    curves: dict[str, dict[str, list[Any]]] = {}
    alone: dict[str, list[float]] = {}
    for j, task in enumerate(TASKS):
        for i, (name, rate) in enumerate(tried):
            runs = []
            for s in range(seeds):
                if progress is not None:
                    progress((j + (i + s / seeds) / len(tried)) / len(TASKS), f"{task}, {name}, seed {s}")
                problem = TASKS[task](seed + s, size)
                runs.append(_curve(_stepper(name, rate, problem), problem, seconds, steps))
            curves.setdefault(task, {})[f"{name} {rate:g}" if rate else name] = runs
        alone[task] = [_last_layer_alone(TASKS[task](seed + s, size)) for s in range(seeds)]
    budgets = {"step": float(steps), "second": seconds}
    best = {
        unit: {
            task: {name: _best(of_task, name, budget, unit) for name in ("line", "ball", "L-BFGS", *rates)}
            for task, of_task in curves.items()
        }
        for unit, budget in budgets.items()
    }
    shown = {
        unit: {task: {name: curves[task][key] for name, key in names.items()} for task, names in of_unit.items()}
        for unit, of_unit in best.items()
    }
    numbers = {"best": best, "steps": steps, "seconds": seconds, "curves": shown, "last layer alone": alone}

    def compared(text: str, unit: str, *others: str) -> Claim:
        budget = budgets[unit]
        what = f"after {budget:g} {unit}s" + (", rates that are best for it" if others[0] in RATES else "")
        return _compared(text, shown[unit], best[unit], others, what, lambda curve: _at(curve, budget, unit))

    return Outcome(
        numbers,
        (
            compared("At equal CPU time, descent by pieces (the exact minimum of a line in one layer after another) "
                     "reaches a lower training loss than SGD and Adam.", "second", "SGD", "Adam"),
            compared("At equal CPU time it reaches a lower one than L-BFGS.", "second", "L-BFGS"),
            _compared("What it finds has a lower error on held-out data than what Adam finds.", shown["second"],
                      best["second"], ("Adam",), "on held-out data at the end of the runs, rates by the training loss",
                      lambda curve: curve["held out"]),
            _ball(shown["step"], alone, steps),
        ),
    )  # fmt: skip


def _sine(seed: int, size: Size) -> Problem:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(20 if size == "quick" else 100, 1, generator=generator, dtype=torch.float64) * 6 - 3
    other = torch.linspace(-3, 3, 501, dtype=torch.float64)[:, None]
    return Problem(_network((1, 16, 16, 1), seed), x, torch.sin(2 * x), other, torch.sin(2 * other))


def _moons(seed: int, size: Size) -> Problem:
    generator = torch.Generator().manual_seed(seed)
    (x, labels), (other, wanted) = (two_moons(n, 0.2, generator) for n in (20 if size == "quick" else 200, 1000))
    return Problem(_network((2, 24, 24, 1), seed), x, _signs(labels), other, _signs(wanted))


def _signs(labels: Tensor) -> Tensor:
    return 2.0 * labels.double()[:, None] - 1


def _digits(seed: int, size: Size) -> Problem:
    x, labels = digits()
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    wanted, count = nn.functional.one_hot(labels, 10).double(), 20 if size == "quick" else 300
    rows, others = order[:count], order[count:]
    return Problem(_network((64, 32, 32, 10), seed), x[rows], wanted[rows], x[others], wanted[others])


TASKS: dict[str, Callable[[int, Size], Problem]] = {"sine": _sine, "moons": _moons, "digits": _digits}


def _network(widths: tuple[int, ...], seed: int) -> nn.Sequential:
    def make() -> nn.Sequential:
        layers: list[nn.Module] = []
        for a, b in pairwise(widths):
            layers += [nn.Linear(a, b), nn.ReLU()]
        return nn.Sequential(*layers[:-1])

    return seeded(make, seed).double().eval()


def _stepper(name: str, rate: float, problem: Problem) -> Stepper:
    net = problem.net
    if name in ("line", "ball"):
        pieces = LayerwiseDescent(net, region=name, products=PRODUCTS)
        return lambda: pieces.step(problem.x, problem.y)
    optimizer: torch.optim.Optimizer
    if name == "L-BFGS":
        # one iteration a step, with as many evaluations as its line search may need: by default max_eval is 1 here
        optimizer = torch.optim.LBFGS(net.parameters(), max_iter=1, max_eval=25, line_search_fn="strong_wolfe")
    elif name == "SGD":
        optimizer = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9)
    else:
        optimizer = torch.optim.Adam(net.parameters(), lr=rate)

    def closure() -> float:
        optimizer.zero_grad()
        value = problem.loss()
        value.backward()
        return float(value.detach())

    return lambda: optimizer.step(closure)


def _last_layer_alone(problem: Problem) -> float:
    """The least loss that is had without moving a hidden layer: a linear least squares problem."""
    return LayerwiseDescent(problem.net, layers=[str(len(problem.net) - 1)]).step(problem.x, problem.y)


def _curve(step: Stepper, problem: Problem, seconds: float, steps: int) -> dict[str, Any]:
    """Least loss so far, with CPU seconds and steps, until both budgets are used up; then the held-out error.

    Each loss is that after the step, evaluated outside of the time: what a step returns is for some the loss before it.
    """

    def now(held_out: bool = False) -> float:
        with torch.no_grad():
            return float(problem.loss(held_out))

    least = now()
    busy, count = 0.0, 0
    records = [(0.0, 0, least)]
    while busy < seconds or count < steps:
        start = time.process_time()
        step()
        busy += time.process_time() - start
        count += 1
        loss = now()
        least = min(least, loss) if math.isfinite(loss) else least
        if count <= steps or count % 20 == 0 or busy >= seconds:
            records.append((busy, count, least))
    curve = {name: [record[i] for record in records] for i, name in enumerate(("second", "step", "loss"))}
    return {**curve, "held out": now(held_out=True)}


def _at(curve: dict[str, list[float]], budget: float, unit: str) -> float:
    """The least loss within a budget of steps or seconds, not below the floor."""
    within = np.searchsorted(curve[unit], budget * (1 + 1e-12), side="right") - 1
    return max(float(curve["loss"][int(within)]), FLOOR)


def _best(of_task: dict[str, list[Any]], name: str, budget: float, unit: str) -> str:
    """The key of the rate with the least mean log loss within a budget."""
    keys = [key for key in of_task if key.split(" ")[0] == name]
    return min(keys, key=lambda key: float(np.mean([math.log(_at(c, budget, unit)) for c in of_task[key]])))


def _compared(
    text: str, curves: Any, best: Any, others: tuple[str, ...], what: str, measure: Callable[[dict[str, Any]], float]
) -> Claim:
    """A number of the line over that of others, paired over seeds: it must be below 1 in every task.

    It fails by its worst comparison, so there the comparisons share 5%.
    """
    lows, highs, words, seeds = [], [], [], 0
    count = len(curves) * len(others)
    for task, of_task in curves.items():
        own = np.array([measure(curve) for curve in of_task["line"]])
        seeds = len(own)
        for other in others:
            ratios = own / np.array([measure(curve) for curve in of_task[other]])
            low, high = ratio_interval(ratios)
            lows.append(ratio_interval(ratios, 1 - 0.05 / count)[0])
            highs.append(high)
            middle = np.exp(np.log(ratios).mean())
            words.append(f"{task}, over {best[task][other]}: {middle:.3g} ({low:.2g} to {high:.2g})")
    return judged(
        f"{text} (Survey, geometry of the loss function: an open question.)",
        f"ratio of losses {what}, geometric means of {seeds} seeds with 95% intervals: {'; '.join(words)}",
        holds=[Check("upper end of the ratio, largest over tasks", max(highs), "<", 1.0, "1 is no gain")],
        fails=[Check(f"lower end of the ratio, largest of {count} intervals that share 5%", max(lows), ">", 1.0,
                     "it loses significantly in a task")],
    )  # fmt: skip


def _ball(curves: Any, alone: dict[str, list[float]], steps: int) -> Claim:
    """What the ball adds to fitting the last layer, whose ball is everything."""
    ratios = {
        task: np.array([_at(c, steps, "step") for c in of_task["ball"]]) / np.maximum(alone[task], FLOOR)
        for task, of_task in curves.items()
    }
    least = min(ratio_interval(v)[0] for v in ratios.values())
    most = max(ratio_interval(v)[1] for v in ratios.values())
    return judged(
        "(Ours.) The ball that reaches to the nearest break, where the quadratic is the loss itself, is too small to "
        "train hidden layers by: the loss stays near that of fitting the last layer alone.",
        f"loss after {steps} steps over that of the last layer's fit: "
        + ", ".join(
            f"{task} {np.exp(np.log(v).mean()):.3g} ({v.min():.3g} to {v.max():.3g})" for task, v in ratios.items()
        ),
        holds=[
            Check("lower end of the 95% interval, least over tasks", least, ">", 0.5, "not even half of it is gone")
        ],
        fails=[
            Check("upper end of the 95% interval, largest over tasks", most, "<", 0.5, "more than half in all tasks")
        ],
    )


def draw(numbers: dict[str, Any]) -> Any:
    """Loss against CPU seconds (above) and steps (below), each task a column, each seed a line."""
    tasks = list(numbers["curves"]["step"])
    figure, axes = subplots(len(tasks), 2)
    colors = {"line": "#0072b2", "ball": "#56b4e9", "L-BFGS": "#009e73", "SGD": "#d55e00", "Adam": "#e69f00"}
    for row, (unit, axis) in enumerate((("second", "CPU seconds"), ("step", "steps"))):
        for column, task in enumerate(tasks):
            ax = axes[row * len(tasks) + column]
            for name, runs in numbers["curves"][unit][task].items():
                for i, curve in enumerate(runs):
                    place, loss = np.maximum(curve[unit], (1e-3, 0.5)[row]), np.maximum(curve["loss"], FLOOR)
                    label = numbers["best"][unit][task][name] if i == 0 else None
                    ax.plot(place, loss, color=colors[name], lw=1, alpha=0.8, label=label)
            ax.set(xscale="log", yscale="log", xlabel=axis, title=task)
            if row == 1:
                ax.set_xlim(0.5, numbers["steps"])
            if column == 0:
                ax.set_ylabel("mean squared error")
            ax.legend(frameon=False, fontsize=7)
    return figure


EXPERIMENT = Experiment(
    "An optimizer from the piecewise quadratic", run, draw, place="near Figure 6", revised=(1, 2, 3)
)
