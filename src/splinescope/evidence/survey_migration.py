"""An open question of the survey: why do tiles migrate so late? The folds of single units, tracked through training."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..complexity import FoldMonitor, local_complexity
from ..landscape import partial_rank_correlation
from ..train import LogSpaced
from ._data import digits
from ._experiment import Check, Claim, Experiment, Outcome, Progress, Size, judged
from ._figures import subplots
from ._intervals import interval, ratio_interval

ARMS: dict[str, dict[str, Any]] = {
    "squared": {},
    "weights x2": {"weights": 2.0},
    "targets x4": {"targets": 4.0},
    "cross-entropy": {"loss": "cross_entropy"},
}
"""Squared loss as it is; with initial weights twice as large; with targets and so the loss on a larger scale; another
loss."""

HIDDEN, RADIUS, RATE = 3, 0.05, 2e-3
LEFT = 0.9
"""End over peak of local complexity from which on folds have left: a tenth stands out from record to record.
Seed 100, not used below, went from 6.2 to 4.6 folds between steps 2,000 and 8,000 with the squared loss."""

PREDICTORS = ("loss", "weight norm", "margin")


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    seeds = 2 if size == "quick" else 5
    runs: dict[str, list[dict[str, Any]]] = {arm: [] for arm in ARMS}
    for s in range(seeds):
        for i, (arm, options) in enumerate(ARMS.items()):
            if progress is not None:
                progress((s + i / len(ARMS)) / seeds, f"{arm}, seed {s}")
            runs[arm].append(tracked(size, seed + s, **options))
    return Outcome({"runs": runs, "radius": RADIUS}, _claims(runs))


def tracked(
    size: Size, seed: int, *, loss: str = "squared", weights: float = 1.0, targets: float = 1.0
) -> dict[str, Any]:
    """Train by Adam and follow every fold at log-spaced steps."""
    width, train, steps, batch, points, often = (
        (12, 60, 60, 20, 20, 2) if size == "quick" else (100, 500, 20_000, 100, 100, 8)
    )
    x, y = digits()
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(x), generator=generator)[:train]
    x, y = x[order].float(), y[order]
    wanted = targets * F.one_hot(y, 10).float()
    model = _network(width, weights, seed)

    def of_rows(outputs: Tensor, rows: Tensor) -> Tensor:
        if loss == "cross_entropy":
            return F.cross_entropy(outputs, y[rows])
        return F.mse_loss(outputs, wanted[rows])

    optimizer = torch.optim.Adam(model.parameters(), RATE)
    folds = FoldMonitor(model, x[:points], torch.arange(points), loss=of_rows)
    curve: dict[str, list[Any]] = {name: [] for name in ("steps", "lc", "accuracy", *PREDICTORS)}
    schedule, due = LogSpaced(often), 0
    for step in range(steps + 1):
        if step in (due, steps):
            folds.measure(step)
            _look(curve, model, step, x, y, of_rows, points)
            following = schedule.next_after(step)
            due = steps if following is None else following
        rows = torch.randint(train, (batch,), generator=generator)
        optimizer.zero_grad()
        of_rows(model(x[rows]), rows).backward()
        optimizer.step()
    return {**curve, **_of_units(folds, curve, width)}


def _network(width: int, weights: float, seed: int) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        parts = [m for i in range(HIDDEN) for m in (nn.Linear(width if i else 64, width), nn.ReLU())]
        model = nn.Sequential(*parts, nn.Linear(width, 10))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(weights)
    return model


def _look(
    curve: dict[str, list[Any]], model: nn.Module, step: int, x: Tensor, y: Tensor, of_rows: Any, points: int
) -> None:
    """Folds near training points, accuracy, and what might tell when they leave."""
    outputs = model(x)
    curve["steps"].append(step)
    curve["lc"].append(float(local_complexity(model, x[: 2 * points], radius=RADIUS).total.double().mean()))
    curve["accuracy"].append(float((outputs.argmax(1) == y).double().mean()))
    curve["loss"].append(float(of_rows(outputs, torch.arange(len(x))).detach()))
    curve["weight norm"].append(float(torch.cat([p.detach().flatten() for p in model.parameters()]).norm()))
    curve["margin"].append(_margin(model, x, y))


def _margin(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Mean linearised distance of points to the boundary between their class and the next one."""
    rows = x.clone().requires_grad_()
    scores = model(rows)
    own = scores.gather(1, y[:, None])[:, 0]
    gaps = own - scores.scatter(1, y[:, None], -torch.inf).amax(1)
    (slopes,) = torch.autograd.grad(gaps.sum(), rows)
    return float((gaps.detach() / slopes.norm(dim=1).clamp_min(1e-12)).mean())


