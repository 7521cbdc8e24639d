"""
What tiles can be colored by
=============================

Slope norm, area, depth of the deepest wall, class, value of an output, number of active units, number of corners,
eccentricity and inradius; and anything of your own, one number per tile. The same names go with `Tiling.quantity`.
"""

import matplotlib.pyplot as plt
import numpy as np
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
names = ("slope", "area", "depth", "class", "value", "active", "sides", "eccentricity", "inradius")
figure, axes = plt.subplots(3, 3, figsize=(13, 10), layout="constrained")
for ax, color in zip(axes.flat, names, strict=True):
    tiling.plot(color=color, ax=ax, anchors=False)
    ax.set_title(f'color="{color}"')

# %%
# Numbers of your own: here how far the outputs range on each tile.
tiling.plot(color=np.ptp(tiling.output_ranges(0), axis=1), label="range of output 0", anchors=False)
plt.show()
