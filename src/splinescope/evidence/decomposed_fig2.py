"""Figure 2: rank at initialisation and accuracy after training, with default and He weights and with batch norm."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from ..representation import random_network, representation_geometry
from ._decomposed import digits, judge, subplots
from ._experiment import Claim, Experiment, Outcome, Progress, Size

KINDS: dict[str, dict[str, Any]] = {
    "batch norm": {"components": ("rc", "rs", "nl"), "init": "default"},
    "He": {"components": ("nl",), "init": "he"},
    "default": {"components": ("nl",), "init": "default", "bias": True},
}


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    depths, width, steps = ((5, 17), 64, 200) if size == "quick" else ((5, 9, 17, 33), 128, 2000)
    learnt = 0.6 if size == "quick" else 0.8
    x, y = digits()
    x = ((x - x.mean(dim=0)) / x.std()).float()
    results: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    for i, (kind, depth) in enumerate((k, d) for k in KINDS for d in depths):
        if progress is not None:
            progress(i / (len(KINDS) * len(depths)), f"{kind}, depth {depth}")
        generator = torch.Generator().manual_seed(seed)
        network = random_network(depth - 1, width, in_features=64, out_features=10, generator=generator, **KINDS[kind])
        network = network.double()
        last = representation_geometry(network[:-1], x[:width].double(), method="hooks", keep_gram=False)[-1]
        accuracy = _train(network.float(), x, y, steps, generator)
        results[kind].append(
            {
                "depth": depth,
                "rank_1e-2": last.rank(1e-2),
                "rank": last.rank(),
                "effective_rank": last.effective_rank,
                "accuracy": accuracy,
            }
        )
    deepest = {kind: rows[-1] for kind, rows in results.items()}
    ranks = {kind: row["rank_1e-2"] for kind, row in deepest.items()}
    ordered = ranks["batch norm"] > 3 * ranks["He"] and ranks["He"] > ranks["default"]
    trained = min(deepest["batch norm"]["accuracy"], deepest["He"]["accuracy"])
    return Outcome(
        {"results": results, "width": width, "steps": steps},
        (
            Claim(
                "At depth, batch norm keeps the rank of a batch; plain ReLU layers lose it, with default weights most.",
                judge(ordered),
                f"rank of {width} digits at depth {depths[-1]}, tolerance 1e-2: "
                + ", ".join(f"{kind} {int(r)}" for kind, r in ranks.items())
                + "; effective rank: "
                + ", ".join(f"{kind} {row['effective_rank']:.2f}" for kind, row in deepest.items()),
                "batch norm more than 3 times He, He above default",
            ),
            Claim(
                "Deep plain networks with default weights do not train by SGD; with He weights or batch norm they do.",
                judge(trained > learnt and deepest["default"]["accuracy"] < 0.3),
                f"train accuracy at depth {depths[-1]} after {steps} steps: "
                + ", ".join(f"{kind} {row['accuracy']:.3f}" for kind, row in deepest.items()),
                f"above {learnt} with He and batch norm, below .3 with default weights",
            ),
        ),
    )


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
    for kind, marker in zip(numbers["results"], "osv", strict=True):
        rows = numbers["results"][kind]
        depth = [r["depth"] for r in rows]
        left.semilogy(depth, np.maximum([r["rank_1e-2"] for r in rows], 0.9), marker=marker, label=kind)
        right.plot(depth, [r["accuracy"] for r in rows], marker=marker, label=kind)
    left.set_ylabel("rank at initialisation (tolerance 1e-2)")
    right.set_ylabel(f"train accuracy after {numbers['steps']} steps")
    right.set_ylim(0, 1.05)
    for ax in (left, right):
        ax.set_xlabel("depth")
        ax.legend(frameon=False)
    return figure


EXPERIMENT = Experiment("decomposed-fig2", "decomposed", "Figure 2: rank and accuracy against depth", run, draw)
