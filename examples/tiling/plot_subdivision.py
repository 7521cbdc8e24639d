"""
Do layers subdivide tiles alike?
================================

The tiles of the first layers are cut by the folds of the next one. Were tilings self-similar, a small tile would be cut
by as many folds as a large one (exponent 0). In a random network larger tiles are cut more.

It needs the second distribution: `pip install splinescope-evidence`.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

import splinescope as ss
from splinescope_research import subdivision
from splinescope_research.folds.subdivision import cuts_within

torch.manual_seed(0)
layers = []
for inputs in (2, 32, 32):
    layers += [nn.Linear(inputs, 32), nn.ReLU()]
net = nn.Sequential(*layers, nn.Linear(32, 1))
tiling = ss.tessellate(net, ss.Slice.axes([0.0, 0.0], (0, 1), -4.0, 4.0))
found = subdivision(tiling)
print(found.summary())

# %%
# Each point is a group of tiles of about one size: by how many folds of the next layer a tile is cut.
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for level, color in zip(found.levels[1:], ("#0072b2", "#d55e00"), strict=True):
    order = np.argsort(level.sizes)
    groups = np.array_split(order, 12)
    size, cuts = (np.array([values[g].mean() for g in groups]) for values in (level.sizes, level.cuts))
    label = f"tiles of {level.depth} layer{'s' * (level.depth > 1)}, exponent {level.exponent:.2f}"
    left.loglog(size, np.maximum(cuts, 1e-2), "o-", color=color, label=label)
left.set(xlabel="size of a tile (root of its area)", ylabel="folds of the next layer through it")
left.legend(frameon=False)
for level in found.levels:
    right.hist(np.log10(level.shares), bins=40, density=True, histtype="step", label=f"after {level.depth} layers")
right.set(xlabel="log10 of a part's area over the mean of its siblings", ylabel="density of parts")
right.legend(frameon=False)
plt.show()

# %%
# Layers that do not follow each other can be asked as well: tiles of the first layer, cut by folds of the last.
first, last = tiling.sites[0].path, tiling.sites[-1].path
skipped = cuts_within(tiling, [first], [last])
print(
    f"tiles of the first layer are cut by {skipped.cuts.mean():.1f} folds of the last, exponent {skipped.exponent:.2f}"
)
