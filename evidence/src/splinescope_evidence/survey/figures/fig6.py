"""Survey, Figure 6: the loss surface of a deep ConvNet and of its twin with skip connections."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from splinescope import landscape
from splinescope.data import digits
from splinescope.normalization import with_statistics
from splinescope_evidence.framework.experiment import Check, Claim, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.intervals import interval, ratio_interval

DEPTHS, CHANNELS, SPAN = (16, 40), 8, 1.0
LEARNED = 0.15
"""Training loss at which all networks stop: the same fit."""


class DeepConvNet(nn.Module):
    """Convolutions of one width on 8 x 8 images: `h <- relu(norm(W h))`, with `+ h` if `skip`; He weights."""

    def __init__(self, skip: bool, depth: int, channels: int = CHANNELS) -> None:
        super().__init__()
        self.skip = skip
        self.first = nn.Conv2d(1, channels, 3, padding=1)
        self.layers = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(depth))
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(depth))
        self.head = nn.Linear(4 * channels, 10)
        for layer in self.layers:
            assert isinstance(layer, nn.Conv2d)
            nn.init.kaiming_normal_(layer.weight)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.first(x))
        for layer, norm in zip(self.layers, self.norms, strict=True):
            bent = torch.relu(norm(layer(h)))
            h = bent + h if self.skip else bent
        scores: Tensor = self.head(nn.functional.avg_pool2d(h, 4).flatten(1))
        return scores


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    """Train twins of two depths on digits to the same loss and look at a filter-normalized plane around each."""
    runs, depths, steps, points, count = (2, (2, 3), 20, 5, 64) if size == "quick" else (4, DEPTHS, 1500, 11, 256)
    images, y = digits()
    x = images - 0.5
    records: list[dict[str, Any]] = []
    for number in range(runs):
        for depth in depths:
            for skip in (False, True):
                if progress is not None:
                    what = f"run {number + 1}, {depth} layers, {'with' if skip else 'without'} skips"
                    progress(len(records) / (4 * runs), what)
                with torch.random.fork_rng(devices=[]):
                    torch.manual_seed(1000 * seed + number)
                    model, taken = _trained(DeepConvNet(skip, depth), x[:1500], y[:1500], steps)
                model = with_statistics(model, x[:1500])
                generator = torch.Generator().manual_seed(1000 * seed + number)
                directions = landscape.random_directions(model, 2, generator=generator)
                surface = landscape.loss_surface(
                    model, x[:count], y[:count], directions, span=SPAN, resolution=points, progress=False
                )
                with torch.no_grad():
                    accuracy = float((model(x[1500:]).argmax(1) == y[1500:]).float().mean())
                records.append(
                    {
                        "skip": skip,
                        "depth": depth,
                        "steps": taken,
                        "accuracy": accuracy,
                        "loss": float(surface.losses[points // 2, points // 2]),
                        "nonconvex": surface.nonconvex_fraction,
                        "losses": surface.losses.tolist(),
                        "axis": surface.axes[0].tolist(),
                    }
                )
    return Outcome({"records": records, "depths": list(depths)}, _claims(records, *depths))


def _claims(records: list[dict[str, Any]], shallow: int, deep: int) -> tuple[Claim, ...]:
    plain, twin = ({d: [r for r in records if r["skip"] is s and r["depth"] == d] for d in (shallow, deep)}
                   for s in (False, True))  # fmt: skip
    bumps = {d: np.array([a["nonconvex"] - b["nonconvex"] for a, b in zip(plain[d], twin[d], strict=True)])
             for d in (shallow, deep)}  # fmt: skip
    slower = [a["steps"] / b["steps"] for a, b in zip(plain[deep], twin[deep], strict=True)]
    (low, high), (less, more), (least, most) = (
        interval(bumps[deep]), interval(bumps[deep] - bumps[shallow]), ratio_interval(slower),
    )  # fmt: skip
    fitted = Check("largest training loss at the center", max(r["loss"] for r in records), "<", 3 * LEARNED,
                   "surfaces of networks that have not learned say nothing of training")  # fmt: skip
    return (
        judged(
            f"Around trained parameters, the loss of a ConvNet of {deep} layers with batch norm is non-convex at more "
            "points of a filter-normalized plane than that of its twin with skips (Figure 6); all trained to the same "
            "loss.",
            f"share of the plane: {_each(plain[deep], 'nonconvex')} without, {_each(twin[deep], 'nonconvex')} with "
            f"skips; difference {bumps[deep].mean():+.2f}, 95% interval {low:+.2f} to {high:+.2f}, {len(slower)} "
            f"networks; test accuracy {_each(plain[deep], 'accuracy')} and {_each(twin[deep], 'accuracy')}",
            needs=[fitted],
            holds=[Check("lower end of the 95% interval of the difference of shares", low, ">", 0.0, "0 is none")],
            fails=[Check("upper end of the 95% interval of the difference of shares", high, "<", 0.0, "0 is none")],
        ),
        judged(
            "Skips matter more the deeper the network is (Figure 6, which has 56 layers).",
            f"difference of shares at {shallow} layers {bumps[shallow].mean():+.2f}, at {deep} "
            f"{bumps[deep].mean():+.2f}; growth 95% interval {less:+.2f} to {more:+.2f}",
            needs=[fitted],
            holds=[Check("lower end of the 95% interval of the growth", less, ">", 0.0, "0 is none")],
            fails=[Check("upper end of the 95% interval of the growth", more, "<", 0.0, "0 is none")],
        ),
        judged(
            f"Networks with skips converge faster (the text beside Figure 6): {deep} layers, Adam, the same loss.",
            f"steps {_each(plain[deep], 'steps')} without, {_each(twin[deep], 'steps')} with skips; ratio "
            f"{np.exp(np.mean(np.log(slower))):.1f}, 95% interval {least:.1f} to {most:.1f}",
            holds=[Check("lower end of the 95% interval of the ratio of steps", least, ">", 1.0, "1 is as fast")],
            fails=[Check("upper end of the 95% interval of the ratio of steps", most, "<", 1.0, "1 is as fast")],
        ),
    )  # fmt: skip


def _trained(model: nn.Module, x: Tensor, y: Tensor, steps: int) -> tuple[nn.Module, int]:
    """Adam until the mean loss of the last 20 batches is `LEARNED`, or `steps` are over; also how many it took."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    recent: list[float] = []
    for step in range(steps):
        chosen = torch.randint(0, len(x), (64,))
        loss = nn.functional.cross_entropy(model(x[chosen]), y[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        recent = [*recent[-19:], float(loss.detach())]
        if len(recent) == 20 and np.mean(recent) < LEARNED:
            return model.eval(), step + 1
    return model.eval(), steps


def _each(records: list[dict[str, Any]], name: str) -> str:
    return ", ".join(f"{r[name]:.3g}" for r in records)


def draw(numbers: dict[str, Any]) -> Figure:
    """The surfaces of the first networks, a row for each depth, on one color scale."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.2, 5.4), layout="constrained")
    shown = numbers["records"][:4]
    axes = figure.subplots(2, 2, sharex=True, sharey=True).ravel()
    logs = [np.log10(np.maximum(np.array(r["losses"]), 1e-3)) for r in shown]
    levels = np.linspace(min(z.min() for z in logs), max(z.max() for z in logs), 31)
    for ax, record, z in zip(axes, shown, logs, strict=True):
        u, v = np.meshgrid(record["axis"], record["axis"], indexing="ij")
        drawn = ax.contourf(u, v, z, levels=levels, cmap="viridis")
        ax.contour(u, v, z, levels=levels[::3], colors="white", linewidths=0.4, linestyles="solid")
        name = "with skips" if record["skip"] else "without skips"
        ax.set(aspect="equal", xticks=(-1, 0, 1), yticks=(-1, 0, 1))
        ax.label_outer()
        ax.set_title(f"{record['depth']} layers, {name}\nnon-convex share {record['nonconvex']:.2f}")
    figure.supxlabel("$t_1$", fontsize="medium")
    figure.supylabel("$t_2$", fontsize="medium")
    figure.colorbar(drawn, ax=axes, label="$\\log_{10}$ loss", ticks=range(-3, 16, 2))
    return figure


EXPERIMENT = Experiment(
    "Figure 6: skip connections smooth the loss surface of deep networks",
    run,
    draw,
    place="Figure 6 and the text beside it",
    revised=(1,),
)
