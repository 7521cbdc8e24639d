"""
How rough a picture of the data does a batch give?
==================================================

With the statistics of a minibatch, batch norm lays its folds a little off. In this random network the share of signs
that change falls as 1/sqrt(B) (in a trained one not in the last layer); in deeper layers more of them change, since the
layers before have changed too.

It needs the second distribution: `pip install splinescope-evidence`.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

from splinescope_research import statistics_fidelity

torch.manual_seed(0)
layers = []
for inputs in (20, 60, 60, 60):
    layers += [nn.Linear(inputs, 60), nn.BatchNorm1d(60), nn.ReLU()]
net = nn.Sequential(*layers, nn.Linear(60, 3))
found = statistics_fidelity(net, torch.randn(2000, 20), (4, 8, 16, 32, 64, 128, 256), draws=5)
print(found.summary())

# %%
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for depth, flips in zip(found.depths, found.flips.T, strict=True):
    ax.loglog(found.batch_sizes, flips, "o-", ms=4, label=f"layer {depth}")
law = np.arctan(1 / np.sqrt(found.batch_sizes)) / np.pi
ax.loglog(found.batch_sizes, law, "k--", lw=1, label="Gaussian units: arctan(1/sqrt(B)) / pi")
ax.set(xlabel="batch size B of the statistics", ylabel="share of signs that change")
ax.legend(frameon=False)
plt.show()
