"""Figure 2: long neurons move slowly, by 1/c."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..meanfield import Data, Manifold, Trajectory, TwoLayerBN, descend, speed_by_length
from ._experiment import Claim, Experiment, Outcome, Progress, Size
from ._meanfield import decide, panels, random_neurons, random_problem, relu_data

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    m, n, iterations = (40, 300, 1000) if size == "quick" else (100, 2000, 10_000)
    factors = np.geomspace(0.1, 10, 9)
    speeds = {
        name: speed_by_length(*random_problem(seed, activation=name), factors=factors) for name in ("relu", "tanh")
    }
    law = max(float(np.abs(s.batch_norm * factors[:, None] - 1).max()) for s in speeds.values())
    relu_plain = float(np.abs(speeds["relu"].plain - 1).max())
    tanh_plain = float(np.abs(speeds["tanh"].plain - 1).max())

    if progress:
        progress(0.1, "descent with short and long neurons")
    base, data = random_neurons(m, seed), relu_data(n, seed)
    short, long, path = _turns(base, data, iterations)
    ratio = float(short[-1] / long[-1])
    if progress:
        progress(0.5, "the same with Gaussian weights")
    weights = torch.randn(base.b.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    varied_short, varied_long, _ = _turns(TwoLayerBN(base.a, weights, "relu"), data, iterations)
    varied = float(varied_short[-1] / varied_long[-1])
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
    }
    return Outcome(
        numbers,
        (
            Claim(
                "Lengthening a neuron by c divides its speed by c with batch norm, for any activation (its "
                "angular speed by c^2).",
                decide(law < 1e-12),
                f"largest relative deviation from 1/c {law:.1e}, c from 0.1 to 10, relu and tanh",
                "below 1e-12",
            ),
            Claim(
                "Without batch norm the speed does not change. Corrected: only if sigma'(c z) = sigma'(z), "
                "as for ReLU.",
                decide(relu_plain < 1e-12 < 0.1 < tanh_plain, corrected=True),
                f"largest relative change {relu_plain:.1e} for relu, {tanh_plain:.2g} for tanh",
                "relu below 1e-12, tanh above 0.1",
            ),
            Claim(
                "In training, neurons ten times longer barely turn.",
                decide(ratio > 5),
                f"mean turn {float(short[-1]):.2f} rad (length 1) against {float(long[-1]):.3f} rad (length "
                f"10), ratio {ratio:.1f} after {iterations} steps; with Gaussian weights, whose lengths vary, "
                f"{float(varied_short[-1]):.2f} against {float(varied_long[-1]):.3f} rad, ratio {varied:.1f}",
                "ratio above 5 for lengths 1 and 10",
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
    figure, (left, right) = panels(2)
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


EXPERIMENT = Experiment("meanfield-fig2", "meanfield", "Figure 2: speed against length", run, draw)
