"""
Polarity of a planar GAN
========================

A Wasserstein GAN learns three Gaussians. Its samples can then be moved between the modes and the places the data
avoids, without training anything again: latents are weighted by a power of the volume factor of the generator.

It needs the second distribution: `pip install splinescope-evidence`.
"""

# %%
# Train a small ReLU generator from the square to the plane (a few seconds).

import matplotlib.pyplot as plt
import torch

from splinescope.generative import Box, PolaritySampler
from splinescope_research.generators.small_generators import three_gaussians, train_planar_wgan
from splinescope_research.pictures import plot_cloud

generator = train_planar_wgan(three_gaussians, steps=300, seed=0)
data = three_gaussians(1000, torch.Generator().manual_seed(1))

# %%
# One pool of proposals serves every power. At ``rho=0`` the model is left alone, at ``rho=1`` (MaGNET) samples are
# uniform on the manifold, negative powers go to the modes. The effective size says how many independent samples
# the pool is worth. Rejection gives samples without repeats, as many as the weights allow.

sampler = PolaritySampler(generator, Box(2), pool=20_000, progress=False)
figure, axes = plt.subplots(1, 4, figsize=(12, 3.2), layout="constrained")
for ax, rho in zip(axes, (-1.0, 0.0, 1.0, 2.0), strict=True):
    size = sampler.effective_size(rho)
    samples = sampler.sample(min(600, int(size)), rho=rho)
    plot_cloud(samples.outputs, ax, x=data, title=f"ρ = {rho:g}, effective size {size:.0f}", limit=3.0)
