"""
A GELU network, tiled within a tolerance
========================================

A smooth network has no exact tiles. Interpolants with equal errors in place of its activations make one that has, and
that is provably near.

It needs the second distribution: `pip install splinescope-evidence`.
"""

import torch
from matplotlib import pyplot
from torch import nn

import splinescope as ss
import splinescope_research

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 10), nn.GELU(), nn.Linear(10, 10), nn.GELU(), nn.Linear(10, 1)).double()
view = ss.Slice.axes([0.0, 0.0], (0, 1), -3, 3)

# %%
# Ten times the accuracy takes about three times the knots, and here six times the tiles.

figure, axes = pyplot.subplots(1, 3, figsize=(8.6, 3.3), layout="constrained")
for ax, tolerance in zip(axes, (0.3, 0.1, 0.03), strict=True):
    tiling = ss.tessellate(net, view, tolerance=tolerance, progress=False)
    tiling.plot(color="slope", ax=ax, limits=(0.02, 0.2), colorbar=ax is axes[-1], anchors=False)
    ax.set_title(
        f"within {tolerance:g}: {tiling.count} tiles\nproven {tiling.bound:.3f}, measured {tiling.deviation:.3f}",
        fontsize="medium",
    )

# %%
# The same weights, from hard to soft: where is the network undecided which tile it is in?

hard = ss.smooth.harden(net)
figure, axes = pyplot.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
for ax, beta in zip(axes, (0.5, 0.9, 0.98), strict=True):
    splinescope_research.entropy_map(hard, view, beta=beta, cells=80).plot(ax=ax)
