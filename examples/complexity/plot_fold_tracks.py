"""
Where do the folds of single units go?
======================================

A small classifier of two moons trains; `FoldMonitor` follows the fold of every unit: how far it is from the nearest
data point, how fast it moves, how hard the loss of a row pulls at it and how long the gradient by the unit's own
parameters is. The last three fall by orders of magnitude once the points are learned: whatever moves folds late has to
do it slowly.

It needs the second distribution: `pip install splinescope-evidence`.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

import splinescope as ss
from splinescope_research import FoldMonitor

torch.manual_seed(0)
x, y = ss.data.two_moons(200, noise=0.1)
x = torch.as_tensor(x).float()
y = torch.as_tensor(y).long()
net = nn.Sequential(nn.Linear(2, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 2))
optimizer = torch.optim.Adam(net.parameters(), 5e-3)
monitor = FoldMonitor(net, x, y, loss=nn.functional.cross_entropy, budget=None)
for step in range(2001):
    monitor.step(step)
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()

steps = [max(0.5, places.step) for places in monitor.tracks]
figure, axes = plt.subplots(2, 2, figsize=(9, 7), layout="constrained")
for ax, what, label in zip(
    axes.flat, ("to_data", "speed", "pull", "gradient"),
    ("distance to the nearest point", "speed, per step", "|d loss / d pre-activation|", "|d loss / d its parameters|"),
    strict=True
):  # fmt: skip
    track = np.where(monitor.track(what) > 0, monitor.track(what), np.nan)
    for site, color in ((0, "#440154"), (1, "#21918c")):
        own = track[:, monitor.sites == site]
        ax.plot(steps, own, color=color, lw=0.3, alpha=0.5)
        middle = [np.nanmedian(row) if np.isfinite(row).any() else np.nan for row in own]
        ax.plot(steps, middle, color=color, lw=2, label=f"layer {site + 1}, median")
    ax.set(xscale="log", yscale="log", xlabel="step (0 drawn at 0.5)", ylabel=label)
axes[0, 0].legend(frameon=False)
plt.show()
