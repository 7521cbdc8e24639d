"""What training does to the tiles of a classifier, with and without batch norm.

Trains two small classifiers on scikit-learn's digits, tiles the plane through three digits before and after, prints
a table and writes pictures, tilings and a page: `python examples/demo.py --out out/demo`.
"""

from __future__ import annotations

import argparse
import base64
import copy
import html
import io
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib import pyplot as plt
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import splinescope as ss
from splinescope import data, plot

mpl.use("Agg")
STAGES = ("before training", "after training")


@dataclass
class Case:
    """One classifier at one moment, tiled."""

    name: str
    stage: str
    accuracy: float
    tiling: ss.Tiling
    seconds: float

    @property
    def file(self) -> str:
        return f"{self.name} {self.stage}".replace(" ", "-")

    def row(self) -> list[str]:
        boundary = self.tiling.decision_boundary()
        slopes = np.average(self.tiling.slope_norms(), weights=self.tiling.areas)
        return [self.name, self.stage, f"{self.accuracy:.1%}", f"{self.tiling.count:,}", f"{slopes:.3g}",
                f"{boundary.length:.3g}", f"{self.seconds:.2f}"]  # fmt: skip


COLUMNS = ["network", "when", "test accuracy", "tiles", "mean slope", "boundary length", "tiling seconds"]


def classifier(width: int, batch_norm: bool) -> nn.Sequential:
    """Three hidden layers on 8 x 8 images."""
    layers: list[nn.Module] = [nn.Flatten()]
    for inputs in (64, width, width):
        layers += [nn.Linear(inputs, width), *([nn.BatchNorm1d(width)] if batch_norm else []), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 10))


def calibrate(net: nn.Module, x: Tensor) -> None:
    """Give batch norm the statistics of the data, so that its first tiling is that of a network about to train."""
    net.train()
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, nn.BatchNorm1d):
                module.reset_running_stats()
                module.momentum = None  # the plain mean over batches
        net(x)
        for module in net.modules():
            if isinstance(module, nn.BatchNorm1d):
                module.momentum = 0.1
    net.eval()


def train(net: nn.Module, x: Tensor, y: Tensor, epochs: int, generator: torch.Generator) -> None:
    """Adam on batches of 64."""
    net.train()
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(x), generator=generator).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
            optimizer.step()
    net.eval()


def accuracy(net: nn.Module, x: Tensor, y: Tensor) -> float:
    with torch.no_grad():
        return float((net(x).argmax(1) == y).double().mean())


def study(width: int, epochs: int, seed: int, console: Console) -> tuple[list[Case], Tensor]:
    """Train both classifiers; tile the plane through the first 0, 1 and 2 before and after."""
    x, y = data.digits()
    train_set, test_set = (x[:1500], y[:1500]), (x[1500:], y[1500:])
    anchors = torch.stack([x[(y == c).nonzero()[0, 0]] for c in (0, 1, 2)])
    view = ss.Slice.through(*anchors, pad=0.25)
    cases = []
    for name in ("plain", "batch norm"):
        torch.manual_seed(seed)
        net = classifier(width, name == "batch norm")
        calibrate(net, train_set[0])
        for stage in STAGES:
            if stage == STAGES[1]:
                train(net, *train_set, epochs, torch.Generator().manual_seed(seed))
            console.print(f"tiling: {name}, {stage}")
            network = ss.trace(copy.deepcopy(net), anchors)  # a copy: this one goes on training
            ss.tessellate(network, view)  # not timed: the first run compiles the kernels, once per machine
            start = time.perf_counter()
            tiling = ss.tessellate(network, view)
            seconds = time.perf_counter() - start
            assert tiling.check().ok, tiling.check()
            cases.append(Case(name, stage, accuracy(net, *test_set), tiling, seconds))
    return cases, anchors


def four_pictures(cases: list[Case], color: str, title: str) -> plt.Figure:
    """One row per network, one column per stage; numbers on one color range."""
    quantities = [case.tiling.quantity(color) for case in cases]
    limits = min(q.limits[0] for q in quantities), max(q.limits[1] for q in quantities)
    figure, axes = plt.subplots(2, 2, figsize=(9.5, 8.5), layout="constrained")
    for ax, case in zip(axes.flat, cases, strict=True):
        options = {} if color == "class" else {"limits": limits}
        case.tiling.plot(color=color, ax=ax, edges=True, boundary=True, colorbar=color == "class", **options)
        ax.set_title(f"{case.name}, {case.stage}: {case.tiling.count:,} tiles")
    if color != "class":
        table, norm = plot.shading(quantities[0], limits=limits)
        figure.colorbar(plt.cm.ScalarMappable(norm, table), ax=axes, label=quantities[0].label, shrink=0.8)
    figure.suptitle(title)
    return figure


def shared_bins(cases: list[Case], name: str) -> np.ndarray:
    """Logarithmic bins over the values of all cases: only with equal bins can heights be compared."""
    values = np.concatenate([case.tiling.quantity(name).values for case in cases])
    return np.geomspace(values[values > 0].min() * (1 - 1e-9), values.max() * (1 + 1e-9), 41)


