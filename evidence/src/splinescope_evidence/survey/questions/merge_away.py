"""An open question of the survey: batch norm early for speed, none late for the migration of folds: best of both?"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from splinescope.complexity import ComplexityMonitor, local_complexity, robustness
from splinescope.normalization import with_statistics
from splinescope.train import LogSpaced
from splinescope_evidence.framework.experiment import Check, Claim, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.boundary import on_boundary
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.grokking import EPSILON, RADIUS, Run, Setting, _measure, network, quick, sets
from splinescope_evidence.shared.intervals import interval, ratio_interval
from splinescope_research import MergeAway

ARMS = ("plain", "batch norm", "merged away")
PLATEAU = "merged at a plateau"
"""A fourth arm, asked after a full run of the other three: batch norm until `MergeAway` finds a plateau of local
complexity, by the default settings of its rule and of the monitor that it reads, told of the same points and radius.
On five seeds with batch norm kept the rule was known to hold first at steps 100 to 147, at six records per decade."""

MERGE_AT = 1000
"""Long after interpolation with batch norm, long before the late drop: fixed before the first run."""

STEPS, RATE = 30_000, 1e-3
"""Those of `survey-fig9`."""

EITHER = 1 - 0.05 / 2
"""Level of an interval where the worse of two comparisons decides."""

SHARED = f"{EITHER:.1%} intervals, as one of two comparisons may decide"


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    seeds, merge_at = (2, 100) if size == "quick" else (5, MERGE_AT)
    merges: dict[str, int | Literal["plateau"] | None]
    merges = {**dict.fromkeys(ARMS), ARMS[2]: merge_at, PLATEAU: "plateau"}
    results: dict[str, list[dict[str, Any]]] = {arm: [] for arm in merges}
    for s in range(seeds):
        finals: dict[str, nn.Module] = {}
        for i, (arm, merge) in enumerate(merges.items()):
            if progress is not None:
                progress((s + i / len(merges)) / seeds, f"{arm}, seed {s}")
            setting = (
                quick(seed + s, steps=300, batch_norm=arm != "plain")
                if size == "quick"
                else Setting(seed=seed + s, steps=STEPS, rate=RATE, per_decade=6, batch_norm=arm != "plain")
            )
            trained, finals[arm], merged_at = train(setting, merge)
            results[arm].append(trained.curves() | {"merged_at": merged_at})
        for arm in merges:
            results[arm][-1] |= _at_the_end(finals, arm, setting, strong=size == "full")
    numbers = {"arms": results, "merge_at": merge_at, "radius": RADIUS, "epsilon": EPSILON}
    return Outcome(numbers, _claims(results))


def train(setting: Setting, merge: int | Literal["plateau"] | None) -> tuple[Run, nn.Module, int | None]:
    """Adam on the squared error, measured at log-spaced steps; the model at the end, with the data's statistics; and
    the step at which batch norm was merged away, None if it never was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(setting.seed)
        model = network(setting)
    x, y, x_test, y_test = sets(setting)
    targets = F.one_hot(y, 10).float()
    generator = torch.Generator().manual_seed(setting.seed)
    noise = torch.rand(setting.points, *x.shape[1:], generator=generator)
    optimizer = torch.optim.Adam(model.parameters(), setting.rate)
    monitor = schedule = None
    if merge == "plateau":
        monitor = ComplexityMonitor(model, x[: setting.points], radius=RADIUS, statistics_from=x, budget=None)
        schedule = MergeAway(model, optimizer, plateau=(monitor, "points"), statistics=x)
    elif merge is not None:
        schedule = MergeAway(model, optimizer, at=merge, statistics=x)
    found, due = Run(), 0
    log = LogSpaced(setting.per_decade)
    for step in range(setting.steps + 1):
        if schedule is not None and schedule.merged_at is None:
            if monitor is not None:
                monitor.step(step)
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
    if schedule is not None:
        schedule.finish(setting.steps)
    normed = any(isinstance(m, nn.BatchNorm1d) for m in model.modules())
    final = with_statistics(model, x) if normed else model.eval()
    return found, final, None if schedule is None else schedule.merged_at


