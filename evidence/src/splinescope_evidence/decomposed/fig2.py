"""Figure 2: rank at initialization and accuracy after training, with default and He weights and with batch norm."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from splinescope.representation import representation_geometry
from splinescope_evidence.framework.experiment import Check, Claim, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.data import digits
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.intervals import interval
from splinescope_evidence.shared.words import span
from splinescope_research import random_network

KINDS: dict[str, dict[str, Any]] = {
    "batch norm": {"components": ("rc", "rs", "nl"), "init": "default"},
    "He, no bias": {"components": ("nl",), "init": "default"},  # the default's weights, scaled below
    "He, default bias": {"components": ("nl",), "init": "default", "bias": True},  # the same
    "default, no bias": {"components": ("nl",), "init": "default"},
    "default, default bias": {"components": ("nl",), "init": "default", "bias": True},
}
"""Depth counts hidden layers, each a linear map and a ReLU, as the document does; a linear readout follows them."""


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    depths, width, steps, seeds = ((3, 9), 32, 20, 2) if size == "quick" else ((5, 9, 17, 33), 128, 2000, 5)
    x, y = digits()
    x = ((x - x.mean(dim=0)) / x.std()).float()
    results: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for i, (kind, depth) in enumerate((k, d) for k in KINDS for d in depths):
        ranks, effective = [], []
        for s in range(seeds):
            if progress is not None:
                progress((i + s / seeds) / (len(KINDS) * len(depths)), f"{kind}, depth {depth}, seed {seed + s}")
            generator = torch.Generator().manual_seed(seed + s)
            network = _network(kind, depth, width, generator)
            last = representation_geometry(network[:-1], x[:width].double(), method="hooks", keep_gram=False)[-1]
            ranks.append(last.rank(1e-2))
            effective.append(last.effective_rank)
        generator = torch.Generator().manual_seed(seed)
        accuracy = _train(_network(kind, depth, width, generator).float(), x, y, steps, generator)
        results[kind].append({"depth": depth, "ranks": ranks, "effective": effective, "accuracy": accuracy})
    numbers = {"results": results, "width": width, "steps": steps}
    return Outcome(numbers, _claims(numbers))


def _claims(numbers: dict[str, Any]) -> tuple[Claim, ...]:
    width, steps = numbers["width"], numbers["steps"]
    deepest = {kind: rows[-1] for kind, rows in numbers["results"].items()}
    depth, seeds = (deepest["batch norm"]["depth"], len(deepest["batch norm"]["ranks"]))
    found = {kind: row["ranks"] for kind, row in deepest.items()}
    learned = {kind: row["accuracy"] for kind, row in deepest.items()}
    keeps = min(found["batch norm"]) / max(rank for kind in found if kind != "batch norm" for rank in found[kind])
    gain = np.subtract(found["He, no bias"], found["default, no bias"])
    spread = np.divide(deepest["He, no bias"]["effective"], deepest["default, no bias"]["effective"]) - 1
    level = 1 - 0.05 / 2  # either of two comparisons may decide
    default = np.log(found["default, default bias"])
    stated = [interval(np.log(found[he]) - default, level) for he in found if "He" in he]
    biases = interval(np.log(found["default, no bias"]) - default, level)
    alone = interval(np.log(found["He, default bias"]) - np.log(found["He, no bias"]), level)
    trained = min(learned["batch norm"], learned["He, no bias"])
    return (
            judged(
                "At depth, batch norm keeps the rank of a batch; plain ReLU layers lose it (Figure 2).",
                f"rank of {width} digits at depth {depth}, tolerance 1e-2, {seeds} networks: "
                + ", ".join(f"{kind} {span(r)}" for kind, r in found.items())
                + "; effective rank: "
                + ", ".join(f"{kind} {span(row['effective'])}" for kind, row in deepest.items()),
                holds=[Check("least rank with batch norm over largest without", keeps, ">", 3.0,
                             "far above what seeds do to either")],
            ),
            judged(
                "Layers as they are by default, weights and biases, lose it most (Figure 2 compares them with He "
                "weights).",
                f"depth {depth}, {seeds} networks: log of the ratio of ranks, He's over the default's, 97.5% interval "
                f"{stated[0][0]:.2f} to {stated[0][1]:.2f} without biases at He's scale, {stated[1][0]:.2f} to "
                f"{stated[1][1]:.2f} with default ones",
                holds=[Check("lower end of the interval, lesser of the two", min(s[0] for s in stated), ">", 0.0,
                             "0 is as much")],
                fails=[Check("upper end of the interval, lesser of the two", min(s[1] for s in stated), "<", 0.0,
                             "significantly less than one of them")],
            ),
            judged(
                "Deep plain networks with default weights and biases do not train by SGD; with He weights or "
                "batch norm they do (Figure 2; one network each).",
                f"train accuracy at depth {depth} after {steps} steps: "
                + ", ".join(f"{kind} {accuracy:.3f}" for kind, accuracy in learned.items()),
                holds=[
                    Check("least accuracy with He weights and batch norm", trained, ">", 0.8,
                          "learned: most are right"),
                    Check("accuracy with default weights and biases", learned["default, default bias"], "<", 0.3,
                          "not learned: guessing is .1"),
                ],
            ),
            judged(
                "(Ours.) What loses it most is default biases at the default scale, neither alone: without biases the "
                "scale loses none, since a ReLU network is positively homogeneous then; at He's scale default biases "
                "lose less than half.",
                f"depth {depth}, {seeds} networks, the same random numbers at both scales, no biases: ranks "
                f"differ by {np.abs(gain).max():.0f} at most, effective ranks by {np.abs(spread).max():.0e} of "
                "themselves; log of the ratio of ranks, default weights without over with default biases, 97.5% "
                f"interval {biases[0]:.2f} to {biases[1]:.2f}; at He's scale, with over without, {alone[0]:.2f} to "
                f"{alone[1]:.2f}",
                needs=[Check("largest difference of effective ranks without biases, relative",
                             float(np.abs(spread).max()), "<", 1e-6,
                             "an identity: else the two scales are not of the same networks"),
                       Check("largest difference of ranks without biases", float(np.abs(gain).max()), "<", 0.5,
                             "the same")],
                holds=[Check("lower end of the interval, without over with default biases", biases[0], ">", 0.0,
                             "0 is no difference of the biases"),
                       Check("lower end of the interval at He's scale, with over without", alone[0], ">",
                             -np.log(2), "biases alone lose less than half")],
                fails=[Check("upper end of either interval over its line, lesser of the two",
                             min(biases[1], alone[1] + np.log(2)), "<", 0.0, "one of the two is significantly missed")],
            ),
    )  # fmt: skip


def _network(kind: str, depth: int, width: int, generator: torch.Generator) -> nn.Sequential:
    network = random_network(depth, width, in_features=64, out_features=10, generator=generator, **KINDS[kind])
    if kind.startswith("He"):
        with torch.no_grad():
            for layer in [m for m in network.modules() if isinstance(m, nn.Linear)][:-1]:
                layer.weight.mul_(6**0.5)  # from variance 1 / (3 fan) of the default to 2 / fan of He
    return network.double()


def _train(network: nn.Module, x: torch.Tensor, y: torch.Tensor, steps: int, generator: torch.Generator) -> float:
    """SGD at .01 with batches of 128; accuracy on the training set, in evaluation mode."""
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    for _ in range(steps):
        pick = torch.randint(len(x), (128,), generator=generator)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(x[pick]), y[pick])
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        return float((network.eval()(x).argmax(dim=1) == y).double().mean())


def draw(numbers: dict[str, Any]) -> Any:
    figure, (left, right) = subplots(2)
    for kind, marker in zip(numbers["results"], "osv^D", strict=True):
        rows = numbers["results"][kind]
        depth = [r["depth"] for r in rows]
        left.semilogy(depth, [np.mean(r["ranks"]) for r in rows], marker=marker, label=kind)
        right.plot(depth, [r["accuracy"] for r in rows], marker=marker, label=kind)
    left.set_ylabel("rank at initialization (tolerance 1e-2)")
    right.set_ylabel(f"train accuracy after {numbers['steps']} steps")
    right.set_ylim(0, 1.05)
    for ax in (left, right):
        ax.set_xlabel("hidden layers")
    right.legend(frameon=False, fontsize="small")  # lines of both panels; on the left it would lie on them
    return figure


EXPERIMENT = Experiment("Figure 2: rank and accuracy against depth", run, draw, place="Figure 2", revised=(1, 2, 4))