def statistics(cases: list[Case]) -> plt.Figure:
    """Areas and slopes as distributions, and fold length by layer."""
    figure, (areas, slopes, folds) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    edges = {name: shared_bins(cases, name) for name in ("area", "slope")}
    styles = [("#0072b2", "--"), ("#0072b2", "-"), ("#d55e00", "--"), ("#d55e00", "-")]
    for case, (color, line) in zip(cases, styles, strict=True):
        label, tiling = f"{case.name}, {case.stage}", case.tiling
        for ax, name, weighted in ((areas, "area", False), (slopes, "slope", True)):
            sizes = tiling.areas if weighted else None
            counts, ends = np.histogram(tiling.quantity(name).values, edges[name], weights=sizes)
            ax.stairs(counts / counts.sum(), ends, color=color, ls=line, label=label)
        lengths = tiling.folds().lengths_by_layer()
        folds.plot(list(lengths), list(lengths.values()), color=color, ls=line, marker="o", label=label)
    areas.set(xscale="log", xlabel="area of a tile", ylabel="share of the tiles")
    slopes.set(xscale="log", xlabel="slope norm", ylabel="share of the area")
    folds.set(xlabel="layer", ylabel="length of its folds in the slice", xticks=sorted(lengths))
    folds.legend(frameon=False, fontsize=8)
    for ax in (areas, slopes, folds):
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def thumbnail(image: Tensor) -> str:
    """An image as a data address."""
    buffer = io.BytesIO()
    plt.imsave(buffer, image.squeeze().numpy(), cmap="gray_r", format="png")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def shown(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def html_table(head: list[str], rows: list[list[str]]) -> str:
    cells = "".join(f"<tr>{''.join(f'<td>{html.escape(c)}</td>' for c in row)}</tr>" for row in rows)
    return f"<table><tr>{''.join(f'<th>{html.escape(h)}</th>' for h in head)}</tr>{cells}</table>"


def page(cases: list[Case], anchors: Tensor) -> str:
    rows = html_table(COLUMNS, [case.row() for case in cases])
    links = " ".join(f"<li><a href='{c.file}.html'>{c.name}, {c.stage}</a> (<a href='{c.file}.tiling' download>tiling "
                     "file</a>)</li>" for c in cases)  # fmt: skip
    images = " ".join(f"<img class='digit' src='{thumbnail(a)}' alt='digit {i}'>" for i, a in enumerate(anchors))
    changes = ""
    for before, after in zip(cases[::2], cases[1::2], strict=True):
        table = ss.compare_tilings(before.tiling, after.tiling).as_dict()
        chosen = [n for n, v in table.items() if isinstance(v["ratio"], float) and not n.startswith(("least", "log10"))]
        lines = [[n, *(shown(table[n][k]) for k in ("a", "b", "ratio"))] for n in chosen]
        changes += f"<h3>{before.name}</h3>" + html_table(["quantity", "before", "after", "after / before"], lines)
    return f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>splinescope: demo</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>
body{{font:16px/1.5 system-ui,sans-serif;color:#1d2430;background:#f4f5f7;margin:0}}
main{{max-width:66rem;margin:auto;padding:1rem}}
section{{background:#fff;border:1px solid #d9dde3;border-radius:8px;padding:.5rem 1.5rem 1rem;
margin:1.2rem 0;overflow-x:auto}}
img{{max-width:100%}}.digit{{width:5rem;image-rendering:pixelated;border:1px solid #d9dde3;margin-right:.6rem}}
table{{border-collapse:collapse;font-size:.92rem}}
td,th{{padding:.3rem .9rem .3rem 0;text-align:left;border-bottom:1px solid #e8eaee}}
td:nth-child(n+3){{font-variant-numeric:tabular-nums}}</style></head><body><main>
<h1>What training does to the tiles of a classifier</h1>
<section><p>Two classifiers of 8 × 8 digits, one plain and one with batch norm (its first statistics are those of the
training set). The pictures show the plane through these three digits; the network is one affine map on each tile.</p>
<p>{images}</p>{rows}<p>Explore (pan, zoom, hover):</p><ul>{links}</ul></section>
<section><h2>Slopes and decision boundary</h2><p>Color: norm of the tile's slope. Red: where the class changes.</p>
<img src="slopes.png" alt="tiles colored by slope norm, four panels"></section>
<section><h2>Classes</h2><img src="classes.png" alt="tiles colored by class, four panels"></section>
<section><h2>Statistics</h2><img src="statistics.png" alt="distributions of areas and slopes, fold length by layer">
{changes}</section></main></body></html>"""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="out/demo", help="folder to write")
    parser.add_argument("--width", type=int, default=64, help="units in each hidden layer")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    console, start = Console(), time.perf_counter()
    cases, anchors = study(options.width, options.epochs, options.seed, console)
    table = Table(*COLUMNS, title="The plane through three digits")
    for case in cases:
        table.add_row(*case.row())
        case.tiling.save(out / f"{case.file}.tiling")
        case.tiling.to_html(out / f"{case.file}.html", title=f"Digits, {case.name}, {case.stage}")
    figures = {
        "slopes": four_pictures(cases, "slope", "Slope norm of every tile; decision boundary in red"),
        "classes": four_pictures(cases, "class", "Class in the middle of every tile; the exact boundary in red"),
        "statistics": statistics(cases),
    }
    for name, figure in figures.items():
        figure.savefig(out / f"{name}.png", dpi=130)
        plt.close(figure)
    (out / "index.html").write_text(page(cases, anchors), encoding="utf-8")
    console.print(table)
    console.print(f"wrote {out / 'index.html'} in {time.perf_counter() - start:.0f} s")
    command = Path(sys.executable).parent / "splinescope"
    console.print(f"to explore them, and to see networks fold while they learn: {command} studio {out}", soft_wrap=True)


if __name__ == "__main__":
    main()
