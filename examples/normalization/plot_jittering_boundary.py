"""
A decision boundary that jitters with the minibatch
===================================================

In training, each minibatch sees its own network. A small classifier on two moons, trained with batch norm; then the
exact decision boundaries that 15 minibatches of 8 and of 32 points see.

It needs the second distribution: `pip install splinescope-evidence`.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import make_moons
from torch import nn

import splinescope as ss
from splinescope_research import boundary_jitter, fold_jitter

points, labels = make_moons(100, noise=0.1, random_state=0)
x, y = torch.from_numpy(points), torch.from_numpy(labels)
torch.manual_seed(0)
model = nn.Sequential(
    *(nn.Linear(2, 16), nn.BatchNorm1d(16), nn.ReLU()),
    *(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2)),
).double()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for _ in range(150):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()

view = ss.Slice.axes([0.0, 0.0], (0, 1), -2.0, 3.0)
figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for ax, batch_size in zip(axes, (8, 32), strict=True):
    jitter = boundary_jitter(model, x, batch_size, view, points, draws=15, generator=torch.Generator().manual_seed(0))
    jitter.plot(ax, points=points, y=labels)
    ax.set_title(f"batches of {batch_size}: {jitter.flips.mean():.1%} of the points change class", fontsize="medium")

# %%
# The law behind it: a fold's offset spreads by the rms distance of the data to it, over sqrt(B).

for batch_size in (8, 32):
    first = fold_jitter(model, x, batch_size, draws=200, generator=torch.Generator().manual_seed(0))[0]
    print(f"B = {batch_size}: measured / predicted spread {(first.measured / first.predicted).mean():.3f}")
