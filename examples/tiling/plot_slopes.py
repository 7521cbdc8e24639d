"""
Slopes before and after training
================================

The norm of a tile's slope is the Lipschitz constant of the network there. At initialization it is small and even;
training raises it, most of all where classes meet (Figure 9 of the survey).
"""

import copy

import matplotlib.pyplot as plt
import torch
from torch import nn

import splinescope as ss
from splinescope import data, plot

torch.manual_seed(0)
x, y = data.digits()
net = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 10))
view = ss.Slice.through(*(x[(y == c).nonzero()[0, 0]] for c in (0, 1, 2)), pad=0.25)
before = ss.tessellate(copy.deepcopy(net), view)
optimizer = torch.optim.Adam(net.parameters(), lr=0.003)
for _ in range(10):
    for batch in torch.randperm(1500).split(64):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
        optimizer.step()
after = ss.tessellate(net, view)
print(ss.compare_tilings(before, after))

# %%
# One color range for both, so that they can be compared.
low, high = before.slope_norms().min(), after.slope_norms().max()
figure, axes = plt.subplots(1, 2, figsize=(8.8, 4), layout="constrained")
for ax, tiling, when in zip(axes, (before, after), ("at initialization", "after training"), strict=True):
    tiling.plot(color="slope", ax=ax, limits=(low, high), boundary=True, colorbar=False)
    ax.set_title(f"{when}: {tiling.count:,} tiles")
table, norm = plot.shading(after.quantity("slope"), limits=(low, high))
figure.colorbar(plt.cm.ScalarMappable(norm, table), ax=axes, label="slope norm ‖A‖₂")
plt.show()
