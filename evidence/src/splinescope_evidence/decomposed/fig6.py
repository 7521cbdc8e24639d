"""Figure 6: how often units are active, with and without recentering."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from splinescope.representation import representation_geometry
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.words import span
from splinescope_research import random_network

KINDS: dict[str, dict[str, Any]] = {
    "no recentering (rms)": {"components": ("rs", "nl"), "spread": "rms"},
    "recentering": {"components": ("rc", "rs", "nl")},
}


OF_GAUSSIAN = 0.633
"""Of max(z, 0), z normal: the share of draws outside the fewest that carry 99% of the mean square."""


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    n, width, depth, seeds = (128, 100, 10, 2) if size == "quick" else (512, 300, 30, 5)
    numbers: dict[str, Any] = {"n": n, "width": width, "depth": depth, "active": {}, "rows": []}
    for i, (kind, s) in enumerate((kind, s) for kind in KINDS for s in range(seeds)):
        if progress is not None:
            progress(i / (len(KINDS) * seeds), f"{kind}, seed {seed + s}")
        generator = torch.Generator().manual_seed(seed + s)
        x = torch.randn(n, 50, dtype=torch.float64, generator=generator)
        network = random_network(
            depth, width, in_features=50, dtype=x.dtype, generator=generator, eps=0.0, **KINDS[kind]
        )
        last = representation_geometry(network, x, method="hooks", keep_gram=False)[-1]
        numbers["active"].setdefault(kind, last.active_fraction)
        low, high = np.quantile(last.active_fraction, [0.05, 0.95])
        numbers["rows"].append(
            {
                "kind": kind,
                "low": float(low),
                "high": float(high),
                "often": float(np.mean(last.active_fraction > 0.8)),
                "zero": 1 - float(np.mean(last.active_fraction)),
                "participation": float(np.nanmedian(last.participation)),
                "negligible": _negligible(network, x),
            }
        )
    without, with_rc = ([r for r in numbers["rows"] if r["kind"] == kind] for kind in KINDS)
    text = "; ".join(
        f"{rows[0]['kind']}: 5% to 95% of units active on {span([r['low'] for r in rows])} and "
        f"{span([r['high'] for r in rows])} of the inputs, {span([r['often'] for r in rows])} above .8"
        for rows in (without, with_rc)
    )
    off = max(abs(row["negligible"] - OF_GAUSSIAN) for row in numbers["rows"])
    return Outcome(
        numbers,
        (
            judged(
                "Without recentering some units are nearly always on and others nearly never; with it every unit is "
                "active on about half of the inputs (Figure 6).",
                f"{text}; {seeds} networks",
                holds=[
                    Check("5% quantile without, largest", max(r["low"] for r in without), "<", 0.15, "nearly never"),
                    Check("95% quantile without, least", min(r["high"] for r in without), ">", 0.85, "nearly always"),
                    Check("5% quantile with, least", min(r["low"] for r in with_rc), ">", 0.35, "about half"),
                    Check("95% quantile with, largest", max(r["high"] for r in with_rc), "<", 0.65, "about half"),
                ],
            ),
            judged(
                "(Ours, on Figure 6, where units are negligible for most inputs.) They are so, for those outside the "
                f"fewest that carry 99% of a unit's energy, as any ReLU of a Gaussian is, for {OF_GAUSSIAN} of them; "
                "recentering has no part in it.",
                f"share of such inputs, median of units, {span([r['negligible'] for r in with_rc])} of {seeds} "
                f"networks ({span([r['negligible'] for r in without])} without recentering); "
                f"{span([r['zero'] for r in with_rc])} of activations are 0; participation ratio of a unit's "
                f"energy over inputs, median, {span([r['participation'] for r in with_rc])} "
                f"({span([r['participation'] for r in without])} without recentering)",
                holds=[Check("share of negligible inputs, farthest from that of a Gaussian, both kinds", off, "<", 0.05,
                             "what 512 inputs and 300 units leave open")],
            ),
        ),
    )  # fmt: skip


@torch.no_grad()
def _negligible(network: torch.nn.Module, x: torch.Tensor) -> float:
    """Median over units of the share of inputs outside the fewest that carry 99% of the unit's energy."""
    energy = network(x).square().sort(0, descending=True).values
    energy = energy[:, energy[0] > 0]  # of a dead unit there is none
    carry = (energy.cumsum(0) < 0.99 * energy.sum(0)).sum(0) + 1
    return 1 - float(np.median(carry.numpy())) / len(x)


def draw(numbers: dict[str, Any]) -> Any:
    figure, axes = subplots(2)
    for ax, (kind, active) in zip(axes, numbers["active"].items(), strict=True):
        ax.hist(np.asarray(active), bins=np.linspace(0, 1, 26).tolist(), color="#3b528b")
        ax.set_title(kind)
        ax.set_xlabel("share of inputs on which a unit is active")
        ax.set_ylabel("units")
    return figure


EXPERIMENT = Experiment("Figure 6: activity with and without recentering", run, draw, place="Figure 6", revised=(2,))
