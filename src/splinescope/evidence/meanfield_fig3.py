"""Figure 3: the first step lengthens short neurons; this is why batch norm forgives large learning rates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..meanfield import FirstStep, LearningRateStudy, TwoLayerBN, first_step, learning_rate_study
from ._experiment import Claim, Experiment, Outcome, Progress, Size
from ._meanfield import decide, panels, random_neurons, relu_data

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    m, n, iterations = (30, 200, 60) if size == "quick" else (100, 2000, 500)
    net, data = random_neurons(m, seed), relu_data(n, seed)
    step = first_step(net, data, lengths=np.geomspace(1e-3, 10, 13), rate=0.05)
    error = float(np.abs(step.after / step.predicted - 1).max())
    floor = bool((step.after >= np.sqrt(2 * step.push) * (1 - 1e-9)).all())
    # "the shorter before, the longer after" where both lengths are below sqrt(push), not where both are above
    below = step.before[1:, None] < np.sqrt(step.push)
    above = step.before[:-1, None] > np.sqrt(step.push)
    falls = np.diff(step.after, axis=0) < 0
    boundary = bool(falls[below].all() and not falls[above].any() and above.any() and below.any())

    loud = TwoLayerBN(5 * net.a, net.b, "relu")
    rates = np.logspace(-3, 3, 13)
    studies = {}
    for number, (name, train) in enumerate((("all weights", True), ("inner weights only", False))):
        if progress:
            progress((1 + number) / 3, f"learning rates, {name}")
        studies[name] = learning_rate_study(loud, data, rates=rates, iterations=iterations, train_amplitudes=train)
    wide, narrow = studies["all weights"].workable_decades()
    inner_bn, inner_plain = studies["inner weights only"].workable_decades()
    top = 0.5 * len(rates)
    numbers = {
        "before": step.before.tolist(),
        "after": step.after.tolist(),
        "push": step.push.tolist(),
        "rates": rates.tolist(),
        "studies": {
            name: {
                "batch_norm": np.nan_to_num(s.batch_norm, posinf=1e300).tolist(),
                "plain": np.nan_to_num(s.plain, posinf=1e300).tolist(),
                "start": s.start,
            }
            for name, s in studies.items()
        },
    }
    return Outcome(
        numbers,
        (
            Claim(
                "The first step of gradient descent makes short neurons long: the shorter before, the "
                "longer after. Corrected: for neurons shorter than sqrt(rate * gradient at unit length); "
                "longer ones hardly change.",
                decide(error < 1e-9 and floor and boundary, corrected=True),
                f"length after = sqrt(n^2 + (push/n)^2) to {error:.1e}; never below sqrt(2 push); median "
                f"length after {np.median(step.after[0]):.2g} from {step.before[0]:g}, "
                f"{np.median(step.after[-1]):.3g} from {step.before[-1]:g}",
                "prediction to 1e-9, floor respected, order reversed exactly below sqrt(push)",
            ),
            Claim(
                "Batch norm makes training less sensitive to the learning rate.",
                decide(wide > narrow + 0.5),
                f"decades of rate (of {top:g} tried) that end below the starting loss: {wide:.1f} with "
                f"batch norm, {narrow:.1f} without",
                "at least half a decade more",
            ),
            Claim(
                "Ours: the effect is in the inner weights; trained alone, no rate is too large for them.",
                decide(
                    inner_bn > inner_plain + 1 and bool(np.isfinite(studies["inner weights only"].batch_norm).all())
                ),
                f"{inner_bn:.1f} decades with batch norm, {inner_plain:.1f} without, amplitudes fixed",
                "at least one decade more, and no divergence with batch norm",
            ),
        ),
    )


def draw(numbers: dict[str, Any]) -> Figure:
    from ..plot.meanfield import plot_first_step, plot_learning_rates

    figure, axes = panels(3)
    plot_first_step(FirstStep(*(np.array(numbers[k]) for k in ("before", "after", "push"))), ax=axes[0])
    for ax, (name, study) in zip(axes[1:], numbers["studies"].items(), strict=True):
        curves = np.array(study["batch_norm"]), np.array(study["plain"])
        plot_learning_rates(LearningRateStudy(np.array(numbers["rates"]), *curves, study["start"]), ax=ax)
        ax.set_title(f"descent on {name}")
    return figure


EXPERIMENT = Experiment("meanfield-fig3", "meanfield", "Figure 3: the first step, and the learning rate", run, draw)
