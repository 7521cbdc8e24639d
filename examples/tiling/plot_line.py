"""
Along a line
============

A network along a segment is a broken line: `Slice.segment` tiles it exactly, in one dimension.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

import splinescope as ss
from splinescope import plot

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(10, 30), nn.ReLU(), nn.Linear(30, 30), nn.ReLU(), nn.Linear(30, 3))
a, b = torch.randn(2, 10)
tiling = ss.tessellate(net, ss.Slice.segment(a, b, pad=0.5))
ax = plot.plot_graph(tiling)
ax.set_title(f"{tiling.count} tiles on the line through two points (dotted)")
plt.show()
