"""The outlook on transformers: their MLPs are spline layers, and the geometry of tokens in them tells texts apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from .._checks import require
from ..smooth import local_map, token_geometry
from ._char_gpt import CharGPT, code, pieces, prose, train
from ._experiment import Claim, Experiment, Outcome, Progress, Size, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = {"quick": (32, 2, 2, 32, 60, 60, 1), "full": (64, 4, 3, 64, 1000, 400, 1)}
"""width, heads, layers, context, training steps, pieces per class, seeds"""
RADIUS = 0.1
RADII = (0.01, 0.1, 1.0, 3.0)
ACTIVATIONS: dict[str, type[nn.Module]] = {"ReLU": nn.ReLU, "GELU": nn.GELU}
SEPARATES, CHANCE = 0.9, 0.6
EXACT = 1e-12


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    width, heads, layers, context, steps, count, seeds = SIZES[size]
    looks = sorted({0, *(round(steps ** (k / 12)) for k in range(13))})
    text, source = prose(), code()
    half = len(text) // 2
    rows: list[dict[str, Any]] = []
    for number in range(seeds):
        for name, activation in ACTIVATIONS.items():
            if progress:
                progress((number + (name == "GELU") / 2) / seeds, f"training a {name} network, seed {seed + number}")
            torch.manual_seed(seed + number)
            generator = torch.Generator().manual_seed(seed + number)
            model = CharGPT(width, heads, layers, context, activation)
            seen = pieces(text[:half], 16, context, generator)
            folds: list[list[float]] = []

            def look(step: int, model: CharGPT = model, seen: Tensor = seen, folds: list[list[float]] = folds) -> None:
                folds.append(token_geometry(model, seen, radius=RADIUS, attention=False).folds.mean((1, 2)).tolist())

            loss = train(model, text[:half], steps, context, generator, set(looks), look)
            fresh = pieces(text[half:], count, context, generator)
            more = pieces(text[half:], count, context, generator)  # other pieces, or their twins would tell
            shuffled = torch.stack([row[torch.randperm(context, generator=generator)] for row in more])
            other = pieces(source, count, context, generator)
            rows.append(
                {
                    "activation": name,
                    "loss": loss,
                    "folds": folds,
                    "shuffled": _separation(model, fresh, shuffled),
                    "code": _separation(model, fresh, other),
                    **_map(model, fresh[:1]),
                }
            )
    numbers = {"steps": looks, "radii": RADII, "rows": rows}
    return Outcome(numbers, _claims(rows))


def _separation(model: CharGPT, a: Tensor, b: Tensor) -> dict[str, float]:
    """AUC on held-out pieces of a logistic regression on the seven features per layer, and on counts of characters."""
    ids = torch.cat([a, b])
    labels = np.repeat([0, 1], [len(a), len(b)])
    features = token_geometry(model, ids, attention=False).features().reshape(len(ids), -1)
    bags = torch.nn.functional.one_hot(ids, 128).sum(1).numpy().astype(float)
    return {"features": _auc(features, labels), "bag": _auc(bags, labels)}


def _auc(x: np.ndarray, labels: np.ndarray) -> float:
    linear = require("sklearn.linear_model", "data")
    scaler = require("sklearn.preprocessing", "data").StandardScaler()
    auc = require("sklearn.metrics", "data").roc_auc_score
    order = np.random.default_rng(0).permutation(len(x))
    fit, test = order[: len(x) // 2], order[len(x) // 2 :]
    model = linear.LogisticRegression(max_iter=2000).fit(scaler.fit_transform(x[fit]), labels[fit])
    return float(auc(labels[test], model.predict_proba(scaler.transform(x[test]))[:, 1]))


def _map(model: CharGPT, ids: Tensor) -> dict[str, Any]:
    """The largest gap of the affine maps of the network and its layers in float64, and how far they are valid."""
    exact = model.double()
    at = local_map(exact, exact.letters(ids).detach(), forward=lambda m, e: m(embeddings=e))
    gaps = [at.gap, *(at.layer(path).gap for path in at.layers)]
    validity = at.validity(RADII, directions=2)
    model.float()
    return {"gap": max(gaps), "validity": validity.error.tolist(), "paths": list(validity.paths)}


def _claims(rows: list[dict[str, Any]]) -> tuple[Claim, ...]:
    def aucs(kind: str, what: str) -> list[float]:
        return [row[kind][what] for row in rows]

    gap = max(row["gap"] for row in rows)
    totals = [np.array(row["folds"]).sum(1) for row in rows]
    dips = [t.min() <= 0.9 * t[0] and t[-1] >= 1.1 * t.min() for t in totals]
    shuffled, bag = aucs("shuffled", "features"), aucs("shuffled", "bag")
    other = aucs("code", "features")
    return (
        Claim(
            "With attention weights, norm scales and gates held, a trained transformer is one affine map at its input.",
            Verdict.HOLDS if gap <= EXACT else Verdict.FAILS,
            f"largest relative gap of A x + c from f(x), network and layers: {gap:.1e}",
            f"at most {EXACT:g} in float64",
        ),
        Claim(
            "Seven spline features per layer tell a text from the same characters shuffled.",
            _separated(shuffled, bag),
            f"AUC {_spread(shuffled)} on held-out pieces; counts of characters {_spread(bag)}",
            f"AUC at least {SEPARATES} in every network, while counts of characters stay below {CHANCE}",
        ),
        Claim(
            "The same features tell prose from code.",
            Verdict.HOLDS if min(other) >= SEPARATES else Verdict.FAILS,
            f"AUC {_spread(other)}; counts of characters {_spread(aucs('code', 'bag'))}",
            f"AUC at least {SEPARATES} in every network",
        ),
        Claim(
            "Folds near the tokens go through a descent and an ascent while a language model learns.",
            Verdict.HOLDS if all(dips) else Verdict.INCONCLUSIVE if any(dips) else Verdict.FAILS,
            f"folds within {RADIUS} of a token, all layers, start / least / end: "
            + "; ".join(
                f"{r['activation']} {t[0]:.1f} / {t.min():.1f} / {t[-1]:.1f}" for r, t in zip(rows, totals, strict=True)
            ),
            "the least is at most 0.9 of the start and the end at least 1.1 of the least, in every network",
        ),
    )


def _separated(features: list[float], bag: list[float]) -> Verdict:
    if min(features) >= SEPARATES and max(bag) < CHANCE:
        return Verdict.HOLDS
    return Verdict.FAILS if max(features) < SEPARATES else Verdict.INCONCLUSIVE


def _spread(values: list[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def draw(numbers: dict[str, Any]) -> Figure:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    colors = {"ReLU": "#332288", "GELU": "#cc6677"}
    for number, row in enumerate(numbers["rows"]):
        color, first = colors[row["activation"]], number < 2
        axes[0].plot(np.array(numbers["steps"]) + 1, np.array(row["folds"]).sum(1), "o-", color=color, markersize=3,
                     label=row["activation"] if first else None)  # fmt: skip
        for path, error in zip(row["paths"], row["validity"], strict=True):
            style = "-" if path == "" else ":"
            axes[2].plot(
                numbers["radii"],
                error,
                style,
                color=color,
                label=f"{row['activation']}, {path or 'whole'}" if first else None,
            )
    axes[0].set_xscale("log")
    axes[0].set_xlabel("training step + 1")
    axes[0].set_ylabel(f"folds within {RADIUS} of a token")
    axes[0].legend(frameon=False)
    bars = [("shuffled", "features"), ("shuffled", "bag"), ("code", "features"), ("code", "bag")]
    for number, row in enumerate(numbers["rows"]):
        places = np.arange(4) + 0.8 * number / len(numbers["rows"])
        axes[1].bar(places, [row[a][b] for a, b in bars], 0.7 / len(numbers["rows"]), color=colors[row["activation"]])
    axes[1].axhline(0.5, color="0.6", linewidth=1)
    axes[1].set_xticks(
        np.arange(4) + 0.3, ["shuffled:\nfeatures", "shuffled:\ncharacters", "code:\nfeatures", "code:\ncharacters"]
    )
    axes[1].set_ylabel("AUC on held-out pieces")
    axes[2].set_xscale("log")
    axes[2].set_xlabel("distance from the point")
    axes[2].set_ylabel("share of the change missed by the map")
    axes[2].legend(frameon=False, fontsize=6)
    return figure


EXPERIMENT = Experiment(
    "survey-language-models", "survey", "Outlook: tokens of a small GPT among the folds of its layers", run, draw
)
