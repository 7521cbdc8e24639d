"""
The folds of one layer, and of the layers after it
==================================================

The units of the first layer fold the plane along straight lines: an arrangement of hyperplanes (Figure 4 of the
survey). Deeper folds bend wherever they cross an earlier one. One unit of each is drawn in red.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

import splinescope as ss
from splinescope import plot

torch.manual_seed(3)
net = nn.Sequential(nn.Linear(2, 14), nn.ReLU(), nn.Linear(14, 14), nn.ReLU(), nn.Linear(14, 1))
view = ss.Slice.axes([0.0, 0.0], (0, 1), -2, 2)
one = ss.tessellate(net[:2], view)
two = ss.tessellate(net, view)


def longest(tiling, site):
    """The unit of a site with the longest fold."""
    walls = tiling.walls
    ends = tiling.vertices[walls.ends]
    length = np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1) * (walls.sites == site)
    return int(np.bincount(walls.cuts.clip(0), weights=length).argmax())


figure, axes = plt.subplots(1, 2, figsize=(10, 5), layout="constrained")
plot.plot_folds(one, axes[0], highlight=longest(one, 0))
axes[0].set_title(f"first layer: {one.count} tiles (at most {ss.tiling.zaslavsky(14, 2)})")
plot.plot_folds(two, axes[1], highlight=longest(two, 1))
axes[1].set_title(f"both layers: {two.count} tiles")
plt.show()
