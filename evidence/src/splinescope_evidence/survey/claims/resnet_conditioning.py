"""Survey, equation (7): the condition number of a ResNet layer is bounded, that of a ConvNet layer is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from splinescope.landscape.skip_conditioning import Conditioning, skip_bound
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_research.loss.conditioning import layer_conditioning, random_conditioning

_SCALES = (0.1, 0.3, 0.45, float(np.sqrt(2)))
_ACTIVATIONS = ("relu", "leaky", "abs")


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    """Condition numbers of random layers with and without skip, over scales, activations and depths."""
    width, draws = (64, 60) if size == "quick" else (64, 400)
    generator = torch.Generator().manual_seed(seed)
    skip: dict[str, dict[str, list[float]]] = {}
    plain: dict[str, list[float]] = {}
    total = len(_SCALES) * len(_ACTIVATIONS) + len(_ACTIVATIONS) + 1
    done = 0

    def report(what: str) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done / total, what)

    for activation in _ACTIVATIONS:
        plain[activation] = random_conditioning(
            width, 1.0, activation, skip=False, draws=draws, generator=generator
        ).condition.tolist()
        report(f"ConvNet layer, {activation}")
        for scale in _SCALES:
            found = random_conditioning(width, scale, activation, skip=True, draws=draws, generator=generator)
            skip[f"{activation} {scale:.2f}"] = {
                name: getattr(found, name).tolist() for name in ("condition", "norm", "bound")
            }
            report(f"ResNet layer, {activation}, scale {scale:.2f}")
    stacks = {
        depth: random_conditioning(width // 2, 0.2, skip=True, depth=depth, draws=draws // 2, generator=generator)
        for depth in (2, 4, 8)
    }
    report("stacks")
    adverse = {
        e: float(layer_conditioning(np.diag([-(1 + e), *[0.0] * 7]), np.ones(8), skip=True).condition)
        for e in (1e-1, 1e-3, 1e-6)
    }
    small = [np.array(v["norm"]) < 1 for v in skip.values()]
    violations = sum(
        int((np.array(v["condition"])[s] > np.array(v["bound"])[s] * (1 + 1e-9)).sum())
        for v, s in zip(skip.values(), small, strict=True)
    )
    deep = sum(found.violations for found in stacks.values())
    below = int(sum(s.sum() for s in small))
    quiet = np.array(skip["relu 0.45"]["condition"])
    singular = float(np.mean(np.isinf(plain["relu"])))
    heavy = {a: (float(np.median(plain[a])), float(np.max(plain[a]))) for a in ("leaky", "abs")}
    claims = (
        judged(
            "The condition number of a ResNet layer I + DW is bounded (survey, equation (7)). Corrected: if the branch "
            "has norm |DW| < 1, by (1 + |DW|) / (1 - |DW|), and that of a stack by the product.",
            f"{violations} of {below} layers and {deep} of {sum(len(s.condition) for s in stacks.values())} stacks "
            f"exceed it; relu, scale 0.45: median {np.median(quiet):.2f}, largest {quiet.max():.2f}",
            holds=[
                Check(
                    "condition number of a layer with |DW| = 1 + 1e-6",
                    adverse[1e-6],
                    "<",
                    1e5,
                    "as stated, bounded without |DW| < 1: 1e5 is a tenth of what e = 1e-6 allows",
                )
            ],
            corrected=[
                Check("layers and stacks beyond the bound", float(violations + deep), "<", 0.5, "proven: none may"),
                Check("layers with |DW| < 1", float(below), ">", 0.5, "there must be some"),
            ],
        ),
        judged(
            "The condition number of a ConvNet layer DW is not bounded (survey, equation (7)).",
            f"relu: infinite in {singular:.0%} of the draws (a unit is off); finite with heavy tails for leaky (median "
            f"{heavy['leaky'][0]:.0f}, largest {heavy['leaky'][1]:.1e}) and abs (median {heavy['abs'][0]:.0f}, largest "
            f"{heavy['abs'][1]:.1e})",
            holds=[
                Check("share of singular layers, relu", float(singular), ">", 0.999, "one unit that is off suffices"),
                Check(
                    "largest over median, abs",
                    heavy["abs"][1] / heavy["abs"][0],
                    ">",
                    10.0,
                    "a heavy tail: more draws, larger still",
                ),
            ],
        ),
    )
    numbers = {"skip": skip, "plain": {k: [v if np.isfinite(v) else None for v in vs] for k, vs in plain.items()},
               "adverse": {f"{e:g}": v for e, v in adverse.items()}}  # fmt: skip
    for record in skip.values():
        record["bound"] = [v if np.isfinite(v) else None for v in record["bound"]]  # type: ignore[misc]
    return Outcome(numbers, claims)


def draw(numbers: dict[str, Any]) -> Figure:
    """Left: ConvNet and ResNet layers side by side. Right: condition against the norm of the branch, with the bound."""
    from matplotlib.figure import Figure

    from splinescope.plot.landscape import plot_conditioning

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)

    def conditioning(values: list[float | None], bound: list[float | None] | None = None) -> Any:
        found = np.array([np.inf if v is None else v for v in values])
        limit = np.array([np.inf if v is None else v for v in bound or [None] * len(values)])
        return Conditioning(found, np.zeros_like(found), limit)

    shown = {f"DW\n{a}": conditioning(numbers["plain"][a]) for a in _ACTIVATIONS}
    shown |= {
        f"I + DW\n{a} 0.45": conditioning(
            numbers["skip"][f"{a} 0.45"]["condition"], numbers["skip"][f"{a} 0.45"]["bound"]
        )
        for a in _ACTIVATIONS
    }
    plot_conditioning(shown, left)
    left.tick_params(axis="x", labelsize=8)
    left.set_title("random layers of 64 units (green: bound)")
    for i, activation in enumerate(_ACTIVATIONS):
        for scale in _SCALES:
            record = numbers["skip"][f"{activation} {scale:.2f}"]
            right.plot(record["norm"], record["condition"], ".", ms=4, color=("#332288", "#cc6677", "#ddaa33")[i],
                       label=activation if scale == _SCALES[0] else None)  # fmt: skip
    r = np.linspace(0, 0.999, 400)
    right.plot(r, skip_bound(r), color="#117733", label="bound (1 + r) / (1 - r)")
    right.axvline(1.0, color="#777777", lw=0.8, ls="--")
    right.set(yscale="log", xlabel="norm r of the branch DW", ylabel="condition number of I + DW", ylim=(0.9, None))
    right.legend(loc="upper left", markerscale=2, frameon=True, framealpha=1, edgecolor="none")
    return figure


EXPERIMENT = Experiment(
    "ResNet layers are better conditioned than ConvNet layers", run, draw, place="equation (7)", revised=(1,)
)
