"""
A cluster and one odd point
===========================

A random network with recentering and ReLU, but no rescaling, drives any batch to a tight cluster plus one point,
far away and orthogonal to it. We follow 32 random points through 100 layers.

It needs the second distribution: `pip install splinescope-evidence`.
"""

import matplotlib.pyplot as plt
import torch

from splinescope.plot.representation import plot_depth, plot_projection
from splinescope.representation import representation_geometry
from splinescope_research import random_network

generator = torch.Generator().manual_seed(0)
network = random_network(100, 100, in_features=20, components=("rc", "nl"), dtype=torch.float64, generator=generator)
batch = torch.randn(32, 20, dtype=torch.float64, generator=generator)
geometry = representation_geometry(network, batch, method="hooks")

figure, (first, last, depth) = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
plot_projection(geometry[3], first).set_title("after layer 1")
plot_projection(geometry[-1], last).set_title("after layer 100")
plot_depth(geometry, lambda layer: layer.odd.norm_ratio, depth)
depth.set_ylabel("length of the odd point / median length")

# %%
# The last lines of the summary: the odd point's index, its length ratio (about n - 1 = 31), its angle to the others.
print("\n".join([geometry.summary().splitlines()[0], *geometry.summary().splitlines()[-3:]]))
