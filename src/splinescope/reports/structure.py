"""What was read of the network, and whether its folds meet the data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ..network import SplineNetwork
from ..network.program import site_names
from ..normalization import normalization_report
from ..plot.normalization import plot_fold_distances
from ..plot.style import name_places
from ..support.display import counted
from .block import NotApplicable, ReportBlock
from .subject import Subject

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def network(subject: Subject) -> ReportBlock:
    """What was read: sites, units, depth, and what could not be."""
    parameters = sum(p.numel() for p in subject.parameters.values())
    module = subject.model.module if isinstance(subject.model, SplineNetwork) else subject.model
    kind = type(module).__name__
    if subject.refusal:
        return ReportBlock(
            headline=f"{kind}: {parameters:,} parameters; not piecewise affine",
            certainty="exact",
            scope="the parts named below are not piecewise affine",
            reading="Blocks that need exact tiles do not apply; blocks that count folds by activations do. If smooth "
            "activations are the only obstacle, the plane is tiled within a stated tolerance. "
            "Each part named below is an obstacle by itself.",
            call="print(ss.local_map(model, x[:1]).summary())",
            numbers={"class": kind, "parameters": parameters, "refusal": subject.refusal.splitlines()},
        )
    net = subject.network
    sites = [
        {"name": name, "path": s.path, "op": s.op, "shape": list(s.shape), "units": s.units, "depth": s.depth}
        for name, s in zip(site_names(net.sites), net.sites, strict=True)
    ]
    units, depth = sum(s.units for s in net.sites), max((s.depth for s in net.sites), default=0)
    ending = f", before {net.ending}" if net.ending else ""

    def draw(figure: Figure) -> None:
        ax = figure.subplots()
        sizes = [s.units for s in net.sites]
        ax.bar(range(len(sites)), sizes, color="#3a87b8")
        if max(sizes) > 50 * min(sizes):  # the smallest bars would not be seen; below that, heights should compare
            ax.set_yscale("log")
        name_places(ax, [site.label for site in net.sites], "site")
        ax.set_ylabel("units")

    return ReportBlock(
        headline=f"{kind}: {units:,} units at {counted(len(sites), 'site')}, {depth} deep{ending}; "
        f"{parameters:,} parameters",
        certainty="exact",
        scope="what was read equals the model to float64 rounding",
        reading="A site is a place where the network bends; each of its units is one fold of the input space. "
        "Depth counts the sites on the longest path from input to output.",
        call="print(ss.trace(model, x).summary())",
        numbers={
            "class": kind, "parameters": parameters, "inputs": list(net.input_shape), "outputs": list(net.output_shape),
            "units": units, "depth": depth, "ending": net.ending, "sites": sites,
        },
        draw=draw if sites else None,
    )  # fmt: skip


def folds(subject: Subject) -> ReportBlock:
    """The fold lint: dead channels, folds far from data, layers out of balance, stale statistics."""
    net = subject.network
    if not net.sites:
        raise NotApplicable("the network has no folds: it is one affine map.")
    found = normalization_report(subject.model, subject.rows(subject.some(1000)))
    splitting = [site.by_bend(site.splits).any(0) for site in found.distances]
    channels, split = sum(np.size(site) for site in splitting), sum(int(np.sum(site)) for site in splitting)
    share = split / channels if channels else math.nan
    by_kind = {kind: found.of_kind(kind) for kind in sorted({finding.kind for finding in found.findings})}
    findings = "; ".join(
        f"{kind}: {counted(sum(f.channels for f in several), 'channel')}" for kind, several in by_kind.items()
    )

    def draw(figure: Figure) -> None:
        plot_fold_distances(found.distances, figure.subplots())

    return ReportBlock(
        headline=f"{share:.0%} of {channels:,} channels fold between data points; {findings or 'no findings'}",
        finding=f"{channels - split:,} of {channels:,} channels never switch{'es' * (channels - split == 1)} on these "
        "data: always off (dead), or always linear."
        if split < channels
        else f"All {channels:,} channels switch between data points.",
        advice="Move such folds to the data (ss.initialize_) or add batch norm before them, then train again."
        if findings or split < channels
        else "Nothing to fix here.",
        certainty="exact",
        scope=f"for these {found.rows} points",
        reading="A channel is a unit, or the units of a convolution that share their weights. A fold with data on both "
        "sides is one the network can use; a dead or always-on channel is linear on all of the data. Folds far from "
        "every point and stale statistics can be fixed.",
        call="print(ss.normalization_report(model, x).summary())",
        numbers={"share of channels that fold between points": share, **found.records()},
        draw=draw,
    )
