"""
Folds on the data, with and without batch norm
==============================================

Three random networks that share their weights, around two moons: with random biases, with batch norm, and a plain one
whose folds are placed by the data once, without a gradient. The densities are exact lengths of folds per area.

It needs the second distribution: `pip install splinescope-evidence`.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import make_moons

import splinescope as ss
from splinescope.normalization import with_statistics
from splinescope.plot.normalization import plot_fold_density, plot_fold_distances
from splinescope_research.normalizations import normalized_mlp

x = torch.from_numpy(make_moons(60, noise=0.08, random_state=0)[0] + np.array([0.5, 0.5]))
view = ss.Slice.axes([0.0, 0.0], (0, 1), -3.0, 4.0)


def network(kind):
    return normalized_mlp((2, 16, 16, 16), kind, generator=torch.Generator().manual_seed(0)).eval()


plain = network("random bias")
before = ss.normalization.fold_distances(plain, x)
placed = network("random bias")
ss.initialize_(placed, x)
models = {"random bias": plain, "batch norm": with_statistics(network("batch"), x), "placed by data": placed}

# %%
# The third layer's folds. The last two agree: folding batch norm's statistics into weights and biases is all it takes.

figure, axes = plt.subplots(1, 3, figsize=(9.6, 3), layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    density = ss.normalization.fold_density(model, x, view, cells=48)
    plot_fold_density(density, 3, ax)
    ax.set_title(f"{name}: near/far {density.ratio(3, near=0.25, far=1.0):.1f}", fontsize="medium")
high = max(ax.collections[0].get_clim()[1] for ax in axes)
for ax in axes:
    ax.collections[0].set_clim(0, high)  # one scale for all three

# %%
# How far the random network's folds are from the data, and how far they would be at their best offsets.

print(before.summary())
plot_fold_distances(before)

# %%
# What a lint says about it.

print(ss.normalization_report(plain, x).summary())
