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
from matplotlib.colors import LogNorm
from scipy.ndimage import gaussian_filter
from sklearn.datasets import make_moons

import splinescope as ss
from splinescope.normalization import with_statistics
from splinescope.plot.normalization import plot_fold_distances
from splinescope_research import fold_density
from splinescope_research.normalization.normalizations import normalized_mlp

x = torch.from_numpy(make_moons(60, noise=0.08, random_state=0)[0] + np.array([0.5, 0.5]))
view = ss.Slice.axes([0.0, 0.0], (0, 1), -3.0, 4.0)


def network(kind):
    return normalized_mlp((2, 32, 32, 32), kind, generator=torch.Generator().manual_seed(0)).eval()


plain = network("random bias")
before = ss.normalization.fold_distances(plain, x)
placed = network("random bias")
ss.initialize_(placed, x)
models = {"random bias": plain, "batch norm": with_statistics(network("batch"), x), "placed by data": placed}

# %%
# The third layer's folds, bright where dense, on one scale. The last two agree: putting batch norm's statistics into
# weights and biases is all it takes.

figure, axes = plt.subplots(1, 3, figsize=(8.6, 3.4), layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    density = fold_density(model, x, view, cells=300)
    shade = gaussian_filter(density.rasters[3].density, 1.2).clip(2)
    ax.imshow(shade, norm=LogNorm(4, 100), cmap="magma", origin="lower", extent=(-3, 4, -3, 4))
    ax.plot(*x.T, "o", color="#33ddff", markeredgecolor="black", markeredgewidth=0.4, markersize=3.5)
    ax.set_title(f"{name}\n{density.ratio(3, near=0.25, far=1.0):.1f} times as dense at the data", fontsize="medium")
    ax.set_axis_off()

# %%
# How far the random network's folds are from the data, and how far they would be at their best offsets.

print(before.summary())
plot_fold_distances(before)

# %%
# What a lint says about it.

print(ss.normalization_report(plain, x).summary())
