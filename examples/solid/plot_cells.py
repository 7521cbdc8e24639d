"""
A classifier of three inputs, cut open
======================================

All cells of a small network on a cube, the boundary between its classes, and what a plane through them shows.
It needs the second distribution: `pip install splinescope-evidence`.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

import splinescope as ss
from splinescope.plot import plot_cells
from splinescope.plot.solid import plot_mesh
from splinescope_research import topology

torch.manual_seed(0)
x = torch.rand(600, 3) * 2 - 1
y = (x.norm(dim=1) < 0.75).long() + (x[:, 0] > 0.5).long()
net = nn.Sequential(nn.Linear(3, 12), nn.ReLU(), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 3))
optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
for _ in range(300):
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
tiling = ss.tessellate(net, ss.Slice.axes(np.zeros(3), (0, 1, 2), -1, 1))
print(tiling.summary())

# %%
# Cells pulled apart, and the exact surface between the classes. How many parts, tunnels and hollows each region has is
# counted, not guessed.
figure = plt.figure(figsize=(11, 4.5), layout="constrained")
plot_cells(tiling, "class", figure.add_subplot(1, 2, 1, projection="3d"), pull=0.5)
plot_mesh(tiling.decision_boundary(), figure.add_subplot(1, 2, 2, projection="3d"), alpha=0.6)
print(topology(tiling))
plt.show()

# %%
# What a plane cuts out of the cells are the tiles on it. `tiling.to_html("cells.html")` writes a page on which you can
# drag it.
plane = ss.Slice.box(np.zeros(3), [[1.0, 0.3, 0.0], [0.0, 0.2, 1.0]], 1.0)
ss.tessellate(net, plane).plot(color="class", boundary=True, anchors=False)
plt.show()
