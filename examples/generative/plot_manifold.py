"""
The manifold of a generator, facet by facet
===========================================

A ReLU generator maps each tile of its latent plane onto a flat facet and stretches its area by
:math:`\\sqrt{\\det A^T A}`. From the exact tiling everything about the manifold is known exactly: its area, the density
of the model on every facet, and samples of any polarity.
"""

# %%
# A generator from the plane to space that has learned a wavy surface, tiled on the latent square.

import matplotlib.pyplot as plt
import torch
from torch import nn

import splinescope as ss
from splinescope.plot.generative import plot_manifold

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(2, 20), nn.ReLU(), nn.Linear(20, 20), nn.ReLU(), nn.Linear(20, 3))
z = 4 * torch.rand(2000, 2) - 2
surface = torch.stack([z[:, 0], z[:, 1], torch.exp(-2 * z.square().sum(1)) * 2.2], 1)
optimizer = torch.optim.Adam(generator.parameters(), 0.01)
for _ in range(800):
    optimizer.zero_grad()
    nn.functional.mse_loss(generator(z), surface).backward()
    optimizer.step()
tiling = ss.tessellate(generator, ss.Slice.axes([0.0, 0.0], (0, 1), -2, 2))
manifold = ss.generative.tiled_manifold(tiling)
print(f"{tiling.count} facets, area {manifold.surface_areas.sum():.4f}")

# %%
# Uniform latents are thin where the generator stretches, here on the slopes of the hill. Samples at :math:`\rho = 1`
# (MaGNET) are uniform on the surface. Both are drawn exactly, tile by tile.

figure = plt.figure(figsize=(8.6, 2.7))
titles = ("facets, bright where stretched", "the model's own samples, $\\rho = 0$", "even samples, $\\rho = 1$")
for i, title in enumerate(titles):
    ax = figure.add_axes((i / 3 - 0.015, -0.1, 0.4, 1.25), projection="3d")
    if i == 0:
        plot_manifold(manifold, ax, colorbar=False)
    else:
        x = generator(torch.from_numpy(manifold.sample(4000, rho=float(i - 1))).float()).detach()
        ax.scatter(*x.T, s=1.2, color="C0", linewidth=0)
    figure.text((i + 0.5) / 3, 0.83, title, ha="center")
    ax.set(xlim=(-2, 2), ylim=(-2, 2), zlim=(0, 2.2))
    ax.set_axis_off()
    ax.patch.set_visible(False)  # it would hide the edge of the panel before
    ax.view_init(34, -60)
    ax.set_box_aspect((4, 4, 2.2), zoom=0.98)
plt.show()
