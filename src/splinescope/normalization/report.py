"""A lint for a network's folds on its own data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..network import SplineNetwork, trace
from ..network.readable import floating_like, unwrap
from ..network.watching.intercept import Hooked
from ..support.display import Result, counted, table
from ..support.errors import InputError
from ._data import Moments, first_row, raw_batches
from .fold_distances import FoldDistances, SiteDistances, fold_distances

FAR = 1.0  # a fold is far if its nearest point is further than so many deviations of the data along its normal
IMBALANCE = 10.0  # a layer's typical deviation, times or divided by the median layer's
STALE_MEAN = 0.25  # running means off by so many true deviations (rms over channels), beyond three standard errors
STALE_RATIO = 1.5  # running deviations off by this factor (rms of logarithms)
JITTER = 0.25  # 1/sqrt(B), the spread of a fold over the batches in units of the data's


@dataclass(frozen=True, repr=False)
class Finding(Result):
    """One thing to look at: where, what, how many channels of how many, what to do.

    Attributes:
        kind: What it is, e.g. "dead".
        where: The site's name ("2 layer1.relu relu"), or the path of a batch norm.
        channels: How many of its channels (units of a dense layer) it concerns.
        of: Of how many.
        detail: What was measured.
        advice: What to do.
    """

    kind: str
    where: str
    channels: int
    of: int
    detail: str
    advice: str
    certainty = "exact"


@dataclass(frozen=True, eq=False, repr=False)
class NormalizationReport(Result):
    """Findings and the distances they come from.

    Attributes:
        findings: In order of execution, batch norms last.
        distances: See `fold_distances`.
        rows: Number of data points.
        batch_sizes: Smallest and largest batch of the loader; None for one tensor, which says nothing of training.
    """

    findings: tuple[Finding, ...]
    distances: FoldDistances
    rows: int
    batch_sizes: tuple[int, int] | None
    certainty = "exact"

    def __repr__(self) -> str:
        return f"NormalizationReport({self.rows} points, {self.distances!r}, {counted(len(self.findings), 'finding')})"

    @property
    def ok(self) -> bool:
        """No findings."""
        return not self.findings

    def of_kind(self, kind: str) -> list[Finding]:
        """The findings of one kind, e.g. "dead"."""
        return [finding for finding in self.findings if finding.kind == kind]

    def records(self) -> dict[str, Any]:
        """Everything that `summary` prints, ready for JSON."""
        return {
            "rows": self.rows,
            "batch_sizes": self.batch_sizes,
            "sites": self.distances.records(),
            "findings": [asdict(finding) for finding in self.findings],
        }

    def summary(self) -> str:
        """Two tables: distances site by site, then findings with what to do."""
        head = f"{self.rows} points, {counted(len(self.distances), 'site')}"
        if self.ok:
            return f"{head}\n{self.distances.summary()}\n\nno findings"
        rows = [("finding", "where", "channels", "measured", "what to do")]
        for f in self.findings:
            rows.append((f.kind, f.where or "-", f"{f.channels}/{f.of}" if f.of else "-", f.detail, f.advice))
        return f"{head}\n{self.distances.summary()}\n\n{table(rows)}"


@torch.inference_mode(False)  # gradients are taken
def normalization_report(model: nn.Module | SplineNetwork, x: Any) -> NormalizationReport:
    r"""Look for what normalization should have prevented, or has caused, in a network on its data.

    - *dead*: channels never positive on the data, so a ReLU passes nothing and learns nothing.
    - *always on*: never negative: the fold splits no data and the channel is linear on it.
    - *far folds*: of these, channels whose fold is further from every point than the data's own spread.
    - *constant*: the pre-activation does not vary over the data.
    - *out of balance*: a layer whose pre-activations are much larger or smaller than the others'.
    - *stale statistics*: running statistics of a batch norm that are not those of this data, in evaluation mode.
    - *small batches*: the loader's batches let the folds of a batch norm jitter by more than a share of the data's
      own spread, $1/\sqrt B$.

    A channel is a unit of a dense layer, or the units of one channel of a convolution, which share their weights; where
    an activation bends twice (ReLU6, hardtanh), both folds of a channel; one with data on both sides is enough.

    Args:
        model: A module in evaluation mode, or a traced network (then running statistics cannot be checked).
        x: `[N, ...]` or a loader; the training loader, if its batch size is to be judged.

    Returns:
        A `NormalizationReport`; print its `summary()`. The model is left as found.

    Cost: two forward passes over the data and one backward pass per layer.

    Example:
        >>> net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
        >>> with torch.no_grad():
        ...     _ = net[0].bias.fill_(-100.0)
        >>> [f.kind for f in normalization_report(net, torch.randn(50, 2)).findings]
        ['dead', 'far folds']
    """
    network = trace(model, first_row(x))
    sizes = [len(batch) for batch in raw_batches(x)]
    if sum(sizes) < 2:
        raise InputError(f"x must hold at least 2 rows (one row has no spread), got {sum(sizes)}.")
    distances = fold_distances(network, x)
    inner = unwrap(model) if isinstance(model, nn.Module) else nn.Identity()
    norms = {path: m for path, m in inner.named_modules() if isinstance(m, _BatchNorm)}
    findings: list[Finding] = []
    for site in distances:
        findings += _channel_findings(site, _ADVICE_WITH_BATCH_NORM if norms else _ADVICE)
    findings += _balance_findings(distances)
    if isinstance(model, nn.Module):
        findings += _stale_findings(inner, norms, x)
        if norms and not isinstance(x, (Tensor, np.ndarray)):
            findings += _batch_findings(min(sizes[:-1] or sizes))
    span = None if isinstance(x, (Tensor, np.ndarray)) else (min(sizes), max(sizes))
    return NormalizationReport(tuple(findings), distances, sum(sizes), span)


_ADVICE = {
    "constant": "check for zero weights or constant inputs; such a channel only adds a number",
    "dead": "normalize (batch norm, or initialize_ before training), or lower the learning rate",
    "always on": "no fold on the data: normalize, or accept a linear channel",
    "far folds": "the offset is off by more than the data's spread: initialize_ or batch norm moves it",
}
_ADVICE_WITH_BATCH_NORM = _ADVICE | {
    "dead": "stale statistics, if listed below, or a learned shift: refresh them, lower the rate, or prune",
    "always on": "stale statistics, if listed below, or a learned shift: refresh them, or accept a linear channel",
    "far folds": "batch norm's shift or stale statistics hold the fold off by more than the data's spread",
}


def _channel_findings(site: SiteDistances, advice: dict[str, str]) -> list[Finding]:
    # a channel that bends twice is judged by both folds: the one that no data reaches costs nothing
    constant = site.by_bend(site.deviation <= 1e-12 * np.maximum(np.abs(site.mean), np.finfo(float).tiny)).all(0)
    below, above = site.by_bend(site.highest <= 0), site.by_bend(site.lowest >= 0)
    unsplit = (below | above).all(0) & ~constant
    dead = below.all(0) & unsplit
    on = unsplit & ~dead
    nearest, offsets, spread = (site.by_bend(v).min(0) for v in (site.nearest, site.offset, site.best_rms))
    far = unsplit & (nearest > FAR * spread)
    found = []
    for kind, where in (("constant", constant), ("dead", dead), ("always on", on), ("far folds", far)):
        if not where.any():
            continue
        offset = np.median(offsets[where] / np.maximum(spread[where], np.finfo(float).tiny))
        share = f"offset {offset:.3g} deviations (median)" if kind != "constant" else "deviation 0"
        off = kind == "dead" and site.site.op not in ("relu", "relu6", "threshold", "clamp_min")
        name = "always off" if off else kind
        found.append(Finding(name, site.name, int(where.sum()), np.size(where), share, advice[kind]))
    return found


def _balance_findings(distances: FoldDistances) -> list[Finding]:
    sizes = np.array([np.median(site.deviation) for site in distances])
    if len(sizes) < 2 or not (sizes > 0).any():
        return []
    typical = np.exp(np.median(np.log(sizes[sizes > 0])))
    found = []
    for site, size in zip(distances, sizes, strict=True):
        ratio = size / typical
        if 0 < ratio < 1 / IMBALANCE or ratio > IMBALANCE:
            detail = f"deviation {ratio:.3g} times the median layer's"
            found.append(Finding("out of balance", site.name, len(site), len(site), detail, "rescale (standard)"))
    return found


def _batch_findings(size: int) -> list[Finding]:
    jitter = 1 / np.sqrt(size)
    if jitter <= JITTER:
        return []
    advice = f"use batches of {int(np.ceil(JITTER**-2))} or more, or a norm that does not use the batch"
    return [Finding("small batches", "", 0, 0, f"B = {size}: folds jitter by {jitter:.0%} of the spread", advice)]


@torch.no_grad()
def _stale_findings(model: nn.Module, norms: dict[str, _BatchNorm], data: Any) -> list[Finding]:
    """Compare running statistics with those of the data that reaches each batch norm in evaluation mode."""
    found = []
    for path, (moments, rows) in _true_statistics(model, norms, data).items():
        norm, mean, variance = norms[path], moments.mean, moments.covariance
        if norm.running_mean is None or norm.running_var is None:
            continue
        moving = variance > 0
        if not bool(moving.any()):
            found.append(Finding("constant", path, len(mean), len(mean), "deviation 0", "check its inputs"))
            continue
        deviation = variance[moving].sqrt()
        shift = (norm.running_mean.double().cpu() - mean)[moving] / deviation
        ratio = 0.5 * (norm.running_var.double().cpu()[moving] / variance[moving]).clamp_min(1e-300).log()
        off, factor = float(shift.square().mean().sqrt()), float(ratio.square().mean().sqrt().exp())
        if off > STALE_MEAN + 3 / np.sqrt(rows) or factor > STALE_RATIO:
            detail = f"means {off:.3g} deviations off, deviations by a factor {factor:.3g}"
            advice = "run the training data through in train mode (no optimizer) to refresh them"
            found.append(Finding("stale statistics", path, len(mean), len(mean), detail, advice))
    return found


def _true_statistics(model: nn.Module, norms: dict[str, _BatchNorm], data: Any) -> dict[str, tuple[Moments, int]]:
    """Path -> moments per channel of a batch norm's inputs over all data, and the number of rows."""
    found = {path: Moments() for path in norms}
    rows = dict.fromkeys(norms, 0)

    def watch(path: str) -> Callable[[nn.Module, Any], None]:
        def hook(_norm: nn.Module, inputs: Any) -> None:
            found[path].add(inputs[0].double().movedim(1, -1).reshape(-1, norms[path].num_features))
            rows[path] += len(inputs[0])

        return hook

    like = floating_like(model, None)
    with Hooked(before=[(norm, watch(path)) for path, norm in norms.items()]):
        for batch in raw_batches(data):
            model(batch if like is None else batch.to(like))
    return {path: (moments, rows[path]) for path, moments in found.items() if rows[path]}
