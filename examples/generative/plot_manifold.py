"""
The manifold of a generator, facet by facet
===========================================

A ReLU generator maps each tile of its latent plane onto a flat facet and stretches its area by
:math:`\\sqrt{\\det A^T A}`. From the exact tiling everything about the manifold is known exactly: its area, the density
of the model on every facet, and samples of any polarity.
"""

# %%
# A random generator from the plane to space, tiled on the latent square.

import matplotlib.pyplot as plt
import torch

import splinescope as ss
from splinescope.plot.generative import plot_manifold

torch.manual_seed(3)
generator = torch.nn.Sequential(
    torch.nn.Linear(2, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)
)
tiling = ss.tessellate(generator, ss.Slice.axes([0.0, 0.0], (0, 1), -3, 3))
manifold = ss.generative.tiled_manifold(tiling)
print(f"{tiling.count} facets, area {manifold.surface_areas.sum():.4f}")
plot_manifold(manifold)

# %%
# Uniform latents crowd where the volume factor is small; MaGNET latents are uniform on the manifold. Both are drawn
# exactly, tile by tile.

figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for ax, rho, title in zip(axes, (0.0, 1.0), ("the model's own samples", "uniform on the manifold"), strict=True):
    z = torch.from_numpy(manifold.sample(1500, rho=rho)).float()
    x = generator(z).detach()
    ax.scatter(x[:, 0], x[:, 1], s=4, c="#332288")
    ax.set(xlabel="$x_1$", ylabel="$x_2$", title=title, aspect="equal")
