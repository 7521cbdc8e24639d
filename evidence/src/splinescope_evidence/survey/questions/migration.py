"""An open question of the survey: why do tiles migrate so late? The folds of single units, tracked through training."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from splinescope.complexity import local_complexity
from splinescope.train import LogSpaced
from splinescope_evidence.framework.experiment import Check, Claim, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.boundary import inside_classes, on_boundary
from splinescope_evidence.shared.data import digits
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.intervals import interval, ratio_interval
from splinescope_research import FoldMonitor
from splinescope_research.folds.depth_profile import partial_rank_correlation

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

LEARNED = 0.995
"""Accuracy on the training set above which it counts as learned: 2 of 500 points may be wrong."""

LOOKS = 9
"""Looks in the last tenth of training, whose median is the end: Adam's spikes are fewer than half of them."""

PREDICTORS = ("loss", "weight norm", "margin")
TRACKED = ("to_data", "to_boundary", "speed", "pull", "gradient")
BOTH = ("squared", "cross-entropy")
PLACES = {"lc": "training points", "lc at boundary": "points of the boundary", "lc inside": "points inside classes"}
"""Near which folds are counted: those inside classes are midway between two training points of one class."""

SHARED = 1 - 0.05 / 4
"""Level of intervals of which four share 5%: the four claims on the boundary, and the four on units."""


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
    folds = FoldMonitor(model, x[:points], torch.arange(points), loss=of_rows, budget=None)
    curve: dict[str, list[Any]] = {name: [] for name in ("steps", "accuracy", *PLACES, *PREDICTORS)}
    spaced, last = looked_at(steps, often)
    for step in range(steps + 1):
        if step in (*spaced, *last):
            folds.measure(step)
            _look(curve, model, step, x, y, of_rows, points)
        rows = torch.randint(train, (batch,), generator=generator)
        optimizer.zero_grad()
        of_rows(model(x[rows]), rows).backward()
        optimizer.step()
    late = {name: curve[name][len(spaced) :] for name in (*PLACES, "accuracy", "loss")}
    ended = {name: with_end(values, len(spaced)).tolist() for name, values in curve.items() if name != "steps"}
    return {"steps": [*spaced, steps], **ended, "late": late, **_of_units(folds, ended, len(spaced), width)}


def looked_at(steps: int, often: int) -> tuple[list[int], list[int]]:
    """Log-spaced steps before the last tenth, and even ones in it."""
    schedule, spaced = LogSpaced(often), [0]
    last = sorted({round(float(step)) for step in np.linspace(0.9 * steps, steps, LOOKS)})
    while (following := schedule.next_after(spaced[-1])) is not None and following < last[0]:
        spaced.append(following)
    return spaced, last


def with_end(values: Any, spaced: int) -> np.ndarray:
    """The log-spaced records, and as one more the median of those after them: no spike is the end."""
    table = np.asarray(values, float)
    return np.concatenate([table[:spaced], np.median(table[spaced:], 0)[None]])


def settled(values: Any) -> np.ndarray:
    """Medians of three records that follow each other: no spike is a peak. The first and the last stay."""
    table = np.asarray(values, float)
    middle = [np.median(table[i - 1 : i + 2], 0) for i in range(1, len(table) - 1)]
    return np.stack([table[0], *middle, table[-1]])


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
    """Folds near training points and elsewhere, accuracy, and what might tell when they leave."""
    outputs = model(x)
    curve["steps"].append(step)
    near = x[: 2 * points]
    curve["lc"].append(_folds_near(model, near))
    curve["lc at boundary"].append(_folds_near(model, on_boundary(model, near)))
    curve["lc inside"].append(_folds_near(model, inside_classes(near, y[: 2 * points])))
    curve["accuracy"].append(float((outputs.argmax(1) == y).double().mean()))
    curve["loss"].append(float(of_rows(outputs, torch.arange(len(x))).detach()))
    curve["weight norm"].append(float(torch.cat([p.detach().flatten() for p in model.parameters()]).norm()))
    curve["margin"].append(_margin(model, x, y))


