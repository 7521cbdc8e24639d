"""The outlook on transformers: their MLPs are spline layers, and the geometry of tokens in them tells texts apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib import pyplot
from matplotlib.figure import Figure
from torch import Tensor, nn

from splinescope.smooth import local_map, token_geometry
from splinescope.support.checks import require
from splinescope_evidence.framework.experiment import Check, Claim, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.char_gpt import CharGPT, code, pieces, prose, train

SIZES = {"quick": (32, 2, 2, 32, 60, 60, 1), "full": (64, 4, 3, 64, 1000, 400, 5)}
"""width, heads, layers, context, training steps, pieces per class, seeds"""
RADIUS = 0.1
RADII = (0.01, 0.1, 1.0, 10.0)
ACTIVATIONS: dict[str, type[nn.Module]] = {"ReLU": nn.ReLU, "GELU": nn.GELU}
SEPARATES, CHANCE = 0.9, 0.6
EXACT = 1e-12
FALL, RISE = 0.9, 1.1
TOLD = 0.1


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    seeds = SIZES[size][-1]
    rows = []
    for number in range(seeds):
        for name in ACTIVATIONS:
            if progress:
                progress((number + (name == "GELU") / 2) / seeds, f"training a {name} network, seed {seed + number}")
            rows.append(_row(size, seed + number, name))
    return Outcome({"steps": _looks(size), "radii": RADII, "rows": rows}, _claims(rows))


def _looks(size: Size) -> list[int]:
    steps = SIZES[size][4]
    return sorted({0, *(round(steps ** (k / 12)) for k in range(13))})


def _row(size: Size, seed: int, name: str) -> dict[str, Any]:
    """One network: trained, looked at on the way, and measured on text it has not seen."""
    width, heads, layers, context, steps, count, _ = SIZES[size]
    text, source = prose(), code()
    half = len(text) // 2
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = CharGPT(width, heads, layers, context, ACTIVATIONS[name])
    seen = pieces(text[:half], 16, context, generator)
    folds: list[list[float]] = []

    def look(step: int) -> None:
        folds.append(token_geometry(model, seen, radius=RADIUS, attention=False).folds.mean((1, 2)).tolist())

    loss = train(model, text[:half], steps, context, generator, set(_looks(size)), look)
    fresh = pieces(text[half:], count, context, generator)
    more = pieces(text[half:], count, context, generator)  # other pieces, or their twins would tell
    shuffled = torch.stack([row[torch.randperm(context, generator=generator)] for row in more])
    other = pieces(source, count, context, generator)
    return {
        "activation": name,
        "loss": loss,
        "folds": folds,
        "shuffled": _separation(model, fresh, shuffled),
        "code": _separation(model, fresh, other),
        **_map(model, fresh[:1]),
    }


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
    return {
        "gap": max(gaps),
        "validity": validity.error.tolist(),
        "sizes": validity.sizes.tolist(),
        "paths": list(validity.paths),
    }


def _claims(rows: list[dict[str, Any]]) -> tuple[Claim, ...]:
    gap = max(row["gap"] for row in rows)
    totals = [np.array(row["folds"]).sum(1) for row in rows]
    falls, rises, steps = (list(values) for values in zip(*map(_phases, totals), strict=True))
    both = sum(fall < FALL and rise > RISE for fall, rise in zip(falls, rises, strict=True))
    ends = [float(t[-1] / t[0]) for t in totals]
    missed = np.array([row["validity"] for row in rows])  # networks, maps, radii
    kept = np.array([np.array(row["folds"])[-1] / np.array(row["folds"])[0] for row in rows])  # networks, layers
    networks = f"{len(rows)} networks, half with ReLU, half with GELU"
    return (
        judged(
            "With attention weights, norm scales and gates held, a trained transformer is one affine map at its input "
            "(outlook on transformers).",
            f"largest relative gap of A x + c from f(x), network and layers, {networks}: {gap:.1e}",
            holds=[Check("largest relative gap in float64", gap, "<", EXACT, "rounding of a few thousand operations")],
        ),
        judged(
            "Near its input this map also tells how the output changes (of each network one piece of text, two random "
            "directions).",
            f"share of the change that the map misses, {networks}: at a distance of {RADII[0]:g} from a point of size "
            f"{_spread([row['sizes'][0] for row in rows])} {_spread(missed[:, 0, 0])}, of {RADII[-1]:g} "
            f"{_spread(missed[:, 0, -1])}; each layer at what enters it, at {RADII[0]:g}: "
            f"{_by_layer(missed[:, 1:, 0])}; at {RADII[-1]:g}: {_by_layer(missed[:, 1:, -1])}",
            holds=[Check(f"largest share missed at {RADII[0]:g}", float(missed[:, 0, 0].max()), "<", TOLD,
                         "nine tenths of the change are predicted")],
            fails=[Check(f"least share missed at {RADII[0]:g}", float(missed[:, 0, 0].min()), ">", TOLD,
                         "no network's map predicts so much")],
        ),
        judged(
            "Folds near the tokens go through a descent and an ascent while a language model learns.",
            f"folds within {RADIUS} of a token, all layers, at the minimum before the ascent over start "
            f"{_spread(falls)} (record {min(steps)} to {max(steps)} of {len(totals[0])}), later maximum over that "
            f"minimum {_spread(rises)}; both phases in {both} of {len(rows)} networks; end over start "
            f"{_spread(ends)}, by layer: {_by_layer(kept)}",
            holds=[
                Check("minimum over start, largest over networks", max(falls), "<", FALL, "a tenth is seen in one run"),
                Check("later maximum over that minimum, smallest over networks", min(rises), ">", RISE,
                      "a tenth is seen in one run"),
            ],
            fails=[Check("networks that show both phases", both, "<", 1, "none of them does")],
        ),
    )  # fmt: skip


def _phases(folds: np.ndarray) -> tuple[float, float, int]:
    """Of a curve: a minimum over the start, the later maximum over that minimum, and which record the minimum is.

    Of all records that lie below `FALL` of the start, the one with the largest ascent after it, whatever follows that;
    the least record of all if there is none.
    """
    later = np.maximum.accumulate(folds[::-1])[::-1] / folds
    low = folds < FALL * folds[0]
    at = int(np.where(low, later, 0.0).argmax()) if low.any() else int(folds.argmin())
    return float(folds[at] / folds[0]), float(later[at]), at


def _spread(values: Sequence[float] | np.ndarray) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def _by_layer(values: np.ndarray) -> str:
    """`[networks, layers]` as a range for each layer."""
    return ", ".join(f"layer {i} {_spread(column)}" for i, column in enumerate(values.T))


def draw(numbers: dict[str, Any]) -> Figure:
    figure, axes = pyplot.subplots(1, 3, figsize=(9.6, 3.8), layout="constrained")
    kinds = {"ReLU": ("#332288", "-", 0.0), "GELU": ("#cc6677", "--", 0.4)}
    bars = [("shuffled", "features"), ("shuffled", "bag"), ("code", "features"), ("code", "bag")]
    for name, (color, style, shift) in kinds.items():
        rows = [row for row in numbers["rows"] if row["activation"] == name]
        total = np.array([np.sum(row["folds"], axis=1) for row in rows])
        _band(axes[0], np.array(numbers["steps"]) + 1, total, color, style, name)
        judged_by = np.array([[row[a][b] for a, b in bars] for row in rows])
        axes[1].bar(np.arange(4) + shift, np.median(judged_by, axis=0), 0.38, color=color, label=name)
        for at, values in zip(np.arange(4) + shift, judged_by.T, strict=True):
            axes[1].plot(np.full(len(values), at), values, ".", color="black", markersize=3)
        missed = np.array([[row["validity"][0], np.max(row["validity"][1:], axis=0)] for row in rows])
        for part, width in ((0, 2.0), (1, 0.8)):
            _band(axes[2], numbers["radii"], missed[:, part], color, style, None, width)
    axes[0].set(xscale="log", xlabel="training step + 1", ylabel=f"folds within {RADIUS} of a token, all layers")
    axes[0].set_ylim(bottom=0)
    axes[1].axhline(0.5, color="0.6", linewidth=1)
    axes[1].set_xticks(np.arange(4) + 0.2, ["features", "letters", "features", "letters"])
    axes[1].set_xlabel("text against shuffled text        prose against code")
    axes[1].set(ylim=(0, 1), ylabel="AUC on held-out pieces")
    axes[2].set(xscale="log", xlabel="distance from the point", ylabel="share of the change missed", ylim=(0, 1))
    axes[2].text(0.5, 0.06, "thick: whole network\nthin: its worst layer", transform=axes[2].transAxes, ha="center")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False)
    return figure


def _band(axes: Any, x: Any, values: np.ndarray, color: str, style: str, label: str | None, width: float = 1.5) -> None:
    """The median over networks, in the range of all of them."""
    axes.fill_between(x, values.min(0), values.max(0), color=color, alpha=0.2, linewidth=0)
    axes.plot(x, np.median(values, axis=0), color=color, linestyle=style, linewidth=width, label=label)


EXPERIMENT = Experiment(
    "Outlook: tokens of a small GPT among the folds of its layers",
    run,
    draw,
    place="closing part, outlook on transformers",
    revised=(3,),
)
