"""Local complexity in all dimensions: the frame's count of folds against exact tiles in balls about images."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import nn

from splinescope.complexity import local_complexity
from splinescope.complexity.neighborhoods import calibrated_radius
from splinescope.space import tile_at, tiles_in_ball
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.intervals import interval
from splinescope_evidence.survey.figures.fig9_mnist import mnist_5k

NEAREST = (2, 5)  # balls reach the so many-th nearest wall of a typical image's tile
DIRECTIONS = 25  # of the frame, as in the survey
MOST = 3000  # tiles counted in a ball; then the count is a lower bound


def _trained(seed: int, steps: int, width: int) -> tuple[nn.Module, torch.Tensor]:
    """A classifier of MNIST, and images that it did not see."""
    images, labels = (part.double() if part.is_floating_point() else part for part in mnist_5k())
    images = images.flatten(1)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(images), generator=generator)
    train, rest = order[:4000], order[4000:]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = nn.Sequential(
            nn.Linear(784, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
        ).double()
    descent = torch.optim.Adam(net.parameters(), 1e-3)
    for _ in range(steps):
        some = train[torch.randint(len(train), (64,), generator=generator)]
        loss = nn.functional.cross_entropy(net(images[some]), labels[some])
        descent.zero_grad()
        loss.backward()
        descent.step()
    return net.eval(), images[rest]


def _balls(net: nn.Module, x: torch.Tensor, nearest: int) -> tuple[float, np.ndarray]:
    """The radius, and per image (tiles, folds, complete, frame, calibrated frame, linearized distance)."""
    walls = [tile_at(net, row, progress=False).facets[nearest - 1].plane_distance for row in x]
    radius = float(np.median(walls))
    reached = calibrated_radius(radius, x.shape[1], DIRECTIONS)
    proxies = [
        local_complexity(net, x, radius=radius, directions=DIRECTIONS),
        local_complexity(net, x, radius=reached, directions=DIRECTIONS),
        local_complexity(net, x, radius=radius, method="distance"),
    ]
    found = [tiles_in_ball(net, row, radius, max_tiles=MOST, progress=False) for row in x]
    exact = np.array([(ball.tiles, ball.folds, ball.complete) for ball in found], np.float64)
    return radius, np.hstack([exact, np.stack([proxy.total.numpy() for proxy in proxies], 1)])


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    networks, points, steps, width = (2, 6, 60, 12) if size == "quick" else (5, 24, 600, 32)
    radii: list[list[float]] = []
    tables: list[list[np.ndarray]] = []
    for n in range(networks):
        net, unseen = _trained(100 * seed + n, steps, width)
        radii.append([])
        tables.append([])
        for i, nearest in enumerate(NEAREST):
            if progress is not None:
                progress((n + i / len(NEAREST)) / networks, f"network {n + 1}, balls that reach wall {nearest}")
            radius, rows = _balls(net, unseen[:points], nearest)
            radii[-1].append(radius)
            tables[-1].append(rows)
    everything = np.array(tables)  # [networks, radii, points, 6]
    tiles, folds, complete = (everything[..., i] for i in range(3))
    level = 1 - 0.05 / len(NEAREST)
    ends = {
        name: [interval(_ranks(tiles[:, i], everything[:, i, :, column]), level) for i in range(len(NEAREST))]
        for name, column in (("same", 3), ("calibrated", 4), ("linearized", 5))
    }
    ordered = {
        name: " and ".join(f"{(low + high) / 2:.2f} ({low:.2f} to {high:.2f})" for low, high in pairs)
        for name, pairs in ends.items()
    }
    about = f"{points} unseen images in each of {networks} networks 784-{width}-{width}-10, two radii that share 5%"
    least = {name: min(low for low, _ in pairs) for name, pairs in ends.items()}
    most = {name: min(high for _, high in pairs) for name, pairs in ends.items()}
    counted = Check("share of balls counted to the end", float(complete.mean()), ">", 0.95, "bounds have no ranks")

    def asked(name: str) -> dict[str, list[Check]]:
        """A proxy should order nearly all balls at both radii; it is refuted if it does not at one of them."""
        low = Check("lower end, least over radii", least[name], ">", 0.9, "as survey-lc-proxy asks in the plane")
        high = Check("upper end, least over radii", most[name], "<", 0.9, "significantly below at one radius")
        return {"holds": [low], "needs": [counted], "fails": [high]}

    share = float((everything[..., 3] / np.maximum(folds, 1))[folds > 0].mean())
    bent = float((tiles > 2.0**folds).mean())  # in 784 dimensions Zaslavsky's number for so few folds is 2^N
    crossed = float((np.log2(tiles) / np.maximum(folds, 1))[folds > 0].mean())
    claims = (
        judged(
            "The frame's count of folds is a proxy for local complexity, the number of tiles in a ball of the whole "
            "input space, at the ball's own radius (survey, 'The dynamic geometry of learning').",
            f"rank correlation with the exact count, {about}: {ordered['same']}; the frame finds {100 * share:.0f}% of "
            "the folds in the ball",
            **asked("same"),
        ),
        judged(
            "With the radius calibrated to reach as far along a fold's normal as the ball, the frame orders balls by "
            "their tiles. Corrected: it does so moderately.",
            f"rank correlation, {about}: {ordered['calibrated']}",
            **asked("calibrated"),
            corrected=[Check("lower end, least over radii", least["calibrated"], ">", 0.5, "ordered more than half")],
        ),
        judged(
            "Counting folds by their linearized distance orders balls by their tiles.",
            f"rank correlation, {about}: {ordered['linearized']}",
            **asked("linearized"),
        ),
        judged(
            "N folds cut a ball into at most Zaslavsky's number of tiles, 2^N in so many dimensions (same part).",
            f"{100 * bent:.1f}% of the balls have more; the mean of log2(tiles)/N is {crossed:.2f}",
            holds=[Check("share of balls with more", bent, "<", 1e-9, "a bound has no exception")],
            needs=[counted],
        ),
    )
    return Outcome({"radii": radii, "tables": everything, "nearest": NEAREST}, claims)


def _ranks(tiles: np.ndarray, proxy: np.ndarray) -> list[float]:
    """Rank correlation in each network; 0 where only one of them varies, 1 where none does."""
    found = []
    for a, b in zip(tiles, proxy, strict=True):
        flat = (a == a[0]).all(), (b == b[0]).all()
        found.append(float(all(flat)) if any(flat) else float(stats.spearmanr(a, b).statistic))
    return found


def draw(numbers: dict[str, Any]) -> Any:
    figure, axes = subplots(3)
    tables = np.array(numbers["tables"])
    for ax, column, name in zip(
        axes, (3, 4, 5), ("frame, same radius", "frame, calibrated", "linearized distance"), strict=True
    ):
        for i, (nearest, color) in enumerate(zip(numbers["nearest"], ("#3b528b", "#d55e00"), strict=True)):
            rows = tables[:, i].reshape(-1, 6)
            jitter = np.random.default_rng(0).uniform(-0.2, 0.2, len(rows))
            ax.semilogy(rows[:, column] + jitter, rows[:, 0], ".", color=color, alpha=0.5, base=2,
                        label=f"reaching wall {nearest}")  # fmt: skip
        ax.set(xlabel=f"folds: {name}", ylabel="tiles in the ball" if column == 3 else "")
        most = int(tables[..., column].max())
        ax.plot(range(min(most, 12) + 1), [2.0**n for n in range(min(most, 12) + 1)], color="0.6", lw=1, label="$2^N$")
    axes[2].legend(frameon=False, fontsize="small", loc="lower right")
    return figure


EXPERIMENT = Experiment(
    "Local complexity in all dimensions: the frame against exact counts", run, draw, place="before Figure 9"
)
