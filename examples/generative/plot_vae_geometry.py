"""
Local geometry of a VAE, and its samples
========================================

Three numbers describe a generator about a latent: scaling (log volume), effective rank, and complexity (folds nearby).
Here they are drawn over a latent plane of a small convolutional VAE trained on the digits of scikit-learn.

It needs the second distribution: `pip install splinescope-evidence`.
"""

# %%
# Train the VAE (some ten seconds).

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

import splinescope as ss
from splinescope.generative import Ball, MagnetSampler, geometry_map
from splinescope.plot.generative import plot_geometry_map, plot_images
from splinescope_research.generators.small_generators import train_vae

images = torch.tensor(load_digits().images / 16.0, dtype=torch.float32)[:, None]
decoder = train_vae(images, latent=6, epochs=60, beta=0.5, seed=0).decoder

# %%
# Maps over the plane of the first two latent coordinates.

view = ss.Slice.axes(torch.zeros(6), (0, 1), -3, 3)
t, geometry = geometry_map(decoder, view, resolution=40, radius=0.2)
figure, axes = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
for ax, (values, label) in zip(
    axes,
    (
        (geometry.scaling, "scaling (log volume)"),
        (geometry.effective_rank, "effective rank"),
        (geometry.complexity, "folds nearby"),
    ),
    strict=True,
):
    plot_geometry_map(view, t, values, ax, label=label)

# %%
# Images of uniform latents in the ball where the model's latents live, beside images that are uniform on the manifold
# over that ball.

sampler = MagnetSampler(decoder, Ball(6, 6**0.5), pool=2000, progress=False)
figure, axes = plt.subplots(1, 2, figsize=(9, 4.6), layout="constrained")
for ax, rho, title in zip(axes, (0.0, 1.0), ("uniform latents", "MaGNET"), strict=True):
    plot_images(sampler.sample(64, rho=rho).outputs, ax, columns=8, title=title)
