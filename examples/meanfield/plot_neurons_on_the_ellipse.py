"""
Neurons on the ellipse
======================

Data that varies more in one direction than in the other turns the manifold of normalized neurons into an
ellipse. The same batch-norm network is trained twice: as itself, where every neuron keeps its length and
moves on its own circle, and as a plain network on the ellipse. The two pictures are one motion in two sets of
coordinates.
"""

import numpy as np
import torch
from matplotlib import pyplot as plt

from splinescope.meanfield import GaussianInputs, TwoLayerBN, flow
from splinescope.plot.meanfield import plot_neurons

sigma = torch.diag(torch.tensor([5.0, 1.0], dtype=torch.float64))
data = GaussianInputs(sigma).quadrature(lambda x: torch.tanh(2 * x[:, 0]) + 0.5 * torch.tanh(x[:, 1]), order=16)

generator = torch.Generator().manual_seed(0)
normal = torch.randn(30, 3, generator=generator, dtype=torch.float64)
net = TwoLayerBN(normal[:, 0], normal[:, 1:] / normal[:, 1:].norm(dim=1, keepdim=True), "tanh")

times = np.concatenate([[0.0], np.geomspace(1e-3, 8, 120)])  # dense at first, when the neurons are fast
weights = flow(net, data, times=times, dynamics="euclidean")
ellipse = flow(net, data, times=times, dynamics="manifold")

figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 4.3), layout="constrained", width_ratios=(2, 1))
plot_neurons(weights, ax=left).set_title("weights of length one")
left.collections[0].colorbar.remove()
plot_neurons(ellipse, ax=right).set_title("normalized neurons")

# %%
# The difference, in the same coordinates, is that of the integrator.
print("largest difference:", (weights.directions - ellipse.b).abs().max().item())
