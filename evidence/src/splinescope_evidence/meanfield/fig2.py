"""Figure 2: long neurons move slowly, by 1/c."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from splinescope.meanfield import Data, TwoLayerBN, descend
from splinescope.meanfield.flow import Trajectory
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.intervals import ratio_interval
from splinescope_evidence.shared.meanfield import EXACT, random_neurons, random_problem, relu_data
from splinescope_evidence.shared.words import spread
from splinescope_research.meanfield.ellipsoid import Manifold
from splinescope_research.meanfield.meanfield_effects import speed_by_length


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    m, n, iterations, seeds = (40, 300, 400, 2) if size == "quick" else (100, 1000, 5000, 6)
    factors = np.geomspace(0.1, 10, 9)
    speeds = {
        name: speed_by_length(*random_problem(seed, activation=name), factors=factors) for name in ("relu", "tanh")
    }
    law = max(float(np.abs(s.batch_norm * factors[:, None] - 1).max()) for s in speeds.values())
    relu_plain = float(np.abs(speeds["relu"].plain - 1).max())
    tanh_plain = float(np.abs(speeds["tanh"].plain - 1).max())

    ratios, varied_ratios = [], []
    for k in range(seeds):
        if progress:
            progress(0.1 + 0.9 * k / seeds, f"descent with short and long neurons, seed {seed + k}")
        base, data = random_neurons(m, seed + k), relu_data(n, seed + k)
        turns = _turns(base, data, iterations)
        weights = torch.randn(base.b.shape, generator=torch.Generator().manual_seed(seed + k), dtype=torch.float64)
        varied_turns = _turns(TwoLayerBN(base.a, weights, "relu"), data, iterations)
        ratios.append(float(turns[0][-1] / turns[1][-1]))
        varied_ratios.append(float(varied_turns[0][-1] / varied_turns[1][-1]))
        if k == 0:
            (short, long, path), (varied_short, varied_long, _) = turns, varied_turns
    low, high = ratio_interval(ratios)
    numbers = {
        "factors": factors.tolist(),
        "batch_norm": {k: s.batch_norm.mean(1).tolist() for k, s in speeds.items()},
        "plain": {k: s.plain.mean(1).tolist() for k, s in speeds.items()},
        "iterations": (path.times / 0.01).round().tolist(),
        "turned_short": short.tolist(),
        "turned_long": long.tolist(),
        "turned_short_varied": varied_short.tolist(),
        "turned_long_varied": varied_long.tolist(),
        "law_error": law,
        "turn_ratios": ratios,
        "turn_ratios_varied": varied_ratios,
    }
    return Outcome(
        numbers,
        (
            judged(
                "Lengthening a neuron by c divides its speed by c with batch norm, for any activation (section "
                "4.2; its "
                "angular speed by c^2).",
                f"largest relative deviation from 1/c {law:.1e}, c from 0.1 to 10, relu and tanh",
                holds=[Check("largest relative deviation from 1/c", law, "<", 1e-12, EXACT)],
            ),
            judged(
                "Without batch norm the speed does not change, if sigma'(c z) = sigma'(z) as section 4.2 assumes "
                "(ReLU).",
                f"largest relative change {relu_plain:.1e} for relu; {tanh_plain:.2g} for tanh, of which it is not so",
                holds=[Check("largest relative change, relu", relu_plain, "<", 1e-12, EXACT)],
            ),
            judged(
                "In training, neurons ten times longer barely turn (Figure 2).",
                f"mean turn of length 1 over that of length 10 after {iterations} steps, {seeds} networks: "
                f"{spread(ratios)}, 95% interval {low:.1f} to {high:.1f} (first: {float(short[-1]):.2f} rad against "
                f"{float(long[-1]):.3f}); with Gaussian weights, whose lengths vary, {spread(varied_ratios)}",
                holds=[
                    Check(
                        "lower end of the 95% interval of the ratio",
                        low,
                        ">",
                        5.0,
                        "half of the 10 by which speeds differ: 'barely' leaves room for turns that saturate",
                    )
                ],
                fails=[Check("upper end of the 95% interval of the ratio", high, "<", 5.0, "the same threshold")],
            ),
        ),
    )


def _turns(net: TwoLayerBN, data: Data, iterations: int) -> tuple[Tensor, Tensor, Trajectory]:
    """Mean angle from the start, over time, of the first half of the neurons and of the others, 10 times longer."""
    half = net.width // 2
    lengths = torch.where(torch.arange(net.width) < half, 1.0, 10.0).to(net.b)
    long = TwoLayerBN(net.a, net.b * lengths[:, None], "relu")
    path = descend(long, data, rate=0.01, iterations=iterations, record_every=iterations // 20)
    turned = Manifold(data.covariance).distance(path.b, path.b[:1])
    return turned[:, :half].mean(1), turned[:, half:].mean(1), path


def draw(numbers: dict[str, Any]) -> Figure:
    figure, (left, right) = subplots(2)
    c = np.array(numbers["factors"])
    left.loglog(c, 1 / c, color="0.6", lw=3, alpha=0.5, label="1/c")
    for (kind, style), color in zip((("relu", "o"), ("tanh", "s")), ("#0072B2", "#009E73"), strict=True):
        left.loglog(c, numbers["batch_norm"][kind], style, color=color, ms=5, label=f"batch norm, {kind}")
        left.loglog(c, numbers["plain"][kind], style + "--", color=color, ms=4, mfc="none", label=f"plain, {kind}")
    left.set(xlabel="length factor c", ylabel="speed / speed at c = 1")
    left.legend(frameon=False, fontsize="small")
    for key, label, style in (("", "", "-"), ("_varied", ", varied", ":")):
        short, long = numbers[f"turned_short{key}"], numbers[f"turned_long{key}"]
        right.plot(numbers["iterations"], short, f"o{style}", ms=3, color="#0072B2", label=f"length 1{label}")
        right.plot(numbers["iterations"], long, f"s{style}", ms=3, color="#D55E00", label=f"length 10{label}")
    right.set(xlabel="iteration", ylabel="mean turn from the start, rad")
    right.legend(frameon=False)
    return figure


EXPERIMENT = Experiment("Figure 2: speed against length", run, draw, place="Figure 2; section 4.2", revised=(2, 3))
