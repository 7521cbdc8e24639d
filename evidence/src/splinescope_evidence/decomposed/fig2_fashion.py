"""Figure 2 on the document's own data: rank and training of deep networks on Fashion-MNIST."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from splinescope.data.digits import digits
from splinescope.data.fashion import fashion_mnist
from splinescope.representation import representation_geometry
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.words import span
from splinescope_research import random_network

KINDS: dict[str, dict[str, Any]] = {
    "batch norm": {"components": ("rc", "rs", "nl"), "init": "default"},
    "He": {"components": ("nl",), "init": "he"},
    "default": {"components": ("nl",), "init": "default", "bias": True},
}
"""As people use them: He weights without biases, torch's default weights with its biases. `decomposed-fig2` takes the
two apart on digits, and has more depths."""
SIZES = {"quick": ((3,), 16, 10, 2), "full": ((33,), 128, 1407, 5)}
"""hidden layers, width, steps (3 epochs of 60,000 images; the document has 75), networks"""


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    depths, width, steps, seeds = SIZES[size]
    rows: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    parts = [(kind, depth, k) for depth in depths for kind in KINDS for k in range(seed, seed + seeds)]
    for number, (kind, depth, k) in enumerate(parts):
        if progress:
            progress(number / len(parts), f"{kind}, {depth} layers, seed {k}")
        rows[kind].append({"depth": depth, **_row(size, kind, depth, k)})
    deepest = {kind: [row for row in found if row["depth"] == depths[-1]] for kind, found in rows.items()}
    ranks = {kind: [row["rank"] for row in found] for kind, found in deepest.items()}
    learned = {kind: [row["accuracy"] for row in found] for kind, found in deepest.items()}
    return Outcome(
        {"rows": rows, "width": width, "steps": steps},
        (
            judged(
                "At depth, batch norm keeps the rank of a batch; plain ReLU layers lose it (Figure 2, its own data).",
                f"rank of {width} images of clothes behind {depths[-1]} layers, tolerance 1e-2, {seeds} networks: "
                + ", ".join(f"{kind} {span(values)}" for kind, values in ranks.items()),
                holds=[Check("least rank with batch norm over largest with He weights",
                             min(ranks["batch norm"]) / max(ranks["He"]), ">", 3.0,
                             "far above what seeds do to either, as for the digits")],
            ),
            judged(
                "Deep networks with default weights and biases do not train by SGD; with He weights or batch norm they "
                f"do (Figure 2, its own data; {steps} steps, 3 epochs where the document has 75).",
                f"accuracy on 5,000 training images, {depths[-1]} layers, {seeds} networks: "
                + ", ".join(f"{kind} {min(values):.2f} to {max(values):.2f}" for kind, values in learned.items()),
                holds=[
                    Check("least accuracy with He weights or batch norm", min(learned["He"] + learned["batch norm"]),
                          ">", 0.7,
                          "learned: the classes of clothes overlap, and 3 epochs of a shallow net give about .8"),
                    Check("largest accuracy with default weights and biases", max(learned["default"]), "<", 0.3,
                          "not learned: guessing is .1"),
                ],
            ),
        ),
    )  # fmt: skip


def _set(size: Size) -> tuple[Tensor, Tensor]:
    """Rows of pixels less their means, over one standard deviation; at quick size, of digits, which are at hand."""
    images, labels = fashion_mnist() if size == "full" else digits()
    x = images.flatten(1)
    return (x - x.mean(0)) / x.std(), labels


def _row(size: Size, kind: str, depth: int, seed: int) -> dict[str, Any]:
    """Rank at the start, and accuracy after SGD at .01 with batches of 128."""
    _, width, steps, _ = SIZES[size]
    x, y = _set(size)
    generator = torch.Generator().manual_seed(seed)
    network = random_network(
        depth, width, in_features=x.shape[1], out_features=10, generator=generator, **KINDS[kind]
    ).double()
    pick = torch.randperm(len(x), generator=generator)[:width]
    last = representation_geometry(network[:-1], x[pick].double(), method="hooks", keep_gram=False)[-1]
    network = network.float()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    for _ in range(steps):
        pick = torch.randint(len(x), (128,), generator=generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x[pick]), y[pick]).backward()
        optimizer.step()
    with torch.no_grad():
        accuracy = float((network.eval()(x[:5000]).argmax(1) == y[:5000]).double().mean())
    return {"rank": last.rank(1e-2), "effective": last.effective_rank, "accuracy": accuracy}


def draw(numbers: dict[str, Any]) -> Any:
    figure, (left, right) = subplots(2)
    looks = dict(zip(KINDS, (("o", "#0072b2"), ("s", "#d55e00"), ("D", "#e69f00")), strict=True))  # as in Figure 2
    for ax, key in ((left, "rank"), (right, "accuracy")):
        for place, (kind, (marker, color)) in enumerate(looks.items()):
            values = [row[key] for row in numbers["rows"][kind]]
            ax.plot(place + np.linspace(-0.2, 0.2, len(values)), values, marker, color=color, alpha=0.8)
        ax.set_xticks(range(len(KINDS)), list(KINDS))
        ax.set_xlim(-0.5, len(KINDS) - 0.5)
    layers = numbers["rows"]["He"][0]["depth"]
    left.set(yscale="log", ylabel="rank at initialization (tolerance 1e-2)")
    right.set(ylim=(0, 1.05), ylabel=f"train accuracy after {numbers['steps']} steps")
    right.axhline(0.1, color="0.5", linestyle="--", linewidth=1)
    right.text(-0.45, 0.12, "guessing", color="0.4", fontsize="small")
    for ax in (left, right):
        ax.set_xlabel(f"network of {layers} hidden layers")
    return figure


EXPERIMENT = Experiment(
    "Figure 2 on its own data: rank and accuracy on Fashion-MNIST", run, draw, place="Figure 2, on its own data"
)