def _folds_near(model: nn.Module, x: Tensor) -> float:
    """Local complexity, mean over points; not a number if there are none: at first all rows may be of one class."""
    return float(local_complexity(model, x, radius=RADIUS).total.double().mean()) if len(x) else float("nan")


def _margin(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Mean linearized distance of points to the boundary between their class and the next one."""
    rows = x.clone().requires_grad_()
    scores = model(rows)
    own = scores.gather(1, y[:, None])[:, 0]
    gaps = own - scores.scatter(1, y[:, None], -torch.inf).amax(1)
    (slopes,) = torch.autograd.grad(gaps.sum(), rows)
    return float((gaps.detach() / slopes.norm(dim=1).clamp_min(1e-12)).mean())


def peak_and_onset(curve: dict[str, Any]) -> tuple[int, int, int]:
    """Records of interpolation, of the most folds after it, and of the onset: half of the way down from there to the
    end; the last record if less than a tenth of them leave. The end is neither interpolation nor peak.
    """
    last = len(curve["lc"]) - 1
    known = (i for i, accuracy in enumerate(curve["accuracy"][:last]) if accuracy > LEARNED)
    learned = next(known, last - 1)
    folds = settled(curve["lc"])
    peak = learned + int(np.argmax(folds[learned:last]))
    if folds[last] > LEFT * folds[peak]:
        return learned, peak, last
    half = (folds[peak] + folds[last]) / 2
    return learned, peak, next(i for i in range(peak, last + 1) if folds[i] <= half)


def end_over_peak(curve: dict[str, Any]) -> float:
    """Folds near training points at the end over the most of them after interpolation and before the end."""
    _, peak, _ = peak_and_onset(curve)
    return float(curve["lc"][-1] / settled(curve["lc"])[peak])


def _of_units(folds: FoldMonitor, curve: dict[str, Any], spaced: int, width: int) -> dict[str, Any]:
    """Medians by layer through training, and over all units what tells of leaving, given where they were."""
    layers = [slice(i * width, (i + 1) * width) for i in range(HIDDEN)]
    tracks = {what: with_end(folds.track(what), spaced) for what in TRACKED}
    tracks["speed"][-1] = np.nan  # looks at the end are closer together, and speeds between them are others
    found: dict[str, Any] = {
        what: [[_median(row[layer]) for layer in layers] for row in track] for what, track in tracks.items()
    }
    _, peak, _ = peak_and_onset(curve)
    places = np.log(np.maximum(settled(tracks["to_data"]), 1e-9))
    before, after = places[peak], places[-1]
    known = np.isfinite(before) & np.isfinite(after)
    for name in ("pull", "gradient", "to_boundary"):
        values = settled(tracks[name])[peak]
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
    place = settled(np.log(np.array(curve["to_data"])[:, layer]))[peak:]
    steps = curve["steps"][peak:]
    half = (place[0] + place[-1]) / 2
    beyond = place >= half if place[-1] > place[0] else place <= half
    return float(max(1, steps[int(np.argmax(beyond))]))


def way(curve: dict[str, Any], layer: int, what: str = "to_data") -> float:
    """Distance of a layer's folds to the data, or to the boundary, at the end over that at the peak."""
    _, peak, _ = peak_and_onset(curve)
    place = settled(np.array(curve[what])[:, layer])
    return float(place[-1] / place[peak])


def gathered(curve: dict[str, Any], place: str, over: str | None = None) -> float:
    """Folds near the points of a place, or their ratio to those near another, at the end over the same at the peak."""
    _, peak, _ = peak_and_onset(curve)
    folds = settled(curve[place]) / (1.0 if over is None else settled(curve[over]))
    return float(folds[-1] / folds[peak])


def _claims(runs: dict[str, list[dict[str, Any]]]) -> tuple[Claim, ...]:
    where = "(Survey, the dynamic geometry of learning: an open question.)"
    drops = {arm: ratio_interval([end_over_peak(c) for c in of]) for arm, of in runs.items()}
    told = "; ".join(f"{arm} {low:.2f} to {high:.2f}" for arm, (low, high) in drops.items())
    there = Check("upper end of end over peak, squared loss", drops["squared"][1], "<", LEFT, "the folds must leave")

    def learned(*arms: str) -> Check:
        least = min(c["accuracy"][peak_and_onset(c)[0]] for arm in arms for c in runs[arm])
        return Check("accuracy from which on folds are looked at, least of the runs", least, ">", LEARNED,
                     "the training set must be learned")  # fmt: skip

    def leave(arm: str, text: str) -> Claim:
        return judged(f"{text} {where}", "folds near training points, end (median of the last tenth) over peak, 95% "
                      f"intervals: {told}",
                      needs=[learned(arm)],
                      holds=[Check(f"upper end, {arm}", drops[arm][1], "<", LEFT, "a tenth stands out")],
                      fails=[Check(f"lower end, {arm}", drops[arm][0], ">", LEFT, "they stay")])  # fmt: skip

    squared = [there, learned("squared")]
    return (
        leave("squared", "Long after the training set is learned, folds leave the training points (squared loss)."),
        leave("cross-entropy", "With the cross-entropy they do so too in as many steps."),
        _predicted(runs, where, [there, learned(*list(ARMS)[:3])]),
        _layers("Deeper layers move first.", runs["squared"], where, squared),
        _gather("lc", "Relative to the data folds gather at the boundary: those near points of it, over those near "
                "training points, become more by a tenth at least (squared loss).", runs, where, squared),
        _gather("lc inside", "Relative to the inside of classes too: those near points of the boundary, over those "
                "near points midway between two training points of a class, become more by a tenth at least (squared "
                "loss).", runs, where, squared),
    )  # fmt: skip


def _gather(over: str, text: str, runs: dict[str, list[dict[str, Any]]], where: str, needs: list[Check]) -> Claim:
    """That folds are near the boundary rather than near these other points, at the end more than at the peak."""
    low, high = ratio_interval([gathered(c, "lc at boundary", over) for c in runs["squared"]], SHARED)

    def told(place: str, over: str | None = None, arm: str = "squared") -> str:
        return "{:.2f} to {:.2f}".format(*ratio_interval([gathered(c, place, over) for c in runs[arm]], SHARED))

    return judged(
        f"{text} {where}",
        f"folds near points of the boundary over those near {PLACES[over]}, end over peak: {low:.2f} to {high:.2f} "
        f"(interval; the four claims on the boundary share 5%). Near points of the boundary alone "
        f"{told('lc at boundary')}, near {PLACES[over]} alone {told(over)}. With the cross-entropy, not judged, the "
        f"ratio goes by {told('lc at boundary', over, 'cross-entropy')}",
        needs=needs,
        holds=[Check("lower end of the ratio, end over peak", low, ">", 1 / LEFT, "a tenth stands out")],
        fails=[Check("upper end of the ratio, end over peak", high, "<", 1 / LEFT, "significantly less than a tenth")],
    )


def _predicted(runs: dict[str, list[dict[str, Any]]], where: str, needs: list[Check]) -> Claim:
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
        f"leaving out whole seeds, which the arms share, that share 5%: {', '.join(words)}",
        needs=needs,
        holds=[Check("size that is sure, largest of the three", max(s for s, _ in sure), ">", 0.0,
                     "0 predicts nothing")],
        fails=[Check("size that is possible, largest of the three", max(m for _, m in sure), "<", 0.5,
                     "significantly less than a quarter of the variance of ranks"),
               Check("size that is sure, largest of the three", max(s for s, _ in sure), "<", 0.0,
                     "none is significant")],
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


def _layers(text: str, curves: list[dict[str, Any]], where: str, needs: list[Check]) -> Claim:
    order = [[half_way(c, layer) for layer in range(HIDDEN)] for c in curves]
    low, high = ratio_interval([row[-1] / row[0] for row in order])
    means = ", ".join(f"{np.exp(np.mean(np.log([row[i] for row in order]))):.0f}" for i in range(HIDDEN))
    ways = ", ".join(f"{np.exp(np.mean([np.log(way(c, i)) for c in curves])):.2f}" for i in range(HIDDEN))
    slowed = [_median(np.array(c["speed"])[peak_and_onset(c)[1]]) / _median(np.array(c["speed"])[1:6].ravel())
              for c in curves]  # fmt: skip
    return judged(
        f"{text} {where}",
        f"step at which the folds of a layer are half of the way from the peak to the end, layers 1 to {HIDDEN}: "
        f"{means}; last over first {low:.2f} to {high:.2f} (95% interval). Distance to the data, end over peak: {ways}"
        f". Speed of folds at the peak over that in the first records: {np.exp(np.mean(np.log(slowed))):.2g}",
        needs=needs,
        holds=[Check("upper end of last over first", high, "<", 1.0, "1 is together")],
        fails=[Check("lower end of last over first", low, ">", 1.0, "the first layer is significantly earlier")],
    )


def draw(numbers: dict[str, Any]) -> Any:
    """Folds near the data by arm, and near other places; then, with both losses, what is tracked by layer; units."""
    figure, axes = subplots(4, 2)
    by_arm, to_data, to_boundary, places, speed, pull, gradient, units = axes
    colors = dict(zip(ARMS, ("#d55e00", "#e6a000", "#cc79a7", "#0072b2"), strict=True))
    styles = dict(zip(BOTH, ("-", "--"), strict=True))
    for arm, curves in numbers["runs"].items():
        for i, c in enumerate(curves):
            by_arm.plot(np.maximum(c["steps"], 0.5), c["lc"], color=colors[arm], lw=1, label=None if i else arm)
    by_arm.set(xscale="log", xlabel="step (0 drawn at 0.5)", ylabel=f"folds near training points,\nr = {RADIUS}")
    by_arm.legend(frameon=False, fontsize=8)
    panels = ((to_data, "to_data", "distance to the nearest point"),
              (to_boundary, "to_boundary", "distance to the boundary"), (speed, "speed", "speed, per step"),
              (pull, "pull", "|d loss / d pre-activation|"),
              (gradient, "gradient", "|d loss / d own parameters|"))  # fmt: skip
    for ax, what, label in panels:
        for arm, style in styles.items():
            base = numbers["runs"][arm]
            mean = np.exp(np.mean([np.log(np.maximum(np.array(c[what], float), 1e-12)) for c in base], 0))
            for layer, color in zip(range(HIDDEN), ("#440154", "#21918c", "#e6a000"), strict=True):
                ax.plot(np.maximum(base[0]["steps"], 0.5), mean[:, layer], style, color=color,
                        label=f"layer {layer + 1}, {arm}")  # fmt: skip
        ax.set(xscale="log", yscale="log", xlabel="step", ylabel=f"{label}\n(median of units)")
    to_data.legend(frameon=False, fontsize=6)
    to_boundary.sharey(to_data)
    to_data.autoscale(axis="y")  # to what both panels show
    for arm, style in styles.items():
        base = numbers["runs"][arm]
        for (name, points), color in zip(PLACES.items(), ("#009e73", "#000000", "#cc79a7"), strict=True):
            places.plot(np.maximum(base[0]["steps"], 0.5), np.mean([c[name] for c in base], 0), style, color=color,
                        label=f"{points}, {arm}")  # fmt: skip
    places.set(xscale="log", xlabel="step", ylabel=f"folds near points, r = {RADIUS}\n(mean of seeds)", ylim=(0, None))
    places.legend(frameon=False, fontsize=6)
    for place, (arm, by) in enumerate((arm, by) for arm in BOTH for by in ("pull", "gradient", "to_boundary")):
        values = [c[f"leaving by {by}"] for c in numbers["runs"][arm]]
        units.plot(np.full(len(values), place), values, "o", ms=4, color=colors[arm], alpha=0.7)
    units.axhline(0, color="0.6", lw=1)
    units.set_xticks(range(6), 2 * ["pull", "gradient", "to\nboundary"], fontsize=8)
    units.set_ylabel("correlation with how far\nunits leave (both losses)")
    return figure


EXPERIMENT = Experiment("Why do tiles migrate so late?", run, draw, place="after Figure 9", revised=(1, 2, 3, 4, 5, 6))
