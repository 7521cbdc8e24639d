"""Survey, Figure 6: the loss surface of a deep ConvNet and of its twin with skip connections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from .. import landscape
from .._checks import require
from ._experiment import Claim, Experiment, Outcome, Progress, Size, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DEPTH, _CHANNELS, _SPAN = 16, 8, 1.0
_STEEPER = 10.0  # how many times more the loss must vary without skips


class DeepConvNet(nn.Module):
    """Convolutions of one width on 8 x 8 images: `h <- relu(W h + b)`, with `+ h` if `skip`."""

    def __init__(self, skip: bool, depth: int = _DEPTH, channels: int = _CHANNELS) -> None:
        super().__init__()
        self.skip = skip
        self.first = nn.Conv2d(1, channels, 3, padding=1)
        self.layers = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(depth))
        self.head = nn.Linear(4 * channels, 10)
        for layer in self.layers:
            assert isinstance(layer, nn.Conv2d)
            assert layer.bias is not None
            nn.init.kaiming_normal_(layer.weight)
            nn.init.zeros_(layer.bias)
            if skip:  # so that the sum over layers neither grows nor fades
                layer.weight.data.mul_(depth**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.first(x))
        for layer in self.layers:
            h = torch.relu(layer(h)) + h if self.skip else torch.relu(layer(h))
        return self.head(nn.functional.avg_pool2d(h, 4).flatten(1))


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    """Train twins on digits, draw filter-normalised planes through them, compare; then switch the skips off."""
    runs, steps, points, count, looks = (2, 100, 9, 128, 1) if size == "quick" else (5, 400, 25, 512, 4)
    images, labels = require("sklearn.datasets", "data").load_digits(return_X_y=True)
    x = torch.tensor(images / 16.0 - 0.5, dtype=torch.float32).reshape(-1, 1, 8, 8)
    y = torch.tensor(labels)
    records: list[dict[str, Any]] = []
    for number in range(runs):
        for skip in (False, True):
            if progress is not None:
                progress(len(records) / (2 * runs), f"run {number + 1}, {'with' if skip else 'without'} skips")
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(1000 * seed + number)
                model = _trained(DeepConvNet(skip), x[:1500], y[:1500], steps)
            generator = torch.Generator().manual_seed(1000 * seed + number)
            moves = landscape.random_directions(model, 2, generator=generator)
            surface = landscape.loss_surface(model, x[:count], y[:count], moves, span=_SPAN, points=points)
            with torch.no_grad():
                accuracy = float((model(x[1500:]).argmax(1) == y[1500:]).float().mean())
            middle = float(surface.losses[points // 2, points // 2])
            record = {
                "skip": skip,
                "accuracy": accuracy,
                "loss": middle,
                "rise": float(np.median(surface.losses) / middle),
                "nonconvex": surface.nonconvex_fraction,
                "losses": surface.losses.tolist(),
                "axis": surface.axes[0].tolist(),
            }
            if skip:
                found = landscape.skip_conditioning(model, x[:looks])
                record["with"] = float(np.median(np.concatenate([block.with_skip.condition for block in found])))
                record["singular without"] = float(
                    np.mean(np.concatenate([np.isinf(block.without.condition) for block in found]))
                )
            records.append(record)
    plain, twin = ([r for r in records if r["skip"] is s] for s in (False, True))
    ratios = [a["rise"] / b["rise"] for a, b in zip(plain, twin, strict=True)]
    bumps = [(a["nonconvex"], b["nonconvex"]) for a, b in zip(plain, twin, strict=True)]
    fit = all(r["accuracy"] > 0.5 for r in records)
    flatter = min(ratios) > _STEEPER
    smoother = float(np.mean([a - b for a, b in bumps])) > 0
    verdict = Verdict.INCONCLUSIVE if not fit else Verdict.HOLDS if flatter and smoother else Verdict.FAILS
    singular = float(np.mean([r["singular without"] for r in twin]))
    claims = (
        Claim(
            f"Around trained parameters, the loss of a {_DEPTH}-layer ConvNet is rougher than that of its twin with "
            "skips: it rises more steeply and is non-convex at more points of a filter-normalised plane.",
            verdict,
            f"median loss over loss at the centre: {_each(plain, 'rise')} without, {_each(twin, 'rise')} with skips; "
            f"non-convex share {_each(plain, 'nonconvex')} against {_each(twin, 'nonconvex')}; test accuracy "
            f"{_each(plain, 'accuracy')} and {_each(twin, 'accuracy')}",
            f"rise at least {_STEEPER:g} times larger in every run and mean non-convex share larger (all test "
            "accuracies above 0.5, else inconclusive)",
        ),
        Claim(
            "In the trained twin, blocks are well conditioned with their skip and singular when it is switched off "
            "without retraining.",
            Verdict.HOLDS if singular > 0.9 and max(r["with"] for r in twin) < 1e6 else Verdict.FAILS,
            f"median condition number with skip {_each(twin, 'with')}; without it {singular:.0%} of blocks and points "
            "are singular",
            "more than 90% singular without; median below 1e6 with",
        ),
    )
    return Outcome({"records": records}, claims)


def _trained(model: nn.Module, x: Tensor, y: Tensor, steps: int) -> nn.Module:
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        chosen = torch.randint(0, len(x), (64,))
        loss = nn.functional.cross_entropy(model(x[chosen]), y[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def _each(records: list[dict[str, Any]], name: str) -> str:
    return ", ".join(f"{r[name]:.3g}" for r in records)


def draw(numbers: dict[str, Any]) -> Figure:
    """The surfaces of the first pair, on one colour scale."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.4), layout="constrained")
    axes = figure.subplots(1, 2)
    pair = numbers["records"][:2]
    logs = [np.log10(np.array(r["losses"])) for r in pair]
    levels = np.linspace(min(z.min() for z in logs), max(z.max() for z in logs), 31)
    for ax, record, z in zip(axes, pair, logs, strict=True):
        u, v = np.meshgrid(record["axis"], record["axis"], indexing="ij")
        drawn = ax.contourf(u, v, z, levels=levels, cmap="viridis")
        ax.contour(u, v, z, levels=levels[::3], colors="white", linewidths=0.4, linestyles="solid")
        name = "with skips" if record["skip"] else "without skips"
        ticks = np.linspace(-_SPAN, _SPAN, 5)
        ax.set(aspect="equal", xlabel="$t_1$", ylabel="$t_2$", xticks=ticks, yticks=ticks)
        ax.set_title(
            f"{name}: accuracy {record['accuracy']:.2f}, non-convex share {record['nonconvex']:.2f}", fontsize=10
        )
    figure.colorbar(drawn, ax=axes, label="$\\log_{10}$ loss")
    return figure


EXPERIMENT = Experiment("survey-fig6", "survey", "Skip connections smooth the loss surface", run, draw)
