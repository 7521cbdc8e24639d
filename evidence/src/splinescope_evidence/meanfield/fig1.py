"""Figure 1: with batch norm neurons turn fast where the data varies little."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from splinescope.meanfield import TwoLayer, descend
from splinescope.meanfield.flow import vector_field
from splinescope.meanfield.functions import as_loss
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.intervals import ratio_interval
from splinescope_evidence.shared.meanfield import random_neurons, relu_data
from splinescope_evidence.shared.words import spread
from splinescope_research.meanfield.meanfield_effects import SpeedByDirection, speed_by_direction

TARGETS = {
    "relu(x1)": lambda x: torch.relu(x[:, 0]),
    "relu(x2)": lambda x: torch.relu(x[:, 1]),
    "relu(x1) + relu(x2)": lambda x: torch.relu(x[:, 0]) + torch.relu(x[:, 1]),
    "sin(x1)": lambda x: torch.sin(x[:, 0]),
    "|x1|": lambda x: x[:, 0].abs(),
}


def speed_at_500(m: int, n: int, seed: int) -> tuple[float, float, float, float]:
    """(fastest with batch norm, fastest plain, loss with batch norm, loss plain) after 500 steps of rate
    0.01.
    """
    data, net = relu_data(n, seed), random_neurons(m, seed)
    out = []
    for dynamics, start in (("euclidean", net), ("plain", TwoLayer(net.a, net.b, net.activation))):
        path = descend(start, data, rate=0.01, iterations=500, dynamics=dynamics, record_every=500)  # type: ignore[arg-type]
        state = torch.column_stack([path.a[-1], path.b[-1]])
        v = vector_field(start, data, as_loss("squared"), dynamics)(state)[:, 1:]  # type: ignore[arg-type]
        out.append((float(v.norm(dim=1).max()), float(path.risks[-1])))
    return out[0][0], out[1][0], out[0][1], out[1][1]


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    m, n, seeds = (30, 200, 2) if size == "quick" else (100, 2000, 8)
    ratios: dict[str, tuple[float, float]] = {}
    shown: SpeedByDirection | None = None
    for number, (name, target) in enumerate(TARGETS.items()):
        if progress:
            progress(number / 10, f"speeds for {name}")
        speeds = speed_by_direction(relu_data(4 * n, seed, target))
        ratios[name] = speeds.anisotropy()
        shown = shown or speeds
    assert shown is not None
    rows = []
    for k in range(seeds):
        if progress:
            progress(0.5 + 0.5 * k / seeds, f"descent, seed {seed + k}")
        rows.append(speed_at_500(m, n, seed + k))
    table = np.array(rows)
    faster = table[:, 0] / table[:, 1]
    typical = float(np.exp(np.log(faster).mean()))
    equal = np.array([_near_axis(speed_by_direction(relu_data(4 * n, seed + k))) for k in range(seeds)])
    slower = ratio_interval(equal[:, 0] / equal[:, 1])
    numbers = {
        "ratios": ratios,
        "angles": shown.angles.tolist(),
        "batch_norm": shown.batch_norm.tolist(),
        "plain": shown.plain.tolist(),
        "axis": shown.axis,
        "speed_ratio_at_500": faster.tolist(),
        "loss_at_500": table[:, 2:].tolist(),
        "equal_residual_speeds": equal.tolist(),
    }
    excess = min(bn / plain for bn, plain in ratios.values())
    text = "; ".join(f"{name}: {bn:.3g} and {plain:.2g}" for name, (bn, plain) in ratios.items())
    low, high = ratio_interval(faster)
    return Outcome(
        numbers,
        (
            judged(
                "With batch norm neurons turn faster in directions of low variance, far more so than without (section "
                "4.1, which writes 'where E b.x is small': read as E (b.x)^2, for with centered data E b.x is 0 in all "
                "directions).",
                f"speed near the low-variance axis over that near the high-variance one, batch norm and plain, one set "
                f"of {4 * n} points: {text}",
                holds=[Check("least excess of the ratio over the plain one's, five targets", excess, ">", 1.5, FAR)],
            ),
            judged(
                "At iteration 500 the fastest batch-norm neuron is an order of magnitude faster than the fastest plain "
                "one (Figure 1).",
                f"ratio {typical:.3g} (geometric mean; {spread(faster)}), 95% interval {low:.1f} to {high:.1f}, "
                f"{seeds} "
                f"networks; losses then {spread(table[:, 2])} and {spread(table[:, 3])}",
                holds=[Check("lower end of the 95% interval of the ratio", low, ">", 10**0.5, "half an order")],
                fails=[Check("upper end of the 95% interval of the ratio", high, "<", 10**0.5, "half an order")],
            ),
            judged(
                "(Ours.) At equal residuals neurons near the low-variance axis are slower with batch norm (in claim 2 "
                "the plain network has fitted by then).",
                f"mean speed near the low-variance axis at equal residuals, {seeds} sets of {4 * n} points: "
                f"{spread(equal[:, 0])} with batch norm, {spread(equal[:, 1])} without; ratio {slower[0]:.2f} to "
                f"{slower[1]:.2f} (95% interval)",
                holds=[Check("upper end of the 95% interval of the ratio, with over without", slower[1], "<", 1.0,
                             "1 is as fast")],
                fails=[Check("lower end of the 95% interval of the ratio, with over without", slower[0], ">", 1.0,
                             "1 is as fast")],
            ),
        ),
    )  # fmt: skip


FAR = "'far more so': by half again at the least, for targets of every kind"


def _near_axis(speeds: SpeedByDirection) -> tuple[float, float]:
    """Mean speed within 25 degrees of the low-variance axis, with batch norm and without."""
    near = np.abs(np.angle(np.exp(2j * (speeds.angles - speeds.axis)))) / 2 < np.radians(25)
    return float(speeds.batch_norm[near].mean()), float(speeds.plain[near].mean())


def draw(numbers: dict[str, Any]) -> Figure:
    from splinescope.plot.meanfield import BATCH_NORM, PLAIN
    from splinescope_research.drawings import plot_speed_by_direction

    figure, (left, right) = subplots(2)
    arrays = {k: np.array(numbers[k]) for k in ("angles", "batch_norm", "plain")}
    plot_speed_by_direction(SpeedByDirection(**arrays, axis=numbers["axis"]), ax=left)
    left.set_title("target relu(x1), equal residuals")
    names = list(numbers["ratios"])
    pairs = np.array([numbers["ratios"][name] for name in names])
    place = np.arange(len(names))
    right.barh(place - 0.2, pairs[:, 0], 0.38, color=BATCH_NORM, label="batch norm")
    right.barh(place + 0.2, pairs[:, 1], 0.38, color=PLAIN, label="plain", hatch="//")
    right.set_yticks(place, [name.replace(" + ", " +\n") for name in names])
    right.set(xscale="log", xlabel="speed: low- over high-variance direction")
    right.axvline(1, color="0.6", lw=1)
    right.invert_yaxis()
    right.legend(frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure


EXPERIMENT = Experiment("Figure 1: speed against direction", run, draw, place="Figure 1; section 4.1", revised=(1, 2))
