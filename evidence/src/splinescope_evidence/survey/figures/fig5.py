"""Figure 5 at its own size: the tiles of a ConvNet of 64 x 64 inputs on the plane of three images."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from splinescope.tiling import Slice, Tiling, tessellate
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.survey.figures.fig9_mnist import mnist_5k

CLASSES = (3, 8)
FOLD = 1e-10
"""Least pre-activation, over the largest of its layer, that is still on a fold."""
BINS = 240
"""Of the picture's raster, a side."""


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    side, channels, steps, tried = (16, 2, 20, 200) if size == "quick" else (64, 8, 300, 20_000)
    images, labels = mnist_5k()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    order = order[(labels[order] == CLASSES[0]) | (labels[order] == CLASSES[1])]
    x = F.interpolate(images[order], (side, side), mode="bilinear", align_corners=False)
    y = (labels[order] == CLASSES[1]).long()
    if progress is not None:
        progress(0.0, "training")
    model, accuracy = _trained(x, y, channels, steps, seed)
    three = [int((y == 0).nonzero()[0]), int((y == 1).nonzero()[0]), int((y == 0).nonzero()[1])]
    view = Slice.through(*(x[i] for i in three), pad=0.1)
    if progress is not None:
        progress(0.3, "tiling")
    tiling = tessellate(model, view, progress=False)
    if progress is not None:
        progress(0.8, f"checking {tiling.count} tiles")
    found = _compared(model, tiling, tried, seed)
    rounding = "rounding of float64 sums, with room for thin tiles"
    claim = judged(
        "On the plane of three images, a ConvNet of 64 x 64 inputs is one affine map a tile, and its decision boundary "
        "one hyperplane that bends at folds only (Figure 5 at its own size).",
        f"{tiling.count} tiles of a network with {found['units']} units; largest relative error {found['error']:.1e} "
        f"in {found['tried']} of them; {found['segments']} segments of the boundary, on which the outputs differ by "
        f"{found['tie']:.1e} of their scale; bends off a fold: {found['bends off']}; training accuracy {accuracy:.3f}",
        holds=[Check("largest relative error of the affine maps", found["error"], "<", 1e-9, rounding),
               Check("difference of outputs on the boundary", found["tie"], "<", 1e-9, rounding),
               Check("bends off the folds", float(found["bends off"]), "<", 0.5, "a single one refutes it")],
        needs=[Check("training accuracy", accuracy, ">", 0.99, "the figure's network is trained"),
               Check("bends of the boundary", float(found["bends"]), ">", 100, "without bends nothing is tested"),
               Check("least pre-activation at a random point, median", found["typical"], ">", 100 * FOLD,
                     "folds must be far enough apart for a bend off them to be seen")],
    )  # fmt: skip
    return Outcome({**found, "tiles": tiling.count, "picture": _picture(tiling, x[three])}, (claim,))


