"""
A function and its tiles
========================

A small ReLU network on the plane is a surface of flat facets, one per tile: on each tile the network is one affine
map (Figure 3 of the survey). Here it was trained on two moons; the output is the logit, and the decision boundary
is where the surface crosses zero.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

import splinescope as ss
from splinescope import data, plot

torch.manual_seed(0)
x, y = data.two_moons(300, noise=0.1, generator=torch.Generator().manual_seed(0))
net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for _ in range(120):
    optimizer.zero_grad()
    nn.functional.binary_cross_entropy_with_logits(net(x)[:, 0], y.float()).backward()
    optimizer.step()

# %%
# The exact tiles on a square, and the graph of the network over them.
tiling = ss.tessellate(net, ss.Slice.axes([0.0, 0.0], (0, 1), -2, 2))
print(tiling)
ax = plot.plot_surface(tiling)
ax.set_title(f"{tiling.count} tiles, {tiling.count} facets", y=0.97)

# %%
# The same from above: tiles in the color of their height, the boundary in red, the data as points.
ax = tiling.plot(color="value", boundary=True, anchors=False)
plot.plot_points(tiling, x, ax, y=y, size=14)
plt.show()
