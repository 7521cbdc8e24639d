"""Figure 9, first half: from the start to interpolation tiles and slopes at the training points rise."""

from __future__ import annotations

from typing import Any

import numpy as np

from splinescope.tiling import Slice, tessellate
from splinescope_evidence.framework.experiment import Check, Claim, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.grokking import Setting, at_state, quick, sets, train
from splinescope_evidence.shared.intervals import ratio_interval
from splinescope_evidence.survey.figures.fig9 import _picture, _row, draw


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    seeds = 2 if size == "quick" else 6
    tables: list[dict[str, Any]] = []
    pictures = []
    for s in range(seeds):
        if progress is not None:
            progress(s / seeds, f"network {s + 1} of {seeds}")
        setting = quick(seed + s) if size == "quick" else Setting(seed=seed + s, steps=400, per_decade=4)
        trained = train(setting)
        x = sets(setting)[0]
        y = sets(setting)[1]
        view = Slice.through(*(x[int((y == label).nonzero()[0])] for label in (0, 1, 2)), pad=0.1)
        rows = []
        for index in (0, len(trained.steps) // 2, trained.interpolation):
            tiling = tessellate(at_state(setting, trained, index), view, progress=False)
            rows.append(_row(tiling, trained, index, 0.05 * float(np.sqrt(view.size))))
            if s == 0:
                pictures.append(_picture(tiling))
        tables.append({"rows": rows, "learned": trained.interpolation >= 0})
    learned = Check("share of networks that interpolate", float(np.mean([t["learned"] for t in tables])), ">", 0.99,
                   "the middle picture is interpolation")  # fmt: skip

    def claim(text: str, what: str, key: str) -> Claim:
        ratios = [t["rows"][2][key] / t["rows"][0][key] for t in tables]
        low, high = ratio_interval(ratios)
        return judged(
            text,
            f"{what}, at interpolation over at the start: {np.exp(np.log(ratios).mean()):.2f}, 95% "
            f"interval {low:.2f} to "
            f"{high:.2f}, {seeds} networks",
            holds=[Check(f"{what}: lower end of the 95% interval", low, ">", 1.0, "1 is no change")],
            fails=[Check(f"{what}: upper end of the 95% interval", high, "<", 1.0, "1 is no change")],
            needs=[learned],
        )

    claims = (
        claim("From the start to interpolation, tiles at the training points become denser (Figure 9, left to middle).",
              "density of tiles at three training points", "near_data"),
        claim("The map becomes steeper there.", "spectral norm of the slope at three training points", "slope_at_data"),
    )  # fmt: skip
    return Outcome({"rows": [t["rows"] for t in tables], "pictures": pictures}, claims)


EXPERIMENT = Experiment(
    "Figure 9, first half: from the start to interpolation", run, draw, place="Figure 9, left and middle"
)