def _trained(x: Tensor, y: Tensor, channels: int, steps: int, seed: int) -> tuple[nn.Sequential, float]:
    """Four convolutions and a linear layer, by Adam on batches of 64; the network and its training accuracy."""
    widths = (1, channels, 2 * channels, 2 * channels, 4 * channels)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers: list[nn.Module] = []
        for a, b in pairwise(widths):
            layers += [nn.Conv2d(a, b, 3, stride=2, padding=1), nn.ReLU()]
        model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(widths[-1] * (x.shape[-1] // 16) ** 2, 2))
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        rows = torch.randint(len(x), (64,), generator=generator)
        optimizer.zero_grad()
        F.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
    with torch.no_grad():
        accuracy = float((model(x).argmax(1) == y).double().mean())
    return model.double().eval(), accuracy


def _compared(model: nn.Sequential, tiling: Tiling, tried: int, seed: int) -> dict[str, Any]:
    """Maps of some tiles, the boundary and its bends against the module itself."""
    rng = np.random.default_rng(seed)
    tiles = rng.choice(tiling.count, min(tried, tiling.count), replace=False)
    points = np.stack([rng.dirichlet(np.ones(len(c := tiling.tile(int(k))))) @ c for k in tiles])
    truth, typical, units = _run(model, tiling, points)
    told = np.einsum("ncd,nd->nc", tiling.slopes(tiles), points) + tiling.offsets(tiles)
    scale = np.abs(truth).max()
    boundary = tiling.decision_boundary()
    corners = [np.asarray(line) for _, line in boundary.polylines]
    bends = np.concatenate([line[1:-1][_turns(line) > 1e-6] for line in corners] or [np.zeros((0, 2))])
    ends, _, _ = _run(model, tiling, boundary.segments.reshape(-1, 2))
    _, nearest, _ = _run(model, tiling, bends)
    return {
        "units": units,
        "tried": len(tiles),
        "error": float(np.abs(told - truth).max() / scale),
        "segments": len(boundary.segments),
        "tie": float(np.abs(ends[:, 0] - ends[:, 1]).max(initial=0.0) / scale),
        "bends": len(bends),
        "bends off": int((nearest > FOLD).sum()),
        "typical": float(np.median(typical)),
    }


def _run(model: nn.Sequential, tiling: Tiling, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Outputs at points of the plane, the least pre-activation there over its layer's largest, and the units."""
    outputs, least, units = [np.zeros((0, 2))], [np.zeros(0)], 0
    with torch.no_grad():
        for start in range(0, len(points), 500):
            x = torch.from_numpy(tiling.view.inputs(points[start : start + 500]))
            nearest = torch.full((len(x),), torch.inf, dtype=torch.float64)
            units = 0
            for layer in model:
                if isinstance(layer, nn.ReLU):
                    sizes = x.flatten(1).abs()
                    nearest = torch.minimum(nearest, sizes.amin(1) / sizes.amax())
                    units += sizes.shape[1]
                x = layer(x)
            outputs.append(x.numpy())
            least.append(nearest.numpy())
    return np.concatenate(outputs), np.concatenate(least), units


def _turns(line: np.ndarray) -> np.ndarray:
    """Sine of the angle at each inner corner of a line."""
    u, v = np.diff(line[:-1], axis=0), np.diff(line[1:], axis=0)
    lengths = np.linalg.norm(u, axis=1) * np.linalg.norm(v, axis=1)
    return np.abs(u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]) / np.maximum(lengths, 1e-300)


def _picture(tiling: Tiling, images: Tensor) -> dict[str, Any]:
    """Tiles in each cell of a raster, the boundary, the images, and the walls of a small window on the boundary."""
    low, high = tiling.view.domain.min(0), tiling.view.domain.max(0)
    edges = np.linspace(low, high, BINS + 1)
    x, y = tiling.centroids().T
    counts, _, _ = np.histogram2d(x, y, bins=[edges[:, 0], edges[:, 1]])
    boundary = tiling.decision_boundary().segments
    middle = boundary[len(boundary) // 2].mean(0) if len(boundary) else (low + high) / 2
    half = (high - low).max() / np.sqrt(max(tiling.count, 1)) * 12  # some 600 tiles
    ends = tiling.vertices[tiling.walls.ends]
    inside = (np.abs(ends.mean(1) - middle) < 1.5 * half).all(1)
    return {
        "counts": counts.astype(int).tolist(), "low": low.tolist(), "high": high.tolist(),
        "boundary": np.round(boundary, 4).tolist(), "anchors": tiling.view.anchors.tolist(),
        "window": [*middle.tolist(), float(half)], "walls": np.round(ends[inside], 6).tolist(),
        "images": [np.round(image[0, ::2, ::2].numpy(), 2).tolist() for image in images],
    }  # fmt: skip


def draw(numbers: dict[str, Any]) -> Any:
    from matplotlib.collections import LineCollection
    from matplotlib.colors import LogNorm
    from matplotlib.offsetbox import AnnotationBbox, OffsetImage
    from matplotlib.patches import Rectangle

    picture = numbers["picture"]
    figure, (left, right) = subplots(2, height=4.4)
    (x0, y0), (x1, y1) = picture["low"], picture["high"]
    shown = left.imshow(np.maximum(np.array(picture["counts"]).T, 0.5), origin="lower", extent=(x0, x1, y0, y1),
                        cmap="viridis", norm=LogNorm())  # fmt: skip
    figure.colorbar(shown, ax=left, label=f"tiles in a cell, {BINS} cells a side", shrink=0.8)
    for image, anchor in zip(picture["images"], picture["anchors"], strict=True):
        left.add_artist(AnnotationBbox(OffsetImage(np.array(image), zoom=0.9, cmap="gray_r"), anchor, pad=0.15))
    x, y, half = picture["window"]
    left.add_patch(Rectangle((x - half, y - half), 2 * half, 2 * half, fill=False, edgecolor="white"))
    right.add_collection(LineCollection(picture["walls"], colors="black", linewidths=0.4))
    for ax, width in ((left, 1.0), (right, 1.8)):
        ax.add_collection(LineCollection(picture["boundary"], colors="#e00000", linewidths=width))
        ax.set(xlabel="$t_1$", ylabel="$t_2$")
    left.set_title(f"{numbers['tiles']:,} tiles, decision boundary (red)")
    right.set(xlim=(x - half, x + half), ylim=(y - half, y + half), aspect="equal", title="the white window")
    return figure


EXPERIMENT = Experiment("Figure 5 at its own size: a ConvNet of 64 x 64 inputs", run, draw, place="Figure 5")
