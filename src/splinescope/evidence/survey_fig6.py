"""Survey, Figure 6: the loss surface of a deep ConvNet and of its twin with skip connections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from .. import landscape
from ..data import digits
from ._experiment import Check, Claim, Experiment, Outcome, Progress, Size, judged
from ._intervals import interval, ratio_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DEPTH, _CHANNELS, _SPAN = 16, 8, 1.0
_LEARNT = 0.15  # training loss at which both networks stop: the same fit
_EXCESS = 1.0  # nats above the centre at which widths are compared


class DeepConvNet(nn.Module):
    """Convolutions of one width on 8 x 8 images: `h <- relu(W h + b)`, with `+ h` if `skip`; He weights in both."""

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

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.first(x))
        for layer in self.layers:
            h = torch.relu(layer(h)) + h if self.skip else torch.relu(layer(h))
        return self.head(nn.functional.avg_pool2d(h, 4).flatten(1))


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    """Train twins on digits to the same loss, measure how far filter-normalised steps lead up, compare seed by seed."""
    runs, depth, steps, points, count, moves = (
        (2, 3, 20, 5, 64, 1) if size == "quick" else (6, _DEPTH, 3000, 13, 256, 5)
    )
    images, y = digits()
    x = images - 0.5
    records: list[dict[str, Any]] = []
    for number in range(runs):
        for skip in (False, True):
            if progress is not None:
                progress(len(records) / (2 * runs), f"run {number + 1}, {'with' if skip else 'without'} skips")
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(1000 * seed + number)
                model, taken = _trained(DeepConvNet(skip, depth), x[:1500], y[:1500], steps)
            generator = torch.Generator().manual_seed(1000 * seed + number)
            directions = landscape.random_directions(model, 2 + moves, generator=generator)
            data = x[:count], y[:count]
            surface = landscape.loss_surface(model, *data, directions[:2], span=_SPAN, resolution=points)
            lines = [
                landscape.loss_surface(model, *data, [direction], span=_SPAN, resolution=4 * points + 1)
                for direction in directions[2:]
            ]
            with torch.no_grad():
                accuracy = float((model(x[1500:]).argmax(1) == y[1500:]).float().mean())
            record = {
                "skip": skip,
                "steps": taken,
                "accuracy": accuracy,
                "loss": float(surface.losses[points // 2, points // 2]),
                "width": float(np.exp(np.mean([np.log(_width(line)) for line in lines]))),
                "nonconvex": surface.nonconvex_fraction,
                "losses": surface.losses.tolist(),
                "axis": surface.axes[0].tolist(),
            }
            if skip:
                found = landscape.skip_conditioning(model, x[:1])
                record["with"] = float(np.median(np.concatenate([block.with_skip.condition for block in found])))
                record["singular without"] = float(
                    np.mean(np.concatenate([np.isinf(block.without.condition) for block in found]))
                )
            records.append(record)
    return Outcome({"records": records, "depth": depth}, _claims(records, depth))


def _claims(records: list[dict[str, Any]], depth: int) -> tuple[Claim, ...]:
    plain, twin = ([r for r in records if r["skip"] is s] for s in (False, True))
    wider = [b["width"] / a["width"] for a, b in zip(plain, twin, strict=True)]
    bumps = [a["nonconvex"] - b["nonconvex"] for a, b in zip(plain, twin, strict=True)]
    (low, high), (least, most) = ratio_interval(wider), interval(bumps)
    fitted = Check("largest training loss at the centre", max(r["loss"] for r in records), "<", 3 * _LEARNT,
                   "surfaces of networks that have not learnt say nothing of training")  # fmt: skip
    both = f"{_each(plain, 'accuracy')} and {_each(twin, 'accuracy')}"
    singular = float(np.mean([r["singular without"] for r in twin]))
    conditioned = max(r["with"] for r in twin)
    return (
        judged(
            f"Around trained parameters, the loss of a {depth}-layer ConvNet rises more steeply than that of its twin "
            "with skips (Figure 6): filter-normalised steps, same initial scale, trained until the running loss is the "
            "same.",
            f"step at which the loss is {_EXCESS:g} nat above the centre, geometric mean over directions: "
            f"{_each(plain, 'width')} without, {_each(twin, 'width')} with skips; ratio {np.mean(wider):.2f}, 95% "
            f"interval {low:.2f} to {high:.2f}; centre losses {_each(plain, 'loss')} and {_each(twin, 'loss')}; test "
            f"accuracy {both}",
            needs=[fitted],
            holds=[Check("lower end of the 95% interval of the ratio of widths", low, ">", 1.0, "1 is as steep")],
            fails=[Check("upper end of the 95% interval of the ratio of widths", high, "<", 1.0, "1 is as steep")],
        ),
        judged(
            "It is non-convex at more points of a filter-normalised plane.",
            f"share of the plane: {_each(plain, 'nonconvex')} without, {_each(twin, 'nonconvex')} with skips; "
            "difference "
            f"95% interval {least:+.2f} to {most:+.2f}",
            needs=[fitted],
            holds=[Check("lower end of the 95% interval of the difference of shares", least, ">", 0.0, "0 is none")],
            fails=[Check("upper end of the 95% interval of the difference of shares", most, "<", 0.0, "0 is none")],
        ),
        judged(
            "In the trained twin, blocks are well conditioned with their skip (condition numbers below 1e6) and "
            "singular when it is switched off without retraining.",
            f"median condition number with skip {_each(twin, 'with')}; without it {singular:.0%} of blocks are "
            "singular",
            holds=[
                Check("share of blocks that are singular without", singular, ">", 0.9,
                      "one unit that is off makes a block singular: nearly all must be"),
                Check("largest median condition number with", conditioned, "<", 1e6,
                      "solvable in float32 with a digit to spare"),
            ],
        ),
    )  # fmt: skip


def _width(line: landscape.LossSurface) -> float:
    """Mean over both sides of the step at which the loss exceeds the centre's by `_EXCESS`; the span if it does not."""
    t, excess = line.axes[0], line.losses - line.losses[len(line.losses) // 2]
    steps = []
    for side in (t >= 0, t <= 0):
        order = np.argsort(np.abs(t[side]))
        away, rise = np.abs(t[side])[order], excess[side][order]
        beyond = np.flatnonzero(rise >= _EXCESS)
        if not len(beyond):
            steps.append(float(away[-1]))
            continue
        i = int(beyond[0])
        share = (_EXCESS - rise[i - 1]) / (rise[i] - rise[i - 1])
        steps.append(float(away[i - 1] + share * (away[i] - away[i - 1])))
    return float(np.mean(steps))


def _trained(model: nn.Module, x: Tensor, y: Tensor, steps: int) -> tuple[nn.Module, int]:
    """Adam until the mean loss of the last 20 batches is `_LEARNT`, or `steps` are over; also how many it took."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    recent: list[float] = []
    for step in range(steps):
        chosen = torch.randint(0, len(x), (64,))
        loss = nn.functional.cross_entropy(model(x[chosen]), y[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        recent = [*recent[-19:], float(loss.detach())]
        if len(recent) == 20 and np.mean(recent) < _LEARNT:
            return model.eval(), step + 1
    return model.eval(), steps


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


EXPERIMENT = Experiment(
    "survey-fig6",
    "survey",
    "Skip connections smooth the loss surface",
    run,
    draw,
    place="Figure 6 (claims 1 and 2) and equation (7) (claim 3); the part 'Geometry of the loss function'",
    changed={
        1: "only the twin with skips was scaled, and its better fit counted as smooth: holds",
        2: "twins of other scale and fit, whose seeds had to agree: holds",
    },
)
