"""
A loss surface and the path that training took
==============================================

The plane is that of the two principal directions of the training path.
"""

import copy

import matplotlib.pyplot as plt
import torch
from torch import nn

import splinescope as ss
from splinescope.plot.landscape import plot_loss_surface

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2))
x = torch.randn(200, 2)
y = (x[:, 0] * x[:, 1] > 0).long()
optimizer = torch.optim.SGD(net.parameters(), lr=0.3)
path = [copy.deepcopy(net)]
for step in range(300):
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 19:
        path.append(copy.deepcopy(net))

# %%
# The surface about the last checkpoint, with the path on it.
plane = ss.landscape.principal_directions(path)
reach = 1.2 * abs(plane.coordinates).max()
surface = ss.loss_surface(net, x, y, plane.directions, span=reach, resolution=31, path=plane.coordinates)
figure, ax = plt.subplots(figsize=(6, 5), layout="constrained")
plot_loss_surface(surface, ax)
ax.set_title(f"two directions hold {plane.explained.sum():.0%} of the path")
plt.show()
