"""
Which changes of a digit cross which fold?
==========================================

A network of 64 pixels has one affine map on the tile of this digit. `tile_at` finds the tile's real walls among the
folds of all units; each wall is drawn as the smallest change of the image that crosses it. Below, the smallest change
that alters the answer, between its proven bounds.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

import splinescope as ss

torch.manual_seed(0)
x, y = ss.data.digits()
x = x.flatten(1).float()
net = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 10))
optimizer = torch.optim.Adam(net.parameters(), 5e-3)
for _ in range(300):
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()

tile = ss.tile_at(net, x[3])
print(tile.summary())

figure, (walls, answer) = plt.subplots(2, 1, figsize=(7.2, 4.4), layout="constrained")
tile.plot(count=5, ax=walls)
walls.set_title(
    f"{len(tile.facets)} of {len(tile.normals)} folds are walls of this digit's tile\n\n\n\n", fontsize="medium"
)

found = ss.space.boundary_distance(net, x[3:4], time_limit=2.0, progress=False)
change = found.points[0] - tile.x
gap = torch.full((8, 1), torch.nan)
digit, other, moved = (torch.from_numpy(row).reshape(8, 8) for row in (tile.x, found.points[0], 5 * abs(change)))
picture = torch.cat([digit, gap, other, gap, moved], 1)
answer.imshow(picture.numpy(), cmap="gray")
bounds = dict.fromkeys(f"{bound:.2f}" for bound in (found.lower[0], found.upper[0]))  # one number where they meet
answer.set_title(f"nearest input of another class: {' to '.join(bounds)} away", fontsize="medium")
answer.set_xlabel("the digit, that input, and five times the change")
answer.set(xticks=[], yticks=[])
answer.spines[:].set_visible(False)
plt.show()
