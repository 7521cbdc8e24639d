"""
The plane through three digits
==============================

A trained network, seen on the plane through a zero, a one and a two. Every polygon is one affine map. Notice how the
decision boundary turns at walls and where three classes meet. Steep tiles line it; the digits sit on flat ones.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

import splinescope as ss

torch.manual_seed(0)
x, y = ss.data.digits()
net = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.AdamW(net.parameters(), lr=0.003, weight_decay=0.1)
for _ in range(25):
    for batch in torch.randperm(1500).split(64):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
        optimizer.step()
digits = x[[0, 1, 2]]
tiling = ss.tessellate(net.eval(), ss.Slice.through(*digits, pad=1.6))
print(tiling)

# %%
# The digits stand beside their points.
figure, ax = plt.subplots(figsize=(12, 5.4))
tiling.plot(color="slope", ax=ax, cmap="magma", edges=True, colorbar=False, anchors=False)
ss.plot.plot_boundary(tiling, ax, color="white", linewidth=2.2)
places = tiling.view.coordinates(digits)
middle = places.mean(0)
ax.set_xlim(middle[0] - 6.2, middle[0] + 6.2)
ax.set_ylim(middle[1] - 2.79, middle[1] + 2.79)
ax.axis("off")
figure.subplots_adjust(0, 0, 1, 1)
for place, digit, side in zip(places, digits, (-1, 1, 1), strict=True):
    ax.scatter(*place, s=70, color="white", edgecolor="black", zorder=5)
    picture = ax.inset_axes([place[0] + side * 0.62 - 0.4, place[1] - 0.4, 0.8, 0.8], transform=ax.transData, zorder=6)
    picture.imshow(digit[0].numpy(), cmap="gray_r")
    picture.set(xticks=[], yticks=[])
    ax.plot([place[0], place[0] + side * 0.22], [place[1]] * 2, color="black", linewidth=1.0, zorder=4)
plt.show()
