"""
Folds leave the data and line the boundary
==========================================

The plane through a zero, a one and a two: before training, when every training digit is learned, and long after. Notice
how the folds first gather between the digits, then leave them and form bands along the white boundary.
"""

import matplotlib.pyplot as plt
import torch
from matplotlib.colors import LogNorm
from scipy.ndimage import gaussian_filter
from torch import nn

import splinescope as ss

torch.manual_seed(0)
x, y = (part[:500] for part in ss.data.digits())
layers = [layer for size in (64, 100, 100) for layer in (nn.Linear(size, 100), nn.ReLU())]
net = nn.Sequential(nn.Flatten(), *layers, nn.Linear(100, 10)).eval()
view = ss.Slice.through(*x[:3], pad=0.35)
tilings = {0: ss.tessellate(net, view)}

# %%
# The squared loss, long after the last training digit is right: with it folds gather late.
optimizer = torch.optim.Adam(net.parameters(), 2e-3)
targets, learned, last = nn.functional.one_hot(y).float(), False, 15_000
for step in range(1, last + 1):
    rows = torch.randint(len(x), (64,))
    optimizer.zero_grad()
    nn.functional.mse_loss(net(x[rows]), targets[rows]).backward()
    optimizer.step()
    if step == last or (not learned and bool((net(x).argmax(1) == y).all())):
        tilings[step], learned = ss.tessellate(net, view), True

# %%
# The shade is the length of folds per area, on one scale for all three.
figure, axes = plt.subplots(1, 3, figsize=(12, 4.5), layout="constrained")
moments = ("before training", "every digit is learned", "long after")
for ax, moment, (step, tiling) in zip(axes, moments, tilings.items(), strict=True):
    folds = tiling.fold_raster(400)
    x_range, y_range = (folds.x_edges[[0, -1]], folds.y_edges[[0, -1]])
    shade = gaussian_filter(folds.density, 1.2).clip(5)
    ax.imshow(shade, norm=LogNorm(8, 160), cmap="magma", origin="lower", extent=(*x_range, *y_range))
    ss.plot.plot_boundary(tiling, ax, color="white", linewidth=1.6)
    for place, digit, color in zip(view.anchors, x, ("#33ddff", "#66dd44", "#ff55cc"), strict=False):
        ax.scatter(*place, s=60, color=color, edgecolor="white", zorder=5)
        picture = ax.inset_axes([place[0] - 0.3, place[1] + 0.2, 0.6, 0.6], transform=ax.transData, zorder=4)
        picture.imshow(digit[0].numpy(), cmap="gray_r")
        picture.set(xticks=[], yticks=[])
        picture.spines[:].set(visible=True, color=color, linewidth=3)
    ax.set(title=f"{moment} (step {step:,})", xlim=x_range, ylim=y_range)
    ax.axis("off")
plt.show()
