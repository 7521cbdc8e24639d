"""Figure 3: the first step lengthens short neurons; this is why batch norm forgives large learning rates."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from splinescope.meanfield import TwoLayerBN
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.intervals import interval
from splinescope_evidence.shared.meanfield import EXACT, random_neurons, relu_data
from splinescope_evidence.shared.words import spread
from splinescope_research.meanfield.meanfield_effects import (
    FirstStep,
    LearningRateStudy,
    first_step,
    learning_rate_study,
)


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    m, n, iterations, seeds = (30, 200, 40, 2) if size == "quick" else (100, 1000, 400, 6)
    net, data = random_neurons(m, seed), relu_data(n, seed)
    step = first_step(net, data, lengths=np.geomspace(1e-3, 10, 13), rate=0.05)
    error = float(np.abs(step.after / step.predicted - 1).max())
    floor = bool((step.after >= np.sqrt(2 * step.push) * (1 - 1e-9)).all())
    # "the shorter before, the longer after" where both lengths are below sqrt(push), not where both are above
    below = step.before[1:, None] < np.sqrt(step.push)
    above = step.before[:-1, None] > np.sqrt(step.push)
    falls = np.diff(step.after, axis=0) < 0
    boundary = bool(falls[below].all() and not falls[above].any() and above.any() and below.any())

    rates = np.logspace(-3, 3, 7 if size == "quick" else 13)
    kinds = (("all weights", True), ("inner weights only", False))
    decades: dict[str, list[tuple[float, float]]] = {name: [] for name, _ in kinds}
    studies: dict[str, LearningRateStudy] = {}
    for k, (name, train) in itertools.product(range(seeds), kinds):
        if progress:
            progress((2 * k + (not train)) / (2 * seeds), f"learning rates, {name}, seed {seed + k}")
        start = random_neurons(m, seed + k)
        loud = TwoLayerBN(5 * start.a, start.b, "relu")
        study = learning_rate_study(
            loud, relu_data(n, seed + k), rates=rates, iterations=iterations, train_amplitudes=train
        )
        decades[name].append(study.workable_decades())
        studies.setdefault(name, study)
    more = {name: [bn - plain for bn, plain in values] for name, values in decades.items()}
    all_low, all_high = interval(more["all weights"])
    inner_low, inner_high = interval(more["inner weights only"])
    reversed_everywhere = float(falls.mean())
    numbers = {
        "before": step.before.tolist(),
        "after": step.after.tolist(),
        "push": step.push.tolist(),
        "rates": rates.tolist(),
        "decades": decades,
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
            judged(
                "The first step of gradient descent makes short neurons long: the shorter before, the longer after "
                "(section 4.3). Corrected: for neurons shorter than sqrt(rate * gradient at unit length); longer ones "
                "hardly change.",
                f"length after = sqrt(n^2 + (push/n)^2) to {error:.1e}; never below sqrt(2 push): {floor}; the "
                "order is "
                f"reversed for {reversed_everywhere:.0%} of all neighboring lengths from {step.before[0]:g} to "
                f"{step.before[-1]:g}; median length after {np.median(step.after[0]):.2g} from {step.before[0]:g}, "
                f"{np.median(step.after[-1]):.3g} from {step.before[-1]:g}",
                holds=[
                    Check(
                        "share of neighboring lengths in reversed order",
                        reversed_everywhere,
                        ">",
                        0.999,
                        "as printed, for all lengths",
                    )
                ],
                corrected=[
                    Check("largest error of the predicted length", error, "<", 1e-9, EXACT),
                    Check(
                        "neurons below the floor, or out of order",
                        1.0 - (floor and boundary),
                        "<",
                        0.5,
                        "a proven statement: none may be",
                    ),
                ],
            ),
            judged(
                "Batch norm makes training less sensitive to the learning rate (section 4.2).",
                f"decades of rate (of {0.5 * len(rates):g} tried) that end below the starting loss, more with "
                "batch norm "
                f"than without: {spread(more['all weights'])}, 95% interval {all_low:.2f} to {all_high:.2f}, {seeds} "
                "networks",
                holds=[Check("lower end of the 95% interval of the gain, decades", all_low, ">", 0.0, "0 is no gain")],
                fails=[
                    Check(
                        "upper end of the 95% interval of the gain in decades",
                        all_high,
                        "<",
                        0.5,
                        "half a decade is the step of the rates tried",
                    ),
                    Check(
                        "lower end of the 95% interval of the gain, decades",
                        all_low,
                        "<",
                        0.0,
                        "the gain is not significant",
                    ),
                ],
            ),
            judged(
                "(Ours.) The effect is in the inner weights: trained alone, they bear more rates with batch norm too.",
                f"gain in decades, amplitudes fixed: {spread(more['inner weights only'])}, 95% interval "
                f"{inner_low:.2f} to {inner_high:.2f} (at the least: no larger rate than {rates[-1]:g} was tried), "
                f"{seeds} networks",
                holds=[
                    Check("lower end of the 95% interval of the gain in decades", inner_low, ">", 0.0, "0 is no gain"),
                ],
                fails=[
                    Check(
                        "upper end of the 95% interval of the gain in decades",
                        inner_high,
                        "<",
                        0.5,
                        "half a decade is the step of the rates tried",
                    ),
                    Check(
                        "lower end of the 95% interval of the gain in decades",
                        inner_low,
                        "<",
                        0.0,
                        "the gain is not significant",
                    ),
                ],
            ),
        ),
    )


def draw(numbers: dict[str, Any]) -> Figure:
    from splinescope_research.drawings import plot_first_step, plot_learning_rates

    figure, axes = subplots(3)
    plot_first_step(FirstStep(*(np.array(numbers[k]) for k in ("before", "after", "push"))), ax=axes[0])
    for ax, (name, study) in zip(axes[1:], numbers["studies"].items(), strict=True):
        curves = np.array(study["batch_norm"]), np.array(study["plain"])
        plot_learning_rates(LearningRateStudy(np.array(numbers["rates"]), *curves, study["start"]), ax=ax)
        ax.set_title(f"descent on {name}")
    axes[0].legend(loc="upper right")
    axes[1].get_legend().remove()  # that of the last panel is for both
    return figure


EXPERIMENT = Experiment(
    "Figure 3: the first step, and the learning rate", run, draw, place="Figure 3; sections 4.2 and 4.3", revised=(3,)
)
