"""An open question of the survey: batch norm early for speed, none late for the migration of folds: best of both?"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..complexity import local_complexity, robustness
from ..normalization import MergeAway, with_statistics
from ..train import LogSpaced
from ._experiment import Check, Claim, Experiment, Outcome, Progress, Size, judged
from ._figures import subplots
from ._grokking import EPSILON, RADIUS, Run, Setting, _measure, network, quick, sets
from ._intervals import interval, ratio_interval

ARMS = ("plain", "batch norm", "merged away")
MERGE_AT = 1000
"""Long after interpolation with batch norm, long before the late drop: fixed before the first run."""

STEPS, RATE = 30_000, 1e-3
"""Those of `survey-fig9`."""


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    seeds, merge_at = (2, 100) if size == "quick" else (5, MERGE_AT)
    results: dict[str, list[dict[str, Any]]] = {arm: [] for arm in ARMS}
    for s in range(seeds):
        finals: dict[str, nn.Module] = {}
        for i, arm in enumerate(ARMS):
            if progress is not None:
                progress((s + i / len(ARMS)) / seeds, f"{arm}, seed {s}")
            setting = (
                quick(seed + s, steps=300, batch_norm=arm != "plain")
                if size == "quick"
                else Setting(seed=seed + s, steps=STEPS, rate=RATE, per_decade=6, batch_norm=arm != "plain")
            )
            trained, model = train(setting, merge_at if arm == "merged away" else None)
            finals[arm] = model
            results[arm].append(trained.curves())
        for arm in ARMS:
            results[arm][-1] |= _at_the_end(finals, arm, setting, strong=size == "full")
    numbers = {"arms": results, "merge_at": merge_at, "radius": RADIUS, "epsilon": EPSILON}
    return Outcome(numbers, _claims(results))


def train(setting: Setting, merge_at: int | None) -> tuple[Run, nn.Module]:
    """Adam on the squared error, measured at log-spaced steps; and the model at the end, with the data's statistics."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(setting.seed)
        model = network(setting)
    x, y, x_test, y_test = sets(setting)
    targets = F.one_hot(y, 10).float()
    generator = torch.Generator().manual_seed(setting.seed)
    noise = torch.rand(setting.points, *x.shape[1:], generator=generator)
    optimizer = torch.optim.Adam(model.parameters(), setting.rate)
    schedule = None if merge_at is None else MergeAway(model, optimizer, at=merge_at, statistics=x)
    found, due = Run(), 0
    log = LogSpaced(setting.per_decade)
    for step in range(setting.steps + 1):
        if schedule is not None:
            schedule.step(step)
        if step == due or step == setting.steps:
            _measure(found, model, step, setting, x, y, x_test, y_test, noise)
            found.states.clear()
            due = log.next_after(step)
        rows = torch.randint(len(x), (setting.batch,), generator=generator)
        loss = F.mse_loss(model(x[rows]), targets[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    normed = any(isinstance(m, nn.BatchNorm1d) for m in model.modules())
    return found, with_statistics(model, x) if normed else model.eval()


def _at_the_end(models: dict[str, nn.Module], arm: str, setting: Setting, strong: bool) -> dict[str, Any]:
    """Clean and robust accuracy with signs of masking, and folds at the decision boundary over those at the data."""
    x, _, unseen, y_unseen = sets(setting)
    with torch.no_grad():
        clean = float((models[arm](unseen).argmax(1) == y_unseen).double().mean())
    x_test, y_test = unseen[: setting.points], y_unseen[: setting.points]
    steps, restarts, queries = (40, 2, 300) if strong else (5, 1, 10)
    found = robustness(
        models[arm], x_test, y_test, epsilons=[EPSILON], steps=steps, restarts=restarts, queries=queries,
        bounds=(0.0, 1.0), transfer_from=[m for name, m in models.items() if name != arm],
    )  # fmt: skip
    at = [
        float(local_complexity(models[arm], points, radius=RADIUS).total.double().mean())
        for points in (_on_boundary(models[arm], x_test), x[: setting.points])
    ]
    return {"clean": clean, "unseen": len(unseen), "attacked clean": found.clean, "robust": float(found.accuracy[0]),
            "masked": found.masked, "boundary": at[0], "data": at[1]}  # fmt: skip


@torch.no_grad()
def _on_boundary(model: nn.Module, x: Tensor) -> Tensor:
    """Points where the predicted class changes, by halving ways between points of different classes."""
    order = model(x).argmax(1)
    pairs = [(i, j) for i, j in pairwise(range(len(x))) if order[i] != order[j]]
    a, b = x[[i for i, _ in pairs]].clone(), x[[j for _, j in pairs]].clone()
    start = model(a).argmax(1)
    for _ in range(20):
        middle = 0.5 * (a + b)
        same = (model(middle).argmax(1) == start).reshape(-1, *[1] * (x.dim() - 1))
        a, b = torch.where(same, middle, a), torch.where(same, b, middle)
    return a


def _first(curve: dict[str, Any]) -> float:
    """The first record from which on the training accuracy stays above 0.995; the last step if none."""
    low = [i for i, accuracy in enumerate(curve["train_accuracy"]) if accuracy <= 0.995]
    first = low[-1] + 1 if low else 0
    return float(max(1, curve["steps"][min(first, len(curve["steps"]) - 1)]))


def _claims(arms: dict[str, list[dict[str, Any]]]) -> tuple[Claim, ...]:
    where = (f"(Survey, batch norm and the dynamic geometry: an open question; one rate, {RATE:g}, and one time of "
             f"merging, step {MERGE_AT:,}.)")  # fmt: skip
    early = {arm: np.array([_first(c) for c in arms[arm]]) for arm in ARMS}
    late = {arm: np.array([c["lc_train"][-1] for c in arms[arm]]) for arm in ARMS}
    robust = {arm: np.array([c["robust"] for c in arms[arm]]) for arm in ARMS}
    clean = {arm: np.array([c["clean"] for c in arms[arm]]) for arm in ARMS}
    boundary = {arm: np.array([c["boundary"] / max(c["data"], 1e-9) for c in arms[arm]]) for arm in ARMS}
    drops = [c["lc_train"][-1] / max(c["lc_train"][2:]) for c in arms["plain"]]
    there = Check("end over maximum of local complexity without batch norm, mean of seeds", float(np.mean(drops)),
                  "<", 0.8, "the late drop itself must be there")  # fmt: skip
    masked = sum(bool(c["masked"]) for arm in ARMS for c in arms[arm])
    unmasked = Check("runs with signs of masked gradients", float(masked), "<", 0.5,
                     "accuracy under attack is no robustness then")  # fmt: skip
    own = "merged away"
    speed = ratio_interval(early[own] / early["plain"])
    left = ratio_interval(late[own] / late["batch norm"])
    stays = ratio_interval(late[own] / late["plain"])
    gains = [interval(robust[own] - robust[arm]) for arm in ARMS[:2]]
    least = [min(g[end] for g in gains) for end in (0, 1)]
    costs = [interval(clean[own] - clean[arm]) for arm in ARMS[:2]]
    most = [min(c[end] for c in costs) for end in (0, 1)]
    return (
        judged("Early, batch norm that is merged away later interpolates in fewer steps than no batch norm (long "
               f"before it is merged: it is batch norm against none). {where}",
               f"steps to interpolation: {_shown(early)}; ratio to plain, 95% interval {_span(speed)}",
               holds=[Check("upper end of the ratio", speed[1], "<", 1.0, "1 is no gain")],
               fails=[Check("lower end of the ratio", speed[0], ">", 1.0, "1 is no loss")]),
        judged(f"Late, folds leave the training points further than with batch norm kept. {where}",
               f"local complexity at training points at the end: {_shown(late)}; ratio to batch norm kept, 95% "
               f"interval {_span(left)}; folds at the decision boundary over those at the data: {_shown(boundary)}",
               holds=[Check("upper end of the ratio", left[1], "<", 1.0, "1 is no gain")],
               fails=[Check("lower end of the ratio", left[0], ">", 1.0, "1 is no loss")]),
        judged(f"Late, they leave them as far as without batch norm ever. {where}",
               f"ratio to plain, 95% interval {_span(stays)}", needs=[there],
               holds=[Check("upper end of the ratio", stays[1], "<", 1.1, "a tenth more is as far")],
               fails=[Check("lower end of the ratio", stays[0], ">", 1.1, "surely more than a tenth more")]),
        judged(f"At the end it is more robust than either. {where}",
               f"accuracy under attack: {_shown(robust)}; minus plain {_span(gains[0])}, minus batch norm "
               f"{_span(gains[1])} (95% intervals)", needs=[unmasked],
               holds=[Check("lower end of the gain, least of the two", least[0], ">", 0.0, "0 is no gain")],
               fails=[Check("upper end of the gain, least of the two", least[1], "<", 0.0, "it surely loses to one")]),
        judged(f"It costs clean accuracy by no more than .01, against either. {where}",
               f"accuracy on the {arms[own][0]['unseen']} digits that are not trained on: {_shown(clean)}; minus plain "
               f"{_span(costs[0])}, minus batch norm {_span(costs[1])} (95% intervals)",
               holds=[Check("lower end of the difference, least of the two", most[0], ">", -0.01, "the claim's own")],
               fails=[Check("upper end of the difference, least of the two", most[1], "<", -0.01,
                            "it surely costs more than that against one")]),
    )  # fmt: skip


def _shown(values: dict[str, np.ndarray]) -> str:
    return ", ".join(f"{arm} {v.mean():.3g} ({v.min():.3g} to {v.max():.3g})" for arm, v in values.items())


def _span(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.3g} to {ends[1]:.3g}"


def draw(numbers: dict[str, Any]) -> Any:
    """Local complexity, training accuracy and the end of each run."""
    figure, axes = subplots(3)
    colors = dict(zip(ARMS, ("#d55e00", "#009e73", "#0072b2"), strict=True))
    for ax, name, label in ((axes[0], "lc_train", f"folds in the frame at training points,\nr = {numbers['radius']}"),
                            (axes[1], "train_accuracy", "training accuracy")):  # fmt: skip
        for arm in ARMS:
            for i, curve in enumerate(numbers["arms"][arm]):
                ax.plot(
                    np.maximum(curve["steps"], 0.5),
                    curve[name],
                    color=colors[arm],
                    lw=1,
                    ls="--" if arm == ARMS[-1] else "-",
                    alpha=0.8,
                    label=arm if i == 0 else None,
                )
        ax.axvline(numbers["merge_at"], color="0.6", lw=1, ls=":")
        ax.set(xscale="log", xlabel="training step (0 drawn at 0.5)", ylabel=label)
        ax.legend(frameon=False, fontsize=8)
    for arm in ARMS:
        axes[2].plot([c["clean"] for c in numbers["arms"][arm]], [c["robust"] for c in numbers["arms"][arm]], "o", ms=5,
                     color=colors[arm], label=arm, alpha=0.8)  # fmt: skip
    axes[2].set(xlabel="test accuracy", ylabel=f"test accuracy under attack, {numbers['epsilon']:g}")
    axes[2].legend(frameon=False, fontsize=8)
    return figure


EXPERIMENT = Experiment(
    "survey-merge-away",
    "survey",
    "Batch norm early, none late",
    run,
    draw,
    place="the end of the part 'The dynamic geometry of learning', after Figure 9: an open question",
    changed={
        5: (
            "on 200 test points, against plain alone, as no cost at all: holds; now on all digits that are not "
            "trained on, against both, with the line of .01 in the claim"
        ),
    },
)
