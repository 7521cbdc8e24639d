"""Figure 6: how often units are active, with and without recentring."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..representation import random_network, representation_geometry
from ._decomposed import judge, subplots
from ._experiment import Claim, Experiment, Outcome, Progress, Size

KINDS: dict[str, dict[str, Any]] = {
    "no recentring (rms)": {"components": ("rs", "nl"), "spread": "rms"},
    "recentring": {"components": ("rc", "rs", "nl")},
}


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    n, width, depth = (256, 200, 20) if size == "quick" else (512, 300, 30)
    numbers: dict[str, Any] = {"n": n, "width": width, "depth": depth, "active": {}, "participation": {}}
    for i, (kind, options) in enumerate(KINDS.items()):
        if progress is not None:
            progress(i / len(KINDS), kind)
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(n, 50, dtype=torch.float64, generator=generator)
        network = random_network(depth, width, in_features=50, dtype=x.dtype, generator=generator, eps=0.0, **options)
        last = representation_geometry(network, x, method="hooks", keep_gram=False)[-1]
        numbers["active"][kind] = last.active_fraction
        numbers["participation"][kind] = float(np.nanmedian(last.participation))
    spread = {kind: np.quantile(active, [0.05, 0.95]) for kind, active in numbers["active"].items()}
    often = {kind: float(np.mean(active > 0.8)) for kind, active in numbers["active"].items()}
    without, with_rc = KINDS
    text = "; ".join(
        f"{kind}: 5% to 95% of units active on {low:.2f} to {high:.2f} of the inputs, {often[kind]:.0%} above .8"
        for kind, (low, high) in spread.items()
    )
    share = numbers["participation"]
    zero = 1 - float(np.mean(numbers["active"][with_rc]))
    return Outcome(
        numbers,
        (
            Claim(
                "Without recentring some units are nearly always on and others nearly never; with it every unit is "
                "active on about half of the inputs.",
                judge(
                    spread[without][0] < 0.15
                    and spread[without][1] > 0.85
                    and spread[with_rc][0] > 0.35
                    and spread[with_rc][1] < 0.65
                ),
                text,
                "5% and 95% quantiles: below .15 and above .85 without; between .35 and .65 with",
            ),
            Claim(
                "With recentring a unit is negligible for most inputs: it is exactly 0 on about half, and its energy "
                "sits on a small share.",
                judge(zero > 0.9, abs(zero - 0.5) < 0.1 and share[with_rc] < 0.2),
                f"{zero:.0%} of activations are 0; median share of inputs that carry a unit's energy "
                f"{share[with_rc]:.1%} ({share[without]:.1%} without recentring)",
                "zero on 90% of inputs as stated; half zero and energy on less than 20% as corrected",
            ),
        ),
    )


def draw(numbers: dict[str, Any]) -> Any:
    figure, axes = subplots(2)
    for ax, (kind, active) in zip(axes, numbers["active"].items(), strict=True):
        ax.hist(np.asarray(active), bins=np.linspace(0, 1, 26).tolist(), color="#3b528b")
        ax.set_title(kind)
        ax.set_xlabel("share of inputs on which a unit is active")
        ax.set_ylabel("units")
    return figure


EXPERIMENT = Experiment("decomposed-fig6", "decomposed", "Figure 6: activity with and without recentring", run, draw)
