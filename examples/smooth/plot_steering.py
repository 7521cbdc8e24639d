"""
A classifier steered by one number
==================================

Every ReLU of a trained network is softened by beta; no weight is touched. The decision boundary rounds off, and how
accurate, robust and curved it is can be read against beta.

It needs the second distribution: `pip install splinescope-evidence`.
"""

import numpy as np
import torch
from matplotlib import pyplot
from torch import nn

import splinescope as ss
import splinescope_research

torch.manual_seed(0)
x, y = ss.data.two_moons(120, noise=0.2, generator=torch.Generator().manual_seed(0))
net = nn.Sequential(nn.Linear(2, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 2))
optimizer = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(300):
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()

# %%
# The boundary of the softened networks, beta = 1 being the network itself.

view = ss.Slice.axes([0.0, 0.0], (0, 1), -2, 2)
side = np.linspace(-2, 2, 200)
grid = torch.from_numpy(np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)).float()
figure, ax = pyplot.subplots(figsize=(5, 5), layout="constrained")
ax.scatter(*x.T, c=["#88ccee" if label else "#cc6677" for label in y], s=15, edgecolor="white", linewidth=0.5)
for beta, color in ((0.3, "#fde725"), (0.6, "#35b779"), (0.9, "#31688e"), (1.0, "black")):
    with torch.no_grad():
        scores = ss.soften(net, beta)(grid)
    gap = (scores[:, 0] - scores[:, 1]).reshape(200, 200).numpy()
    ax.contour(side, side, gap, [0.0], colors=color, linewidths=1.8)
    ax.plot([], [], color=color, label=f"beta = {beta:g}")
ax.set(xlabel="$x_1$", ylabel="$x_2$", aspect="equal")
ax.legend(frameon=False)

# %%
# Measured on points it has not seen. Where a curve lies above its value at 1, softening helps. The curvature is the
# turn of the boundary's normal along it.

fresh, labels = ss.data.two_moons(400, noise=0.2, generator=torch.Generator().manual_seed(1))
found = splinescope_research.steer(
    net, fresh, labels, epsilon=0.15, betas=(0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0), places=128
)
print(found.summary())
ax = found.plot()

# %%
# The same softness as a probability: where is the network undecided which tile it is in?

figure, axes = pyplot.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
for ax, beta in zip(axes, (0.5, 0.9, 0.98), strict=True):
    splinescope_research.entropy_map(net, view, beta=beta, cells=120).plot(ax=ax)