def peak_and_onset(curve: dict[str, Any]) -> tuple[int, int, int]:
    """Records of interpolation, of the most folds after it, and of the onset: half of the way down from there to the
    end; the last record if less than a tenth of them leave.
    """
    low = [i for i, accuracy in enumerate(curve["accuracy"]) if accuracy <= 0.995]
    last = len(curve["steps"]) - 1
    learnt = min(low[-1] + 1 if low else 0, last)
    peak = learnt + int(np.argmax(curve["lc"][learnt:]))
    half = (curve["lc"][peak] + curve["lc"][-1]) / 2
    if curve["lc"][-1] > LEFT * curve["lc"][peak]:
        return learnt, peak, last
    return learnt, peak, next(i for i in range(peak, last + 1) if curve["lc"][i] <= half)


def _of_units(folds: FoldMonitor, curve: dict[str, Any], width: int) -> dict[str, Any]:
    """Medians by layer through training, and over all units what pull tells of leaving, given where they were."""
    layers = [slice(i * width, (i + 1) * width) for i in range(HIDDEN)]
    tracks = {what: folds.track(what) for what in ("to_data", "to_boundary", "speed", "pull")}
    found: dict[str, Any] = {
        what: [[_median(row[layer]) for layer in layers] for row in track] for what, track in tracks.items()
    }
    _, peak, _ = peak_and_onset(curve)
    before, after = (np.log(np.maximum(tracks["to_data"][i], 1e-9)) for i in (peak, -1))
    known = np.isfinite(before) & np.isfinite(after)
    for name in ("pull", "to_boundary"):
        values = tracks[name][peak]
        use = known & np.isfinite(values)
        found[f"leaving by {name}"] = (
            partial_rank_correlation(values[use], (after - before)[use], before[use]) if use.sum() > 2 else 0.0
        )
    return found


