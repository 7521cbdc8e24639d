"""`LocalComplexity`: counts of folds about points."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from ..network.program import Site, site_names
from ..support.display import Certainty, Result, table

Method = Literal["frame", "distance"]

_WHAT = {
    "frame": "units that switch among the points x +- r v, for the directions v of the frame: never too many; too few "
    "where earlier folds meet the neighborhood or a fold passes between these points",
    "distance": "units with |z| / ||grad z|| <= r: the linearized distance to the fold; exact where no earlier "
    "fold meets the ball and the network is affine up to there, an estimate otherwise",
}


@dataclass(frozen=True, eq=False, repr=False)
class LocalComplexity(Result):
    """How many folds pass near each point.

    Attributes:
        counts: `[N, S]` int64: folds of each site near each point.
        neurons: `[N, S]` int64: how many of its neurons they belong to: one that bends twice (ReLU6) may have two.
        sites: The S sites, in execution order (a site of a watched module has its place in that order as depth).
        method: "frame" or "distance".
        radius: Size r of the neighborhood.
        region: The neighborhood, in words.
        affine: Per site, whether the network up to there is affine as long as no fold is crossed: not so behind layer
            norm, attention, products or smooth activations.
    """

    counts: Tensor
    neurons: Tensor
    sites: tuple[Site, ...]
    method: Method
    radius: float
    region: str
    affine: tuple[bool, ...]

    def __repr__(self) -> str:
        mean = f"{float(self.total.double().mean()):.4g}" if len(self.counts) else "none"
        return (
            f"LocalComplexity({len(self.counts)} points, mean {mean} folds of {sum(s.neurons for s in self.sites)} "
            f"neurons in a {self.region})"
        )

    @property
    def certainty(self) -> Certainty:
        """ "exact" if every count is, else "bound" (frame: nothing is counted that is not there) or "estimate"."""
        if bool(self.exact.all()):
            return "exact"
        return "bound" if self.method == "frame" else "estimate"

    def summary(self) -> str:
        """How many folds, a table by site, what was counted and how sure it is."""
        rows = [("site", "neurons", "mean folds", "most", "exact at")]
        means = self.counts.double().mean(0).tolist() if len(self.counts) else [math.nan] * len(self.sites)
        for i, (name, site) in enumerate(zip(self.names, self.sites, strict=True)):
            most = str(int(self.counts[:, i].max())) if len(self.counts) else "-"
            share = f"{float(self.exact[:, i].double().mean()):.0%} of points" if len(self.counts) else "-"
            rows.append((name, str(site.neurons), f"{means[i]:.4g}", most, share))
        return f"{self!r}\n{table(rows)}\nCounted: {self.what}.\n{self.assurance}"

    @property
    def names(self) -> list[str]:
        """The name of each site, as everywhere: number, path and op."""
        return site_names(self.sites)

    @property
    def what(self) -> str:
        """What is counted, and how exact it is."""
        return _WHAT[self.method]

    @property
    def total(self) -> Tensor:
        """`[N]` folds near each point, over all sites."""
        return self.counts.sum(1)

    @property
    def share(self) -> Tensor:
        """`[N]` share of all neurons with a fold near each point: comparable between networks of other widths."""
        return self.neurons.sum(1).double() / max(1, sum(site.neurons for site in self.sites))

    @cached_property
    def exact(self) -> Tensor:
        """`[N, S]` bool: where a count is exact: no fold of an earlier site meets the neighborhood."""
        return (self.counts.cumsum(1) - self.counts == 0) & torch.tensor(self.affine)
