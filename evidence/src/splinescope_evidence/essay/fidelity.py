"""An open question of the essay: batch size as the fidelity of adaptation, and what of it helps generalization."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from splinescope.normalization import with_statistics
from splinescope_evidence.framework.experiment import Claim, Experiment, Outcome, Progress, Size
from splinescope_evidence.shared.data import digits
from splinescope_evidence.shared.figures import log_ticks, subplots
from splinescope_evidence.shared.normalization import normalized_by, paired, seeded
from splinescope_evidence.shared.root_law import as_root, exponents
from splinescope_research import statistics_fidelity

SIZES = (8, 16, 32, 64, 128)
LAYERS, WIDTH = 4, 80
SMALL, LARGE = 16, 128
ARMS = {(g, s): f"gradient of {g}, statistics of {s}" for g in (LARGE, SMALL) for s in (LARGE, SMALL)}


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    seeds, rows, steps, draws, width = (2, 60, 15, 2, 12) if size == "quick" else (24, 300, 600, 10, WIDTH)
    small, large = (8, 32) if size == "quick" else (SMALL, LARGE)
    sizes = (8, 32) if size == "quick" else SIZES
    x, y = digits()
    accuracy: dict[str, list[float]] = {name: [] for name in ARMS.values()}
    laws: dict[str, list[list[list[float]]]] = {"untrained": [], "trained": []}
    for s in range(seeds):
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed + s))
        train, test = order[:rows], order[rows:]
        for i, ((g, b), name) in enumerate(ARMS.items()):
            if progress is not None:
                progress((s + i / 4) / seeds, f"seed {s}, {name}")
            net = seeded(lambda: _network(width), seed + s).double()
            if i == 0:
                laws["untrained"].append(_flips(net, x[train], sizes, draws))
            batches = (large if g == LARGE else small, large if b == LARGE else small)
            _train(net, x[train], y[train], *batches, steps, torch.Generator().manual_seed(seed + s))
            with torch.no_grad():
                scores = with_statistics(net, x[train])(x[test])
            accuracy[name].append(float((scores.argmax(1) == y[test]).double().mean()))
            if i == 0:
                laws["trained"].append(_flips(net, x[train], sizes, draws))
    numbers = {"sizes": sizes, "laws": laws, "accuracy": accuracy}
    values = {arm: np.array(accuracy[name]) for arm, name in ARMS.items()}
    return Outcome(
        numbers,
        (
            _law(laws, sizes, rows),
            _noise("The noise of statistics improves generalization (essay, batch size), gradients of large batches.",
                   values[LARGE, SMALL] - values[LARGE, LARGE]),
        ),
    )  # fmt: skip


def _noise(text: str, gains: np.ndarray) -> Claim:
    return paired(text, f"test accuracy, batches of {SMALL} minus {LARGE}", gains)


def _network(width: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs in (64, *[width] * (LAYERS - 1)):
        layers += [nn.Linear(inputs, width), nn.BatchNorm1d(width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 10))


def _flips(net: nn.Module, x: Tensor, sizes: tuple[int, ...], draws: int) -> list[list[float]]:
    """`[sizes, layers]` share of signs that change."""
    found: list[list[float]] = statistics_fidelity(net, x, sizes, draws=draws, progress=False).flips.tolist()
    return found


def _train(
    net: nn.Sequential, x: Tensor, y: Tensor, of_loss: int, of_statistics: int, steps: int, generator: torch.Generator
) -> None:
    """Adam on a batch of the loss, normalized by another that holds it or is held by it."""
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(steps):
        order = torch.randperm(len(x), generator=generator)
        rows = order[:of_loss]
        outputs = normalized_by(net, x[rows], x[order[:of_statistics]])
        optimizer.zero_grad()
        nn.functional.cross_entropy(outputs, y[rows]).backward()
        optimizer.step()


def _law(laws: dict[str, Any], sizes: tuple[int, ...], rows: int) -> Claim:
    """Flips against B, layer by layer."""
    growth = ", ".join(f"{when} {np.mean([np.array(r)[1, -1] / np.array(r)[1, 0] for r in runs]):.2f}"
                       for when, runs in laws.items())  # fmt: skip
    return as_root(
        "The tiling under minibatch statistics differs from that under the data's as 1/sqrt(B), but for a tenth in the "
        "exponent, in every layer (essay, fidelity of adaptation; ours as a law).",
        "the share of signs that change",
        {when: exponents(np.array(runs), sizes, rows) for when, runs in laws.items()},
        f"share in the last layer over that in the first at B = {sizes[1]}: {growth}",
    )


def draw(numbers: dict[str, Any]) -> Any:
    """Left: signs that change against B, by layer. Right: test accuracy by batch sizes of gradient and statistics."""
    figure, (left, right) = subplots(2)
    sizes = numbers["sizes"]
    for when, style in (("untrained", "--"), ("trained", "-")):
        mean = np.array(numbers["laws"][when]).mean(0)
        for layer in range(mean.shape[1]):
            color = ("#440154", "#31688e", "#35b779", "#e6a000")[layer % 4]
            left.plot(sizes, mean[:, layer], style, color=color, label=f"layer {layer + 1}, {when}")
    scale = np.array(numbers["laws"]["untrained"]).mean((0, 2))[0]
    left.plot(sizes, scale * (np.array(sizes) / sizes[0]) ** -0.5, ":", color="0.5", label=r"as $1/\sqrt{B}$")
    left.set(yscale="log", xlabel="batch size of the statistics", ylabel="share of signs that change")
    log_ticks(left, sizes)
    left.legend(frameon=False, fontsize=7)
    for i, values in enumerate(numbers["accuracy"].values()):
        right.plot(np.full(len(values), i), values, "o", ms=4, color="#0072b2", alpha=0.6)
        right.plot([i], [np.mean(values)], "_", ms=20, color="#d55e00")
    right.set_xticks(range(4), [name.replace(", ", ",\n") for name in numbers["accuracy"]], fontsize=7)
    right.set_ylabel("test accuracy")
    return figure


EXPERIMENT = Experiment(
    "Batch size and the fidelity of adaptation",
    run,
    draw,
    place="closing part, open questions: fidelity of adaptation",
    revised=(1,),
)