def _median(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else float("nan")


def half_way(curve: dict[str, Any], layer: int) -> float:
    """Step at which a layer's folds are half of the way, in logarithms, from their place at the peak to the last."""
    _, peak, _ = peak_and_onset(curve)
    place = np.log(np.array(curve["to_data"])[peak:, layer])
    steps = curve["steps"][peak:]
    half = (place[0] + place[-1]) / 2
    beyond = place >= half if place[-1] > place[0] else place <= half
    return float(max(1, steps[int(np.argmax(beyond))]))


def _claims(runs: dict[str, list[dict[str, Any]]]) -> tuple[Claim, ...]:
    where = "(Survey, the dynamic geometry of learning: an open question.)"
    drops = {arm: ratio_interval([c["lc"][-1] / c["lc"][peak_and_onset(c)[1]] for c in of]) for arm, of in runs.items()}
    onsets = {arm: np.array([c["steps"][peak_and_onset(c)[2]] for c in of], float) for arm, of in runs.items()}
    told = "; ".join(f"{arm} {low:.2f} to {high:.2f}" for arm, (low, high) in drops.items())
    there = Check("upper end of end over peak, squared loss", drops["squared"][1], "<", LEFT, "the folds must leave")

    def leave(arm: str, text: str) -> Claim:
        return judged(f"{text} {where}", f"folds near training points, end over peak, 95% intervals: {told}",
                      holds=[Check(f"upper end, {arm}", drops[arm][1], "<", LEFT, "a tenth stands out")],
                      fails=[Check(f"lower end, {arm}", drops[arm][0], ">", LEFT, "they surely stay")])  # fmt: skip

    def later(arm: str, text: str) -> Claim:
        low, high = ratio_interval(onsets[arm] / onsets["squared"])
        shown = ", ".join(f"{step:.0f}" for step in onsets[arm])
        base = ", ".join(f"{step:.0f}" for step in onsets["squared"])
        return judged(f"{text} {where}", f"step of the onset {shown}, otherwise {base}; ratio {low:.2f} to {high:.2f} "
                      "(95% interval; the last step where folds do not leave)", needs=[there],
                      holds=[Check("lower end of the ratio", low, ">", 1.0, "1 is no later")],
                      fails=[Check("upper end of the ratio", high, "<", 1.0, "surely earlier")])  # fmt: skip

    return (
        leave("squared", "Long after the training set is learnt, folds leave the training points (squared loss)."),
        leave("cross-entropy", "With the cross-entropy they do so too in as many steps."),
        later("weights x2", "Larger weights at the start make folds leave later."),
        later("targets x4", "A larger scale of outputs and loss makes them leave later."),
        _predicted(runs, where, there),
        _layers(runs["squared"], where, there),
        _units(runs["squared"], where, there),
    )


def _predicted(runs: dict[str, list[dict[str, Any]]], where: str, there: Check) -> Claim:
    """Spearman's correlation of the onset, over the runs with squared loss, with what is known at interpolation."""
    arms = list(ARMS)[:3]
    onset = np.array([[c["steps"][peak_and_onset(c)[2]] for c in runs[arm]] for arm in arms])
    level = 1 - 0.05 / len(PREDICTORS)
    sure, words = [], []
    for name in PREDICTORS:
        known = np.array([[c[name][peak_and_onset(c)[0]] for c in runs[arm]] for arm in arms])
        r, low, high = rank_correlation_of_seeds(known, onset, level)
        sure.append((max(low, -high), max(abs(low), abs(high))))
        words.append(f"{name} {r:+.2f} ({low:+.2f} to {high:+.2f})")
    return judged(
        f"Loss, weight norm or margin at interpolation tell when folds leave. {where}",
        f"Spearman's correlation with the step of the onset over {onset.size} runs with squared loss, intervals by "
        f"leaving out whole seeds, which the arms share, that share 5%: {', '.join(words)}. (Before, the runs were "
        "taken as independent; no line was moved.)",
        needs=[there],
        holds=[Check("size that is sure, largest of the three", max(s for s, _ in sure), ">", 0.0, "0 tells nothing")],
        fails=[Check("size that is possible, largest of the three", max(m for _, m in sure), "<", 0.5,
                     "surely less than a quarter of the variance of ranks"),
               Check("size that is sure, largest of the three", max(s for s, _ in sure), "<", 0.0,
                     "none is sure to tell")],
    )  # fmt: skip


def rank_correlation_of_seeds(known: np.ndarray, onset: np.ndarray, level: float) -> tuple[float, float, float]:
    """Spearman's correlation over all entries of two `[arms, seeds]` tables and its interval by the jackknife.

    A seed is left out in all arms at once, for the arms of a seed start alike and are not independent; Student's
    interval of the pseudo-values of Fisher's z.
    """

    def fisher(keep: np.ndarray) -> float:
        given = known[:, keep].ravel()
        r = partial_rank_correlation(given, onset[:, keep].ravel(), np.zeros(len(given)))
        return float(np.arctanh(np.clip(r, -0.999, 0.999)))

    seeds = np.arange(known.shape[1])
    whole = fisher(seeds)
    others = np.array([fisher(seeds[seeds != s]) for s in seeds])
    low, high = interval(len(seeds) * whole - (len(seeds) - 1) * others, level)
    return float(np.tanh(whole)), float(np.tanh(low)), float(np.tanh(high))


def _layers(curves: list[dict[str, Any]], where: str, there: Check) -> Claim:
    order = [[half_way(c, layer) for layer in range(HIDDEN)] for c in curves]
    low, high = ratio_interval([row[-1] / row[0] for row in order])
    means = ", ".join(f"{np.exp(np.mean(np.log([row[i] for row in order]))):.0f}" for i in range(HIDDEN))
    slowed = [_median(np.array(c["speed"])[peak_and_onset(c)[1]]) / _median(np.array(c["speed"])[1:6].ravel())
              for c in curves]  # fmt: skip
    return judged(
        f"Deeper layers move first. {where}",
        f"step at which the folds of a layer are half of the way from the peak to the end, layers 1 to {HIDDEN}: "
        f"{means}; last over first {low:.2f} to {high:.2f} (95% interval). Speed of folds at the peak over that in the "
        f"first records: {np.exp(np.mean(np.log(slowed))):.2g}",
        needs=[there],
        holds=[Check("upper end of last over first", high, "<", 1.0, "1 is together")],
        fails=[Check("lower end of last over first", low, ">", 1.0, "the first layer is surely before")],
    )


def _units(curves: list[dict[str, Any]], where: str, there: Check) -> Claim:
    pull, edge = ([c[f"leaving by {name}"] for c in curves] for name in ("pull", "to_boundary"))
    low, high = interval(pull)
    return judged(
        f"Units that the loss pulls least leave furthest. {where}",
        f"partial rank correlation over units of the pull at the peak with how much further off the data they end, "
        f"given where they were: {np.mean(pull):+.2f} ({low:+.2f} to {high:+.2f}); of the distance to the boundary "
        f"{np.mean(edge):+.2f} ({interval(edge)[0]:+.2f} to {interval(edge)[1]:+.2f})",
        needs=[there],
        holds=[Check("upper end for the pull", high, "<", 0.0, "0 tells nothing")],
        fails=[Check("lower end for the pull", low, ">", 0.0, "surely the other way")],
    )


def draw(numbers: dict[str, Any]) -> Any:
    """Folds near the data by arm; then, with the squared loss, distance, speed and pull of folds by layer."""
    figure, axes = subplots(2, 2)
    colours = dict(zip(ARMS, ("#d55e00", "#e6a000", "#cc79a7", "#0072b2"), strict=True))
    for arm, curves in numbers["runs"].items():
        for i, c in enumerate(curves):
            axes[0].plot(np.maximum(c["steps"], 0.5), c["lc"], color=colours[arm], lw=1, label=None if i else arm)
    axes[0].set(xscale="log", xlabel="step (0 drawn at 0.5)", ylabel=f"folds near training points,\nr = {RADIUS}")
    axes[0].legend(frameon=False, fontsize=8)
    base = numbers["runs"]["squared"]
    panels = (("to_data", "distance to the nearest point"), ("speed", "speed, per step"),
              ("pull", "|d loss / d pre-activation|"))  # fmt: skip
    for ax, (what, label) in zip(axes[1:], panels, strict=True):
        mean = np.exp(np.mean([np.log(np.maximum(np.array(c[what], float), 1e-12)) for c in base], 0))
        for layer, colour in zip(range(HIDDEN), ("#440154", "#21918c", "#e6a000"), strict=True):
            ax.plot(np.maximum(base[0]["steps"], 0.5), mean[:, layer], color=colour, label=f"layer {layer + 1}")
        ax.set(xscale="log", yscale="log", xlabel="step", ylabel=f"{label}\n(median of units)")
    axes[1].legend(frameon=False, fontsize=8)
    return figure


EXPERIMENT = Experiment(
    "survey-migration",
    "survey",
    "Why do tiles migrate so late?",
    run,
    draw,
    place="the part 'The dynamic geometry of learning', after Figure 9: an open question",
)
