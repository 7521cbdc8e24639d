"""
What tiles can be coloured by
=============================

Slope norm, area, depth of the deepest wall, class, value of an output, and number of active units; and anything of
your own, one number per tile.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

import splinescope as ss

torch.manual_seed(5)
net = nn.Sequential(
    nn.Linear(2, 16),
    nn.ReLU(),
    nn.Linear(16, 16),
    nn.ReLU(),
    nn.Linear(16, 16),
    nn.ReLU(),
    nn.Linear(16, 4, bias=False),
)
tiling = ss.tessellate(net, ss.Slice.axes([0.0, 0.0], (0, 1), -3, 3))
figure, axes = plt.subplots(2, 3, figsize=(13, 7.5), layout="constrained")
for ax, color in zip(axes.flat, ("slope", "area", "depth", "class", "value", "active"), strict=True):
    tiling.plot(color=color, ax=ax, anchors=False)
    ax.set_title(f'color="{color}"')

# %%
# Numbers of your own: here how round each tile is.
tiling.plot(color=tiling.eccentricities(), label="eccentricity", anchors=False)
plt.show()
