"""
Long neurons are slow
=====================

With batch norm the length of a neuron does not change what it computes, only how fast it moves: a neuron
three times longer moves three times and turns nine times more slowly. Half of the neurons start with length
1, half with 3.

It needs the second distribution: `pip install splinescope-evidence`.
"""

import numpy as np
import torch
from matplotlib import pyplot as plt

from splinescope.meanfield import GaussianInputs, TwoLayerBN, descend
from splinescope.plot.meanfield import plot_neurons
from splinescope_research.drawings import plot_first_step
from splinescope_research.meanfield.meanfield_effects import first_step

generator = torch.Generator().manual_seed(0)
sigma = torch.diag(torch.tensor([5.0, 1.0], dtype=torch.float64))
data = GaussianInputs(sigma).sample(300, lambda x: torch.relu(x[:, 0]), generator=generator)
normal = torch.randn(40, 3, generator=generator, dtype=torch.float64)
unit = normal[:, 1:] / normal[:, 1:].norm(dim=1, keepdim=True)
lengths = torch.where(torch.arange(40) < 20, 1.0, 3.0).double()[:, None]
net = TwoLayerBN(normal[:, 0], lengths * unit, "relu")

run = descend(net, data, rate=0.01, iterations=1000, record_every=20)
figure, ax = plt.subplots(figsize=(5.5, 4.5), layout="constrained")
plot_neurons(run, ax=ax)

# %%
# Very short neurons do the opposite: their first step is so long that it makes them long at once. From then
# on they are slow, which is how batch norm forgives a learning rate that is too large.
figure, ax = plt.subplots(figsize=(5.5, 4.5), layout="constrained")
plot_first_step(first_step(net, data, lengths=np.geomspace(1e-3, 10, 13), rate=0.05), ax=ax)
