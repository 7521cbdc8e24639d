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
from splinescope import data

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
# Each picture has a scale of its own: after training, all slopes are far larger than before.
figure, axes = plt.subplots(1, 2, figsize=(9.6, 4.2), layout="constrained")
for ax, tiling, when in zip(axes, (before, after), ("at initialization", "after training"), strict=True):
    tiling.plot(color="slope", ax=ax, boundary=True)
    for place, digit in zip(view.anchors, x[:3], strict=True):
        picture = ax.inset_axes([place[0] - 0.27, place[1] + 0.18, 0.54, 0.54], transform=ax.transData)
        picture.imshow(digit[0].numpy(), cmap="gray_r")
        picture.set(xticks=[], yticks=[])
        picture.spines[:].set(visible=True, color="black")
    ax.set_title(f"{when}: {tiling.count:,} tiles")
    ax.set_axis_off()
plt.show()
