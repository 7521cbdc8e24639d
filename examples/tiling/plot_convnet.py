"""
A plane through three images
============================

The tiles of a convolutional network on the plane through three digits, with the decision boundary in red (Figure 5
of the survey). The three images are the white marks.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

import splinescope as ss
from splinescope import data

torch.manual_seed(0)
x, y = data.digits()
net = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10),
)  # fmt: skip
optimizer = torch.optim.Adam(net.parameters(), lr=0.005)
for _ in range(4):
    for batch in torch.randperm(1500).split(100):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
        optimizer.step()
print(f"test accuracy: {(net(x[1500:]).argmax(1) == y[1500:]).double().mean():.1%}")

# %%
# Max-pooling folds, too: its tiles are those with one winner in each window.
three = [x[(y == c).nonzero()[0, 0]] for c in (3, 8, 9)]
tiling = ss.tessellate(net, ss.Slice.through(*three, pad=0.2))
print(tiling)
print(tiling.decision_boundary())
tiling.plot(color="area", boundary=True)
plt.show()
