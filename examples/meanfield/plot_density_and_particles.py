"""
Infinitely many neurons
=======================

In two dimensions the mean-field equation can be solved for the density of neurons itself, on a grid of angles
and amplitudes. A network of finite width follows it; the optimality certificate says how far both are from
the best.

It needs the second distribution: `pip install splinescope-evidence`.
"""

import numpy as np
import torch
from matplotlib import pyplot as plt

from splinescope.meanfield import GaussianInputs, TwoLayerBN, flow
from splinescope_research import certificate, density_flow
from splinescope_research.drawings import plot_density

sigma = torch.diag(torch.tensor([2.0, 1.0], dtype=torch.float64))
data = GaussianInputs(sigma).quadrature(lambda x: torch.tanh(x[:, 0] + 0.5 * x[:, 1]), order=12)

# %%
# All amplitudes start near 0, angles are uniform.
path = density_flow(data, lambda phi, a: np.exp(-50 * a**2) + 0 * phi, times=[0, 1, 5], angles=96, amplitudes=96)
figure, axes = plt.subplots(1, 3, figsize=(14, 4), layout="constrained")
for index, ax in enumerate(axes):
    plot_density(path, index=index, ax=ax)

# %%
# Two hundred neurons from the same start.
generator = torch.Generator().manual_seed(0)
phi = 2 * torch.pi * torch.rand(200, generator=generator, dtype=torch.float64)
a = 0.1 * torch.randn(200, generator=generator, dtype=torch.float64)
net = TwoLayerBN(a, torch.stack([phi.cos(), phi.sin()], 1), "tanh")
run = flow(net, data, times=[0, 1, 5], rtol=1e-6)
print("loss of the density: ", path.risks.round(5))
print("loss of 200 neurons:", run.risks.round(5))

proof = certificate(run.network(), data)
print(
    f"largest first variation {proof.largest:.4f}; excess loss over any network of mean amplitude 3 at most "
    f"{proof.gap_bound(3.0):.4f}"
)
