"""
A GELU network, tiled within a tolerance
========================================

A smooth network has no exact tiles. Interpolants with equal errors in place of its activations make one that has, and
that is provably near.
"""

import torch
from matplotlib import pyplot
from torch import nn

import splinescope as ss

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 10), nn.GELU(), nn.Linear(10, 10), nn.GELU(), nn.Linear(10, 1)).double()
view = ss.Slice.axes([0.0, 0.0], (0, 1), -3, 3)

# %%
# Ten times the accuracy takes about three times the knots, and ten times the tiles of a plane.

figure, axes = pyplot.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
for ax, tolerance in zip(axes, (0.3, 0.1, 0.03), strict=True):
    tiling = ss.tessellate(net, view, tolerance=tolerance, progress=False)
    tiling.plot(color="slope", ax=ax)
    ax.set_title(
        f"within {tolerance:g}: {tiling.count} tiles\nproven {tiling.bound:.3f}, measured {tiling.deviation:.3f}"
    )

# %%
# The same weights, from hard to soft: where is the network undecided which tile it is in?

hard = ss.harden(net)
grid = torch.stack(torch.meshgrid(*[torch.linspace(-3, 3, 80, dtype=torch.float64)] * 2, indexing="xy"), -1).reshape(
    -1, 2
)
figure, axes = pyplot.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
for ax, beta in zip(axes, (0.5, 0.9, 0.98), strict=True):
    entropy = ss.region_posterior(hard, grid, beta=beta).total.reshape(80, 80)
    image = ax.imshow(entropy, origin="lower", extent=(-3, 3, -3, 3))
    ax.set_title(f"beta = {beta}")
    ax.set_xlabel("$x_1$")
    ax.set_ylabel("$x_2$")
    figure.colorbar(image, ax=ax, label="entropy of the tile (bits)")
