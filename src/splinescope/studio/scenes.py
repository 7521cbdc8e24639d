"""Scenes: stories that are told by points moving, where no network is in training. Each is computed when it is opened.

A scene is one or two panels with lines that stay, and moments that a slider goes through: places of the same points in
every panel, with a label and a few numbers.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ..generative import tiled_manifold
from ..meanfield import GaussianInputs, TwoLayerBN, descend
from ..representation import odd_point
from ..support.checks import check_choice, check_whole
from ..tiling import Slice, tessellate

Scene = dict[str, Any]


def read_scene(name: Any, seed: Any) -> Scene:
    """The scene of a name, ready for a frame; random parts are drawn from the seed."""
    check_choice(str(name), "scene", tuple(SCENES))
    return SCENES[str(name)](check_whole(seed, "seed", least=0, most=2**31 - 1))


def uniform_samples(seed: int) -> Scene:
    """Samples of a generator under latents of density vol^rho, from its own law (0) to uniform on its surface (1).

    The generator is z -> (z, height(z)), a ReLU surface over the square; volumes of tiles and samples are exact. The
    same random numbers are used at every rho.
    """
    count, rng = 1500, torch.Generator().manual_seed(seed)
    nn = torch.nn
    height = nn.Sequential(nn.Linear(2, 12), nn.ReLU(), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 1)).double()
    with torch.no_grad():
        for part in height.parameters():
            part.normal_(0.0, (2 / part.shape[1]) ** 0.5 if part.ndim == 2 else 0.5, generator=rng)

    tiling = tessellate(height, Slice.axes([0.0, 0.0], (0, 1), -1, 1), progress=False)
    assert tiling.values is not None
    steep = 4 / float(np.ptp(tiling.values))  # so that volumes differ
    surface = torch.nn.Sequential(_Graph(height, steep))
    manifold = tiled_manifold(tessellate(surface, tiling.view, progress=False))
    moments = []
    for rho in np.linspace(0, 1, 11):
        latents = manifold.sample(count, rho=float(rho), generator=torch.Generator().manual_seed(seed + 1))
        share = manifold.probabilities(float(rho)) / (manifold.surface_areas / manifold.surface_areas.sum())
        places = [latents, _seen(manifold.tiling.outputs(latents))]
        note = [["densest facet over sparsest", f"{share.max() / share.min():.3g}"]]
        moments.append(_moment(f"ρ = {rho:.1f}", note, places))
    ends = manifold.tiling.walls.ends
    latent, seen = (
        places[ends].reshape(-1, 4) for places in (manifold.tiling.vertices, _seen(manifold.corner_outputs))
    )
    return {
        "panels": [
            _panel("latents, and the tiles of the generator", latent),
            _panel("samples on its surface, denser where it turns away", seen),
        ],
        "moments": moments,
        "classes": np.full(count, 10, np.uint8),  # a color that is seen on white and on black without an outline
        "sizes": np.full(count, 1.6, np.float32),
    }


class _Graph(torch.nn.Module):
    def __init__(self, height: torch.nn.Module, steep: float) -> None:
        super().__init__()
        self.height, self.steep = height, steep

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return torch.cat([z, self.steep * self.height(z)], 1)


def _seen(points: np.ndarray) -> np.ndarray:
    """A surface (x, y, z) from the side and a little from above."""
    x, y, z = points.T
    return np.stack([0.9 * x + 0.45 * y, 0.55 * z + 0.35 * y - 0.15 * x], 1)


def odd_one_out(seed: int) -> Scene:
    """A batch through random layers that recenter each unit over the batch and apply ReLU: all points but one gather.

    At each layer the points are drawn in the plane of the mean of the others (across) and of what of the odd point is
    at right angles to it (up). Directions are true, distances from the middle are square roots of lengths, in units of
    the odd point's: the others would else be one dot. Which point is odd is decided at the last layer.
    """
    count, depth = 24, 80
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 8, generator=rng, dtype=torch.float64)
    layers = []
    for _ in range(depth):
        z = x @ (0.1 * torch.randn(x.shape[1], 200, generator=rng, dtype=x.dtype))  # He's scale, for 200 inputs
        x = torch.relu(z - z.mean(0))
        layers.append(x.numpy())
    last = odd_point(layers[-1] @ layers[-1].T)
    assert last is not None
    moments = []
    for depth_now, points in enumerate(layers, 1):
        others = np.delete(points, last.index, 0).mean(0)
        across = others / np.linalg.norm(others)
        up = points[last.index] - (points[last.index] @ across) * across
        up /= np.linalg.norm(up)
        places = points @ np.stack([across, up], 1) / np.linalg.norm(points[last.index])
        places /= np.sqrt(np.linalg.norm(places, axis=1, keepdims=True))
        # of the point that is odd in the end, whichever stands out now
        cosine = points @ across / np.linalg.norm(points, axis=1)
        angles = np.degrees(np.arccos(np.clip(cosine, -1, 1)))
        rest = np.delete(np.arange(count), last.index)
        ratio = np.linalg.norm(points[last.index]) / np.median(np.linalg.norm(points[rest], axis=1))
        note = [
            ["the odd point's length over the others'", f"{ratio:.3g}"],
            ["its angle to their mean", f"{angles[last.index]:.3g}°"],
            ["the others' median angle to that mean", f"{np.median(angles[rest]):.3g}°"],
        ]
        moments.append(_moment(f"layer {depth_now}", note, [places]))
    classes = np.zeros(count, np.uint8)
    classes[last.index] = 1
    axes = np.array([[-1.2, 0, 1.2, 0], [0, -1.2, 0, 1.2]])
    title = "across: the mean of the others; up: what is left of the odd point (square); distances as square roots"
    return {
        "panels": [_panel(title, axes)],
        "moments": moments,
        "classes": classes,
        "sizes": np.where(classes == 1, 6, 4).astype(np.float32),
    }


def neurons_on_the_ellipse(seed: int) -> Scene:
    """Neurons of a two-layer batch-norm network in training: only their direction counts, so they live on an ellipse.

    With covariance S of the data batch norm divides b . x by sqrt(b^T S b): b is drawn where b^T S b = 1. The data is
    Gaussian with S = diag(5, 1), the target relu(x_1), the descent of the mean field with all data.
    """
    count, rng = 80, torch.Generator().manual_seed(seed)
    spread = torch.diag(torch.tensor([5.0, 1.0], dtype=torch.float64))
    data = GaussianInputs(spread).sample(300, lambda x: torch.relu(x[:, 0]), generator=rng)
    a, b = (torch.randn(*shape, generator=rng, dtype=torch.float64) for shape in ((count,), (count, 2)))
    path = descend(TwoLayerBN(a, b, "relu"), data, rate=0.1, iterations=240, record_every=4)
    turn = np.linspace(0, 2 * np.pi, 181)
    ring = np.stack([np.cos(turn), np.sin(turn)], 1)
    axes = np.sqrt(np.diagonal(spread.numpy()))
    moments = []
    for number, (weights, amplitudes, risk) in enumerate(zip(path.b, path.a, path.risks, strict=True)):
        on_ellipse = weights / torch.sqrt(((weights @ spread) * weights).sum(1, keepdim=True))
        share = float((on_ellipse[:, 0].abs() * axes[0] > np.cos(np.radians(30))).double().mean())
        note = [["loss", f"{float(risk):.3g}"], ["neurons within 30° of an end of axis 1", f"{share:.0%}"]]
        moment = _moment(f"step {4 * number}", note, [on_ellipse.numpy()])
        moment["sizes"] = (2 + 4 * amplitudes.abs().clamp(max=2)).numpy().astype(np.float32)
        moment["classes"] = (amplitudes > 0).numpy().astype(np.uint8)
        moments.append(moment)
    ellipse = np.concatenate([ring[:-1] / axes, ring[1:] / axes], 1)
    cross = np.array([[-1.15, 0, 1.15, 0], [0, -1.15, 0, 1.15]])
    title = "weights b of the neurons, where bᵀSb = 1; across: first axis; red squares: positive output weights"
    return {
        "panels": [_panel(title, np.concatenate([ellipse, cross]))],
        "moments": moments,
        "classes": np.zeros(count, np.uint8),
        "sizes": np.full(count, 3, np.float32),
    }


SCENES: dict[str, Callable[[int], Scene]] = {
    "uniform": uniform_samples, "odd": odd_one_out, "ellipse": neurons_on_the_ellipse,
}  # fmt: skip


def _panel(title: str, lines: np.ndarray) -> Scene:
    return {"title": title, "lines": lines.astype(np.float32)}


def _moment(label: str, notes: list[list[str]], places: list[np.ndarray]) -> Scene:
    return {"label": label, "notes": notes, "places": [np.asarray(each, np.float32) for each in places]}
