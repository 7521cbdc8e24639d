"""
How do data lie on a generator's manifold?
==========================================

The same surface, three sets of data on it: as the model draws them, uniform on the surface, and crowded where the model
is dense. `manifold_law` finds which is which from the data alone.

It needs the second distribution: `pip install splinescope-evidence`.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

import splinescope as ss
from splinescope.generative import Box
from splinescope_research import manifold_law, project


class Surface(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.height = nn.Sequential(nn.Linear(2, 24), nn.ReLU(), nn.Linear(24, 1)).double()
        self.height[0].weight.data *= 3
        self.height[2].weight.data *= 4

    def forward(self, z):
        return torch.cat([z, self.height(z)], 1)


generator = Surface().eval()
rng = torch.Generator().manual_seed(0)
latents = Box(2).draw(20_000, rng)
volumes = ss.log_volume(generator, latents).log

figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained", subplot_kw={"projection": "3d"})
for ax, rho in zip(axes, (0.0, 1.0, -2.0), strict=True):
    chosen = torch.multinomial((rho * volumes).softmax(0), 400, generator=rng)
    x = generator(latents[chosen]).detach()
    x = x + 0.02 * torch.randn(x.shape, generator=rng, dtype=x.dtype)  # data lie near a manifold, not on it
    found = manifold_law(generator, x, Box(2), pool=1000, reference=1000, draws=500)
    ax.scatter(*x.T, s=4, color="#0072b2")
    low, high = found.interval
    ax.set_title(f"drawn with rho {rho:g}: found {found.rho:.2f} ({low:.2f} to {high:.2f})", fontsize="medium")
    ax.set(xlabel="$x_1$", ylabel="$x_2$", zlabel="$x_3$")
    ax.set_box_aspect(None, zoom=0.85)  # room for the label of the height
plt.show()

# %%
# What it says of the last set.
print(found.summary())

# %%
# Where single points belong on the surface, and how far off they lie: `project`, from the nearest of some latents.
off = torch.tensor([[0.5, 0.5, 3.0], [0.2, 0.8, -1.0]], dtype=torch.float64)
nearest = project(generator, off, Box(2), latents[:500])
for point, z, distance in zip(off, nearest.latents, nearest.distances, strict=True):
    print(f"{point.tolist()} is {distance:.2f} off the surface, nearest to latents {z[0]:.2f}, {z[1]:.2f}")