def _at_the_end(models: dict[str, nn.Module], arm: str, setting: Setting, strong: bool) -> dict[str, Any]:
    """Clean and robust accuracy with signs of masking, and folds at the decision boundary over those at the data.

    Points that break other arms are tried too. Every arm has two such others, so that none is attacked harder: each of
    the first three the other two, as before there was a fourth, and the fourth those of the arm merged at a step.
    """
    others = [name for name in ARMS if name != (ARMS[2] if arm == PLATEAU else arm)]
    x, _, unseen, y_unseen = sets(setting)
    with torch.no_grad():
        clean = float((models[arm](unseen).argmax(1) == y_unseen).double().mean())
    x_test, y_test = unseen[: setting.points], y_unseen[: setting.points]
    steps, restarts, queries = (40, 2, 300) if strong else (5, 1, 10)
    found = robustness(
        models[arm], x_test, y_test, epsilons=[EPSILON], steps=steps, restarts=restarts, queries=queries,
        bounds=(0.0, 1.0), transfer_from=[models[name] for name in others],
    )  # fmt: skip
    at = [
        float(local_complexity(models[arm], points, radius=RADIUS).total.double().mean())
        for points in (on_boundary(models[arm], x_test), x[: setting.points])
    ]
    return {"clean": clean, "unseen": len(unseen), "attacked clean": found.clean, "robust": float(found.accuracy[0]),
            "masked": found.masked, "boundary": at[0], "data": at[1]}  # fmt: skip


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
    there, unmasked = _late_drop(arms["plain"]), _unmasked([c for arm in ARMS for c in arms[arm]])
    own = "merged away"
    speed = ratio_interval(early[own] / early["plain"])
    left = ratio_interval(late[own] / late["batch norm"])
    stays = ratio_interval(late[own] / late["plain"])
    gains, costs = ([interval(of[own] - of[arm], EITHER) for arm in ARMS[:2]] for of in (robust, clean))
    least, most = ([min(ends[i] for ends in both) for i in (0, 1)] for both in (gains, costs))
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
               fails=[Check("lower end of the ratio", stays[0], ">", 1.1, "significantly more than a tenth more")]),
        judged(f"At the end it is more robust than either. {where}",
               f"accuracy under attack: {_shown(robust)}; minus plain {_span(gains[0])}, minus batch norm "
               f"{_span(gains[1])} ({SHARED})", needs=[unmasked],
               holds=[Check("lower end of the gain, least of the two", least[0], ">", 0.0, "0 is no gain")],
               fails=[Check("upper end of the gain, least of the two", least[1], "<", 0.0, "it loses to one")]),
        judged(f"It costs clean accuracy by no more than .01, against either. {where}",
               f"accuracy on the {arms[own][0]['unseen']} digits that are not trained on: {_shown(clean)}; minus plain "
               f"{_span(costs[0])}, minus batch norm {_span(costs[1])} ({SHARED})",
               holds=[Check("lower end of the difference, least of the two", most[0], ">", -0.01, "the claim's own")],
               fails=[Check("upper end of the difference, least of the two", most[1], "<", -0.01,
                            "it costs significantly more than that against one")]),
    )  # fmt: skip


def _late_drop(plain: list[dict[str, Any]]) -> Check:
    drops = [c["lc_train"][-1] / max(c["lc_train"][2:]) for c in plain]
    return Check("end over maximum of local complexity without batch norm, mean of seeds", float(np.mean(drops)),
                 "<", 0.8, "the late drop itself must be there")  # fmt: skip


def _unmasked(curves: list[dict[str, Any]]) -> Check:
    return Check("runs with signs of masked gradients", float(sum(bool(c["masked"]) for c in curves)), "<", 0.5,
                 "accuracy under attack is no robustness then")  # fmt: skip


def _steps(at: list[int | None]) -> str:
    return ", ".join("never" if step is None else f"{step:,}" for step in at)


def _shown(values: dict[str, np.ndarray]) -> str:
    return ", ".join(f"{arm} {v.mean():.3g} ({v.min():.3g} to {v.max():.3g})" for arm, v in values.items())


def _span(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.3g} to {ends[1]:.3g}"


def draw(numbers: dict[str, Any]) -> Any:
    """Local complexity, training accuracy and the end of each run; triangles where a plateau was found."""
    figure, axes = subplots(3)
    colors = dict(zip((*ARMS, PLATEAU), ("#d55e00", "#009e73", "#0072b2", "#cc79a7"), strict=True))
    for ax, name, label in ((axes[0], "lc_train", f"folds in the frame at training points,\nr = {numbers['radius']}"),
                            (axes[1], "train_accuracy", "training accuracy")):  # fmt: skip
        for arm in colors:
            for i, curve in enumerate(numbers["arms"][arm]):
                ax.plot(
                    np.maximum(curve["steps"], 0.5),
                    curve[name],
                    color=colors[arm],
                    lw=1,
                    ls="--" if arm == ARMS[-1] else ":" if arm == PLATEAU else "-",
                    alpha=0.8,
                    label=arm if i == 0 else None,
                )
        ax.axvline(numbers["merge_at"], color="0.6", lw=1, ls=":")
        found = [c["merged_at"] for c in numbers["arms"][PLATEAU] if c["merged_at"] is not None]
        ax.plot(found, [0.02] * len(found), "^", ms=6, color=colors[PLATEAU], alpha=0.8,
                transform=ax.get_xaxis_transform(), label=f"plateau found, {len(found)} runs")  # fmt: skip
        ax.set(xscale="log", xlabel="training step (0 drawn at 0.5)", ylabel=label)
        ax.legend(frameon=False, fontsize=8)
    for arm in colors:
        axes[2].plot([c["clean"] for c in numbers["arms"][arm]], [c["robust"] for c in numbers["arms"][arm]], "o", ms=5,
                     color=colors[arm], label=arm, alpha=0.8)  # fmt: skip
    axes[2].set(xlabel="test accuracy", ylabel=f"test accuracy under attack, {numbers['epsilon']:g}")
    axes[2].legend(frameon=False, fontsize=8)
    return figure


EXPERIMENT = Experiment("Batch norm early, none late", run, draw, place="after Figure 9", revised=(4, 5))
