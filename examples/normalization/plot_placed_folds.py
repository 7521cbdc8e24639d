"""
Folds placed by another wish
============================

Batch norm lays every fold through the mean of its unit's inputs: least squared distance to the data. The same layer can
be asked for something else. Below, one random network on two moons; only the offsets of its first layer's folds differ.

It needs the second distribution: `pip install splinescope-evidence`.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import make_moons
from torch import nn

import splinescope as ss
from splinescope.normalization import with_statistics
from splinescope_research import placing, with_placed_norms
from splinescope_research.normalization.placed_norms import boundary_weights

points, classes = make_moons(120, noise=0.1, random_state=0)
x, y = torch.from_numpy(points), torch.from_numpy(classes)
torch.manual_seed(1)
net = nn.Sequential(nn.Linear(2, 14), nn.BatchNorm1d(14), nn.ReLU(), nn.Linear(14, 2)).double()

# %%
# The last two criteria need to know more than the values: the labels, or which points lie next to the decision
# boundary. Inside `placing` the norms know it; `with_statistics` then gives them the statistics of the whole set.
with torch.no_grad():
    near = boundary_weights(with_statistics(net, x)(x))

figure, axes = plt.subplots(1, 5, figsize=(15, 3.2), layout="constrained")
for ax, criterion in zip(axes, ("mean", "median", "quantile", "gap", "weighted"), strict=True):
    placed = with_placed_norms(net, criterion)
    with placing(placed, y=y, weights=near):
        placed = with_statistics(placed, x)
    tiling = ss.tessellate(placed, ss.Slice.axes([0.0, 0.0], (0, 1), -2.0, 3.0))
    tiling.plot(color=None, ax=ax)
    ax.scatter(*x.T, c=y, s=6, cmap="coolwarm")
    ax.set_title(f"{criterion}: {tiling.count} tiles", fontsize="medium")
plt.show()
